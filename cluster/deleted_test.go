package cluster

import (
	"reflect"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// TestDeletedReplicates deletes messages at the primary. The mate lists the same ones, restores one after it took over,
// and purges the other at its time; the first member follows.
func TestDeletedReplicates(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	home, mate := p.nodes[0], p.nodes[1]
	file := func(n *paired) *mailbox.File { return n.mail.File(note.Who{Person: note.UNID{9}}, p.db) }
	list := func(n *paired) []mailbox.Recoverable {
		t.Helper()
		all, _, err := file(n).Recoverable(p.ctx, time.Time{})
		p.must(err)
		for i := range all {
			for k := range all[i].Folders { // ids of notes differ between replicas
				all[i].Folders[k] = mailbox.Folder{UNID: all[i].Folders[k].UNID, Name: all[i].Folders[k].Name}
			}
		}
		return all
	}
	inbox := func(n *paired) int {
		t.Helper()
		f, err := file(n).Folder(p.ctx, mailbox.Inbox)
		p.must(err)
		return int(f.Total)
	}
	p.deliver(home)
	p.deliver(home)
	v, _, err := file(home).Open(p.ctx, mailbox.Inbox, false)
	p.must(err)
	uids, err := v.UIDs(p.ctx)
	p.must(err)
	p.must(v.Settle(p.ctx, nil, uids))
	p.run()
	here, there := list(home), list(mate)
	if len(here) != 2 || !reflect.DeepEqual(here, there) || inbox(home) != 0 || inbox(mate) != 0 {
		t.Fatalf("here %+v\nthere %+v", here, there)
	}
	p.must(home.HandOvers.HandOver(p.ctx, p.db, mate.Self()))
	p.run()
	res, err := file(mate).Recover(p.ctx, []note.UNID{here[0].UNID})
	p.must(err)
	p.must(res[0].Err)
	p.clock.Advance(keepDeleted)
	n, err := mate.mail.PurgeRecoverable(p.ctx, p.db, nil)
	p.must(err)
	p.run()
	for i, x := range p.nodes {
		if got := list(x); n != 1 || len(got) != 0 || inbox(x) != 1 {
			t.Errorf("member %d: %d can be restored, %d in the INBOX, %d purged", i, len(got), inbox(x), n)
		}
	}
}
