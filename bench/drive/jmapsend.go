package drive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"doublet/bench/content"
	"doublet/bench/workload"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// send sends a message, or answers the last message read.
func (s *jmapSession) send(ctx context.Context, p *workload.Planned) error {
	m := s.w.compose(s.u, p)
	m.To = s.w.recipients(s.u, p)
	if p.Do != workload.Reply {
		return s.submit(ctx, &m, "")
	}
	m.Subject, m.InReplyTo = "Re: "+m.Subject, s.last.name
	return s.submit(ctx, &m, s.last.id)
}

// submit sends a message as mail programs do, in two requests: it uploads the message, then imports it as a draft and
// submits it. It keeps no copy, like the sessions over SMTP. If answered is not "", that Email is then marked as
// answered.
func (s *jmapSession) submit(ctx context.Context, m *content.Message, answered string) error {
	switch {
	case !s.submits:
		return &Refusal{"the server has no JMAP Submission"}
	case s.identity == "":
		return &Refusal{"no identity to send with"}
	case s.drafts == "":
		if err := s.folders(ctx); err != nil {
			return err
		}
	}
	buf := s.w.memory.takeMessage()
	defer s.w.memory.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	blob, err := s.c.Upload(ctx, s.account, "message/rfc822", bytes.NewReader(*buf), int64(len(*buf)))
	if err != nil {
		return err
	}
	r := client.NewRequest(wire.Mail, wire.SubmissionURN)
	draft, sent := s.submission(r, blob.ID, m.To)
	var marked client.Handle
	if answered != "" {
		marked = r.Set("Email", s.account,
			&client.Set{Update: map[string]func(*wire.Writer){answered: func(w *wire.Writer) {
				w.Bool("keywords/$answered", true)
			}}})
	}
	out, err := s.c.Do(ctx, r)
	if err == nil {
		err = cmp.Or(made(out, draft, "m"), made(out, sent, "s"))
	}
	s.w.Ledger.Sent(kindOf(m), m.ID, m.To, func(int) bool { return err == nil })
	if err != nil || answered == "" {
		return err
	}
	o, err := out.OutcomeOf(marked)
	if err != nil {
		return err
	}
	return o.Updated(answered)
}

// submission adds the calls that import an uploaded message as the draft m, and submit it as s.
func (s *jmapSession) submission(r *client.Request, blob string, to []string) (draft, sent client.Handle) {
	draft = r.Import(s.account, map[string]func(*wire.Writer){"m": func(w *wire.Writer) {
		w.Text("blobId", blob)
		in(w, s.drafts)
		w.Object("keywords", func(k *wire.Writer) { k.Bool("$draft", true); k.Bool("$seen", true) })
	}})
	sent = r.Set("EmailSubmission", s.account, &client.Set{
		Create: map[string]func(*wire.Writer){"s": func(w *wire.Writer) {
			w.Text("identityId", s.identity)
			w.Text("emailId", "#m")
			w.Object("envelope", func(e *wire.Writer) { envelope(e, s.u.Address, to) })
		}},
		More: func(w *wire.Writer) { w.Strings("onSuccessDestroyEmail", "#s") },
	})
	return draft, sent
}

// made returns the error of an object that a call has not created.
func made(out *client.Response, h client.Handle, name string) error {
	o, err := out.OutcomeOf(h)
	if err == nil {
		_, err = o.Created(name)
	}
	return err
}

func envelope(e *wire.Writer, from string, to []string) {
	e.Object("mailFrom", func(w *wire.Writer) { w.Text("email", from); w.Raw("parameters", "null") })
	list(e, "rcptTo", to, func(w *wire.Writer, a string) { w.Text("email", a); w.Raw("parameters", "null") })
}

// list writes an array of objects.
func list[E any](o *wire.Writer, name string, of []E, fn func(*wire.Writer, E)) {
	o.Name(name)
	o.B = append(o.B, '[')
	for i, x := range of {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		w := wire.NewWriter(o.B)
		fn(&w, x)
		o.B = w.End()
	}
	o.B = append(o.B, ']')
}

// importMessage puts a message into the INBOX.
func (s *jmapSession) importMessage(ctx context.Context, message []byte, seen bool, date time.Time) error {
	_, err := s.c.Import(ctx, s.account, bytes.NewReader(message), int64(len(message)), func(w *wire.Writer) {
		in(w, s.inbox)
		if seen {
			w.Object("keywords", func(k *wire.Writer) { k.Bool("$seen", true) })
		}
		if !date.IsZero() {
			w.Name("receivedAt")
			w.B = wire.AppendUTCDate(w.B, date)
		}
	})
	return err
}

// jmapInbox fills with Email/import. It sorts the INBOX by time, oldest first.
type jmapInbox struct {
	s   *jmapSession
	ctx context.Context
	n   int
}

func (w *World) fillJMAP(ctx context.Context, u *User) (filling, func(), error) {
	opened, _, err := w.openJMAP(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	s := opened.(*jmapSession)
	within, end := w.until(ctx)
	in := &jmapInbox{s: s, ctx: within}
	if err = s.folders(within); err == nil {
		in.n, err = in.total()
	}
	if err != nil {
		end()
		s.c.Close()
		return nil, nil, jmapError(err)
	}
	return in, end, nil
}

// query lists a part of the INBOX, the oldest message first.
func (f *jmapInbox) query(position, limit int) (*wire.Value, error) {
	r := client.NewRequest(wire.Mail)
	q := r.Query("Email", f.s.account, &client.Query{Filter: f.s.ofInbox, Sort: "receivedAt", Ascending: true,
		Position: position, Limit: limit, Total: true})
	out, err := f.s.c.Do(f.ctx, r)
	if err != nil {
		return nil, err
	}
	return out.Get(q)
}

func (f *jmapInbox) total() (int, error) {
	v, err := f.query(0, 1)
	if err != nil {
		return 0, err
	}
	n, ok := v.Get("total").Int()
	if !ok {
		return 0, fmt.Errorf("%w: a query without its total", client.ErrProtocol)
	}
	return int(n), nil
}

func (f *jmapInbox) count() int { return f.n }

// cutAtOnce is the number of Emails that one request changes or destroys.
const cutAtOnce = 200

func (f *jmapInbox) cut(want int) error {
	for f.n > want {
		v, err := f.query(want, cutAtOnce)
		if err != nil {
			return jmapError(err)
		}
		ids := texts(v.Get("ids"))
		if len(ids) == 0 {
			return nil
		}
		if err := f.s.destroy(f.ctx, ids); err != nil {
			return jmapError(err)
		}
		f.n -= len(ids)
	}
	return nil
}

func (f *jmapInbox) add(message []byte, seen bool, date time.Time) error {
	return jmapError(f.s.importMessage(f.ctx, message, seen, date))
}

func (f *jmapInbox) finish() error { return f.s.Close() }
