package note

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestLedger simulates sixteen replicas that take over from each other, with and without a hand-over. Each knows only
// an earlier state of the others. No UID is ever assigned twice, and the MODSEQs of one replica only increase.
func TestLedger(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var slots [Slots]Ledger
		for i := range slots {
			slots[i] = Ledger{Slot: uint8(i), Shared: true}
		}
		given := map[uint32]int{}
		mods := map[ModSeq]int{}
		homes := map[int]bool{0: true} // more than one during a split
		var past []Ledger
		for step := range 400 {
			i := rng.IntN(Slots)
			l := &slots[i]
			switch {
			case homes[i] && rng.IntN(8) == 0: // hand over, exactly
				j := rng.IntN(Slots)
				if n := &slots[j]; j != i && !homes[j] && n.Last.Term() <= l.Last.Term() {
					uid := n.UID
					if n.Last, n.Ended = l.Last, l.Ended; n.HandOver(l) != nil {
						t.Fatal("terms have run out")
					}
					if uid <= l.UID && (n.UID != l.UID || n.Skip != l.Skip) {
						t.Fatalf("seed %d step %d: the open block was not passed on", seed, step)
					}
					delete(homes, i)
					homes[j] = true
				}
			case homes[i]:
				for range rng.IntN(3) {
					if m := l.NextMod(); mods[m] != 0 && mods[m] != i+1 {
						t.Fatalf("seed %d step %d: MODSEQ %x given twice", seed, step, m)
					} else {
						mods[m] = i + 1
					}
				}
				l.UID += min(uint32(rng.IntN(40_000)), 1<<16-1-l.UID&(1<<16-1)) // much mail within the block
				uid, err := l.NextUID()
				if err != nil {
					t.Fatal(err)
				}
				if who := given[uid]; who != 0 {
					t.Fatalf("seed %d step %d: UID %d given by %d and by %d", seed, step, uid, who-1, i)
				}
				given[uid] = i + 1
				past = append(past, *l)
			case rng.IntN(10) == 0: // takes over, knowing something old of another
				if len(past) > 0 {
					old := past[rng.IntN(len(past))]
					l.Last, l.UID = max(l.Last, old.Last), max(l.UID, old.UID)
				}
				before := l.Last
				if err := l.TakeOver(); err != nil {
					t.Fatal(err)
				}
				if l.Last <= before {
					t.Fatalf("seed %d: MODSEQ went back", seed)
				}
				homes[i] = true
			}
		}
	}
}

func TestLedgerAlone(t *testing.T) {
	t.Parallel()
	l := Ledger{}
	for want := uint32(1); want <= 70_000; want++ {
		if uid, err := l.NextUID(); err != nil || uid != want {
			t.Fatalf("%d, want %d: %v", uid, want, err)
		}
	}
	l = Ledger{Slot: 3, Shared: true, UID: 1<<16 - 1}
	if uid, _ := l.NextUID(); uid != 3<<16 {
		t.Errorf("the next own block begins at %d", uid)
	}
	l = Ledger{Slot: 3, Shared: true, UID: 5 << 16}
	if err := l.TakeOver(); err != nil {
		t.Fatal(err)
	}
	if uid, _ := l.NextUID(); uid != 35<<16 { // the first block of slot 3 above 5 + 16
		t.Errorf("after a takeover UIDs go on at block %d", uid>>16)
	}
	l = Ledger{UID: MaxUID - 1}
	if uid, err := l.NextUID(); err != nil || uid != MaxUID {
		t.Errorf("%d: %v", uid, err)
	}
	if _, err := l.NextUID(); !errors.Is(err, ErrExhausted) {
		t.Error("UIDs never run out: ", err)
	}
	l = Ledger{Last: maxTerm << counterBits}
	if err := l.TakeOver(); !errors.Is(err, ErrExhausted) {
		t.Error("terms never run out: ", err)
	}
}

// TestKnows checks that after a takeover a replica does not know what the old home may have shown above its own
// knowledge.
func TestKnows(t *testing.T) {
	t.Parallel()
	l := Ledger{Slot: 2, Shared: true, Last: 100}
	if !l.Knows(0) || !l.Knows(100) || l.Knows(101) {
		t.Error("within the first term")
	}
	if err := l.TakeOver(); err != nil {
		t.Fatal(err)
	}
	first := l.NextMod()
	if !l.Knows(100) || l.Knows(101) || !l.Knows(first) || l.Knows(first+1) || l.Knows(first+1<<counterBits) {
		t.Error("a MODSEQ of the lost branch must not be known, those before and after must")
	}
	if err := l.TakeOver(); err != nil {
		t.Fatal(err)
	}
	if !l.Knows(100) || l.Knows(101) || !l.Knows(first) || l.Knows(first+1) {
		t.Error("after a second takeover")
	}
}

// A replica that takes over in the middle of a run of pages has shown nothing above the position where it was complete.
func TestTakeOverInPart(t *testing.T) {
	l := Ledger{Slot: 1, Shared: true, Last: FirstMod(0) + 5, UID: 7}
	l.Part()
	l.Adopt(&Ledger{Shared: true, Last: FirstMod(0) + 20, UID: 12}, FirstMod(0)+15)
	if err := l.TakeOver(); err != nil {
		t.Fatal(err)
	}
	if want := (End{FirstMod(0) + 5, 7}); len(l.Ended) != 1 || l.Ended[0] != want {
		t.Errorf("the old term ended at %v, want %v", l.Ended, want)
	}
	other := Ledger{Shared: true, Last: FirstMod(2) + 1<<50, UID: 12, Ended: []End{{FirstMod(0) + 20, 12}}}
	if behind, known, shown, ok := other.ToHeal(&l); !ok || behind != FirstMod(0)+5 || known != 7 || shown != 12 {
		t.Errorf("to heal: behind %x, above %d up to %d, %v", uint64(behind), known, shown, ok)
	}
}

// If the other replica was a home until now or in a term of its own, everything that the survivor has numbered since is
// numbered again, even if the other numbered nothing. If the other is only behind, or was restored, nothing is numbered
// again.
func TestToHealOfOneThatLed(t *testing.T) {
	survivor := Ledger{Slot: 1, Shared: true, Last: FirstMod(1) + 1<<40 + 4, UID: 70_000,
		Ended: []End{{FirstMod(0) + 5, 7}}}
	for _, c := range []struct {
		name  string
		other Ledger
		shown uint32
	}{
		{"behind", Ledger{Shared: true, Last: FirstMod(0) + 5, UID: 7}, 0},
		{"led, and gave nothing", Ledger{Shared: true, Last: FirstMod(0) + 5, UID: 7, Away: true}, 70_000},
		{"led in a term of its own, and died", Ledger{Shared: true, Last: 2 << (counterBits + 4), UID: 7,
			Ended: []End{{FirstMod(0) + 5, 7}}}, 70_000},
		{"had more when it died", Ledger{Shared: true, Last: FirstMod(0) + 6, UID: 8}, 8},
		{"led, and gave more", Ledger{Shared: true, Last: FirstMod(0) + 6, UID: 8, Away: true}, 70_000},
		{"restored", Ledger{Shared: true, Last: FirstMod(0) + 5, UID: 7, Away: true, Restored: true}, 0},
		{"another numbering", Ledger{Shared: true, Last: FirstMod(0) + 6, UID: 8, Away: true, Epoch: 1}, 0},
		{"new", Ledger{Shared: true, Away: true}, 0},
	} {
		behind, known, shown, ok := survivor.ToHeal(&c.other)
		if ok != (c.shown > 0) || ok && (behind != FirstMod(0)+5 || known != 7 || shown != c.shown) {
			t.Errorf("%s: behind %x, above %d up to %d, %v", c.name, uint64(behind), known, shown, ok)
		}
	}
}

// A repair of numbers from before a restart does not count for the numbers after it.
func TestRestartForgetsHealed(t *testing.T) {
	l := Ledger{Slot: 1, Shared: true, Last: FirstMod(1) + 1<<40, UID: 5, Ended: []End{{FirstMod(0) + 5, 2}}}
	l.Heal(0, 0, MaxUID)
	l.Restart()
	other := Ledger{Shared: true, Epoch: 1, Last: FirstMod(0) + 6, UID: 70_000, Ended: nil}
	if _, known, shown, ok := l.ToHeal(&other); !ok || shown != 70_000 || known >= shown {
		t.Errorf("above %d up to %d, %v", known, shown, ok)
	}
}

// A request to step down that arrives late, after its sender stepped down and led again, repairs nothing.
func TestToHealOfOneThatLedAgain(t *testing.T) {
	old := Ledger{Shared: true, Last: FirstMod(0) + 6, UID: 8, Away: true}
	again := FirstMod(0) + 2<<(counterBits+4)
	survivor := Ledger{Slot: 1, Shared: true, Last: again + 1<<counterBits, UID: 140_000,
		Ended: []End{{FirstMod(0) + 5, 7}, {FirstMod(1) + 1<<(counterBits+4), 70_000}}}
	if _, _, _, ok := survivor.ToHeal(&old); !ok {
		t.Error("a home that has not led since is not repaired")
	}
	survivor.Ended = append(survivor.Ended, End{again, 70_000})
	if _, _, _, ok := survivor.ToHeal(&old); ok {
		t.Error("an old state of a home is repaired again")
	}
}
