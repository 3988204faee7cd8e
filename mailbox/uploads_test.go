package mailbox

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"doublet/note"
)

// TestKeptUploads checks keptUploads with random lists. The newest upload stays; in each pool, dropped uploads are
// older than kept ones; the limits hold; and nothing that fits is dropped.
func TestKeptUploads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		const room = 1000
		now := time.Unix(1_800_000_000, 0)
		stale := now.Add(-24 * time.Hour)
		n := 1 + r.IntN(2*maxUploads)
		list := make([]upload, n)
		most := uint64(1 + r.IntN(20))
		for i := range list {
			var id note.UNID
			copy(id[:], fmt.Sprint(i))
			list[i] = upload{id: id, used: r.IntN(2) == 0, at: now.Add(-time.Duration(n-i) * time.Minute),
				Attachment: note.Attachment{Size: r.Uint64N(most)}}
		}
		list[n-1].used = false
		keep := keptUploads(list, stale, room)
		if len(keep) == 0 || keep[len(keep)-1].id != list[n-1].id {
			t.Fatal("the newest is dropped")
		}
		for _, used := range []bool{false, true} {
			count, bytes, whole := 0, uint64(0), true
			limit := maxUploads
			if used {
				limit = maxUsed
			}
			k := len(keep) - 1
			for i := n - 1; i >= 0; i-- {
				u := list[i]
				for k >= 0 && keep[k].used != used {
					k--
				}
				if u.used != used {
					continue
				}
				kept := k >= 0 && keep[k].id == u.id
				fits := whole && count < limit && bytes+u.Size <= room && u.at.After(stale)
				if kept != fits && i < n-1 {
					t.Fatalf("upload %d of %d (used %v): kept %v, fits %v", i, n, used, kept, fits)
				}
				if !kept {
					whole = false
					continue
				}
				count, bytes, k = count+1, bytes+u.Size, k-1
			}
		}
	}
}
