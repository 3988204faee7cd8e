package mail

import (
	"context"
	"errors"
	"slices"
	"time"

	"doublet/directory"
	"doublet/mail/journal"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// delivery is a delivery of a message to one mail file.
type delivery struct {
	id       note.UNID // the recipient's ID in the directory
	kind     directory.TargetKind
	name     string
	database note.DatabaseID
	quota    uint64
	index    int // of the recipient in the submission
	member   bool
	from     *Recipient
	sent     string // the address, if from is nil
	// always ignores the quota, because mail for postmaster and abuse must arrive. own is directory.Target.Own.
	always, own, junk bool
	// judged is set when the junk filter has classified the message for this recipient, learned if it is junk by that.
	// marked is the message with the reason, or nil.
	judged, learned bool
	marked          *mailbox.Composed
	// score is that of the junk filter, or nil.
	score *float64
	// folder replaces the INBOX, if a mail rule wants that.
	folder string
	// gone is set if the person's mail is forwarded and no copy stays.
	gone     bool
	warning  uint64
	vacation *outgoing
	days     int // interval of vacation notices
	// ruling is the outcome of the person's script, or nil.
	ruling *ruling
	// warn is set if the update asked for a quota warning. warned is that warning.
	warn   bool
	used   uint64
	warned *outgoing
}

// address returns the address to which the message was sent.
func (d *delivery) address() string {
	if d.from == nil {
		return d.sent
	}
	return d.from.To.String()
}

// refusal is a permanent rejection of a recipient that was found before the update.
type refusal struct {
	index int
	reply *smtp.Reply
	row   queue.Recipient
}

// batch is one message on its way to mail files and mail.box, in one update.
type batch struct {
	composed *mailbox.Composed
	date     time.Time
	size     uint64
	hops     int // servers that the message has passed
	answer   Answer
	entry    queue.Entry // the entry for mail.box, without recipients
	results  []error

	now     []delivery
	later   []queue.Recipient // for mail.box, whatever the result of the other recipients
	refusal []refusal         // permanent, found before the update
	same    [][2]int          // pairs of a duplicate recipient and the first one
	seen    map[note.UNID]int
	away    func(mailServer note.UNID) bool // the mail server is at another place of the domain
	sent    map[string]bool                 // addresses in other domains

	box   bool            // the update includes mail.box
	in    note.DatabaseID // the mail.box; zero: that of the entry's queue ID
	whole bool            // all recipients go through mail.box
	// out holds the messages that this one causes. forwards are the forwarding addresses of recipients, and lists the
	// mailing lists among them. taken is set if a list or a forward takes the message.
	out      []*outgoing
	forwards []forward
	lists    []posting
	taken    bool
	// answered is set if a recipient may answer with a vacation notice.
	answered bool
	// also runs in the same update, on mail.box.
	also func(w *store.Writer) (queue.Tally, error)
	// letter is the message for scripts, nil if none run. changed holds the messages whose headers they changed.
	letter  *letter
	changed []*mailbox.Composed
	// takes is the message in an outbox that becomes this one. The same update removes it there.
	takes *held
	// record is the message for the journal, nil if it is not journaled. recorded are its recipients. again is set if
	// the message may have been accepted before.
	record   *journal.Sealed
	recorded []recorded
	again    bool

	// The results of the update.
	delivered int
	learned   int // deliveries that are junk by learned words
	rows      []queue.Recipient
	full      []*delivery
	rejected  []*delivery // by the recipients' scripts
	moved     queue.Tally
}

// linear is the maximum number of recipients that are compared one by one, which costs less than a map.
const linear = 8

// files returns the mail files that get the message now, and 0 if it goes to a mail.box, too.
func (b *batch) files() (list []note.DatabaseID) {
	for i := range b.now {
		list = append(list, b.now[i].database)
	}
	if b.whole || len(b.later)+len(b.lists)+len(b.forwards) > 0 {
		list = append(list, 0)
	}
	return list
}

// known finds a recipient that the batch already has, and adds a new one.
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
	case d.SizeLimit > 0 && size > d.SizeLimit && !AlwaysArrives(r.To):
		b.refuse(i, r, d, replySize, member)
		return
	}
	if away { // the other place also applies the recipient's settings
		b.later = append(b.later, row(r, d.ID, d.Kind, d.Name, queue.Waiting))
		return
	}
	if r.Params.Notify&smtp.NotifySuccess != 0 {
		b.box = true // for the report
	}
	b.now = append(b.now, delivery{
		id: d.ID, kind: d.Kind, name: d.Name, database: d.Database, quota: d.Quota,
		index: i, member: member, from: r, always: AlwaysArrives(r.To), own: d.Own, junk: b.entry.Junk,
		warning: d.Warning, folder: b.entry.Folder,
	})
}

// row returns the recipient as stored in mail.box.
func row(r *Recipient, id note.UNID, kind directory.TargetKind, name string, st queue.State) queue.Recipient {
	return queue.Recipient{
		Address: r.To.String(), Name: name, ORcpt: r.Params.ORcpt, Notify: r.Params.Notify,
		Target: id, Kind: kind, State: st,
	}
}

func (d *delivery) row(st queue.State) queue.Recipient { return row(d.from, d.id, d.kind, d.name, st) }

// outside adds an address of another domain. address is set for a member of a group.
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

// refuse records a permanent failure of a recipient. A failed group member is reported to the sender, because the group
// itself has accepted the message.
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

// refused returns the error for the whole message. It is set only with AnswerOnce, if no recipient accepted the
// message.
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

// Reasons to abandon an update and try another one.
var (
	errNeedBox = errors.New("mail: an entry in mail.box is needed")
	errNobody  = errors.New("mail: no recipient accepts the message")
)

// rowBytes is the approximate size in bytes that a recipient adds to a batch, without the summary.
const rowBytes = 700

// composeRuled prepares the messages that the recipients' scripts send.
func (s *Depositor) composeRuled(ctx context.Context, b *batch) error {
	for i := range b.now {
		if err := s.filter.compose(ctx, b, &b.now[i], b.letter); err != nil {
			return err
		}
	}
	return nil
}

// place writes the batch. It tries the update with the fewest locks first: mail.box is included only if something goes
// there.
func (s *Depositor) place(ctx context.Context, b *batch) error {
	summary := len(b.composed.New(b.date).Summary)
	size := len(b.now)*(summary+rowBytes) + int(min(b.size, 96<<10))
	if len(b.now) > s.opt.MaxLocal || size > s.opt.MaxBatch {
		b.whole = b.whole || len(b.now) > 1
	}
	for {
		err := s.update(ctx, b)
		switch {
		case err == nil:
			s.stat.deliveredTo(b.delivered, int64(b.size), b.hops)
			s.queue.Moved(b.in, b.moved)
			return nil
		case errors.Is(err, errNobody):
			return nil
		case errors.Is(err, errNeedBox):
			b.box = true
		case errors.Is(err, errNeedRuling):
			if err := s.composeRuled(ctx, b); err != nil {
				return err
			}
		case errors.Is(err, errNeedWarning):
			if err := s.personal.composeWarnings(ctx, b); err != nil {
				return err
			}
		case !databaseTrouble(err) || !s.avoid(ctx, b, err):
			return err
		}
	}
}

// avoid changes a batch after trouble with a database, so that another update may succeed. It returns false if nothing
// is left to try.
func (s *Depositor) avoid(ctx context.Context, b *batch, err error) bool {
	if s.files.makeMissing(ctx, b) || s.exclude(ctx, b) {
		return true
	}
	if b.whole || len(b.now) == 0 {
		return false
	}
	// One mail file is damaged, but the error does not show which one. The router will find it.
	s.env.Log.Error("mail: delivery goes through mail.box", "id", b.entry.ID.String(), "err", err)
	b.whole = true
	return true
}

// exclude removes the mail files to which this server cannot deliver from the batch, and reports whether there were
// any.
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

// update is one attempt to write the batch.
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
			b.in = s.queue.Boxes.Place(b.entry.ID)
		}
		names = append(names, b.in)
	}
	if b.takes != nil {
		names = append(names, b.takes.box)
	}
	if len(names) == 0 {
		return nil // all recipients were rejected before
	}
	return s.commit(ctx, b, names, func(tx *store.Tx) error { return s.write(tx, b) })
}

// write is the body of the update. It may run again after a failed update.
func (s *Depositor) write(tx *store.Tx, b *batch) error {
	b.delivered, b.moved, b.full = 0, queue.Tally{}, b.full[:0]
	b.rejected = b.rejected[:0]
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
	return s.enter(tx, b)
}

// enter writes the entries of a batch into mail.box: its own, and those of the messages that it causes.
func (s *Depositor) enter(tx *store.Tx, b *batch) error {
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
	e := b.entry
	e.Recipients = b.rows
	entries := append([]*outgoing{{composed: b.composed, entry: e, due: len(b.rows) > 0}}, b.out...)
	for _, o := range entries {
		if !o.due {
			continue
		}
		moved, err := s.queue.Enter(w, o.composed.New(b.date), o.entry)
		if err != nil {
			return err
		}
		b.moved = b.moved.Plus(moved)
	}
	return nil
}

// writeOne delivers to one mail file.
func (s *Depositor) writeOne(tx *store.Tx, b *batch, d *delivery) error {
	w, err := tx.Database(d.database)
	if err != nil {
		return err
	}
	if err := s.filter.rule(w, b.composed, d, b.letter); err != nil {
		return err
	}
	if d.ruling.refuses() {
		b.rejected = append(b.rejected, d)
		return nil
	}
	err = s.files.deliver(tx, b.composed, b.date, b.entry.ID, d)
	if errors.Is(err, mailbox.ErrOverQuota) {
		b.full = append(b.full, d)
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.schedule(tx, b.composed.Envelope.From, d, b.letter); err != nil {
		return err
	}
	if d.warning != 0 || d.vacation != nil {
		if err := s.personal.delivered(tx, b, d); err != nil {
			return err
		}
	}
	if err := s.filter.settled(w, d); err != nil {
		return err
	}
	b.delivered++
	b.results[d.index] = nil
	if d.from.Params.Notify&smtp.NotifySuccess != 0 && !b.entry.From.IsNull() {
		b.rows = append(b.rows, d.row(queue.Delivered))
	}
	return nil
}

// accepted reports whether any recipient accepts the message, or a group for its members.
func (b *batch) accepted() bool {
	member := func(d *delivery) bool { return d.member }
	return b.delivered > 0 || len(b.rows) > 0 || b.answer == AnswerNone || b.taken ||
		slices.ContainsFunc(b.full, member) || slices.ContainsFunc(b.rejected, member)
}

// settle decides about the recipients whose delivery failed, once it is known whether any recipient accepts the
// message. It returns false if none does. With AnswerEach only failed members of groups go to mail.box, because the
// client gets no reply for them.
func (s *Depositor) settle(b *batch) bool {
	taken := b.accepted()
	byMail := taken && b.answer != AnswerEach
	for _, d := range b.full {
		b.results[d.index] = nil
		if d.member || byMail {
			b.rows = append(b.rows, s.deferred(d.row(queue.Pending), replyQuota))
			continue
		}
		b.results[d.index] = replyQuota
	}
	for _, d := range b.rejected {
		q := d.row(queue.Failed)
		q.Reply = d.ruling.reply().Error()
		b.results[d.index] = d.ruling.reply()
		if d.member || byMail {
			b.rows = append(b.rows, q)
			b.results[d.index] = nil // reported by mail instead
		}
	}
	for _, r := range b.refusal {
		b.results[r.index] = r.reply
		if byMail {
			b.rows = append(b.rows, r.row)
			b.results[r.index] = nil // reported by mail instead
		}
	}
	return taken
}

// deferred returns a recipient after a temporary failure, with the time of the next attempt.
func (s *Depositor) deferred(q queue.Recipient, reply *smtp.Reply) queue.Recipient {
	q.State, q.Reply, q.Next = queue.Pending, reply.Error(), s.env.Clock.Now().Add(s.opt.backoff(q.Attempts))
	q.Attempts++
	return q
}
