package drive

import (
	"context"
	"fmt"
	"strings"

	"doublet/bench/content"
	"doublet/bench/workload"

	"golang.org/x/net/html/atom"
)

// send writes a message on the compose page and submits it, with its file, in one form. A reply starts at the reply
// form of the last message read. An added message is one to the user himself, because the lite mode has no other way
// into the INBOX.
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
	if f == nil || !f.set("to", strings.Join(m.To, ", ")) || !f.set("subject", m.Subject) ||
		!f.set("text", string(content.AppendText(nil, m.Body, m.Seed))) {
		return fmt.Errorf("%w: no form to write in", ErrProtocol)
	}
	if m.Attachment > 0 && f.file != nil {
		buf := s.w.memory.takeMessage()
		defer s.w.memory.giveMessage(buf)
		*buf = content.AppendFile((*buf)[:0], m.Attachment, m.Seed)
		f.file.name, f.file.content = content.FileName(m.Seed), *buf
	}
	if err := s.post(ctx, f); err != nil {
		return err
	}
	// Only the list confirms that a message was sent.
	if s.where != liteList || !strings.Contains(s.at, "said=messageSent") || find(s.page, is(atom.Div, "said")) == nil {
		return &Refusal{"a message that is not said to be sent"}
	}
	s.at = s.inbox
	return s.listed()
}

// lookup finds a person of the directory from the compose page.
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
