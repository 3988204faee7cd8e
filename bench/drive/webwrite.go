package drive

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/bench/content"
	"doublet/bench/workload"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// read opens the conversation of the newest unread message, or any conversation if all are read. It requests the
// messages that are not cached, and marks the unread ones as read.
func (s *webSession) read(ctx context.Context, pick uint64) error {
	v := &s.view
	v.mu.Lock()
	head := v.choose(pick, true)
	ids := v.thread(head)
	var missing []string
	for _, id := range ids {
		if _, known := v.rows[id]; !known {
			missing = append(missing, id)
		}
	}
	v.mu.Unlock()
	if head == "" {
		return ErrNothing
	}
	if len(missing) > 0 {
		if err := s.missing(ctx, missing); err != nil {
			return err
		}
	}
	v.mu.Lock()
	var unseen []string
	for _, id := range ids {
		if !v.rows[id].seen {
			unseen = append(unseen, id)
		}
	}
	wanted := append(append([]string{head}, unseen...), ids[len(ids)-1])
	slices.Sort(wanted)
	wanted = slices.DeleteFunc(slices.Compact(wanted), func(id string) bool { _, kept := v.bodies[id]; return kept })
	v.mu.Unlock()
	if len(wanted) > 0 {
		if _, err := s.bodies(ctx, wanted, missing); err != nil {
			return err
		}
	}
	v.mu.Lock()
	s.last = email{ids[len(ids)-1], v.bodies[ids[len(ids)-1]]}
	v.mu.Unlock()
	if len(unseen) == 0 {
		return nil
	}
	return s.change(ctx, unseen, missing, func(w *wire.Writer) { w.Bool("keywords/$seen", true) },
		func(r *webRow) { r.seen = true })
}

// missing requests Emails of a conversation that no list has shown.
func (s *webSession) missing(ctx context.Context, ids []string) error {
	v, err := s.call(ctx, "Email/get", func(w *wire.Writer) {
		w.Text("accountId", s.account)
		w.Strings("ids", ids...)
		w.Strings("properties", webRowProperties...)
	})
	if err != nil {
		return err
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.take(s.inbox, v, nil)
	return nil
}

// choose selects a conversation of the list: with unread the newest unread one, if there is one. It returns "" for an
// empty list.
func (v *view) choose(pick uint64, unread bool) string {
	known := slices.DeleteFunc(slices.Clone(v.list), func(id string) bool { return id == "" })
	if len(known) == 0 {
		return ""
	}
	if unread {
		for _, id := range known {
			if !v.rows[id].seen {
				return id
			}
		}
	}
	return known[pick%uint64(len(known))]
}

// flag flags a conversation, or removes its flags.
func (s *webSession) flag(ctx context.Context, pick uint64) error {
	ids, on := s.chosen(pick)
	if len(ids) == 0 {
		return ErrNothing
	}
	return s.change(ctx, ids, nil, func(w *wire.Writer) {
		if w.Name("keywords/$flagged"); on {
			w.B = append(w.B, "null"...)
		} else {
			w.B = append(w.B, "true"...)
		}
	}, func(r *webRow) { r.flagged = !on })
}

// chosen selects a conversation and returns its Emails in the INBOX; flagged reports whether any is flagged.
func (s *webSession) chosen(pick uint64) (ids []string, flagged bool) {
	v := &s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range v.thread(v.choose(pick, false)) {
		if r, known := v.rows[id]; known && r.inbox {
			ids = append(ids, id)
			flagged = flagged || r.flagged
		}
	}
	return ids, flagged
}

// putAway moves a conversation to another folder; deleting moves it to the Trash.
func (s *webSession) putAway(ctx context.Context, pick uint64, to string) error {
	ids, _ := s.chosen(pick)
	if len(ids) == 0 {
		return ErrNothing
	}
	if to == "" {
		return &Refusal{"no folder to put it into"}
	}
	return s.change(ctx, ids, nil, func(w *wire.Writer) { in(w, to) }, func(r *webRow) { r.inbox = false })
}

// change changes Emails, first in the view and then at the server, which must have changed all except those of gone.
// The same request asks for what changed (heed).
func (s *webSession) change(ctx context.Context, ids, gone []string, patch func(*wire.Writer),
	row func(*webRow)) error {
	v := &s.view
	moved := false
	v.mu.Lock()
	for _, id := range ids {
		if r, known := v.rows[id]; known {
			was := r.inbox
			row(&r)
			if v.rows[id] = r; was && !r.inbox {
				moved = true
				v.drop(id)
			}
		}
	}
	v.mu.Unlock()
	r := client.NewRequest(webUsing...)
	h := r.Call("Email/set", func(w *wire.Writer) {
		w.Text("accountId", s.account)
		w.Object("update", func(o *wire.Writer) {
			for _, id := range ids {
				o.Key(id)
				x := wire.NewWriter(o.B)
				patch(&x)
				o.B = x.End()
			}
		})
		w.Strings("destroy")
	})
	n := s.askNews(r)
	s.mu.Lock()
	s.telling = true
	s.mu.Unlock()
	out, err := s.c.Do(ctx, r)
	if err != nil {
		s.mu.Lock()
		s.telling = false
		s.mu.Unlock()
		return err
	}
	if err := s.heed(ctx, out, h, n, ids, moved); err != nil {
		return err
	}
	o, err := out.OutcomeOf(h)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := o.Updated(id); err != nil && !slices.Contains(gone, id) {
			return err
		}
	}
	return nil
}

// letter is a message that is written in the full client.
type letter struct {
	*content.Message
	text, html string
	file       string // blobId of the attachment, "" for none
	draft      string // id of the draft on the server, "" for none
	answered   string // id of the answered message
}

// beginning is the length of the text when the first draft is saved, in bytes.
const beginning = 200

// send writes and sends a message. It saves a draft of the beginning, uploads the attachment, replaces the draft by one
// of the whole message, and sends that. It does not wait for the time of typing, nor for the time in which the client
// offers to undo; held is the time of the drafts, for which no user waits. An added message is one to the user himself.
func (s *webSession) send(ctx context.Context, p *workload.Planned) (held time.Duration, err error) {
	if s.drafts == "" || s.sent == "" || s.identity == "" {
		return 0, &Refusal{"no folder of drafts, none of what is sent, or no identity"}
	}
	m := s.w.compose(s.u, p)
	m.To = []string{s.u.Address}
	if p.Do != workload.Add {
		m.To = s.w.recipients(s.u, p)
	}
	l := &letter{Message: &m}
	if p.Do == workload.Reply && s.last.id != "" {
		m.Subject, m.InReplyTo, l.answered = "Re: "+m.Subject, s.last.name, s.last.id
	}
	l.text = strings.ReplaceAll(strings.TrimSpace(string(content.AppendText(nil, m.Body, m.Seed))), "\r\n", "\n")
	whole := l.text
	begun := s.w.Env.Clock.Now()
	if l.answered == "" { // the recipient of a reply is not typed
		if err = s.complete(ctx, m.To); err != nil {
			return 0, err
		}
	}
	if err = s.check(ctx, m.To); err != nil {
		return 0, err
	}
	l.text = whole[:min(len(whole), beginning)]
	if err = s.save(ctx, l); err != nil {
		return 0, err
	}
	held = s.w.Env.Clock.Now().Sub(begun)
	if m.Attachment > 0 {
		buf := s.w.memory.takeMessage()
		defer s.w.memory.giveMessage(buf)
		*buf = content.AppendFile((*buf)[:0], m.Attachment, m.Seed)
		blob, err := s.c.Upload(ctx, s.account, "application/octet-stream", bytes.NewReader(*buf), int64(len(*buf)))
		if err != nil {
			return held, err
		}
		l.file = blob.ID
	}
	begun = s.w.Env.Clock.Now()
	l.text = whole
	if err = s.save(ctx, l); err != nil {
		return held, err
	}
	held += s.w.Env.Clock.Now().Sub(begun)
	if err = s.submit(ctx, l); err != nil {
		return held, err
	}
	s.later(beside{ask: true, list: true})
	return held, nil
}

// typed is the number of bytes of an address that a user types before looking at the suggestions.
const typed = 3

// complete looks each recipient up in the directory once, as the client does when typing pauses; no user waits for the
// answer. It ignores a refusal, as the client does, because the typed address is valid without it.
func (s *webSession) complete(ctx context.Context, to []string) error {
	if !s.listed {
		return nil
	}
	for _, address := range to {
		r := client.NewRequest(append(slices.Clone(webUsing), wire.Principals)...)
		found := r.Call("Principal/query", func(w *wire.Writer) {
			w.Text("accountId", s.account)
			w.Object("filter", func(w *wire.Writer) { w.Text("text", address[:min(len(address), typed)]) })
			w.Uint("limit", 8)
		})
		people := r.Call("Principal/get", func(w *wire.Writer) {
			w.Text("accountId", s.account)
			w.Refer("ids", found.At("/ids"))
			w.Strings("properties", "name", "email")
		})
		out, err := s.c.Do(ctx, r)
		if err == nil {
			_, err = out.Get(people)
		}
		var refused *client.CallError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

// check asks the server about each recipient, once in a session, as the client does when an address was typed; no user
// waits for the answer. It ignores a refusal, as the client does.
func (s *webSession) check(ctx context.Context, to []string) error {
	for _, address := range to {
		if s.checked == nil || s.checked[address] {
			continue
		}
		r := client.NewRequest(append(slices.Clone(webUsing), wire.Recipients)...)
		r.Call("Recipient/check", func(w *wire.Writer) {
			w.Text("accountId", s.account)
			w.Strings("addresses", address)
		})
		var refused *client.CallError
		if _, err := s.c.Do(ctx, r); err != nil && !errors.As(err, &refused) {
			return err
		}
		s.checked[address] = true
	}
	return nil
}

// formatted returns text as the HTML of the client's editor.
func formatted(text string) string {
	return "<p>" + strings.ReplaceAll(text, "\n", "</p><p>") + "</p>"
}

// email writes the Email as the client does; sent adds the date and makes the Message-ID that of the sent message.
func (s *webSession) email(w *wire.Writer, l *letter, sent bool) {
	person := func(o *wire.Writer, email string) { o.Raw("name", "null"); o.Text("email", email) }
	list(w, "from", []string{s.u.Address}, person)
	list(w, "to", l.To, person)
	w.Text("subject", l.Subject)
	if l.InReplyTo != "" {
		w.Strings("inReplyTo", l.InReplyTo+"@"+content.Domain)
		w.Strings("references", l.InReplyTo+"@"+content.Domain)
	}
	l.html = formatted(l.text)
	w.Object("bodyValues", func(v *wire.Writer) {
		v.Object("text", func(t *wire.Writer) { t.Text("value", l.text) })
		v.Object("html", func(t *wire.Writer) { t.Text("value", l.html) })
	})
	w.Raw("textBody", `[{"partId":"text","type":"text/plain"}]`)
	w.Raw("htmlBody", `[{"partId":"html","type":"text/html"}]`)
	var files []string
	if l.file != "" {
		files = append(files, l.file)
	}
	list(w, "attachments", files, func(o *wire.Writer, blob string) {
		o.Text("blobId", blob)
		o.Text("type", "application/octet-stream")
		o.Text("name", content.FileName(l.Seed))
		o.Text("disposition", "attachment")
	})
	if !sent {
		// Always the same: it names the draft. A search for the Message-ID of the message does not find it.
		w.Strings("messageId", l.ID+".draft@"+content.Domain)
	} else {
		w.Strings("messageId", l.ID+"@"+content.Domain)
		w.Name("sentAt")
		w.B = wire.AppendUTCDate(w.B, s.w.Env.Clock.Now())
	}
	in(w, s.drafts)
	w.Object("keywords", func(k *wire.Writer) { k.Bool("$draft", true); k.Bool("$seen", true) })
}

// save saves a message as a draft that replaces the one before.
func (s *webSession) save(ctx context.Context, l *letter) error {
	x := &client.Set{Create: map[string]func(*wire.Writer){"d": func(w *wire.Writer) { s.email(w, l, false) }}}
	if l.draft != "" {
		x.Destroy = []string{l.draft}
	}
	r := client.NewRequest(webUsing...)
	h := r.Set("Email", s.account, x)
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	o, err := out.OutcomeOf(h)
	if err != nil {
		return err
	}
	old := l.draft
	id, err := o.Created("d")
	if err != nil {
		return err
	}
	if l.draft = strings.Clone(id); old == "" {
		return nil
	}
	return o.Destroyed(old)
}
