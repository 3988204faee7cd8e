package imapd

import (
	"doublet/serve/listen"
	"doublet/wire/imap"
)

// refusal is an error with the response code and text that refuse a message.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return r.text }

// catenate assembles a message from parts that URLs name and parts that the client sends. Parts and message are
// reserved as messages in flight before they are read.
//
// Implements: RFC 4469 §3 CATENATE
// Implements: RFC 6855 §4 UTF8 in CATENATE
func (s *session) catenate(list *incoming) ([]byte, error) {
	var parts [][]byte
	var held, total int64
	defer func() { s.memory().Give(held) }()
	for {
		part, err := s.in.Part()
		if err != nil {
			return nil, err
		}
		if part == nil {
			break
		}
		b, cost, err := s.catPart(part)
		held += cost
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
		if total += int64(len(b)); total > int64(s.srv.backend.Mail().MessageSize()) {
			return nil, &refusal{"TOOBIG", "Message is larger than this server takes"}
		}
	}
	if total == 0 {
		return nil, &refusal{"", "Message is empty"}
	}
	if !s.memory().Take(total) {
		return nil, listen.ErrMemory
	}
	list.held += total
	out := make([]byte, 0, total)
	for _, b := range parts {
		out = append(out, b...)
	}
	return out, nil
}

// catPart reads one part. held is the memory reserved for it in bytes, also with an error.
func (s *session) catPart(part *imap.CatPart) (b []byte, held int64, err error) {
	if part.Literal {
		if part.UTF8 && !s.utf8 {
			return nil, 0, &refusal{"", "UTF8=ACCEPT is not enabled"}
		}
		return s.readMessage(part.Size)
	}
	u, err := imap.ParseURL(part.URL)
	if err != nil {
		return nil, 0, &urlError{part.URL, errURL}
	}
	view, err := s.resolve(u)
	if err != nil {
		return nil, 0, &urlError{part.URL, err}
	}
	p, err := s.locate(view, u, false)
	if err == nil && p.n > int64(s.srv.backend.Mail().MessageSize()) && u.Item.Size == 0 {
		return nil, 0, &refusal{"TOOBIG", "Message is larger than this server takes"}
	}
	if err == nil {
		b, held, err = s.bytes(&p, &u.Item)
	}
	if err != nil && err != listen.ErrMemory {
		err = &urlError{part.URL, err}
	}
	return b, held, err
}
