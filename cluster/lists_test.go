package cluster

import (
	"slices"
	"testing"
	"time"

	"doublet/bus/memory"
	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
)

// TestListsMerge changes lists of a mail file on both sides of a split. No entry is lost after it: blocked senders,
// snoozed messages and messages that wait for their time, some of which one side made and the other canceled.
func TestListsMerge(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	file := func(n *paired) *mailbox.File { return n.mail.File(note.Who{Person: note.UNID{9}}, p.db) }
	change := func(n *paired, fn func(c *mailbox.Changing) error) {
		t.Helper()
		res, err := file(n).Change(p.ctx, 1, func(c *mailbox.Changing, _ int) error { return fn(c) })
		p.must(err)
		p.must(res.Errs[0])
	}
	block := func(n *paired, sender string) {
		t.Helper()
		change(n, func(c *mailbox.Changing) error {
			list, err := c.BlockedSenders()
			p.must(err)
			return c.SetBlockedSenders(append(list, sender))
		})
	}
	put := func(n *paired, id byte, canceled bool) {
		t.Helper()
		change(n, func(c *mailbox.Changing) error {
			list, err := submission.Read(c.Reading, file(n), p.clock.Now())
			p.must(err)
			at := p.clock.Now().Unix() + 10_000 + int64(id)
			m := submission.Record{ID: note.UNID{id}, SendAt: at, Canceled: canceled}
			p.must(m.Put(c))
			return list.Put(c, []submission.Entry{m.Entry()}, nil)
		})
	}
	inbox := func(n *paired) (list []note.UNID) {
		t.Helper()
		view, _, err := file(n).Open(p.ctx, mailbox.Inbox, true)
		p.must(err)
		all := mailbox.Set{{Start: 1}}
		p.must(view.Fetch(p.ctx, all, true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
			u, err := note.ParseUNID(m.EmailID()[1:])
			list = append(list, u)
			return false, err
		}, func() error { return nil }))
		return list
	}
	snooze := func(n *paired, u note.UNID) {
		t.Helper()
		change(n, func(c *mailbox.Changing) error { return c.Snooze(u, p.clock.Now().Add(time.Hour)) })
	}
	for range 3 {
		p.deliver(p.nodes[0])
	}
	put(p.nodes[0], 1, false)
	p.run()
	mail := inbox(p.nodes[0])

	p.net.SetPolicy(func(memory.Message) memory.Fate { return memory.Lose })
	for range 20 {
		p.run()
	}
	if now := p.leaders(); !slices.Equal(now, []int{0, 1}) {
		t.Fatalf("members %d lead during the split", now)
	}
	for i, n := range p.nodes {
		block(n, []string{"a@a.example", "b@b.example"}[i])
		snooze(n, mail[i])
	}
	put(p.nodes[0], 2, false)
	put(p.nodes[1], 1, true)
	put(p.nodes[1], 3, false)
	p.net.SetPolicy(nil)
	for range 20 {
		p.run()
	}
	for i, n := range p.nodes {
		p.must(file(n).Read(p.ctx, func(d *mailbox.Reading) error {
			blocked, err := d.BlockedSenders()
			p.must(err)
			if !slices.Equal(blocked, []string{"a@a.example", "b@b.example"}) {
				t.Errorf("member %d blocks %q", i, blocked)
			}
			snoozed, err := d.Snoozed()
			p.must(err)
			if len(snoozed) != 2 {
				t.Errorf("member %d: snoozed are %v of %v", i, snoozed, mail)
			}
			list, err := submission.Read(d, file(n), p.clock.Now())
			p.must(err)
			var ids []byte
			for _, m := range list.Entries {
				ids = append(ids, m.ID[0])
				if m.Canceled != (m.ID[0] == 1) {
					t.Errorf("member %d: submission %d is canceled: %v", i, m.ID[0], m.Canceled)
				}
			}
			if !slices.Equal(ids, []byte{1, 2, 3}) {
				t.Errorf("member %d: submissions are %d", i, ids)
			}
			return nil
		}))
	}
}
