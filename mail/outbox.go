package mail

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/smtp"
)

// OutboxID is the database of messages that wait for the time that their senders gave them, OutboxKind its kind. What
// becomes of a message, who gets it and what comes of it, is worked out when that time has come: till then it is its
// sender's to take back.
const (
	OutboxID   note.DatabaseID = 0x0000000000000B0F
	OutboxKind                 = "outbox"
)

// The items of a message in the outbox. Those of recipients are lists side by side.
const (
	formDeferred = "Deferred"
	itemUntil    = "DeliverAfter" // Unix seconds
	itemPerson   = "Submitter"
	itemAddress  = "SubmitterAddress"
)

// maxDeferred bounds the messages in the outbox: a time for each is kept in memory.
const maxDeferred = 100_000

// replyOutbox refuses what would make them more.
var replyOutbox = smtp.NewReply(452, 4, 3, 1, "Too many messages wait for their time")

// outbox knows when the messages in it are due.
type outbox struct {
	wake chan struct{}
	mu   sync.Mutex
	due  map[note.UNID]int64
	// again is when one is tried again that could not be deposited.
	again map[note.UNID]int64
}

// openOutbox makes the outbox in a store that has none, and reads when what is in it is due.
func (s *Service) openOutbox() error {
	o := &s.outbox
	o.wake, o.due, o.again = make(chan struct{}, 1), map[note.UNID]int64{}, map[note.UNID]int64{}
	if _, err := s.store.Info(OutboxID); errors.Is(err, store.ErrNotFound) {
		_, err := s.store.CreateDatabase(note.System, store.Create{ID: OutboxID, Title: "outbox", Kind: OutboxKind, Queue: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("mail: create outbox: %w", err)
		}
	}
	s.opt.Stats.GaugeFunc("Mail.Deferred", "messages that wait for the time that their senders gave them", func() float64 {
		o.mu.Lock()
		defer o.mu.Unlock()
		return float64(len(o.due))
	})
	var ids []note.ID
	return s.store.Read(context.Background(), note.System, OutboxID, func(r *store.Reader) error {
		if err := r.Notes(0, func(id note.ID, _ *layout.Note) bool { ids = append(ids, id); return true }); err != nil {
			return err
		}
		for _, id := range ids {
			c, err := r.Content(id)
			if err != nil {
				return err
			}
			row, err := r.Note(id)
			if err != nil {
				return err
			}
			if c.Content.Items.Get(itemForm).AsText() == formDeferred {
				o.due[row.UNID] = c.Content.Items.Get(itemUntil).AsInt()
			}
		}
		return nil
	})
}

// Accept looks at a recipient of a person's own before there is a message: whom the directory makes of the address. An
// error is a *smtp.Reply where there is nobody, or nobody who takes mail; else trouble of the server.
func (s *Service) Accept(ctx context.Context, to smtp.Path, p smtp.RcptParams, size uint64) (Recipient, error) {
	r := Recipient{To: to, Params: p}
	t, err := s.dir.Resolve(ctx, to.String())
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		r.Outside = true
		return r, nil
	case errors.Is(err, directory.ErrNoSuchRecipient):
		return r, replyNoUser
	case errors.Is(err, directory.ErrInvalid):
		return r, replyAddress
	case err != nil:
		return r, fmt.Errorf("mail: resolve %.80q: %w", to.String(), err)
	}
	if r.Target = t; t.Kind == directory.TargetGroup || r.always() {
		return r, nil
	}
	if t.Kind == directory.TargetPerson {
		one, err := s.dir.Person(ctx, t.ID)
		if err != nil {
			return r, fmt.Errorf("mail: %w", err)
		}
		if one.Disabled {
			return r, replyDisabled
		}
	}
	switch {
	case t.Database == 0:
		return r, replyNoFile
	case t.SizeLimit > 0 && size > t.SizeLimit:
		return r, replySize
	}
	if err := s.Room(ctx, &t, size); errors.Is(err, mailbox.ErrOverQuota) {
		return r, replyQuota
	}
	return r, nil // what else is wrong with the mail file is found out when the message is there
}

var (
	replyAddress  = smtp.NewReply(553, 5, 1, 3, "Bad address")
	replyDisabled = smtp.NewReply(550, 5, 2, 1, "Mailbox disabled, not accepting messages")
)

// Defer keeps a message of a person until a time, durably, and then deposits it. It is checked as Deposit would check it
// now. Its recipients are looked up again when the time has come; Target need not be set. Errors are those of Deposit.
//
// Implements: RFC 4865 §5 A message is held until its time
func (s *Service) Defer(ctx context.Context, sub *Submission, until time.Time) (note.UNID, error) {
	if sub.ID.IsZero() {
		s.env.Fill(sub.ID[:])
	}
	if sub.Submitter == nil || len(sub.Recipients) == 0 {
		return sub.ID, replyNobody
	}
	// What is wrong with the header is said now. The check takes fields out of the header in its place.
	probe := *sub
	probe.Message, probe.Head, probe.Date = append([]byte(nil), sub.Message...), nil, s.now()
	if _, _, err := s.stamped(ctx, &probe); err != nil {
		return sub.ID, fmt.Errorf("mail: defer: %w", err)
	}
	c, err := s.mailbox.Compose(ctx, sub.Message)
	if err != nil {
		return sub.ID, fmt.Errorf("mail: defer: %w", err)
	}
	defer c.Release()
	o := &s.outbox
	o.mu.Lock()
	full := len(o.due) >= maxDeferred
	o.mu.Unlock()
	if full {
		return sub.ID, replyOutbox
	}
	n := c.New(s.now())
	n.UNID, n.Summary, n.Content = sub.ID, nil, note.Content{Items: deferredItems(sub, until)}
	err = s.store.Update(ctx, note.System, []note.DatabaseID{OutboxID}, func(tx *store.Tx) error {
		w, err := tx.Database(OutboxID)
		if err != nil {
			return err
		}
		_, err = w.Create(n)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return sub.ID, fmt.Errorf("mail: defer: %w", err)
	}
	o.mu.Lock()
	o.due[sub.ID] = until.Unix()
	o.mu.Unlock()
	nudge(o.wake)
	return sub.ID, nil
}

func deferredItems(sub *Submission, until time.Time) note.Items {
	var to, notify, orcpt []string
	for i := range sub.Recipients {
		r := &sub.Recipients[i]
		to, notify, orcpt = append(to, r.To.String()), append(notify, strconv.Itoa(int(r.Params.Notify))), append(orcpt, r.Params.ORcpt)
	}
	list := []note.Item{
		{Name: itemForm, Value: note.Text(formDeferred)}, {Name: itemUntil, Value: note.Int(until.Unix())},
		{Name: itemPerson, Value: note.Text(sub.Submitter.Who.Person.String())}, {Name: itemAddress, Value: note.Text(sub.Submitter.Address)},
		{Name: itemSender, Value: note.Text(sub.From.String())}, {Name: itemEnvID, Value: note.Text(sub.Params.EnvID)},
		{Name: itemReturn, Value: note.Int(int64(sub.Params.Ret))}, {Name: itemUTF8, Value: note.Bool(sub.Params.UTF8)},
		{Name: itemAddresses, Value: note.TextList(to...)}, {Name: itemNotify, Value: note.TextList(notify...)}, {Name: itemOriginal, Value: note.TextList(orcpt...)},
	}
	if sub.Params.HasPriority {
		list = append(list, note.Item{Name: itemPriority, Value: note.Int(int64(sub.Params.Priority))})
	}
	return note.MakeItems(list...)
}

// Recall takes a message back that waits for its time; false: there is none of that id, or its time has come.
func (s *Service) Recall(ctx context.Context, id note.UNID) (bool, error) {
	now, found := s.now().Unix(), false
	err := s.outboxUpdate(ctx, func(w *store.Writer) error {
		found = false
		n, err := w.Find(id)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := w.Content(n)
		if err != nil || c.Content.Items.Get(itemUntil).AsInt() <= now {
			return err
		}
		found = true
		return w.Destroy(n)
	})
	if err != nil {
		return false, fmt.Errorf("mail: recall: %w", err)
	}
	if found {
		s.outbox.forget(id)
	}
	return found, nil
}

func (o *outbox) forget(id note.UNID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.due, id)
	delete(o.again, id)
}

func (s *Service) outboxUpdate(ctx context.Context, fn func(w *store.Writer) error) error {
	return s.store.Update(ctx, note.System, []note.DatabaseID{OutboxID}, func(tx *store.Tx) error {
		w, err := tx.Database(OutboxID)
		if err != nil {
			return err
		}
		return fn(w)
	})
}

// Deferred says whether a message waits for its time.
func (s *Service) Deferred(id note.UNID) bool {
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	_, ok := s.outbox.due[id]
	return ok
}

// RunOutbox deposits what has become due until ctx ends. There is one for each server.
func (s *Service) RunOutbox(ctx context.Context) error {
	for ctx.Err() == nil {
		next := s.ReleaseDue(ctx)
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = s.env.Clock.After(max(next.Sub(s.now()), 0))
		}
		select {
		case <-ctx.Done():
		case <-s.outbox.wake:
		case <-timer:
		}
	}
	return nil
}

// ReleaseDue deposits what is due now, and says when there is something again; zero for never.
func (s *Service) ReleaseDue(ctx context.Context) (next time.Time) {
	o := &s.outbox
	now := s.now().Unix()
	var ready []note.UNID
	o.mu.Lock()
	for id, at := range o.due {
		if at = max(at, o.again[id]); at <= now {
			ready = append(ready, id)
		} else if next.IsZero() || at < next.Unix() {
			next = time.Unix(at, 0)
		}
	}
	o.mu.Unlock()
	for _, id := range ready {
		if ctx.Err() != nil {
			return next
		}
		err := s.release(ctx, id)
		if err == nil {
			o.forget(id)
			continue
		}
		s.env.Log.Error("mail: a message whose time has come waits on", "id", id.String(), "err", err)
		later := now + int64(troublePause/time.Second)
		o.mu.Lock()
		o.again[id] = later
		o.mu.Unlock()
		if next.IsZero() || later < next.Unix() {
			next = time.Unix(later, 0)
		}
	}
	return next
}

// release deposits a message under the id that it has, and takes it out of the outbox. Done again after a crash between
// the two, it is delivered to nobody twice.
func (s *Service) release(ctx context.Context, id note.UNID) error {
	sub, err := s.waiting(ctx, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil
	}
	if err != nil {
		return err
	}
	who, err := s.dir.WhoOf(ctx, sub.Submitter.Who.Person)
	switch {
	case errors.Is(err, directory.ErrDisabled), errors.Is(err, directory.ErrNotFound):
		s.env.Log.Warn("mail: a message whose time has come is dropped: its sender may send nothing any more", "id", id.String(), "from", sub.From.String())
		return s.removeDeferred(ctx, id)
	case err != nil:
		return err
	}
	sub.Submitter.Who = who
	for i := range sub.Recipients {
		r := &sub.Recipients[i]
		var reply *smtp.Reply
		*r, err = s.Accept(ctx, r.To, r.Params, uint64(len(sub.Message)))
		if err != nil && !errors.As(err, &reply) {
			return err
		}
	}
	message := append([]byte(nil), sub.Message...)
	_, err = s.Deposit(ctx, sub, nil)
	var reply *smtp.Reply
	if errors.As(err, &reply) && reply.Code >= 500 {
		sub.Message = message
		err = s.returnDeferred(ctx, sub, reply)
	}
	if err != nil {
		return err
	}
	return s.removeDeferred(ctx, id)
}

func (s *Service) removeDeferred(ctx context.Context, id note.UNID) error {
	return s.outboxUpdate(ctx, func(w *store.Writer) error {
		n, err := w.Find(id)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			return nil
		}
		if err != nil {
			return err
		}
		return w.Destroy(n)
	})
}

// waiting reads a message of the outbox. All who cannot have it are reported: nobody waits for an answer.
func (s *Service) waiting(ctx context.Context, id note.UNID) (*Submission, error) {
	sub := &Submission{ID: id, Answer: AnswerNone, Submitter: &Submitter{}}
	sub.Received = &Received{Protocol: "HTTP"}
	var stored *store.Stored
	err := s.store.Read(ctx, note.System, OutboxID, func(r *store.Reader) error {
		n, err := r.Find(id)
		if err != nil {
			return err
		}
		c, err := r.Content(n)
		if err != nil {
			return err
		}
		items := c.Content.Items
		if from := items.Get(itemSender).AsText(); from != "" {
			if sub.From, err = smtp.ParsePath(from); err != nil {
				return fmt.Errorf("%w: sender in the outbox", store.ErrDamaged)
			}
		}
		sub.Params = smtp.MailParams{Size: -1, EnvID: items.Get(itemEnvID).AsText(), Ret: smtp.Ret(items.Get(itemReturn).AsInt()), UTF8: items.Get(itemUTF8).AsBool()}
		if v := items.Get(itemPriority); v != nil {
			sub.Params.Priority, sub.Params.HasPriority = int8(v.AsInt()), true
		}
		if sub.Submitter.Who.Person, err = note.ParseUNID(items.Get(itemPerson).AsText()); err != nil {
			return fmt.Errorf("%w: submitter in the outbox", store.ErrDamaged)
		}
		sub.Submitter.Address = items.Get(itemAddress).AsText()
		if sub.Recipients, err = deferredRecipients(items); err != nil {
			return err
		}
		row, err := r.Note(n)
		if err == nil {
			stored, err = r.Message(row)
		}
		return err
	})
	if err == nil {
		sub.Message, err = stored.AppendRange(make([]byte, 0, stored.Size()), 0, stored.Size())
	}
	return sub, err
}

func deferredRecipients(items note.Items) ([]Recipient, error) {
	to, notify, orcpt := items.Get(itemAddresses).AsTextList(), items.Get(itemNotify).AsTextList(), items.Get(itemOriginal).AsTextList()
	if len(notify) != len(to) || len(orcpt) != len(to) {
		return nil, fmt.Errorf("%w: recipients in the outbox", store.ErrDamaged)
	}
	out := make([]Recipient, len(to))
	for i := range to {
		p, err := smtp.ParsePath(to[i])
		n, err2 := strconv.Atoi(notify[i])
		if err != nil || err2 != nil {
			return nil, fmt.Errorf("%w: recipients in the outbox", store.ErrDamaged)
		}
		out[i] = Recipient{To: p, Params: smtp.RcptParams{Notify: smtp.Notify(n), ORcpt: orcpt[i]}}
	}
	return out, nil
}

// returnDeferred tells the sender that a message was refused when its time came: through mail.box, as of any message that
// failed for all its recipients.
func (s *Service) returnDeferred(ctx context.Context, sub *Submission, reply *smtp.Reply) error {
	c, err := s.mailbox.Compose(ctx, sub.Message)
	if err != nil {
		return err
	}
	defer c.Release()
	b := &batch{answer: AnswerNone, date: s.now(), composed: c, size: uint64(len(sub.Message)), results: make([]error, len(sub.Recipients))}
	b.entry = Entry{ID: sub.ID, From: sub.From, EnvID: sub.Params.EnvID, Ret: sub.Params.Ret, Created: s.now()}
	defer b.release()
	for i := range sub.Recipients {
		q := row(&sub.Recipients[i], note.UNID{}, 0, "", Failed)
		q.Reply = reply.Error()
		b.later = append(b.later, q)
	}
	return s.place(ctx, b)
}
