package mail

import (
	"context"
	"errors"
	"slices"
	"time"

	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// routeOne does all due work for one entry, and returns the time of the next work.
func (s *Router) routeOne(ctx context.Context, k queue.Key) (time.Time, error) {
	j := &job{s: s, key: k}
	defer j.release()
	for {
		e, err := s.queue.Read(ctx, k)
		if errors.Is(err, store.ErrNotFound) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, err
		}
		due := s.due(ctx, e)
		if due.IsZero() || due.After(s.env.Clock.Now()) {
			return due, nil
		}
		err = j.step(ctx, e)
		if errors.Is(err, errBusy) {
			return s.env.Clock.Now().Add(troublePause), nil
		}
		if err != nil && !errors.Is(err, queue.ErrChanged) {
			return time.Time{}, err
		}
	}
}

// errBusy means that an entry is being sent, and is to be checked again later.
var errBusy = errors.New("mail: the entry is being sent")

// job is the work on one entry. The message is read and composed only once.
type job struct {
	s        *Router
	key      queue.Key
	composed *mailbox.Composed
	letter   *letter
	also     batch // holds the messages that scripts want
}

func (j *job) release() {
	j.also.release()
	if j.composed != nil {
		j.composed.Release()
	}
}

// compose composes the message of the entry, for mail files that are known to get it.
func (j *job) compose(ctx context.Context, e *queue.Entry, files ...note.DatabaseID) (*mailbox.Composed, error) {
	if j.composed != nil {
		return j.composed, nil
	}
	raw, err := j.s.queue.Message(ctx, j.key, 0)
	if err != nil {
		return nil, err
	}
	j.also.hops = hopsOf(raw)
	j.letter = &letter{raw: raw, invitation: j.s.deposit.invitation(ctx, raw, !e.Unsigned && !e.Junk)}
	j.composed, err = j.s.mailbox.Compose(ctx, raw, files...)
	return j.composed, err
}

// step does the work of one update on an entry: a part of its recipients, or its reports.
func (j *job) step(ctx context.Context, e *queue.Entry) error {
	if e.Dead {
		return j.s.reports.bin(ctx, e)
	}
	piece, err := j.piece(ctx, e)
	if err != nil {
		return err
	}
	switch {
	case len(piece) > 0:
		return j.deliver(ctx, e, piece)
	case j.s.outdated(e):
		return j.s.expireWaiting(ctx, e)
	case e.Settled():
		return j.s.reports.report(ctx, e)
	}
	return j.s.reportDelay(ctx, e)
}

// piece returns the due recipients, at most as many as one update takes.
func (j *job) piece(ctx context.Context, e *queue.Entry) ([]attempt, error) {
	now := j.s.env.Clock.Now()
	var out []attempt
	for i := range e.Recipients {
		q := &e.Recipients[i]
		if !j.s.files.ours(ctx, q) || q.Next.After(now) {
			continue
		}
		if q.State == queue.Waiting && j.s.underway(j.key) {
			return nil, errBusy // the server that had the mail file before may be accepting the message
		}
		a, err := j.s.files.find(ctx, q, e.Junk)
		if err != nil {
			return nil, err
		}
		if out = append(out, a); len(out) == j.s.opt.MaxLocal {
			break
		}
	}
	return out, nil
}

// deliver delivers to a part of the recipients. If one mail file makes the update fail, it halves the part until only
// that recipient is left.
func (j *job) deliver(ctx context.Context, e *queue.Entry, piece []attempt) error {
	if err := j.toHomes(ctx, e, piece); err != nil {
		return err
	}
	if err := j.hand(ctx, e, piece); err != nil {
		return err
	}
	for {
		err := j.try(ctx, e, piece)
		if errors.Is(err, errNeedRuling) {
			if err := j.composeRulings(ctx, piece); err != nil {
				return err
			}
			continue
		}
		if !databaseTrouble(err) {
			return err
		}
		if len(piece) > 1 {
			piece = piece[:len(piece)/2]
			continue
		}
		if piece[0].reply != nil {
			return err // the mail file is not the cause
		}
		j.s.env.Log.Error("mail: delivery failed", "id", e.ID.String(), "database", piece[0].database.String(),
			"err", err)
		piece[0].reply = replyTrouble
	}
}

// toHomes leaves the deliveries of a scheduling message to the homes of the mail files, as Depositor.toHomes does.
func (j *job) toHomes(ctx context.Context, e *queue.Entry, piece []attempt) error {
	away := func(a attempt) bool {
		return a.reply == nil && !a.away && !a.elsewhere && j.s.files.awayFromHome(a.database)
	}
	if j.s.opt.Calendars == nil || e.Unsigned || e.Junk || !slices.ContainsFunc(piece, away) {
		return nil
	}
	if _, err := j.compose(ctx, e); err != nil || j.letter.invitation == nil {
		return err
	}
	for i := range piece {
		piece[i].elsewhere = piece[i].elsewhere || away(piece[i])
	}
	return nil
}

func (j *job) try(ctx context.Context, e *queue.Entry, piece []attempt) error {
	box := j.s.queue.Boxes.Of(j.key).ID
	names := append([]note.DatabaseID{box}, mailFilesOf(piece)...)
	c := j.composed
	if len(names) > 1 {
		var err error
		if c, err = j.compose(ctx, e, names[1:]...); err != nil {
			return err
		}
		j.prepare(e)
		j.judge(ctx, e, piece)
	}
	noneDue(j.also.out)
	var moved queue.Tally
	var hops []trace.Hop
	err := j.s.deposit.commit(ctx, &j.also, names, func(tx *store.Tx) error {
		moved, hops = queue.Tally{}, nil
		w, err := queue.Home(tx, box)
		if err != nil {
			return err
		}
		cur, err := queue.Load(&w.Reader, j.key.Note())
		if errors.Is(err, store.ErrNotFound) || err == nil && cur.Held {
			return nil // an administrator was faster
		}
		if err != nil {
			return err
		}
		moved, err = j.s.queue.Alter(w, cur, func(cur *queue.Entry) error {
			for i := range piece {
				hop, err := j.s.attempt(tx, c, cur, &piece[i], j.letter)
				if err != nil {
					return err
				}
				if hop.Event != "" {
					hops = append(hops, hop)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		entered, err := enterDue(j.s.queue, w, j.also.out, j.also.date)
		moved = moved.Plus(entered)
		return err
	})
	if err == nil {
		j.s.deposit.stat.deliveredTo(deliveries(hops), int64(e.Size), j.also.hops)
		j.s.queue.Moved(box, moved)
		j.s.trace.Add(hops...)
	}
	return err
}

// judge classifies the message for those recipients of a part that are here.
func (j *job) judge(ctx context.Context, e *queue.Entry, piece []attempt) {
	for i := range piece {
		if a := &piece[i]; a.reply == nil && !a.elsewhere && !a.away {
			a.junk, a.folder = e.Junk || a.learned, e.Folder
			j.s.deposit.learned.judge(ctx, &j.also, j.composed, &a.delivery, j.letter)
		}
	}
}

func deliveries(hops []trace.Hop) (n int) {
	for i := range hops {
		if hops[i].Event == trace.HopDelivered {
			n++
		}
	}
	return n
}

// noneDue prepares messages for another attempt, which decides anew which of them are sent.
func noneDue(list []*outgoing) {
	for _, o := range list {
		o.due = false
	}
}

// prepare completes the letter for the scripts of an entry's recipients.
func (j *job) prepare(e *queue.Entry) {
	j.letter.returnPath, j.letter.from = min(e.ReturnPath, len(j.letter.raw)), e.From
	j.letter.unproven, j.letter.outside = unproven(e), e.Checker != ""
	j.also.date, j.also.again = e.Created, true
	j.also.entry = queue.Entry{ID: e.ID, From: e.From, TLS: e.TLS, Unsigned: e.Unsigned, Checker: e.Checker}
}

// unproven reports whether the sender of a message may be forged: then nobody is to get a report about it.
func unproven(e *queue.Entry) bool {
	return !slices.ContainsFunc(e.Recipients,
		func(q queue.Recipient) bool { return q.Notify != smtp.NotifyNever })
}

// composeRulings composes the messages that the scripts of recipients want.
func (j *job) composeRulings(ctx context.Context, piece []attempt) error {
	for i := range piece {
		if err := j.s.deposit.filter.compose(ctx, &j.also, &piece[i].delivery, j.letter); err != nil {
			return err
		}
	}
	return nil
}

// mailFilesOf returns the mail files into which a part of the recipients is delivered here.
func mailFilesOf(piece []attempt) (names []note.DatabaseID) {
	for i := range piece {
		if piece[i].reply == nil && !piece[i].elsewhere && !piece[i].away {
			names = append(names, piece[i].database)
		}
	}
	return names
}

// openRecipient returns the index of a person or database that has not got the message yet, or -1.
func openRecipient(e *queue.Entry, id note.UNID) int {
	return slices.IndexFunc(e.Recipients, func(q queue.Recipient) bool {
		return q.Target == id && (q.State == queue.Pending || q.State == queue.Waiting)
	})
}

// attempt delivers to one recipient within an update, and records the outcome in the entry.
func (s *Router) attempt(tx *store.Tx, c *mailbox.Composed, e *queue.Entry, a *attempt,
	l *letter) (trace.Hop, error) {
	i := openRecipient(e, a.id)
	if i < 0 {
		return trace.Hop{}, nil
	}
	q := &e.Recipients[i]
	hop := s.trace.Hop(e, q, trace.HopDelivered, "", "")
	reply, final := a.reply, a.final
	if reply == nil && a.away {
		q.State, q.Next, q.Reply = queue.Waiting, time.Time{}, ""
		return trace.Hop{}, nil
	}
	if reply == nil {
		a.junk, a.folder, a.always = e.Junk || a.learned, e.Folder, alwaysArrives(q.Address)
		var err error
		if !a.handed {
			err = s.deposit.deliverRuled(tx, c, e.Created, e.ID, &a.delivery, l)
		}
		switch {
		case errors.Is(err, errRuledOut):
			q.State, q.Reply = queue.Failed, a.ruling.reply().Error()
			q.Attempts++
			hop.Event, hop.Reply = trace.HopBounced, q.Reply
			return hop, nil
		case errors.Is(err, mailbox.ErrOverQuota):
			reply = replyQuota
		case err != nil:
			return hop, err
		case q.Notify&smtp.NotifySuccess != 0 && !e.From.IsNull():
			q.State, q.Reply = queue.Delivered, ""
			return hop, nil
		default:
			e.Recipients = slices.Delete(e.Recipients, i, i+1)
			return hop, nil
		}
	}
	if !final {
		reply, final = s.expired(e, reply)
	}
	hop.Reply = reply.Error()
	if final {
		q.State, q.Reply = queue.Failed, reply.Error()
		q.Attempts++
		hop.Event = trace.HopBounced
		return hop, nil
	}
	*q = s.deposit.deferred(*q, reply)
	if reply == replyMates {
		q.Next = s.env.Clock.Now().Add(matesPause)
	}
	hop.Event = trace.HopDeferred
	return hop, nil
}

// expired returns the final reply if the retry time of a recipient has passed.
func (s *Router) expired(e *queue.Entry, reply *smtp.Reply) (*smtp.Reply, bool) {
	keep, last := s.opt.KeepOther, replyExpired
	if reply == replyQuota {
		keep, last = s.opt.KeepOverQuota, replyFull
	}
	if s.env.Clock.Now().Sub(e.Created) < keep {
		return reply, false
	}
	return last, true
}

// matesPause is the delay of a retry after no mate accepted a delivery. If the server of a mail file dies, another home
// is elected within seconds.
const matesPause = 5 * time.Second

// matesWithin is the time limit for a delivery by a mate.
const matesWithin = time.Minute

var replyMates = smtp.NewReply(451, 4, 4, 1, "No server that has the mail file answers now")

// hand asks mates to deliver to the recipients whose mail files only mates have.
func (j *job) hand(ctx context.Context, e *queue.Entry, piece []attempt) error {
	for i := range piece {
		a := &piece[i]
		if !a.elsewhere || a.handed || a.reply != nil {
			continue
		}
		raw, err := j.s.queue.Message(ctx, j.key, 0)
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, matesWithin)
		err = j.s.opt.Mates.Deliver(within, &Handed{
			ID: e.ID, Date: e.Created, Person: a.id, Kind: a.kind, Database: a.database,
			Always: alwaysArrives(a.address), Junk: e.Junk, Proven: !e.Unsigned, Unproven: unproven(e),
			From: e.From.String(), To: a.address, Folder: e.Folder, Outside: e.Checker != "",
		}, raw)
		cancel()
		switch {
		case err == nil:
			a.handed = true
		case errors.Is(err, mailbox.ErrOverQuota):
			a.reply = replyQuota
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			j.s.env.Log.Warn("mail: no mate accepts a delivery", "id", e.ID.String(), "database", a.database.String(),
				"err", err)
			a.reply = replyMates
		}
	}
	return nil
}
