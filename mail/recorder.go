package mail

import (
	"context"
	"errors"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/mail/journal"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// recorder journals the messages that this server accepts: each in the update that accepts it. Messages that a mate
// hands over were accepted, and journaled, there. A nil recorder journals nothing.
type recorder struct {
	journal *journal.Journal
	dir     *directory.Directory
}

// replyJournal puts a message off that cannot be journaled.
var replyJournal = smtp.NewReply(452, 4, 3, 0, "The mail journal cannot be written now")

// recorded is a recipient in a journal entry: the index of the recipient in the submission, and if it is a member of a
// group there.
type recorded struct {
	index  int
	member bool
}

// own seals the message of a batch. raw is the message as it is stored.
func (r *recorder) own(ctx context.Context, sub *Submission, b *batch, raw []byte) error {
	if r == nil {
		return nil
	}
	m := journal.Message{ID: b.entry.ID, Again: b.again, Time: b.date, MessageID: b.composed.Envelope.MessageID,
		From: b.entry.From.String(), Outside: sub.Received != nil && sub.Submitter == nil, Wanted: sub.journal}
	if s := sub.Submitter; s != nil {
		m.Sender, m.Details.SignIn = s.Who.Person, s.Address
		if name, err := r.dir.Names.NameOf(ctx, s.Who.Person); err == nil {
			m.Details.SignIn = name
		}
	}
	if in := sub.Received; in != nil {
		m.Details.Helo, m.Details.Protocol, m.Details.TLS = in.Helo, in.Protocol, in.TLS
		if in.IP.IsValid() {
			m.Details.Client = in.IP.Unmap().String()
		}
	}
	r.recipients(ctx, &m, sub, b)
	for i := range sub.Recipients {
		to := sub.Recipients[i].To.String()
		m.Details.Envelope = append(m.Details.Envelope, to)
		if e := b.composed.Envelope; !named(e.To, to) && !named(e.Cc, to) {
			m.Details.Hidden = append(m.Details.Hidden, to)
		}
	}
	var err error
	if b.record, err = r.journal.Seal(ctx, &m, raw); err != nil {
		return r.failed(b, err)
	}
	return nil
}

// recipients sets the recipients of a message: groups are expanded, mailing lists are not, because their copies are
// messages of their own.
func (r *recorder) recipients(ctx context.Context, m *journal.Message, sub *Submission, b *batch) {
	add := func(address string, id note.UNID, index int, member bool) {
		m.Recipients = append(m.Recipients, journal.Recipient{Address: address, Person: id})
		b.recorded = append(b.recorded, recorded{index, member})
	}
	b.recorded = b.recorded[:0]
	for i := range b.now {
		d := &b.now[i]
		address := d.address()
		if d.member {
			address = r.address(ctx, d.id, d.name)
		}
		add(address, d.id, d.index, d.member)
	}
	for i := range b.later {
		q := &b.later[i]
		if q.State == queue.Failed {
			continue
		}
		address := q.Address
		if slices.ContainsFunc(sub.Recipients, func(x Recipient) bool {
			return x.Target.Kind == directory.TargetGroup && !q.Target.IsZero() && x.To.String() == address
		}) {
			address = r.address(ctx, q.Target, q.Name)
		}
		add(address, q.Target, 0, true) // accepted, whatever becomes of the others
	}
	for i := range sub.Recipients {
		x := &sub.Recipients[i]
		if x.Target.ListPart != "" || x.Target.Kind == directory.TargetGroup && x.Target.Own {
			add(x.To.String(), x.Target.ID, min(i, len(b.results)-1), false) // as in Depositor.plan
		}
	}
}

// address returns the address of a member of a group, or the name of one without an address.
func (r *recorder) address(ctx context.Context, id note.UNID, name string) string {
	if p, err := r.dir.Names.Person(ctx, id); err == nil && p.InternetAddress != "" {
		return p.InternetAddress
	}
	return name
}

// named reports whether an address is in a list of addresses.
func named(list []mime.Address, address string) bool {
	return slices.ContainsFunc(list, func(a mime.Address) bool {
		return strings.EqualFold(a.Mailbox+"@"+a.Host, address)
	})
}

// caused seals a message that a batch causes, or that the server itself sends.
func (r *recorder) caused(ctx context.Context, b *batch, e *queue.Entry, c *mailbox.Composed,
	raw []byte) (*journal.Sealed, error) {
	if r == nil {
		return nil, nil
	}
	m := journal.Message{ID: e.ID, Again: b.again, Time: b.date, MessageID: c.Envelope.MessageID,
		From: e.From.String()}
	for i := range e.Recipients {
		q := &e.Recipients[i]
		address := q.Address
		if q.Kind == directory.TargetPerson && len(e.Recipients) > 1 { // the address may be a group's
			address = r.address(ctx, q.Target, q.Address)
		}
		m.Recipients = append(m.Recipients, journal.Recipient{Address: address, Person: q.Target})
		m.Details.Envelope = append(m.Details.Envelope, q.Address)
	}
	s, err := r.journal.Seal(ctx, &m, raw)
	if err != nil {
		return nil, r.failed(b, err)
	}
	return s, nil
}

// report seals a delivery report. It has one recipient, and is accepted in any case.
func (r *recorder) report(ctx context.Context, b *batch, to Recipient, raw []byte) (err error) {
	e := b.entry
	e.Recipients = []queue.Recipient{row(&to, to.Target.ID, to.Target.Kind, to.Target.Name, queue.Pending)}
	b.recorded = []recorded{{member: true}}
	b.record, err = r.caused(ctx, b, &e, b.composed, raw)
	return err
}

// commit runs an update that accepts the messages of a batch, and journals them in it: its own, and those of out that
// are due after fn. Errors: those of the update; replyJournal.
func (s *Depositor) commit(ctx context.Context, b *batch, names []note.DatabaseID, fn func(tx *store.Tx) error) error {
	for {
		db, err := s.recorder.database(ctx, b)
		if err == nil && db == 0 {
			return s.store.Update(ctx, note.System, names, fn)
		}
		if err == nil {
			err = s.store.Update(ctx, note.System, append(slices.Clone(names), db), func(tx *store.Tx) error {
				if err := fn(tx); err != nil {
					return err
				}
				return s.recorder.write(tx, db, b)
			})
		}
		switch {
		case err == nil:
			s.recorder.wrote(b)
			return nil
		case journal.Rolled(err):
		case !errors.Is(err, journal.ErrFailed):
			return err
		default:
			if err := s.recorder.failed(b, err); err != nil {
				return err
			}
		}
	}
}

// database returns the journal database of an update, or 0 if nothing of the batch is to be journaled.
func (r *recorder) database(ctx context.Context, b *batch) (note.DatabaseID, error) {
	if r == nil {
		return 0, nil
	}
	var list []*journal.Sealed
	if b.record != nil {
		list = append(list, b.record)
	}
	for _, o := range b.out {
		if o.record != nil {
			list = append(list, o.record)
		}
	}
	if list == nil {
		return 0, nil
	}
	return r.journal.Choose(ctx, list...)
}

// write adds the entries of a batch within an update that names db.
func (r *recorder) write(tx *store.Tx, db note.DatabaseID, b *batch) error {
	w, err := tx.Database(db)
	if err != nil {
		return err
	}
	if b.record != nil {
		err = r.journal.Append(w, b.record, func(i int) bool {
			x := b.recorded[i]
			return !x.member && x.index < len(b.results) && b.results[x.index] != nil
		})
	}
	for _, o := range b.out {
		if err == nil && o.due && o.record != nil {
			err = r.journal.Append(w, o.record, nil)
		}
	}
	return err
}

// wrote counts the entries of an update that has succeeded.
func (r *recorder) wrote(b *batch) {
	r.journal.Wrote(b.record)
	for _, o := range b.out {
		if o.due {
			r.journal.Wrote(o.record)
		}
	}
}

// failed decides about a batch that cannot be journaled: nil delivers it nevertheless.
func (r *recorder) failed(b *batch, err error) error {
	if !errors.Is(err, journal.ErrFailed) {
		return err
	}
	if !r.journal.Delivers() {
		r.journal.PutOff(b.entry.ID, err)
		return replyJournal
	}
	r.journal.Missed(b.entry.ID, err)
	b.unrecorded()
	return nil
}

// unrecorded releases what a batch holds for the journal.
func (b *batch) unrecorded() {
	b.record.Release()
	b.record = nil
	for _, o := range b.out {
		o.record.Release()
		o.record = nil
	}
}
