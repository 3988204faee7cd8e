package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// forward is the forwarding of a person's mail to other servers.
type forward struct {
	person *directory.Person
	to     []string
	inside []queue.Recipient // people at other places of the domain
	shared bool              // for several people, so it names none of them
}

// shareForwards combines all forwards into one copy if the separate copies would be too large together, because each is
// prepared while the client waits. The shared copy does not name any of the people.
func (b *batch) shareForwards(size int) {
	if len(b.forwards) < 2 || len(b.forwards)*size <= maxPersonalBytes {
		return
	}
	one := forward{person: b.forwards[0].person, shared: true}
	for _, f := range b.forwards {
		for _, a := range f.to {
			if !slices.Contains(one.to, a) {
				one.to = append(one.to, a)
			}
		}
		one.inside = append(one.inside, f.inside...) // without duplicates
	}
	b.forwards = append(b.forwards[:0], one)
}

// maxHops limits chains of local forwarding.
const maxHops = 20

// apply applies the settings of the recipients, such as forwarding and vacation notices. Junk is not forwarded, because
// this server would then send junk. Mail of a blocked sender is junk for the recipient: it is neither forwarded nor
// answered.
func (s *personal) apply(ctx context.Context, sub *Submission, b *batch) error {
	if !slices.ContainsFunc(b.now, func(d delivery) bool { return d.own }) || b.whole {
		return nil
	}
	b.remember()
	head := fields.ReadFacts(sub.Message)
	// Local forwarding appends recipients to b.now, so that the loop processes them too.
	for i := 0; i < len(b.now); i++ {
		if !b.now[i].own || b.now[i].kind != directory.TargetPerson {
			continue
		}
		p, err := s.dir.Names.Person(ctx, b.now[i].id)
		if errors.Is(err, directory.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if len(p.Forward) > 0 || p.Vacation.On {
			blocked, err := s.files.blocks(ctx, p.MailDatabase, head.Author)
			if err != nil {
				return fmt.Errorf("blocked senders: %w", err)
			}
			if blocked {
				continue
			}
		}
		if err := s.sendOn(ctx, sub, b, head, i, &p); err != nil {
			return err
		}
		if s.wantsVacation(sub, b, head, i, &p) {
			b.now[i].vacation, b.answered = &outgoing{asks: true}, true
		}
	}
	b.now = slices.DeleteFunc(b.now, func(d delivery) bool { return d.gone })
	return nil
}

// remember creates the map of recipients, so that known also finds recipients that were removed.
func (b *batch) remember() {
	if b.seen == nil {
		b.seen = make(map[note.UNID]int, 4*linear)
		for i := range b.now {
			b.seen[b.now[i].id] = b.now[i].index
		}
	}
}

// sendOn forwards a person's mail.
func (s *personal) sendOn(ctx context.Context, sub *Submission, b *batch, head *fields.Facts, i int,
	p *directory.Person) error {
	if len(p.Forward) == 0 || sub.Junk || len(b.forwards) >= maxHops*len(b.results)+maxHops {
		return nil
	}
	if slices.ContainsFunc(p.Addresses(),
		func(a string) bool { return slices.Contains(head.DeliveredTo, strings.ToLower(a)) }) {
		return nil // it was delivered to this person before: do not forward it again
	}
	f := forwarding{forward: forward{person: p}, s: s, sub: sub, b: b, d: b.now[i]}
	for _, a := range p.Forward {
		if err := f.address(ctx, a); err != nil {
			return err
		}
	}
	if len(f.to)+len(f.inside) > 0 {
		b.forwards = append(b.forwards, f.forward)
		b.taken = true
	}
	if p.ForwardOnly && (f.sent || len(f.to) > 0) {
		b.now[i].gone = true
	}
	return nil
}

// forwarding collects where a person's mail goes on.
type forwarding struct {
	forward
	s    *personal
	sub  *Submission
	b    *batch
	d    delivery
	sent bool // to another person or a list here
}

// address adds one of the addresses that the person has set.
func (f *forwarding) address(ctx context.Context, a string) error {
	p := f.person
	t, err := f.s.dir.Names.Resolve(ctx, a)
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		f.to = append(f.to, a)
	case errors.Is(err, directory.ErrNoSuchRecipient), errors.Is(err, directory.ErrInvalid):
		f.s.env.Log.Warn("mail: forwarded to an unknown address", "person", p.Name(), "address", a)
	case err != nil:
		return fmt.Errorf("forward to %.80q: %w", a, err)
	case t.ID == p.ID:
	case t.ListPart != "":
		f.s.env.Log.Warn("mail: forwarded to an address reserved for a list", "person", p.Name(), "address", a)
	case t.Kind == directory.TargetGroup && t.Own:
		took, err := f.s.forwardToList(ctx, f.sub, f.b, a, t)
		f.sent = f.sent || took
		return err
	default:
		return f.target(ctx, a, t)
	}
	return nil
}

// target adds the people that an address of ours stands for.
func (f *forwarding) target(ctx context.Context, a string, t directory.Target) error {
	x, err := f.s.dir.Names.Expand(ctx, []directory.Target{t})
	if err != nil {
		return fmt.Errorf("forward to %s: %w", t.Name, err)
	}
	for k := range x.Recipients {
		r := &x.Recipients[k]
		f.sent = f.sent || !f.b.passes(r.ID)
		if !f.b.away(r.MailServer) {
			f.b.add(f.d.index, f.d.from, r, uint64(len(f.sub.Message)), true)
		} else if _, has := f.b.known(r.ID, f.d.index); !has {
			f.inside = append(f.inside, queue.Recipient{Address: a, Name: r.Name, Target: r.ID, Kind: r.Kind,
				State: queue.Waiting})
		}
	}
	f.to = append(f.to, x.Outside...)
	return nil
}

// passes reports whether a recipient has forwarded the message and keeps no copy. Forwarding to them again is no
// delivery: people who forward to each other in a circle would all drop the message.
func (b *batch) passes(id note.UNID) bool {
	return slices.ContainsFunc(b.now, func(d delivery) bool { return d.id == id && d.gone })
}

// forwardToList posts a message to the mailing list to which a person's mail is forwarded. The list applies its usual
// moderation. took is set if the list accepts the message.
func (s *personal) forwardToList(ctx context.Context, sub *Submission, b *batch, address string,
	t directory.Target) (took bool, err error) {
	to, err := smtp.ParsePath(address)
	if err != nil {
		return false, nil //nolint:nilerr // the directory has resolved it
	}
	// A rejection by the list does not concern the sender, who wrote to a person.
	post := batch{lists: b.lists, results: make([]error, 1)}
	if err := s.lists.list(ctx, sub, &post, 0, &Recipient{To: to, Target: t}); err != nil {
		return false, err
	}
	b.lists, b.taken = post.lists, b.taken || post.taken
	return len(post.refusal) == 0, nil
}

// forward composes the message that is forwarded to other servers. The Delivered-To field shows this server, if the
// message comes back, that it was here.
func (s *personal) forward(ctx context.Context, sub *Submission, b *batch, f *forward, rest []byte) error {
	address := f.person.InternetAddress
	if all := f.person.Addresses(); address == "" && len(all) > 0 {
		address = all[0]
	}
	one := sentCopy{what: "forward " + f.person.ID.String(), from: sub.From, domain: domainOf(address),
		address: address}
	if f.shared {
		one.address = ""
	}
	rows := make([]queue.Recipient, 0, len(f.to)+len(f.inside))
	for _, a := range f.to {
		rows = append(rows, queue.Recipient{Address: a, State: queue.Waiting})
	}
	rows = append(rows, f.inside...)
	for i := range rows {
		if sub.Unproven {
			rows[i].Notify = smtp.NotifyNever
		}
	}
	one.rows = rows
	_, err := s.sendCopy(ctx, b, &one, rest)
	return err
}

// sentCopy is a message that is sent on for a person. domain is that to which a sender of another domain is rewritten.
// address is shown by Delivered-To, if it is not empty.
type sentCopy struct {
	what            string // as of followUps.send
	from            smtp.Path
	domain, address string
	rows            []queue.Recipient
}

// sendCopy sends a message on. rest is the message without its Return-Path.
func (s *personal) sendCopy(ctx context.Context, b *batch, c *sentCopy, rest []byte) (*outgoing, error) {
	from := c.from
	if local, err := s.dir.Domains.IsLocal(ctx, from.Domain); err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	} else if !local {
		from = s.srs.rewriteSender(from, c.domain)
	}
	h := append(from.Append([]byte("Return-Path: <")), ">\r\n"...)
	returnPath := len(h)
	if c.address != "" {
		h = append(append(append(h, "Delivered-To: "...), c.address...), "\r\n"...)
	}
	o, err := s.follow.send(ctx, b, c.what, append(h, rest...), returnPath, from, c.rows)
	if err == nil {
		o.entry.Unsigned, o.entry.Checker = b.entry.Unsigned, b.entry.Checker
	}
	return o, err
}

// delivered does the work after a delivery to a mail file, in the same update.
func (s *personal) delivered(tx *store.Tx, b *batch, d *delivery) error {
	w, err := tx.Database(d.database)
	if err != nil {
		return err
	}
	if d.vacation != nil && d.vacation.composed != nil && !d.ruling.answers() {
		days := d.days
		if days == 0 {
			days = 7
		}
		if d.vacation.due, err = s.firstNotice(w, d.database, strings.ToLower(b.entry.From.String()),
			time.Duration(days)*24*time.Hour); err != nil {
			return err
		}
	}
	return s.quotaWarning(w, b, d)
}

// personal applies the settings of people to their mail: forwarding, vacation notices and quota warnings.
type personal struct {
	env      *env.Env
	dir      *directory.Directory
	files    *Files
	follow   *followUps
	lists    *Lists
	srs      *SRS
	hostname string
}
