package mail

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"doublet/directory"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// The items of a message in the outbox. Recipients are stored as parallel lists.
const (
	outItemAddresses = "Recipients"
	outItemEnvID     = "EnvelopeID"
	outItemForm      = "Form"
	outItemNotify    = "Notify"
	outItemOriginal  = "OriginalRecipients"
	outItemPriority  = "EnvelopePriority"
	outItemReturn    = "Return"
	outItemSender    = "Sender"
	outItemTLS       = "TLSDemand"
	outItemUTF8      = "International"
	formDeferred     = "Deferred"
	formRecalled     = "Recalled"     // stands in for a message that was recalled, until its time
	itemUntil        = "DeliverAfter" // Unix seconds
	itemPerson       = "Submitter"
	itemAddress      = "SubmitterAddress"
)

// maxDeferred is the maximum number of messages in the outbox, because the time of each is kept in memory. Those that
// were recalled count until their time.
const maxDeferred = 100_000

// replyOutbox rejects messages beyond maxDeferred.
var replyOutbox = smtp.NewReply(452, 4, 3, 1, "Too many messages wait for their time")

var (
	replyAddress  = smtp.NewReply(553, 5, 1, 3, "Bad address")
	replyDisabled = smtp.NewReply(550, 5, 2, 1, "Mailbox disabled, not accepting messages")
)

// Defer stores a message of a person durably until a time, and then deposits it. It checks the header at once, as
// Deposit would. The recipients are resolved again when the time comes; Target need not be set. Errors are those of
// Deposit.
//
// Implements: RFC 4865 §5 A message is held until its time
func (s *Scheduler) Defer(ctx context.Context, sub *Submission, until time.Time) (note.UNID, error) {
	if sub.ID.IsZero() {
		s.env.Fill(sub.ID[:])
	}
	if sub.Submitter == nil || len(sub.Recipients) == 0 {
		return sub.ID, replyNobody
	}
	// Report header errors now. The check modifies the header, so it works on a copy.
	probe := *sub
	probe.Message, probe.Head, probe.Date = append([]byte(nil), sub.Message...), nil, s.env.Clock.Now()
	if _, _, err := s.deposit.stamped(ctx, &probe); err != nil {
		return sub.ID, fmt.Errorf("mail: defer: %w", err)
	}
	c, err := s.mailbox.Compose(ctx, sub.Message)
	if err != nil {
		return sub.ID, fmt.Errorf("mail: defer: %w", err)
	}
	defer c.Release()
	if s.outbox.count() >= maxDeferred {
		return sub.ID, replyOutbox
	}
	in := s.outboxFor()
	n := c.New(s.env.Clock.Now())
	n.UNID, n.Summary, n.Content = sub.ID, nil, note.Content{Items: deferredItems(sub, until)}
	err = s.store.Update(ctx, note.System, []note.DatabaseID{in}, func(tx *store.Tx) error {
		w, err := tx.Database(in)
		if err != nil {
			return err
		}
		_, err = w.Create(n)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return sub.ID, fmt.Errorf("mail: defer: %w", err)
	}
	s.outbox.add(in, sub.ID, until.Unix())
	s.deposit.log.arrived(ctx, sub, nil, nil, s.env.Clock.Now(), nil)
	return sub.ID, nil
}

func deferredItems(sub *Submission, until time.Time) note.Items {
	var to, notify, orcpt []string
	for i := range sub.Recipients {
		r := &sub.Recipients[i]
		to, notify, orcpt = append(to, r.To.String()), append(notify, strconv.Itoa(int(r.Params.Notify))), append(orcpt,
			r.Params.ORcpt)
	}
	list := []note.Item{
		{Name: outItemForm, Value: note.Text(formDeferred)}, {Name: itemUntil, Value: note.Int(until.Unix())},
		{Name: itemPerson, Value: note.Text(sub.Submitter.Who.Person.String())},
		{Name: itemAddress, Value: note.Text(sub.Submitter.Address)},
		{Name: outItemSender, Value: note.Text(sub.From.String())},
		{Name: outItemEnvID, Value: note.Text(sub.Params.EnvID)},
		{Name: outItemReturn, Value: note.Int(int64(sub.Params.Ret))},
		{Name: outItemUTF8, Value: note.Bool(sub.Params.UTF8)},
		{Name: outItemAddresses, Value: note.TextList(to...)}, {Name: outItemNotify, Value: note.TextList(notify...)},
		{Name: outItemOriginal, Value: note.TextList(orcpt...)},
	}
	if sub.Params.RequireTLS {
		list = append(list, note.Item{Name: outItemTLS, Value: note.Int(int64(outbound.Required))})
	}
	if sub.Params.HasPriority {
		list = append(list, note.Item{Name: outItemPriority, Value: note.Int(int64(sub.Params.Priority))})
	}
	return note.MakeItems(list...)
}

// held identifies a message in an outbox.
type held struct {
	box note.DatabaseID
	id  note.UNID
}

// errTaken means that a message is no longer in the outbox: it was recalled or sent.
var errTaken = errors.New("mail: the message is in the outbox no more")

// out removes the message from the outbox. Only the home of the outbox can make this update.
func (h *held) out(tx *store.Tx) error {
	w, err := queue.Home(tx, h.box)
	if err != nil {
		return err
	}
	n, err := w.Find(h.id)
	if err == nil {
		err = w.Destroy(n)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		err = errTaken
	}
	return err
}

// Recalled is the result of a recall on one server.
type Recalled uint8

// RecalledNone: the message does not wait here. RecalledBack: it was recalled here, now or before. RecalledGone: its
// time has come. RecalledElsewhere: it waits in an outbox whose home is, or will soon be, on another server.
const (
	RecalledNone Recalled = iota
	RecalledBack
	RecalledGone
	RecalledElsewhere
)

// recallPatience is the time for which Recall tries to reach the home of an outbox. A new home needs some seconds if
// the server has just died.
const (
	recallPatience = 5 * time.Second
	recallEvery    = 200 * time.Millisecond
)

// Recall recalls a scheduled message, here or at a mate. It returns false if no message has that ID, or if its time has
// come. It returns queue.ErrHomeElsewhere if the message waits, but the home of its outbox is not reachable.
//
// Until the time of the message, Recall may be repeated and returns the same. A caller can therefore repeat all that
// follows a recall if it was interrupted after it.
func (s *Scheduler) Recall(ctx context.Context, id note.UNID) (bool, error) {
	for until := s.env.Clock.Now().Add(recallPatience); ; {
		got, err := s.RecallHere(ctx, id)
		if err != nil {
			return false, err
		}
		if s.mates != nil && (got == RecalledNone || got == RecalledElsewhere) {
			if theirs := s.mates.Recall(ctx, id); theirs != RecalledNone {
				got = theirs
			}
		}
		switch {
		case got == RecalledBack:
			return true, nil
		case got != RecalledElsewhere:
			return false, nil
		case !s.env.Clock.Now().Before(until):
			return false, queue.ErrHomeElsewhere
		}
		select {
		case <-s.env.Clock.After(recallEvery):
		case <-ctx.Done():
			return false, queue.ErrHomeElsewhere
		}
	}
}

// recalledID returns the UNID of the note that stands in for a recalled message.
func recalledID(id note.UNID) note.UNID { return note.DeriveUNID([]byte("recalled"), id[:]) }

// RecallHere is Recall for the outboxes of this server.
func (s *Scheduler) RecallHere(ctx context.Context, id note.UNID) (Recalled, error) {
	got := RecalledNone
	for _, box := range s.outbox.ids() {
		found, err := s.inOutbox(ctx, box, id)
		if err == nil && !found {
			found, err = s.inOutbox(ctx, box, recalledID(id))
		}
		if err != nil || !found {
			if err != nil && !databaseTrouble(err) {
				return got, fmt.Errorf("mail: recall: %w", err)
			}
			continue
		}
		one, err := s.recallFrom(ctx, &held{box, id})
		if err != nil {
			return got, fmt.Errorf("mail: recall: %w", err)
		}
		if one != RecalledNone {
			return one, nil
		}
	}
	return got, nil
}

// timeOf finds a note in an outbox, and reads its time.
func timeOf(w *store.Writer, id note.UNID) (n note.ID, at note.Value, err error) {
	if n, err = w.Find(id); err != nil {
		return n, at, err
	}
	c, err := w.Content(n)
	if err != nil {
		return n, at, err
	}
	return n, c.Content.Items.Get(itemUntil), nil
}

// recallFrom replaces a message in an outbox by a note that tells a repeated recall that this was done.
func (s *Scheduler) recallFrom(ctx context.Context, h *held) (got Recalled, err error) {
	var until int64
	mark := held{h.box, recalledID(h.id)}
	err = s.store.Update(ctx, note.System, []note.DatabaseID{h.box}, func(tx *store.Tx) error {
		got, until = RecalledNone, 0
		w, err := tx.Home(h.box)
		if err != nil {
			return err
		}
		n, at, err := timeOf(w, h.id)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			if _, _, err = timeOf(w, mark.id); err == nil {
				got = RecalledBack
			}
			return err
		}
		if err != nil {
			return err
		}
		if at.AsInt() <= s.env.Clock.Now().Unix() {
			got = RecalledGone
			return nil
		}
		got, until = RecalledBack, at.AsInt()
		if err := w.Destroy(n); err != nil {
			return err
		}
		_, err = w.Create(store.New{UNID: mark.id, Class: note.Document, Content: note.Content{Items: note.MakeItems(
			note.Item{Name: outItemForm, Value: note.Text(formRecalled)}, note.Item{Name: itemUntil, Value: at})}})
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotHome):
		return RecalledElsewhere, nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrGrave):
		return RecalledNone, nil
	case err == nil && until != 0:
		s.outbox.forget(h)
		s.outbox.add(mark.box, mark.id, until)
	}
	return got, err
}

// inOutbox reports whether a message is in the local replica of an outbox.
func (s *Scheduler) inOutbox(ctx context.Context, box note.DatabaseID, id note.UNID) (found bool, err error) {
	err = s.store.Read(ctx, note.System, box, func(r *store.Reader) error {
		n, err := r.Find(id)
		if err == nil {
			_, err = r.Note(n)
		}
		found = err == nil
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			err = nil
		}
		return err
	})
	return found, err
}

// Waits reports whether a message waits for its time, as far as this server knows.
func (s *Scheduler) Waits(ctx context.Context, id note.UNID) bool {
	for _, box := range s.outbox.ids() {
		if found, err := s.inOutbox(ctx, box, id); err == nil && found {
			return true
		}
	}
	return false
}

// acceptAgain resolves the recipients anew. Deposit reports those that are not accepted any more.
func (s *Scheduler) acceptAgain(ctx context.Context, sub *Submission) (err error) {
	for i := range sub.Recipients {
		r := &sub.Recipients[i]
		var reply *smtp.Reply
		*r, err = s.deposit.Accept(ctx, r.To, r.Params, uint64(len(sub.Message)))
		if err != nil && !errors.As(err, &reply) {
			return err
		}
	}
	return nil
}

// release deposits a message under its ID, and removes it from the outbox in the same update. It removes the note that
// stands in for a recalled message.
func (s *Scheduler) release(ctx context.Context, h *held, own bool) error {
	sub, err := s.waiting(ctx, h)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrGrave):
		return nil
	case errors.Is(err, errTaken):
		return s.removeDeferred(ctx, h)
	case err != nil:
		return err
	}
	if !own {
		// The owner of the outbox may have sent the message just before it died, and only a mate may have its queue
		// entry.
		if _, err := s.queue.Locate(ctx, h.id); err == nil {
			return s.removeDeferred(ctx, h)
		} else if !errors.Is(err, queue.ErrNotQueued) {
			return err
		}
	}
	sub.takes = h
	who, err := s.dir.Names.WhoOf(ctx, sub.Submitter.Who.Person)
	switch {
	case errors.Is(err, directory.ErrDisabled), errors.Is(err, directory.ErrNotFound):
		s.env.Log.Warn("mail: scheduled message discarded, because its sender may no longer send", "id", h.id.String(),
			"from", sub.From.String())
		return s.removeDeferred(ctx, h)
	case err != nil:
		return err
	}
	sub.Submitter.Who = who
	if err := s.acceptAgain(ctx, sub); err != nil {
		return err
	}
	message := append([]byte(nil), sub.Message...)
	_, err = s.deposit.Deposit(ctx, sub, nil)
	var reply *smtp.Reply
	if errors.As(err, &reply) && reply.Code >= 500 {
		sub.Message = message
		err = s.returnDeferred(ctx, sub, reply)
	}
	if errors.Is(err, errTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.removeDeferred(ctx, h) // if no recipient was left to deliver to
}

func (s *Scheduler) removeDeferred(ctx context.Context, h *held) error {
	err := s.store.Update(ctx, note.System, []note.DatabaseID{h.box}, func(tx *store.Tx) error { return h.out(tx) })
	if errors.Is(err, errTaken) {
		err = nil
	}
	return err
}

// waiting reads a message from an outbox. Failed recipients are reported by mail, because no client waits for a reply.
// The error is errTaken if the note stands in for a recalled message.
func (s *Scheduler) waiting(ctx context.Context, h *held) (*Submission, error) {
	sub := &Submission{ID: h.id, Answer: AnswerNone, Submitter: &Submitter{}}
	sub.Received = &Received{Protocol: "HTTP"}
	var stored *store.Stored
	err := s.store.Read(ctx, note.System, h.box, func(r *store.Reader) error {
		n, err := r.Find(h.id)
		if err != nil {
			return err
		}
		c, err := r.Content(n)
		if err != nil {
			return err
		}
		items := c.Content.Items
		if items.Get(outItemForm).AsText() == formRecalled {
			return errTaken
		}
		if from := items.Get(outItemSender).AsText(); from != "" {
			if sub.From, err = smtp.ParsePath(from); err != nil {
				return fmt.Errorf("%w: sender in the outbox", store.ErrDamaged)
			}
		}
		sub.Params = smtp.MailParams{Size: -1, EnvID: items.Get(outItemEnvID).AsText(),
			Ret: smtp.Ret(items.Get(outItemReturn).AsInt()), UTF8: items.Get(outItemUTF8).AsBool()}
		sub.Params.RequireTLS = items.Get(outItemTLS).AsInt() == int64(outbound.Required)
		if v := items.Get(outItemPriority); v != nil {
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
	to, notify, orcpt := items.Get(outItemAddresses).AsTextList(), items.Get(outItemNotify).AsTextList(),
		items.Get(outItemOriginal).AsTextList()
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

// returnDeferred notifies the sender that a message was rejected when its time came. It does this through mail.box,
// like for any message that failed for all recipients.
func (s *Scheduler) returnDeferred(ctx context.Context, sub *Submission, reply *smtp.Reply) error {
	c, err := s.mailbox.Compose(ctx, sub.Message)
	if err != nil {
		return err
	}
	defer c.Release()
	b := &batch{answer: AnswerNone, date: s.env.Clock.Now(), composed: c, size: uint64(len(sub.Message)),
		results: make([]error, len(sub.Recipients)), takes: sub.takes}
	b.entry = queue.Entry{ID: sub.ID, From: sub.From, EnvID: sub.Params.EnvID, Ret: sub.Params.Ret,
		Created: s.env.Clock.Now()}
	if sub.Params.RequireTLS {
		b.entry.TLS = outbound.Required
	}
	defer b.release()
	for i := range sub.Recipients {
		q := row(&sub.Recipients[i], note.UNID{}, 0, "", queue.Failed)
		q.Reply = reply.Error()
		b.later = append(b.later, q)
	}
	return s.deposit.place(ctx, b)
}
