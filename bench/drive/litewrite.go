package drive

import (
	"context"
	"fmt"
	"strings"

	"doublet/bench/content"
	"doublet/bench/workload"

	"golang.org/x/net/html/atom"
)

// send writes a message on the page for that and sends it, with its file, in one form; an answer begins at the form that the
// message read last leads to. A message that is added is one to oneself: in the browser none comes into the INBOX otherwise.
func (s *liteSession) send(ctx context.Context, p *workload.Planned) error {
	m := s.w.compose(s.u, p)
	to := liteCompose
	switch {
	case p.Do == workload.Add:
		m.To = []string{s.u.Address}
	case p.Do == workload.Reply && s.last != "":
		to, m.Subject = s.last, "Re: "+m.Subject
		fallthrough
	default:
		m.To = s.w.recipients(s.u, p)
	}
	if err := s.get(ctx, to); err != nil {
		return err
	}
	f := formWith(s.page, "do", "send")
	if f == nil || !f.set("to", strings.Join(m.To, ", ")) || !f.set("subject", m.Subject) || !f.set("text", string(content.AppendText(nil, m.Body, m.Seed))) {
		return fmt.Errorf("%w: no form to write in", ErrProtocol)
	}
	if m.Attachment > 0 && f.file != nil {
		buf := s.w.takeMessage()
		defer s.w.giveMessage(buf)
		*buf = content.AppendFile((*buf)[:0], m.Attachment, m.Seed)
		f.file.name, f.file.content = content.FileName(m.Seed), *buf
	}
	if err := s.post(ctx, f); err != nil {
		return err
	}
	// What was sent is told on the list, and on no other page.
	if s.where != liteList || !strings.Contains(s.at, "said=messageSent") || find(s.page, is(atom.Div, "said")) == nil {
		return &Refusal{"a message that is not said to be sent"}
	}
	s.at = s.inbox
	return s.listed()
}

// lookup finds a person of the directory from the page on which one writes.
func (s *liteSession) lookup(ctx context.Context, p *workload.Planned) error {
	found := s.w.Users[s.w.Workload.Choose(s.u.Index, len(s.w.Users), 1, p.Pick)[0]]
	if err := s.get(ctx, liteCompose); err != nil {
		return err
	}
	f := formWith(s.page, "do", "find")
	if f == nil {
		return fmt.Errorf("%w: no form to find people in", ErrProtocol)
	}
	name := found.Known
	if name == "" {
		name = found.Name
	}
	f.set("find", name)
	if err := s.post(ctx, f); err != nil {
		return err
	}
	list := find(s.page, is(atom.Ul, "found"))
	switch {
	case list == nil:
		return &Refusal{"a look-up without an answer"}
	case found.Known != "" && !strings.Contains(words(list), found.Address):
		return &Refusal{"a person of the directory is not found"}
	}
	return nil
}
