package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// wanted reports whether the sender wants a report on a recipient. Without NOTIFY that is the case for failures only.
//
// Implements: RFC 3461 §5.2.5 to §5.2.7 NOTIFY honoured
func wanted(q *queue.Recipient) bool {
	switch q.State {
	case queue.Failed:
		return q.Notify == 0 || q.Notify&smtp.NotifyFailure != 0
	case queue.Delivered, queue.Relayed:
		return q.Notify&smtp.NotifySuccess != 0
	}
	return false
}

// report reports finished recipients to the sender, and removes them from the entry in the same update. The null sender
// gets no report; a failed message from it becomes dead.
func (s *Reporter) report(ctx context.Context, e *queue.Entry) error {
	var done, failed []queue.Recipient
	for _, q := range e.Recipients {
		if q.State == queue.Failed {
			failed = append(failed, q)
		}
		if wanted(&q) {
			done = append(done, q)
		}
	}
	if e.From.IsNull() && len(done) > 0 {
		return s.bury(ctx, e)
	}
	if len(done) == 0 {
		if err := s.queue.ReviseAlone(ctx, e, finish); err != nil {
			return err
		}
		s.stat.failures.Add(uint64(len(failed)))
		return nil
	}
	if err := s.sendReport(ctx, e, done, finish); err != nil {
		return err
	}
	s.stat.failures.Add(uint64(len(failed)))
	return nil
}

// finish removes the finished recipients from an entry.
func finish(e *queue.Entry) {
	e.Recipients = slices.DeleteFunc(e.Recipients, func(q queue.Recipient) bool { return q.Done() })
}

// bury marks an entry dead: only failed recipients are left, and the null sender gets no report.
func (s *Reporter) bury(ctx context.Context, e *queue.Entry) error {
	err := s.queue.ReviseAlone(ctx, e, func(cur *queue.Entry) { cur.Dead = true })
	if err == nil {
		s.stat.failures.Add(uint64(len(e.Recipients)))
		s.env.Log.Warn("mail: message is dead", "id", e.ID.String(), "recipients", len(e.Recipients))
	}
	return err
}

// sendReport composes a report and deposits it. The same update changes the entry.
func (s *Reporter) sendReport(ctx context.Context, e *queue.Entry, done []queue.Recipient,
	change func(*queue.Entry)) error {
	sub := &Submission{Params: smtp.MailParams{Size: -1, RequireTLS: e.TLS == outbound.Required}, Answer: AnswerNone,
		Date: s.env.Clock.Now()}
	s.env.Fill(sub.ID[:])
	to := Recipient{To: e.From}
	target, err := s.dir.Names.Resolve(ctx, e.From.String())
	bad := false
	switch {
	case err == nil:
		to.Target = target
	case errors.Is(err, directory.ErrNotLocal):
		to.Outside = true
	case errors.Is(err, directory.ErrNoSuchRecipient), errors.Is(err, directory.ErrInvalid):
		if from, ok := s.srs.ReverseSRS(e.From.String()); ok {
			to.To, to.Outside = from, true // the report for a forwarded message goes to its sender
		} else {
			bad = true
		}
	default:
		return fmt.Errorf("report to %s: %w", e.From, err)
	}
	var b *batch
	if bad {
		b = &batch{answer: AnswerNone, results: make([]error, 1), date: sub.Date,
			entry: queue.Entry{ID: sub.ID, Created: sub.Date}}
		b.refuse(0, &to, nil, replyNoUser, false)
	} else {
		sub.Recipients = []Recipient{to}
		if b, err = s.deposit.plan(ctx, sub, make([]error, 1)); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	raw, err := s.composeReport(ctx, sub.ID, e, done)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	b.also = func(w *store.Writer) (queue.Tally, error) { return s.queue.Revise(w, e, change) }
	b.in = e.Box()
	if err := s.placeReport(ctx, b, to, raw); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	s.stat.reports.Inc()
	s.deposit.stat.routed.Inc()
	return nil
}

func (s *Reporter) placeReport(ctx context.Context, b *batch, to Recipient, raw []byte) error {
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return err
	}
	defer c.Release()
	defer b.release()
	b.composed, b.size = c, uint64(len(raw))
	b.entry.ReturnPath = len(nullReturnPath)
	if err := s.deposit.recorder.report(ctx, b, to, raw); err != nil {
		return err
	}
	return s.deposit.place(ctx, b)
}

// composeReport returns a delivery status notification.
//
// Implements: RFC 3464 Delivery status notifications
// Implements: RFC 6522 multipart/report
// Implements: RFC 6533 Internationalized delivery status notifications
// Implements: RFC 3834 §5 Auto-Submitted
func (s *Reporter) composeReport(ctx context.Context, id note.UNID, e *queue.Entry,
	done []queue.Recipient) ([]byte, error) {
	original, whole, err := s.returned(ctx, e, done)
	if err != nil {
		return nil, err
	}
	domain := s.opt.Hostname
	if list, err := s.dir.Domains.List(ctx); err == nil && len(list) > 0 {
		domain = list[0]
	}
	utf8 := !e.From.IsASCII() || !fields.Ascii(original)
	for i := range done {
		utf8 = utf8 || !fields.Ascii([]byte(done[i].Address))
	}
	failed := slices.ContainsFunc(done, func(q queue.Recipient) bool { return q.State == queue.Failed })
	subject := "Delivered: your message has arrived"
	switch {
	case failed:
		subject = "Delivery failure: your message could not be delivered"
	case done[0].State == queue.Relayed:
		subject = "Relayed: your message has left this system"
	case !done[0].Done():
		subject = "Delayed: your message is still under way"
	}
	boundary := "=_" + id.String()
	var b strings.Builder
	b.Grow(len(original) + 4096)
	line := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
		b.WriteString("\r\n")
	}
	b.WriteString(nullReturnPath)
	line("From: Mail Delivery Subsystem <postmaster@", domain, ">")
	line("To: <", e.From.String(), ">")
	line("Subject: ", subject)
	line("Date: ", s.env.Clock.Now().UTC().Format(fields.DateFormat))
	line("Message-ID: <", id.String(), "@", s.opt.Hostname, ">")
	if ref := fields.MessageID(original); ref != "" {
		line("In-Reply-To: ", ref)
		line("References: ", ref)
	}
	line("Auto-Submitted: auto-replied")
	line("MIME-Version: 1.0")
	line("Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"", boundary, "\"")
	if utf8 {
		line("Content-Transfer-Encoding: 8bit")
	}
	line()
	line("--", boundary)
	s.explain(line, done, utf8)
	line("--", boundary)
	s.status(line, e, done, utf8)
	line("--", boundary)
	returnedHeader(line, whole, utf8)
	b.Write(original)
	line()
	line("--", boundary, "--")
	return []byte(b.String()), nil
}

// explain writes the part for people.
func (s *Reporter) explain(line writeLine, done []queue.Recipient, utf8 bool) {
	line("Content-Type: text/plain; charset=utf-8")
	if utf8 {
		line("Content-Transfer-Encoding: 8bit")
	}
	line()
	line("This is the mail server ", s.opt.Hostname, ".")
	line()
	for _, x := range []struct {
		state queue.State
		text  string
	}{
		{queue.Failed, "Your message could not be delivered to:"},
		{queue.Delivered, "Your message was delivered to:"},
		{queue.Relayed, "Your message was handed to a server that will tell you no more about it, for:"},
		{queue.Waiting, delayText},
		{queue.Pending, delayText},
	} {
		first := true
		for i := range done {
			q := &done[i]
			if q.State != x.state {
				continue
			}
			if first {
				line(x.text)
			}
			first = false
			line()
			line("  <", q.Address, ">")
			if q.Reply != "" {
				line("    ", fields.OneLine(q.Reply))
			}
		}
		if !first {
			line()
		}
	}
}

// status writes the part for programs.
func (s *Reporter) status(line writeLine, e *queue.Entry, done []queue.Recipient, utf8 bool) {
	kind := "message/delivery-status"
	if utf8 {
		kind = "message/global-delivery-status"
	}
	line("Content-Type: ", kind)
	if utf8 {
		line("Content-Transfer-Encoding: 8bit")
	}
	line()
	if e.EnvID != "" {
		line("Original-Envelope-Id: ", fields.OneLine(string(smtp.AppendXtext(nil, e.EnvID))))
	}
	line("Reporting-MTA: dns; ", s.opt.Hostname)
	line("Arrival-Date: ", e.Created.Format(fields.DateFormat))
	for i := range done {
		q := &done[i]
		line()
		if q.ORcpt != "" {
			kind, address, _ := strings.Cut(q.ORcpt, ";")
			line("Original-Recipient: ", fields.OneLine(kind), ";", fields.OneLine(address))
		}
		if fields.Ascii([]byte(q.Address)) {
			line("Final-Recipient: rfc822;", q.Address)
		} else {
			line("Final-Recipient: utf-8;", q.Address)
		}
		s.action(line, e, q)
	}
	line()
}

// action writes the outcome of one recipient.
func (s *Reporter) action(line writeLine, e *queue.Entry, q *queue.Recipient) {
	switch q.State {
	case queue.Delivered:
		line("Action: delivered")
		line("Status: 2.1.5")
		return
	case queue.Relayed:
		line("Action: relayed")
		line("Status: ", statusOf(q.Reply, "2.0.0"))
	case queue.Failed:
		line("Action: failed")
		line("Status: ", statusOf(q.Reply, "5.0.0"))
	default:
		line("Action: delayed")
		line("Status: ", statusOf(q.Reply, "4.0.0"))
	}
	if q.Remote != "" {
		line("Remote-MTA: dns; ", fields.OneLine(remoteName(q.Remote)))
	}
	if q.Reply != "" && q.State != queue.Relayed {
		line("Diagnostic-Code: smtp; ", fields.OneLine(q.Reply))
	}
	line("Last-Attempt-Date: ", s.env.Clock.Now().UTC().Format(fields.DateFormat))
	if !q.Done() {
		line("Will-Retry-Until: ", e.Created.Add(s.opt.KeepOther).UTC().Format(fields.DateFormat))
	}
}

// statusOf returns the enhanced status code in a reply such as "550 5.1.1 …". If its class differs from that of
// otherwise, or there is none, it returns otherwise.
func statusOf(reply, otherwise string) string {
	f := strings.Fields(reply)
	if len(f) > 1 && strings.Count(f[1], ".") == 2 && f[1][0] == otherwise[0] {
		return f[1]
	}
	return otherwise
}

const delayText = "Your message could not be delivered so far. There is nothing for you to do: it is tried again. " +
	"Waiting for:"

func returnedHeader(line writeLine, whole, utf8 bool) {
	kind := "text/rfc822-headers"
	switch {
	case whole && utf8:
		kind = "message/global"
	case whole:
		kind = "message/rfc822"
	case utf8:
		kind = "message/global-headers"
	}
	line("Content-Type: ", kind)
	if utf8 {
		line("Content-Transfer-Encoding: 8bit")
	}
	line()
}

// returned returns the content that a report returns. That is the whole message if a recipient failed, and the message
// is small or the sender asked for it (RFC 3461 section 4.3); otherwise it is the header.
//
// Implements: RFC 8689 §5 The body of a message with REQUIRETLS is not returned
func (s *Reporter) returned(ctx context.Context, e *queue.Entry,
	done []queue.Recipient) (b []byte, whole bool, err error) {
	failed := slices.ContainsFunc(done, func(q queue.Recipient) bool { return q.State == queue.Failed })
	limit := s.opt.ReturnFull
	switch {
	case e.TLS == outbound.Required, e.Ret == smtp.RetHeaders:
		limit = 0
	case e.Ret == smtp.RetFull:
		limit = s.opt.ReturnMax
	}
	whole = failed && e.Size <= uint64(limit)
	read := int64(s.opt.ReturnFull)
	if whole {
		read = int64(e.Size)
	}
	raw, err := s.queue.Message(ctx, s.queue.Boxes.KeyOf(e), read)
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return nil, false, err
	}
	if err != nil {
		return nil, false, nil // send the report nevertheless
	}
	raw = raw[min(e.ReturnPath, len(raw)):]
	if whole {
		return raw, true, nil
	}
	end := mime.HeaderEnd(raw)
	if end == len(raw) { // the header was cut off: end at a line
		end = strings.LastIndexByte(string(raw), '\n') + 1
	}
	return raw[:end], false, nil
}

// Reporter sends reports to the senders of messages.
type Reporter struct {
	env     *env.Env
	dir     *directory.Directory
	mailbox *mailbox.Service
	queue   *queue.Queue
	trace   *trace.Trace
	deposit *Depositor
	srs     *SRS
	opt     *Options
	stat    *routerStats
}
