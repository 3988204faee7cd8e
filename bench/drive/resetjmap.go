package drive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"doublet/bench/ledger"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// resetJMAP does the work of resetIMAP over JMAP.
func resetJMAP(ctx context.Context, w *World, u *User, want int) (removed int, err error) {
	opened, _, err := w.openJMAP(ctx, u)
	if err != nil {
		return 0, err
	}
	s := opened.(*jmapSession)
	defer s.c.Close()
	within, end := w.until(ctx)
	defer end()
	if removed, err = s.emptyOthers(within); err == nil {
		var n int
		n, err = s.resetInbox(within, want)
		removed += n
	}
	if err != nil {
		err = fmt.Errorf("drive: reset the mailbox of %s: %w", u.Name, jmapError(err))
	}
	return removed, err
}

// emptyOthers destroys the Emails of all mailboxes but the INBOX, and returns their number. An Email that is in the
// INBOX too is destroyed with them; Fill adds it again if it is of the beginning.
func (s *jmapSession) emptyOthers(ctx context.Context) (n int, err error) {
	for {
		r := client.NewRequest(wire.Mail)
		q := r.Query("Email", s.account, &client.Query{Limit: cutAtOnce,
			Filter: func(w *wire.Writer) { w.Strings("inMailboxOtherThan", s.inbox) }})
		out, err := s.c.Do(ctx, r)
		if err != nil {
			return n, err
		}
		v, err := out.Get(q)
		if err != nil {
			return n, err
		}
		ids := texts(v.Get("ids"))
		if len(ids) == 0 {
			return n, nil
		}
		if err := s.destroy(ctx, ids); err != nil {
			return n, err
		}
		n += len(ids)
	}
}

// destroy destroys Emails, each of which must be gone then.
func (s *jmapSession) destroy(ctx context.Context, ids []string) error {
	o, err := s.set(ctx, "Email", &client.Set{Destroy: ids})
	if err != nil {
		return err
	}
	return o.Err()
}

// resetInbox keeps the Emails of the beginning, gives them their keywords, and destroys all others, with what follows a
// missing one. It returns the number of destroyed ones.
func (s *jmapSession) resetInbox(ctx context.Context, want int) (removed int, err error) {
	kept, read := 0, 0 // read counts the Emails that were looked at
	var gone, seen, unseen []string
	for {
		part, err := s.emails(ctx, s.ofInbox, read, "id", "messageId", "keywords")
		if err != nil {
			return 0, err
		}
		if len(part) == 0 {
			break
		}
		read += len(part)
		for _, email := range part {
			m := readInInbox(email)
			if kept == want || m.name != s.w.initialID(s.u, kept) {
				gone = append(gone, m.id)
				continue
			}
			first := s.w.initial(s.u, kept, want)
			kept++
			switch should := s.w.seenFirst(&first); {
			case m.seen == should && !m.marked:
			case should:
				seen = append(seen, m.id)
			default:
				unseen = append(unseen, m.id)
			}
		}
	}
	for ids := range slices.Chunk(gone, cutAtOnce) {
		if err := s.destroy(ctx, ids); err != nil {
			return removed, err
		}
		removed += len(ids)
	}
	if err := s.mark(ctx, seen, true); err != nil {
		return removed, err
	}
	return removed, s.mark(ctx, unseen, false)
}

// inInbox is an Email of the INBOX: the left part of its Message-ID, and its keywords as far as users set them.
type inInbox struct {
	id, name     string
	seen, marked bool
}

// emails reads Emails from a position, the oldest first; there are none behind the last. A nil filter means those of
// all mailboxes.
func (s *jmapSession) emails(ctx context.Context, filter func(*wire.Writer), position int,
	properties ...string) ([]*wire.Value, error) {
	r := client.NewRequest(wire.Mail)
	q := r.Query("Email", s.account, &client.Query{Filter: filter, Sort: "receivedAt", Ascending: true,
		Position: position, Limit: cutAtOnce})
	g := r.GetReferred("Email", s.account, q.At("/ids"), properties...)
	answer, err := s.c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	found, err := answer.Get(q)
	if err != nil {
		return nil, err
	}
	got, err := answer.Get(g)
	if err != nil {
		return nil, err
	}
	return inOrder(found.Get("ids"), got.Get("list"))
}

// readInInbox reads an Email.
func readInInbox(m *wire.Value) (x inInbox) {
	id, _ := m.Get("id").Text()
	x.id = strings.Clone(id)
	x.name = ledger.Bare(messageID(m))
	has := func(keyword string) bool {
		on, _ := m.Get("keywords").Get(keyword).Bool()
		return on
	}
	x.seen, x.marked = has("$seen"), has("$flagged") || has("$answered")
	return x
}

// mark sets the keywords of Emails as they were at the beginning. Other keywords are the server's.
func (s *jmapSession) mark(ctx context.Context, ids []string, seen bool) error {
	for part := range slices.Chunk(ids, cutAtOnce) {
		x := &client.Set{Update: map[string]func(*wire.Writer){}}
		for _, id := range part {
			x.Update[id] = func(w *wire.Writer) {
				if seen {
					w.Bool("keywords/$seen", true)
				} else {
					w.Raw("keywords/$seen", "null")
				}
				w.Raw("keywords/$flagged", "null")
				w.Raw("keywords/$answered", "null")
			}
		}
		o, err := s.set(ctx, "Email", x)
		if err == nil {
			err = o.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
