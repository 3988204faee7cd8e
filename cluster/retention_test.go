package cluster

import (
	"testing"
	"time"

	"doublet/directory/retention"
	"doublet/mailbox"
	"doublet/note"
)

// TestRetentionAtPrimary checks that only the primary of a mail file applies policies, that the other member follows,
// and that the new primary goes on after a hand-over.
func TestRetentionAtPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	home, mate := p.nodes[0], p.nodes[1]
	x := &mailbox.Retention{Policies: []retention.Policy{
		{Folders: []string{"INBOX"}, Days: 1, Action: retention.Trash},
		{Folders: []string{"Trash"}, Days: 1, Action: retention.Delete},
	}}
	retain := func(when string, n *paired, want mailbox.RetainedSum) {
		t.Helper()
		sum, err := n.mail.Retain(p.ctx, p.db, x)
		p.must(err)
		if sum.TrashedBytes, sum.DeletedBytes = 0, 0; sum != want {
			t.Errorf("%s: %+v, want %+v", when, sum, want)
		}
		p.run()
	}
	holds := func(when string, inbox, trash, bin int) {
		t.Helper()
		for i, n := range p.nodes {
			f := n.mail.File(note.Who{Person: note.UNID{9}}, p.db)
			in, err := f.Folder(p.ctx, mailbox.Inbox)
			p.must(err)
			away, err := f.Folder(p.ctx, mailbox.UseTrash)
			p.must(err)
			gone, _, err := f.Recoverable(p.ctx, time.Time{})
			p.must(err)
			if int(in.Total) != inbox || int(away.Total) != trash || len(gone) != bin {
				t.Errorf("%s: member %d has %d in the INBOX, %d in the Trash, %d deleted", when, i, in.Total,
					away.Total, len(gone))
			}
		}
	}
	p.deliver(home)
	p.run()
	p.clock.Advance(25 * time.Hour)
	retain("the mate", mate, mailbox.RetainedSum{})
	holds("after the mate", 1, 0, 0)
	retain("the primary", home, mailbox.RetainedSum{Trashed: 1})
	holds("after the primary", 0, 1, 0)
	p.must(home.HandOvers.HandOver(p.ctx, p.db, mate.Self()))
	p.run()
	p.clock.Advance(25 * time.Hour)
	retain("the old primary", home, mailbox.RetainedSum{})
	holds("after the old primary", 0, 1, 0)
	retain("the new primary", mate, mailbox.RetainedSum{Deleted: 1})
	holds("after the new primary", 0, 0, 1)
}
