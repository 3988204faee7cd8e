package mail

import (
	"context"
	"errors"
	"slices"
	"time"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// delivery is a message's way into one mail file.
type delivery struct {
	id       note.UNID // the recipient's, in the directory
	kind     directory.TargetKind
	name     string
	database note.DatabaseID
	quota    uint64
	index    int // of the recipient that it comes from
	member   bool
	from     *Recipient
	// always passes over the quota: mail for postmaster and abuse arrives. own is directory.Target's.
	always, own, junk bool
	// gone says that the person's mail goes elsewhere, and none of it stays.
	gone     bool
	warning  uint64
	vacation *outgoing
	days     int // of the vacation
	// warn says that the update asked for a quota warning, warned is the one that was made.
	warn   bool
	used   uint64
	warned *outgoing
}

// refusal is a recipient that cannot have the message, found before the update.
type refusal struct {
	index int
	reply *smtp.Reply
	row   queue.Recipient
}

// batch is one message on its way into mail files and mail.box, in one update.
type batch struct {
	composed *mailbox.Composed
	date     time.Time
	size     uint64
	answer   Answer
	entry    queue.Entry // what mail.box gets, its recipients aside
	results  []error

	now     []delivery
	later   []queue.Recipient // for mail.box, whatever becomes of the others
	refusal []refusal         // for good, found before the update
	same    [][2]int          // recipients that stand for one before them
	seen    map[note.UNID]int
	away    func(mailServer note.UNID) bool // at another place of the domain
	sent    map[string]bool                 // addresses outside

	box   bool            // the update names mail.box
	in    note.DatabaseID // the mail.box; zero: the one of the entry's queue id
	whole bool            // all go through mail.box
	// out are the messages that come of this one, forwards are where people have it sent on to, lists
	// the mailing lists that it is for. taken says that it is taken in charge by these.
	out      []*outgoing
	forwards []forward
	lists    []posting
	taken    bool
	// also is done in the same update, in mail.box.
	also func(w *store.Writer) (queue.Tally, error)
	// takes is the message of an outbox that this one is: it is taken out of that in the same update.
	takes *held

	// What the update came to.
	delivered int
	rows      []queue.Recipient
	full      []*delivery
	moved     queue.Tally
}

// linear is up to how many recipients are compared one by one: less than making a map costs.
const linear = 8

// known finds a recipient that the batch has already, and remembers a new one.
func (b *batch) known(id note.UNID, index int) (first int, ok bool) {
	if b.seen == nil {
		for i := range b.now {
			if b.now[i].id == id {
				return b.now[i].index, true
			}
		}
		if len(b.now) < linear {
			return 0, false
		}
		b.seen = make(map[note.UNID]int, 4*linear)
		for i := range b.now {
			b.seen[b.now[i].id] = b.now[i].index
		}
	}
	if first, ok = b.seen[id]; !ok {
		b.seen[id] = index
	}
	return first, ok
}

func (b *batch) add(i int, r *Recipient, d *directory.Recipient, size uint64, member bool) {
	away := b.away(d.MailServer)
	if away {
		b.remember() // it will not be in now
	}
	if first, ok := b.known(d.ID, i); ok {
		if !member {
			b.same = append(b.same, [2]int{i, first})
		}
		return
	}
	switch {
	case d.Database == 0:
		b.refuse(i, r, d, replyNoFile, member)
		return
	case d.SizeLimit > 0 && size > d.SizeLimit && !r.always():
		b.refuse(i, r, d, replySize, member)
		return
	}
	if away { // and what they want done with their mail is done there
		b.later = append(b.later, row(r, d.ID, d.Kind, d.Name, queue.Waiting))
		return
	}
	if r.Params.Notify&smtp.NotifySuccess != 0 {
		b.box = true // for the report
	}
	b.now = append(b.now, delivery{
		id: d.ID, kind: d.Kind, name: d.Name, database: d.Database, quota: d.Quota,
		index: i, member: member, from: r, always: r.always(), own: d.Own, junk: b.entry.Junk, warning: d.Warning,
	})
}

// row is how mail.box keeps a recipient.
func row(r *Recipient, id note.UNID, kind directory.TargetKind, name string, st queue.State) queue.Recipient {
	return queue.Recipient{
		Address: r.To.String(), Name: name, ORcpt: r.Params.ORcpt, Notify: r.Params.Notify,
		Target: id, Kind: kind, State: st,
	}
}

func (d *delivery) row(st queue.State) queue.Recipient { return row(d.from, d.id, d.kind, d.name, st) }

// outside keeps an address of another domain, of a group's member where it is given.
func (b *batch) outside(i int, r *Recipient, address string) {
	q := row(r, note.UNID{}, 0, "", queue.Waiting)
	if address != "" {
		q.Address = address
	}
	if b.sent == nil {
		b.sent = make(map[string]bool)
	}
	if !b.sent[q.Address] {
		b.sent[q.Address] = true
		b.later = append(b.later, q)
	}
}

// refuse notes that a recipient cannot have the message for good. A group's member is reported:
// the group has taken the message.
func (b *batch) refuse(i int, r *Recipient, d *directory.Recipient, reply *smtp.Reply, member bool) {
	q := row(r, note.UNID{}, 0, "", queue.Failed)
	if d != nil {
		q.Target, q.Kind, q.Name = d.ID, d.Kind, d.Name
	}
	q.Reply = reply.Error()
	if member {
		b.later = append(b.later, q)
		return
	}
	b.refusal = append(b.refusal, refusal{index: i, reply: reply, row: q})
	b.results[i] = reply
}

// empty says that nobody is left to take the message.
func (b *batch) empty() bool {
	return len(b.now) == 0 && len(b.later) == 0 && b.answer != AnswerNone && !b.taken
}

// refused is the answer for all when nobody took the message at a door that answers once.
func (b *batch) refused() error {
	for _, p := range b.same {
		b.results[p[0]] = b.results[p[1]]
	}
	if b.answer != AnswerOnce {
		return nil
	}
	for _, err := range b.results {
		if err == nil {
			return nil
		}
	}
	if len(b.results) == 0 {
		return replyNobody
	}
	return b.results[0]
}

// Why an update is given up, to be done in another way.
var (
	errNeedBox = errors.New("mail: an entry in mail.box is needed")
	errNobody  = errors.New("mail: nobody takes the message")
)

// rowBytes is about what a recipient adds to a batch beside the summary.
const rowBytes = 700

// place writes the batch. Updates are tried with the fewest locks first: mail.box is named only
// when something is to go there.
func (s *Depositor) place(ctx context.Context, b *batch) error {
	summary := len(b.composed.New(b.date).Summary)
	if len(b.now) > s.opt.MaxLocal || len(b.now)*(summary+rowBytes)+int(min(b.size, 96<<10)) > s.opt.MaxBatch {
		b.whole = b.whole || len(b.now) > 1
	}
	for {
		err := s.update(ctx, b)
		switch {
		case err == nil:
			s.stat.deliveredTo(b.delivered, int64(b.size))
			s.queue.Moved(b.in, b.moved)
			return nil
		case errors.Is(err, errNobody):
			return nil
		case errors.Is(err, errNeedBox):
			b.box = true
		case errors.Is(err, errNeedWarning):
			if err := s.personal.composeWarnings(ctx, b); err != nil {
				return err
			}
		case databaseTrouble(err) && s.files.makeMissing(ctx, b):
		case databaseTrouble(err) && s.exclude(ctx, b):
		case databaseTrouble(err) && !b.whole && len(b.now) > 0:
			// One of them is damaged, and it does not show which: the router will find out.
			s.env.Log.Error("mail: delivery goes through mail.box", "id", b.entry.ID.String(), "err", err)
			b.whole = true
		default:
			return err
		}
	}
}

// exclude takes the mail files out of the batch that cannot be delivered to here, and says whether
// there are any.
func (s *Depositor) exclude(ctx context.Context, b *batch) bool {
	n := len(b.now)
	b.now = slices.DeleteFunc(b.now, func(d delivery) bool {
		if s.files.takes(ctx, d.database, d.junk) {
			return false
		}
		if s.files.elsewhere(d.database) {
			b.later = append(b.later, d.row(queue.Pending))
			return true
		}
		s.env.Log.Warn("mail: mail file is not in service", "database", d.database.String(), "recipient", d.name)
		if b.answer == AnswerEach && !d.member {
			b.results[d.index] = replyTrouble
			return true
		}
		b.later = append(b.later, s.deferred(d.row(queue.Pending), replyTrouble))
		return true
	})
	return len(b.now) < n
}

// update is one try.
func (s *Depositor) update(ctx context.Context, b *batch) error {
	b.box = b.box || len(b.later) > 0 || b.whole || b.also != nil || b.answer == AnswerNone || len(b.out) > 0
	var room [4]note.DatabaseID
	names := room[:0]
	if !b.whole {
		for i := range b.now {
			names = append(names, b.now[i].database)
		}
	}
	if b.box {
		if b.in == 0 {
			b.in = s.queue.Place(b.entry.ID)
		}
		names = append(names, b.in)
	}
	if b.takes != nil {
		names = append(names, b.takes.box)
	}
	if len(names) == 0 {
		return nil // everyone was refused on the way
	}
	return s.store.Update(ctx, note.System, names, func(tx *store.Tx) error { return s.write(tx, b) })
}

// write is what the update does. It may run again after a failed one.
func (s *Depositor) write(tx *store.Tx, b *batch) error {
	b.delivered, b.moved, b.full = 0, queue.Tally{}, b.full[:0]
	if b.takes != nil {
		if err := b.takes.out(tx); err != nil {
			return err
		}
	}
	b.rows = append(b.rows[:0], b.later...)
	for _, o := range b.out {
		o.due = !o.asks
	}
	for i := range b.now {
		d := &b.now[i]
		if b.whole {
			b.rows = append(b.rows, d.row(queue.Pending))
			continue
		}
		if err := s.writeOne(tx, b, d); err != nil {
			return err
		}
	}
	if !s.settle(b) {
		return errNobody
	}
	if len(b.rows) == 0 && b.also == nil && !slices.ContainsFunc(b.out, func(o *outgoing) bool { return o.due }) {
		return nil
	}
	if !b.box {
		return errNeedBox
	}
	open := tx.Database
	if b.also != nil {
		open = func(id note.DatabaseID) (*store.Writer, error) { return queue.Home(tx, id) }
	}
	w, err := open(b.in)
	if err != nil {
		return err
	}
	if b.also != nil {
		if b.moved, err = b.also(w); err != nil {
			return err
		}
	}
	if err := s.enter(w, b, b.composed, b.entry, b.rows); err != nil {
		return err
	}
	for _, o := range b.out {
		if !o.due {
			continue
		}
		if err := s.enter(w, b, o.composed, o.entry, o.entry.Recipients); err != nil {
			return err
		}
	}
	return nil
}

// writeOne delivers to one mail file.
func (s *Depositor) writeOne(tx *store.Tx, b *batch, d *delivery) error {
	err := s.files.deliver(tx, b.composed, b.date, b.entry.ID, d)
	if errors.Is(err, mailbox.ErrOverQuota) {
		b.full = append(b.full, d)
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.personal.delivered(tx, b, d); err != nil {
		return err
	}
	b.delivered++
	b.results[d.index] = nil
	if d.from.Params.Notify&smtp.NotifySuccess != 0 && !b.entry.From.IsNull() {
		b.rows = append(b.rows, d.row(queue.Delivered))
	}
	return nil
}

// settle decides what becomes of those who could not be delivered to, once it is known whether
// anybody takes the message; false if nobody does. At a door that answers each, only members of
// groups are kept, since nobody is there to be told of them.
func (s *Depositor) settle(b *batch) bool {
	taken := b.delivered > 0 || len(b.rows) > 0 || b.answer == AnswerNone || b.taken
	for _, d := range b.full {
		taken = taken || d.member
	}
	for _, d := range b.full {
		b.results[d.index] = nil
		if d.member || taken && b.answer != AnswerEach {
			b.rows = append(b.rows, s.deferred(d.row(queue.Pending), replyQuota))
			continue
		}
		b.results[d.index] = replyQuota
	}
	for _, r := range b.refusal {
		b.results[r.index] = r.reply
		if taken && b.answer != AnswerEach {
			b.rows = append(b.rows, r.row)
			b.results[r.index] = nil // it is reported instead
		}
	}
	return taken
}

// deferred is a recipient after an attempt that failed for now.
func (s *Depositor) deferred(q queue.Recipient, reply *smtp.Reply) queue.Recipient {
	q.State, q.Reply, q.Next = queue.Pending, reply.Error(), s.env.Clock.Now().Add(s.opt.backoff(q.Attempts))
	q.Attempts++
	return q
}

// enter makes an entry in mail.box for those of its recipients.
func (s *Depositor) enter(w *store.Writer, b *batch, c *mailbox.Composed, e queue.Entry, rows []queue.Recipient) error {
	if len(rows) == 0 {
		return nil
	}
	e.Recipients = rows
	moved, err := s.queue.Enter(w, c.New(b.date), e)
	b.moved = b.moved.Plus(moved)
	return err
}
