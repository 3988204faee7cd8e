package mail

import (
	"context"
	"sync"

	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/wire/mime"
)

// keptSignatures is how many messages' signatures are remembered. An RSA signature costs more than
// all else that is done about a message: it is made once, though the message goes to many destinations
// or has to be sent again. It is not kept in mail.box, as a key may be destroyed while mail waits.
const keptSignatures = 1000

// signatures remembers those made last, by queue id, while the directory stays as it is: keys may have
// been changed.
type signatures struct {
	mu      sync.Mutex
	version uint64
	made    map[note.UNID][]byte
	ring    [keptSignatures]note.UNID
	next    int
}

func (g *signatures) get(id note.UNID, version uint64) ([]byte, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, ok := g.made[id]
	return h, ok && version == g.version
}

func (g *signatures) put(id note.UNID, version uint64, h []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.made == nil || version != g.version {
		g.made, g.version = make(map[note.UNID][]byte), version
	}
	if _, ok := g.made[id]; !ok {
		delete(g.made, g.ring[g.next])
		g.ring[g.next], g.next = id, (g.next+1)%keptSignatures
	}
	g.made[id] = h
}

// sign puts signatures before the message, when there is a session to send it over. One that cannot
// be made stops no mail.
func (s *signer) sign(ctx context.Context, c *consignment) {
	c.signed = true
	version := s.dir.Version()
	if h, ok := s.signatures.get(c.entry.ID, version); ok && !c.fitted {
		c.message.Prefix = h
		return
	}
	h := s.signed(ctx, c)
	h = append(s.sealed(ctx, c, h), h...)
	if c.message.Prefix = h; h != nil && !c.fitted {
		s.signatures.put(c.entry.ID, version, h)
	}
}

// signed makes DKIM signatures of the author's domain. What strangers wrote in somebody's name here is not signed when
// it goes on (forwarding, mailing lists): the signature would say that it is true.
func (s *signer) signed(ctx context.Context, c *consignment) []byte {
	if s.opt.Signer == nil || c.entry.Unsigned {
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
		s.env.Log.Warn("mail: message is sent without a signature", "id", c.entry.ID.String(), "domain", domain, "err", err)
		return nil
	}
	return h
}

// sealed makes an ARC set for a stranger's message that goes on, by which the next server learns what was found out about
// it here. The domain that seals is that of the envelope's sender, which is one of ours (a list's, or of SRS); for a null
// sender it is the first domain.
func (s *signer) sealed(ctx context.Context, c *consignment, fields []byte) []byte {
	if s.opt.Sealer == nil || c.entry.Checker == "" {
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
		s.env.Log.Warn("mail: message is sent without an ARC set", "id", c.entry.ID.String(), "domain", domain, "err", err)
	}
	return h
}

// signer puts signatures and seals before messages that leave.
type signer struct {
	dir        *directory.Directory
	env        *env.Env
	opt        *Options
	signatures signatures
}
