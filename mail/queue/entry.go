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

// State is where a recipient of a message in mail.box stands.
type State string

// The states.
const (
	// Pending waits for the router to deliver it here.
	Pending State = "pending"
	// Waiting is of another domain, and waits for being sent there.
	Waiting State = "waiting"
	// Failed, Delivered and Relayed wait for a report to the sender. Relayed was taken by a server
	// that sends no reports of delivery.
	Failed    State = "failed"
	Delivered State = "delivered"
	Relayed   State = "relayed"
)

// Recipient is a recipient of a message in mail.box.
type Recipient struct {
	// Address is as it was given; of a group's member it is the group's.
	Address string
	// Name is the person's or database's in the directory, empty for other domains.
	Name   string
	ORcpt  string
	Notify smtp.Notify
	// Target is who it is in the directory, zero for other domains; Kind says what.
	Target note.UNID
	Kind   directory.TargetKind
	State  State
	// Attempts were made so far; Next is when the next is due. Reply is what the last one gave.
	Attempts int
	Next     time.Time
	Reply    string
	// Remote is the server that gave Reply, "name[address]", empty where it is our own finding.
	Remote string
}

// Done says that nothing is to be tried any more.
func (q *Recipient) Done() bool {
	return q.State == Failed || q.State == Delivered || q.State == Relayed
}

// Settled says that there are recipients to be reported and that they may be now. Failures of a
// message from the null sender wait until it is settled whether anybody is left: only then is it
// dead.
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

// Urgency orders what is due in mail.box at the same time. The zero value is the common one.
type Urgency uint8

// The degrees of urgency: Domino's delivery priorities.
const (
	Normal Urgency = iota
	High
	Low
)

// Rank puts the urgent first.
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
	// ID is the queue id: what 250 named.
	ID    note.UNID
	From  smtp.Path
	EnvID string
	Ret   smtp.Ret
	// Created is when it was taken in charge, Size the stored message's in bytes.
	Created time.Time
	Size    uint64
	// ReturnPath is the length of the Return-Path field that the stored message begins with, which
	// is left off where the message is sent on (RFC 5321 section 4.4).
	ReturnPath int
	// MessageID is the message's own, with its brackets, where it has recipients elsewhere.
	MessageID string
	Urgency   Urgency
	// Priority is what the envelope asked for (RFC 6710), from -9 to 9, where HasPriority says that it did.
	Priority    int8
	HasPriority bool
	// TLS is what its sender demands of the connections that it is sent over (RFC 8689).
	TLS outbound.Demand
	// UTF8 says that it was submitted as internationalized mail (RFC 6531).
	UTF8 bool
	// Held is an administrator's; Dead messages can neither be delivered nor returned. Delayed says
	// that the sender was told that it takes long.
	Held, Dead, Delayed bool
	// Reason says why it is held, where a filter or a mailing list did that. As long as a filter's stands
	// there, nothing was done yet of what its recipients want done with their mail.
	Reason string
	// Junk is for the Junk folders of its recipients.
	Junk bool
	// Unsigned says that nothing proves the author: a signature of ours would.
	Unsigned bool
	// Checker is the authserv-id of the Authentication-Results that a stranger's message got when it came. A
	// message that bears some is sealed (ARC) where it goes on.
	Checker    string
	Recipients []Recipient

	note note.ID
	box  note.DatabaseID // the mail.box that it is in
}

// The items of an entry. Those of recipients are lists side by side, as Domino has them: one
// element for each recipient.
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

// firstColumns is how many columns entries have had from the beginning; older ones lack the rest.
const firstColumns = 10

// formEntry tells an entry from other documents.
const formEntry = "Queued"

// columns are the items with an element for each recipient, in the order of QueueRecipient.row.
var columns = [...]string{itemAddresses, itemNames, itemOriginal, itemNotify, itemTargets, itemKinds, itemStates, itemAttempts, itemNext, itemReplies, itemRemotes}

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
	add(itemForm, note.Text(formEntry))
	add(itemSender, note.Text(e.From.String()))
	add(itemCreated, note.Int(e.Created.Unix()))
	add(itemReturnPath, note.Int(int64(e.ReturnPath)))
	if e.EnvID != "" {
		add(itemEnvID, note.Text(e.EnvID))
	}
	if e.Ret != smtp.RetUnset {
		add(itemReturn, note.Int(int64(e.Ret)))
	}
	if e.Held {
		add(itemHeld, note.Bool(true))
	}
	if e.Dead {
		add(itemDead, note.Bool(true))
	}
	if e.Delayed {
		add(itemDelayed, note.Bool(true))
	}
	if e.UTF8 {
		add(itemUTF8, note.Bool(true))
	}
	if e.TLS != outbound.Usual {
		add(itemTLS, note.Int(int64(e.TLS)))
	}
	if e.Urgency != Normal {
		add(itemUrgency, note.Int(int64(e.Urgency)))
	}
	if e.HasPriority {
		add(itemPriority, note.Int(int64(e.Priority)))
	}
	if e.MessageID != "" {
		add(itemMessageID, note.Text(e.MessageID))
	}
	if e.Reason != "" {
		add(itemReason, note.Text(e.Reason))
	}
	if e.Junk {
		add(itemJunk, note.Bool(true))
	}
	if e.Unsigned {
		add(itemUnsigned, note.Bool(true))
	}
	if e.Checker != "" {
		add(itemChecker, note.Text(e.Checker))
	}
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

// Load reads the entry that a note holds.
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
