package mail

import (
	"context"
	"sync"

	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/wire/mime"
)

// keptSignatures is the number of messages whose signatures are cached. An RSA signature costs more than all other work
// on a message, so it is made only once for several destinations and retries. It is not stored in mail.box, because a
// key may be destroyed while mail waits.
const keptSignatures = 1000

// signatures caches the latest signatures by queue ID.
type signatures struct {
	mu   sync.Mutex
	made map[note.UNID]*signature
	ring [keptSignatures]note.UNID
	next int
}

// signature is the signature of one message. Deliveries to its destinations run side by side: the first of them makes
// the signature and holds mu, the others wait for it.
type signature struct {
	mu      sync.Mutex
	header  []byte // nil: not made
	version uint64 // the directory's; keys may have changed after it
}

// of returns the signature of a message, which may not have been made.
func (g *signatures) of(id note.UNID) *signature {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.made == nil {
		g.made = make(map[note.UNID]*signature)
	}
	kept := g.made[id]
	if kept == nil {
		delete(g.made, g.ring[g.next])
		g.ring[g.next], g.next = id, (g.next+1)%keptSignatures
		kept = new(signature)
		g.made[id] = kept
	}
	return kept
}

// sign puts signatures before a message, once there is a session to send it over. A message is sent without a signature
// if signing fails.
func (s *signer) sign(ctx context.Context, c *consignment) {
	c.signed = true
	switch {
	case !s.signs(c) && !s.seals(c):
		return // without a place, which another signature may need
	case c.fitted:
		c.message.Prefix = s.fields(ctx, c)
		return
	}
	kept := s.signatures.of(c.entry.ID)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if version := s.dir.Version(); kept.header == nil || kept.version != version {
		kept.header, kept.version = s.fields(ctx, c), version
	}
	c.message.Prefix = kept.header
}

// fields returns the header fields to put before a message: its ARC set and its signatures.
func (s *signer) fields(ctx context.Context, c *consignment) []byte {
	h := s.signed(ctx, c)
	return append(s.sealed(ctx, c, h), h...)
}

// signs reports whether a message may be signed. Unauthenticated mail with a local author is not signed when it is
// forwarded, because the signature would vouch for the author.
func (s *signer) signs(c *consignment) bool { return s.opt.Signer != nil && !c.entry.Unsigned }

// seals reports whether a message is sealed: a forwarded one from outside.
func (s *signer) seals(c *consignment) bool { return s.opt.Sealer != nil && c.entry.Checker != "" }

// signed returns the DKIM signatures of the author's domain.
func (s *signer) signed(ctx context.Context, c *consignment) []byte {
	if !s.signs(c) {
		return nil
	}
	data := c.message.Data
	from, _ := mime.Get(data[:mime.HeaderEnd(data)], "From")
	domain := ""
	for _, a := range mime.ParseAddressList([]byte(from)) {
		if !a.Group {
			domain = a.Host
			break
		}
	}
	if domain == "" {
		return nil
	}
	h, err := s.opt.Signer.Header(ctx, domain, data)
	if err != nil {
		s.env.Log.Warn("mail: message is sent without a signature", "id", c.entry.ID.String(), "domain", domain,
			"err", err)
		return nil
	}
	return h
}

// sealed returns an ARC set for a forwarded message from outside, which passes the results of this server's
// verification to the next server. The sealing domain is that of the envelope sender, which is local after SRS or for a
// list. For a null sender it is the first local domain.
func (s *signer) sealed(ctx context.Context, c *consignment, fields []byte) []byte {
	if !s.seals(c) {
		return nil
	}
	domain := c.message.From.Domain
	if domain == "" {
		if list, err := s.dir.Domains.List(ctx); err == nil && len(list) > 0 {
			domain = list[0]
		}
	}
	h, err := s.opt.Sealer.Seal(ctx, domain, c.entry.Checker, fields, c.message.Data)
	if err != nil {
		s.env.Log.Warn("mail: message is sent without an ARC set", "id", c.entry.ID.String(), "domain", domain,
			"err", err)
	}
	return h
}

// signer adds signatures and seals to outgoing messages.
type signer struct {
	dir        *directory.Directory
	env        *env.Env
	opt        *Options
	signatures signatures
}
