package queue

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"doublet/directory"
	"doublet/mail/outbound"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// State is the delivery state of a recipient of a message in mail.box.
type State string

// The states.
const (
	// Pending means that the router has to deliver the message on this server.
	Pending State = "pending"
	// Waiting means that the recipient is in another domain and that the message has not been sent there yet.
	Waiting State = "waiting"
	// Failed, Delivered and Relayed wait for a report to the sender. Relayed means that the server that accepted the
	// message sends no delivery reports.
	Failed    State = "failed"
	Delivered State = "delivered"
	Relayed   State = "relayed"
)

// Recipient is a recipient of a message in mail.box.
type Recipient struct {
	// Address is the address as given in the envelope. For a member of a group, it is the group's address.
	Address string
	// Name is the name of the person or database in the directory. It is empty for other domains.
	Name   string
	ORcpt  string
	Notify smtp.Notify
	// Target is the directory entry of the recipient, zero for other domains. Kind is the type of that entry.
	Target note.UNID
	Kind   directory.TargetKind
	State  State
	// Attempts counts the attempts so far, Next is the time of the next one, and Reply is the reply to the last one.
	Attempts int
	Next     time.Time
	Reply    string
	// Remote is the server that sent Reply, as "name[address]". It is empty if this server generated the reply.
	Remote string
}

// Done reports whether nothing more is tried for the recipient.
func (q *Recipient) Done() bool {
	return q.State == Failed || q.State == Delivered || q.State == Relayed
}

// Settled reports whether there are finished recipients to report, and they may be reported now. Failures of a message
// from the null sender wait until all its recipients are finished, because only then can the message become dead.
func (e *Entry) Settled() bool {
	done, open := false, false
	for i := range e.Recipients {
		if e.Recipients[i].Done() {
			done = true
		} else {
			open = true
		}
	}
	return done && !(open && e.From.IsNull())
}

// Urgency orders messages in mail.box that are due at the same time. The zero value is the normal urgency.
type Urgency uint8

// The degrees of urgency, as Domino's delivery priorities.
const (
	Normal Urgency = iota
	High
	Low
)

// Rank returns the sort key: lower values are more urgent.
func (u Urgency) Rank() uint64 {
	switch u {
	case High:
		return 0
	case Low:
		return 2
	}
	return 1
}

func (u Urgency) String() string { return [...]string{"normal", "high", "low"}[min(u, Low)] }

// Entry is a message in mail.box.
type Entry struct {
	// ID is the queue ID that the 250 reply named.
	ID    note.UNID
	From  smtp.Path
	EnvID string
	Ret   smtp.Ret
	// Created is the time when the message was accepted. Size is the size of the stored message in bytes.
	Created time.Time
	Size    uint64
	// ReturnPath is the length in bytes of the Return-Path field at the start of the stored message. The field is left
	// out when the message is sent to another server (RFC 5321 section 4.4).
	ReturnPath int
	// MessageID is the Message-ID field with its angle brackets, set if the message has recipients elsewhere.
	MessageID string
	Urgency   Urgency
	// Priority is the priority in the envelope (RFC 6710), from -9 to 9. It is valid only if HasPriority is set.
	Priority    int8
	HasPriority bool
	// TLS is the sender's demand for the connections over which the message is sent (RFC 8689).
	TLS outbound.Demand
	// UTF8 is set if the message was submitted as internationalized mail (RFC 6531).
	UTF8 bool
	// Held is set if the message is on hold for an administrator or moderator. Dead is set if it can neither be
	// delivered nor returned. Delayed is set if the sender was notified of the delay.
	Held, Dead, Delayed bool
	// Reason is the reason of a filter or a mailing list to hold the message. While it is a filter's reason, the
	// recipients' own delivery rules have not been applied yet.
	Reason string
	// Junk is set if the message goes to the Junk folders of its recipients.
	Junk bool
	// Folder is the folder of the recipients here in which a mail rule puts the message, empty for the INBOX.
	Folder string
	// Unsigned is set if nothing authenticates the author. Such a message is not signed here, because a DKIM signature
	// of this server would vouch for the author.
	Unsigned bool
	// Checker is the authserv-id of the Authentication-Results field that this server added when a message came in from
	// outside. A message with a Checker gets an ARC seal when it is forwarded.
	Checker    string
	Recipients []Recipient

	note note.ID
	box  note.DatabaseID // the mail.box that holds it
}

// The items of an entry. The recipients are stored as parallel lists, as Domino does: each list has one element per
// recipient.
const (
	itemForm       = "Form"
	itemSender     = "Sender"
	itemEnvID      = "EnvelopeID"
	itemReturn     = "Return"
	itemCreated    = "Created"
	itemReturnPath = "ReturnPathLength"
	itemHeld       = "Held"
	itemDead       = "Dead"
	itemReason     = "HoldReason"
	itemJunk       = "Junk"
	itemFolder     = "Folder"
	itemUnsigned   = "Unsigned"
	itemChecker    = "AuthenticationServer"
	itemAddresses  = "Recipients"
	itemNames      = "RecipientNames"
	itemOriginal   = "OriginalRecipients"
	itemNotify     = "Notify"
	itemTargets    = "Targets"
	itemKinds      = "TargetKinds"
	itemStates     = "States"
	itemAttempts   = "Attempts"
	itemNext       = "NextAttempts"
	itemReplies    = "LastReplies"
	itemRemotes    = "RemoteHosts"
	itemMessageID  = "MessageID"
	itemUrgency    = "DeliveryPriority"
	itemPriority   = "EnvelopePriority"
	itemUTF8       = "International"
	itemTLS        = "TLSDemand"
	itemDelayed    = "DelayReported"
)

// firstColumns is the number of columns that every stored entry has. Older entries lack the other columns.
const firstColumns = 10

// formEntry is the Form item that distinguishes an entry from other documents.
const formEntry = "Queued"

// columns lists the items with one element per recipient, in the order of Recipient.row.
var columns = [...]string{itemAddresses, itemNames, itemOriginal, itemNotify, itemTargets, itemKinds, itemStates,
	itemAttempts, itemNext, itemReplies, itemRemotes}

func (q *Recipient) row() [len(columns)]string {
	target, next := "", "0"
	if !q.Target.IsZero() {
		target = q.Target.String()
	}
	if !q.Next.IsZero() {
		next = strconv.FormatInt(q.Next.Unix(), 10)
	}
	return [...]string{
		q.Address, q.Name, q.ORcpt, strconv.Itoa(int(q.Notify)), target, strconv.Itoa(int(q.Kind)),
		string(q.State), strconv.Itoa(q.Attempts), next, q.Reply, q.Remote,
	}
}

func readRecipient(row [len(columns)]string) (q Recipient, err error) {
	var errs [5]error
	number := func(i int, s string) int {
		var n int64
		n, errs[i] = strconv.ParseInt(s, 10, 64)
		return int(n)
	}
	q.Address, q.Name, q.ORcpt = row[0], row[1], row[2]
	q.Notify = smtp.Notify(number(0, row[3]))
	if row[4] != "" {
		q.Target, errs[1] = note.ParseUNID(row[4])
	}
	q.Kind = directory.TargetKind(number(2, row[5]))
	q.State = State(row[6])
	q.Attempts = number(3, row[7])
	if sec := number(4, row[8]); sec != 0 {
		q.Next = time.Unix(int64(sec), 0).UTC()
	}
	q.Reply, q.Remote = row[9], row[10]
	return q, errors.Join(errs[:]...)
}

func (e *Entry) items() note.Items {
	list := make([]note.Item, 0, 14+len(columns))
	add := func(name string, v note.Value) { list = append(list, note.Item{Name: name, Value: v}) }
	text := func(name, s string) {
		if s != "" {
			add(name, note.Text(s))
		}
	}
	flag := func(name string, on bool) {
		if on {
			add(name, note.Bool(true))
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			add(name, note.Int(n))
		}
	}
	add(itemForm, note.Text(formEntry))
	add(itemSender, note.Text(e.From.String()))
	add(itemCreated, note.Int(e.Created.Unix()))
	add(itemReturnPath, note.Int(int64(e.ReturnPath)))
	text(itemEnvID, e.EnvID)
	number(itemReturn, int64(e.Ret))
	flag(itemHeld, e.Held)
	flag(itemDead, e.Dead)
	flag(itemDelayed, e.Delayed)
	flag(itemUTF8, e.UTF8)
	number(itemTLS, int64(e.TLS))
	number(itemUrgency, int64(e.Urgency))
	if e.HasPriority { // the priority 0 differs from none
		add(itemPriority, note.Int(int64(e.Priority)))
	}
	text(itemMessageID, e.MessageID)
	text(itemReason, e.Reason)
	flag(itemJunk, e.Junk)
	text(itemFolder, e.Folder)
	flag(itemUnsigned, e.Unsigned)
	text(itemChecker, e.Checker)
	var lists [len(columns)][]string
	for i := range e.Recipients {
		for c, v := range e.Recipients[i].row() {
			lists[c] = append(lists[c], v)
		}
	}
	for c, name := range columns {
		add(name, note.TextList(lists[c]...))
	}
	return note.MakeItems(list...)
}

func (e *Entry) read(items note.Items) error {
	if items.Get(itemForm).AsText() != formEntry {
		return fmt.Errorf("%w: note in mail.box is no message", store.ErrDamaged)
	}
	if from := items.Get(itemSender).AsText(); from != "" {
		var err error
		if e.From, err = smtp.ParsePath(from); err != nil {
			return fmt.Errorf("%w: sender in mail.box", store.ErrDamaged)
		}
	}
	e.Created = time.Unix(items.Get(itemCreated).AsInt(), 0).UTC()
	e.ReturnPath = int(items.Get(itemReturnPath).AsInt())
	e.EnvID = items.Get(itemEnvID).AsText()
	e.Ret = smtp.Ret(items.Get(itemReturn).AsInt())
	e.Held, e.Dead = items.Get(itemHeld).AsBool(), items.Get(itemDead).AsBool()
	e.Delayed, e.UTF8 = items.Get(itemDelayed).AsBool(), items.Get(itemUTF8).AsBool()
	e.TLS = outbound.Demand(items.Get(itemTLS).AsInt())
	e.Urgency, e.MessageID = Urgency(items.Get(itemUrgency).AsInt()), items.Get(itemMessageID).AsText()
	if v := items.Get(itemPriority); v != nil {
		e.Priority, e.HasPriority = int8(max(-9, min(9, v.AsInt()))), true
	}
	e.Reason, e.Junk = items.Get(itemReason).AsText(), items.Get(itemJunk).AsBool()
	e.Folder = items.Get(itemFolder).AsText()
	e.Unsigned, e.Checker = items.Get(itemUnsigned).AsBool(), items.Get(itemChecker).AsText()
	var lists [len(columns)][]string
	for c, name := range columns {
		lists[c] = items.Get(name).AsTextList()
		if c >= firstColumns && len(lists[c]) == 0 {
			lists[c] = make([]string, len(lists[0]))
		}
		if len(lists[c]) != len(lists[0]) {
			return fmt.Errorf("%w: recipients in mail.box", store.ErrDamaged)
		}
	}
	e.Recipients = make([]Recipient, len(lists[0]))
	for i := range e.Recipients {
		var row [len(columns)]string
		for c := range columns {
			row[c] = lists[c][i]
		}
		q, err := readRecipient(row)
		if err != nil {
			return fmt.Errorf("%w: recipient in mail.box: %w", store.ErrDamaged, err)
		}
		e.Recipients[i] = q
	}
	return nil
}

// Load reads the entry in the note id.
func Load(r *store.Reader, id note.ID) (*Entry, error) {
	row, err := r.Note(id)
	if err != nil {
		return nil, err
	}
	c, err := r.Content(id)
	if err != nil {
		return nil, err
	}
	e := &Entry{ID: row.UNID, Size: row.Size, note: id, box: r.Database()}
	return e, e.read(c.Content.Items)
}
