package inbound

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"doublet/client/milter"
	"doublet/client/rspamd"
	"doublet/mail"
	"doublet/mail/fields"
	"doublet/mail/verify"
	wire "doublet/wire/milter"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Outcome is the result of the checks of a message.
type Outcome struct {
	// Reply rejects the message if it is not nil.
	Reply *smtp.Reply
	// Discard accepts the message and drops it. Junk delivers it to the Junk folders. Hold keeps it in mail.box, and is
	// the reason for that.
	Discard, Junk bool
	Hold          string
	// Message is the message to accept, possibly modified, and Head the memory before it, as in mail.Submission. Fields
	// are header fields to put before it.
	Message, Head, Fields []byte
	// Add and Del change the recipients, From changes the sender.
	Add, Del []smtp.Path
	From     *smtp.Path
	// Checked, Proven, Unproven and AuthorPolicy are as in mail.Submission.
	Checked, Proven, Unproven bool
	AuthorPolicy              string
	// Checker is the authserv-id of Fields, as in mail.Submission.
	Checker string
	// Results are the results of SPF, DKIM and DMARC as text for the log.
	Results string

	watched *watched // nil if the message is not observed
}

// maxHeader limits the size of the header of a checked message, because filters may get each field separately.
const maxHeader = 1 << 20

var errHeader = smtp.NewReply(550, 5, 6, 0, "The header is longer than this server takes")

// Message checks a complete message. head is the memory directly before it, as in mail.Submission. The caller passes
// the final reply to the Outcome's Done.
func (x *Session) Message(ctx context.Context, message, head []byte) (out Outcome) {
	out = Outcome{Message: message, Head: head}
	if x == nil {
		return out
	}
	defer x.end()
	defer func() { out.watched = x.watch() }()
	if mime.HeaderEnd(message) > maxHeader {
		x.s.refused.Inc()
		out.Reply = errHeader
		return out
	}
	switch {
	case x.stranger && x.s.opt.Verify.Enabled():
		x.verify(ctx, &out)
		if out.Reply != nil {
			x.logRefusal(ctx, &out, len(message))
			return out
		}
	case x.stranger:
		// Even with verification off, remove forged results: only this server may add fields under its name.
		out.Message, out.Head = fields.CutFields(out.Message, out.Head, x.s.opt.Verify.Forged)
	}
	if len(x.filters) > 0 || x.rspamd() {
		// Filters see the results of the verification.
		if len(out.Fields) > 0 {
			out.Message, out.Head = fields.Prepend(out.Fields, out.Message, out.Head)
			out.Fields = nil
		}
		x.filter(ctx, &out)
	}
	switch {
	case out.Reply != nil:
		x.s.refused.Inc()
		x.logRefusal(ctx, &out, len(message))
	case out.Discard:
		x.s.discarded.Inc()
	case out.Hold != "":
		x.s.held.Inc()
	}
	return out
}

// logRefusal logs a rejected message, in the format of accepted ones (see mail.Service.Deposit).
func (x *Session) logRefusal(ctx context.Context, out *Outcome, size int) {
	if x.s.opt.Quiet {
		return
	}
	to := ""
	if len(x.to) > 0 {
		to = x.to[0].String()
	}
	outcome := "refused"
	if out.Reply.Code < 500 {
		outcome = "deferred"
	}
	x.s.env.Log.LogAttrs(ctx, slog.LevelInfo, "mail: message", slog.String("id", x.id.String()),
		slog.String("from", x.from.String()),
		slog.String("to", to), slog.Int("recipients", len(x.to)), slog.Int("size", size),
		slog.String("client", x.client.IP.Unmap().String()),
		slog.String("verdict", out.Results), slog.String("outcome", outcome),
		slog.String("reply", printable(out.Reply.Error())))
}

func (x *Session) rspamd() bool {
	return x.s.opt.Rspamd != nil && (x.client.User == "" || x.s.opt.Submissions)
}

// end resets the session for the next message.
func (x *Session) end() {
	x.open, x.to, x.verdict = false, x.to[:0], nil
	for i := range x.filters {
		f := &x.filters[i]
		if f.begun && f.done {
			f.abort() // it has not seen the end of the message
		}
		f.done, f.discard, f.begun, f.failed = false, false, false, false
	}
}

// verify verifies the sender. If the message is only for postmaster and abuse, it goes to Junk instead of being
// rejected, so that a rejected sender can complain. If it has other recipients too, it is rejected: naming postmaster
// must not bypass the checks.
func (x *Session) verify(ctx context.Context, out *Outcome) {
	v := x.s.opt.Verify.Message(ctx, verify.Client{IP: x.client.IP, Helo: x.client.Helo, From: x.from}, out.Message)
	x.verdict = &v
	always := !slices.ContainsFunc(x.to, func(to smtp.Path) bool { return !mail.AlwaysArrives(to) })
	switch v.Action {
	case verify.Refuse, verify.TempFail:
		if !always {
			out.Reply, out.Results = v.Reply, v.Words()
			return
		}
		out.Junk = true
	case verify.ToJunk:
		out.Junk = true
	}
	out.Message, out.Head = fields.CutFields(out.Message, out.Head, x.s.opt.Verify.Forged)
	out.Fields, out.Results = v.Header, v.Words()
	if len(v.Header) > 0 {
		out.Checker = x.s.opt.Hostname
	}
	out.Checked, out.Proven = v.DMARC.Result != "", v.DMARC.Aligned
	out.Unproven = !out.Proven && v.SPF.Result == verify.Fail || v.DMARC.Result == verify.Fail
	out.AuthorPolicy = v.DMARC.Published
}

// filter asks the milters in order, then rspamd. Each sees the message as modified by those before it.
func (x *Session) filter(ctx context.Context, out *Outcome) {
	for i := range x.filters {
		f := &x.filters[i]
		switch {
		case f.failed:
			out.Reply = errFilter
			return
		case f.discard:
			out.Discard = true
			return
		}
		if f.done || f.over || f.session == nil {
			continue
		}
		v, ch, err := f.session.Message(out.Message, "i", x.id.String())
		if err != nil {
			if out.Reply = x.trouble(f, err); out.Reply != nil {
				return
			}
			continue
		}
		f.begun = false
		switch v.Decision {
		case milter.Refuse:
			out.Reply = v.Reply
			return
		case milter.Discard:
			out.Discard = true
			return
		}
		x.apply(out, ch)
	}
	if x.rspamd() {
		x.ask(ctx, out)
	}
}

func (x *Session) apply(out *Outcome, ch *milter.Changes) {
	if changed := ch.Apply(out.Message); len(changed) == 0 || &changed[0] != &out.Message[0] {
		out.Message, out.Head = changed, nil
	}
	for _, h := range ch.Headers {
		if strings.EqualFold(h.Name, "X-Spam-Flag") && strings.EqualFold(strings.TrimSpace(h.Value), "yes") ||
			strings.EqualFold(h.Name, "X-Spam") && strings.EqualFold(strings.TrimSpace(h.Value), "yes") {
			out.junk(x)
		}
	}
	if ch.Quarantine != "" {
		out.Hold = printable(ch.Quarantine)
	}
	out.Add, out.Del = append(out.Add, ch.Add...), append(out.Del, ch.Del...)
	if ch.From != nil {
		out.From = ch.From
	}
}

func (o *Outcome) junk(x *Session) {
	if !o.Junk {
		x.s.junked.Inc()
	}
	o.Junk = true
}

var (
	errSpam   = smtp.NewReply(554, 5, 7, 1, "Refused as spam")
	errLater  = smtp.NewReply(451, 4, 7, 1, "Try again later")
	errRspamd = smtp.NewReply(451, 4, 7, 1, "The spam filter does not answer, try again later")
)

// ask asks rspamd.
func (x *Session) ask(ctx context.Context, out *Outcome) {
	m := rspamd.Mail{
		IP: x.client.IP, Helo: x.client.Helo, From: x.from.String(), User: x.client.User, QueueID: x.id.String(),
		TLS: x.client.TLS != "", MTA: x.s.opt.Hostname,
	}
	for _, to := range x.to {
		m.Rcpt = append(m.Rcpt, to.String())
	}
	a, err := x.s.opt.Rspamd.Check(ctx, &m, out.Message)
	if err != nil {
		x.s.failures.Inc()
		x.s.env.Log.Warn("mail: rspamd failed", "err", err)
		if !x.s.opt.RspamdAccept {
			out.Reply = errRspamd
		}
		return
	}
	switch a.Action {
	case rspamd.Reject:
		out.Reply = said(errSpam, a.Message)
		return
	case rspamd.SoftReject:
		out.Reply = said(errLater, a.Message)
		return
	case rspamd.Discard:
		out.Discard = true
		return
	case rspamd.Quarantine:
		out.Hold = "rspamd: score " + strconv.FormatFloat(a.Score, 'f', 2, 64)
	case rspamd.Greylist:
		// rspamd itself keeps no greylisting state for this action (its own module replies with soft reject), so this
		// server's greylist decides.
		if x.stranger {
			for _, to := range x.to {
				if r := x.s.opt.Verify.Greylisted(x.client.IP, x.from, to); r != nil {
					out.Reply = r
					return
				}
			}
		}
	}
	x.mark(out, &a)
}

// mark adds rspamd's fields to the header, and removes fields that only rspamd may set.
func (x *Session) mark(out *Outcome, a *rspamd.Answer) {
	var ch milter.Changes
	add := func(name, value string) {
		ch.Headers = append(ch.Headers, milter.HeaderChange{Code: wire.InsertHeader, Name: name, Value: value})
	}
	cut := func(f mime.HeaderField) bool {
		return f.Is("X-Spam") || slices.ContainsFunc(a.Remove, f.Is)
	}
	out.Message, out.Head = fields.CutFields(out.Message, out.Head, cut)
	for _, h := range a.Add {
		add(h.Name, h.Value)
	}
	if a.Action == rspamd.AddHeader || a.Action == rspamd.RewriteSubject {
		out.junk(x)
		if !slices.ContainsFunc(a.Add, func(h rspamd.Header) bool { return strings.EqualFold(h.Name, "X-Spam") }) {
			add("X-Spam", "Yes")
		}
	}
	if a.Action == rspamd.RewriteSubject && a.Subject != "" {
		ch.Headers = append(ch.Headers, milter.HeaderChange{Code: wire.ChangeHeader, Index: 1, Name: "Subject",
			Value: a.Subject})
	}
	if len(ch.Headers) > 0 {
		out.Message, out.Head = ch.Apply(out.Message), nil
	}
}

// said returns the rejection r with the filter's text, if it has one.
func said(r *smtp.Reply, text string) *smtp.Reply {
	if text == "" {
		return r
	}
	return smtp.NewReply(r.Code, r.Enhanced[0], r.Enhanced[1], r.Enhanced[2], printable(text))
}

func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), 400)]
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
