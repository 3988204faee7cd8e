package mailbox

import (
	"math/rand/v2"
	"testing"
	"time"

	"doublet/note"
)

// TestKeptUploads checks surplus with random lists. The newest upload stays; in each pool, dropped uploads are older
// than kept ones; the limits hold; nothing fresh is dropped from a pool that keeps its limits, and not more than an
// eighth of a limit from one that does not; and left is what the limits leave.
func TestKeptUploads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		const room = 1000
		now := time.Unix(1_800_000_000, 0)
		stale := now.Add(-24 * time.Hour)
		n := 1 + r.IntN(3*maxUploads)
		list := make([]upload, n)
		most := 1 + r.Int64N(20)
		for i := range list {
			list[i] = upload{id: note.ID(i), used: r.IntN(2) == 0, at: now.Add(-time.Duration(n-i) * time.Minute),
				size: r.Int64N(most)}
		}
		list[n-1].used = false
		drop, left := surplus(list, stale, room)
		dropped := map[note.ID]bool{}
		for _, u := range drop {
			dropped[u.id] = true
		}
		if len(dropped) != len(drop) || dropped[list[n-1].id] {
			t.Fatal("one is dropped twice, or the newest")
		}
		for k, used := range []bool{waitingPool: false, usedPool: true} {
			limit := pool{maxUploads, room}
			if used {
				limit.count = maxUsed
			}
			var fresh, kept pool
			var next upload // the newest fresh one that was dropped
			for i, u := range list {
				switch {
				case u.used != used:
				case !u.at.After(stale) && i < n-1:
					if !dropped[u.id] {
						t.Fatalf("upload %d of %d is stale and kept", i, n)
					}
				case dropped[u.id]:
					if kept.count > 0 {
						t.Fatalf("upload %d of %d is dropped, and an older one kept", i, n)
					}
					fresh, next = fresh.with(u), u
				default:
					fresh, kept = fresh.with(u), kept.with(u)
				}
			}
			if !kept.within(limit) {
				t.Fatalf("%+v of %+v kept", kept, limit)
			}
			low := pool{limit.count - limit.count/8, limit.bytes - limit.bytes/8}
			switch {
			case fresh.within(limit) && kept != fresh:
				t.Fatalf("%+v of %+v kept, all within %+v", kept, fresh, limit)
			case kept != fresh && kept.with(next).within(low):
				t.Fatalf("%+v kept, where one more is within %+v", kept, low)
			}
			if free := limit.minus(kept); left[k] != free {
				t.Fatalf("left %+v, want %+v", left[k], free)
			}
		}
	}
}

// TestUploadBook checks that a pass is due when the pool that an upload or a use concerns is full, and not when the
// other is.
func TestUploadBook(t *testing.T) {
	const db = note.DatabaseID(1)
	one, by := pool{1, 10}, lead{0, 16}
	var x uploadBook
	charge := func(want bool, by lead, turned, added pool) {
		t.Helper()
		if got := x.charge(db, by, turned, added); got != want {
			t.Errorf("charge %+v, turned %+v: %v, left %+v", added, turned, got, x.left[db])
		}
	}
	charge(false, by, pool{}, one)
	x.refill(db, by, [2]pool{waitingPool: {2, 100}, usedPool: {}})
	charge(true, by, pool{}, one)
	charge(true, by, pool{}, one)
	charge(false, by, pool{}, one)
	x.refill(db, by, [2]pool{waitingPool: {1, 100}, usedPool: {2, 100}})
	charge(true, by, pool{}, one)
	charge(true, by, one, one) // a use makes room for another that waits
	charge(true, by, one, one)
	charge(false, by, one, one)
	x.refill(db, by, [2]pool{waitingPool: {9, 100}, usedPool: {9, 9}})
	charge(false, by, one, one)
	x.refill(db, by, [2]pool{waitingPool: {9, 9}, usedPool: {9, 100}})
	charge(false, by, pool{}, one)
	for _, other := range []lead{{0, 33}, {1, 16}} {
		x.refill(db, by, [2]pool{waitingPool: {9, 100}, usedPool: {9, 100}})
		charge(false, other, pool{}, one)
	}
	charge(true, by, pool{}, one)
	x.spend(db)
	charge(false, by, pool{}, one)
}
