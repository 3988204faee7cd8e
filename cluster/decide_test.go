package cluster

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/note"
)

// at returns a MODSEQ with the given number of terms, slot and counter.
func at(terms int, slot uint8, counter int) note.ModSeq {
	return note.ModSeq(terms<<4|int(slot))<<33 | note.ModSeq(counter)
}

func server(n byte) note.UNID { return note.UNID{n} }

// replicas parses a line of the table: a word for each replica, in order of preference, with its server and flags: s
// self, l live, g gone, k known, L leads, o out, b lost its data, p pending delete, d silent but possibly alive.
func replicas(t *testing.T, line string, last ...note.ModSeq) []standing {
	t.Helper()
	var out []standing
	for i, w := range strings.Fields(line) {
		r := standing{server: server(w[0]), slot: w[0] - 'A'}
		for _, c := range w[1:] {
			switch c {
			case 's':
				r.self, r.live, r.known = true, true, true
			case 'l':
				r.live = true
			case 'k':
				r.live, r.known = true, true
			case 'g':
				r.gone = true
			case 'L':
				r.leads = true
			case 'o':
				r.out = true
			case 'b':
				r.lostData = true
			case 'p':
				r.out, r.goes = true, true
			case 'd': // silent, but possibly alive
			default:
				t.Fatalf("flag %c", c)
			}
		}
		r.at = note.Ledger{Slot: r.slot, Shared: true}
		if i < len(last) {
			r.at.Last = last[i]
		}
		out = append(out, r)
	}
	return out
}

func TestDecide(t *testing.T) {
	t.Parallel()
	one := at(1, 0, 10) // A's first term
	for _, c := range []struct {
		name, line  string
		last        []note.ModSeq
		starting    bool
		lostNumbers bool
		waited      time.Duration
		want        verdict
		with        byte
	}{
		{"we lead", "AsL Bk", []note.ModSeq{one, one}, false, false, 0, rest, 0},
		{"we lead and the mate is dead", "AsL Bg", []note.ModSeq{one}, false, false, 0, rest, 0},
		{"the home leads", "AkL Bs", []note.ModSeq{one, one}, false, false, 0, rest, 0},
		{"the home lives and has not begun yet", "Ak Bs", []note.ModSeq{one, one}, false, false, rankDelay, wait, 0},
		{"the home lives and never begins", "Ak Bs", []note.ModSeq{one, one}, false, false, patience, takeOver, 0},
		{"the home is silent, others may hear it", "Ad Bs", []note.ModSeq{one, one}, false, false, time.Hour, wait, 0},
		{"the home is dead", "Ag Bs", []note.ModSeq{one, one}, false, false, 0, takeOver, 0},
		{"the home is dead, we have just started", "Ag Bs", []note.ModSeq{one, one}, true, false, 0, wait, 0},
		{"the home is dead, and we are out of service", "Ag Bso", []note.ModSeq{one, one}, false, false, 0, wait, 0},
		{"the home has lost all, and ours is pending delete", "Akob Bsp", []note.ModSeq{0, one}, false, false, patience,
			takeOver, 0},
		{"the home is dead, and ours is pending delete", "Ag Bsp", []note.ModSeq{one, one}, false, false, 0,
			takeOver, 0},
		{"the home is silent, and ours is pending delete", "Ad Bsp", []note.ModSeq{one, one}, false, false,
			time.Hour, wait, 0},
		{"the home is dead, another has all, and ours is pending delete", "Ag Bsp Ck", []note.ModSeq{one, one, one},
			false, false, time.Hour, wait, 0},
		{"the home is dead, another has not all, and ours is pending delete", "Ag Bsp Ck",
			[]note.ModSeq{one, one, one - 1}, false, false, 0, takeOver, 0},
		{"we are the home by record, all others have lost all, and ours is pending delete", "Asp Bkob",
			[]note.ModSeq{one, 0}, false, false, 0, takeOver, 0},
		{"the home is damaged", "Ako Bs", []note.ModSeq{one, one}, false, false, 0, takeOver, 0},
		{"the home is being taken out of service and still leads", "AkoL Bs", []note.ModSeq{one, one}, false, false,
			0, rest, 0},
		{"first in order among equals", "Ag Bs Ck", []note.ModSeq{one, one, one}, false, false, 0, takeOver, 0},
		{"second in order among equals", "Ag Bk Cs", []note.ModSeq{one, one, one}, false, false, 0, wait, 0},
		{"second in order, the first does not act", "Ag Bk Cs", []note.ModSeq{one, one, one}, false, false, rankDelay,
			takeOver, 0},
		{"the first in order is behind", "Ag Bk Cs", []note.ModSeq{one, one - 1, one}, false, false, 0, takeOver, 0},
		{"we are behind", "Ag Bs Ck", []note.ModSeq{one, one - 1, one}, false, false, time.Hour, wait, 0},
		{"a replica that lives has not spoken", "Ag Bs Cl", []note.ModSeq{one, one, 0}, false, false, 0, ask, 0},
		{"one that knows most is out of service", "Ag Bs Cko", []note.ModSeq{one, one - 1, one}, false, false, 0,
			takeOver, 0},
		{"the home by record is no replica any more", "Bs Ck", []note.ModSeq{one, one}, false, false, 0, takeOver, 0},
		{"we start as home, all are there", "As Bk Ck", []note.ModSeq{one, one, one - 5}, true, false, 0, resume, 0},
		{"we start as home, one has not spoken", "As Bl", []note.ModSeq{one}, false, false, 0, ask, 0},
		{"we start as home, the mate is not there yet", "As Bg", []note.ModSeq{one}, true, false, 0, wait, 0},
		{"we start as home, the mate does not come", "As Bg", []note.ModSeq{one}, false, false, 0, takeOver, 0},
		{"we start as home, the mate has lost its disk", "As Bkb", []note.ModSeq{one, 0}, false, false, 0, takeOver, 0},
		{"we were set back: the mate knows more of our term", "As Bk", []note.ModSeq{one, one + 3}, false, true,
			0, wait, 0},
		{"we were set back and have caught up", "As Bk", []note.ModSeq{one, one}, false, true, 0, takeOver, 0},
		{"we come back and another has taken over", "As BkL", []note.ModSeq{one, at(2, 1, 5)}, false, false, 0,
			stepDown, 'B'},
		{"split: the higher term survives", "AsL BkL", []note.ModSeq{one, at(2, 1, 5)}, false, false, 0, stepDown, 'B'},
		{"split: ours is the higher", "AkL BsL", []note.ModSeq{one, at(2, 1, 5)}, false, false, 0, rest, 0},
		{"split of three: who follows the survivor", "AkL BkL Cs", []note.ModSeq{one, at(2, 1, 5), one}, false, false,
			0, stepDown, 'B'},
		{"split: the survivor's home died, one knows of its term", "AsL Bg Ck", []note.ModSeq{one, 0, at(2, 1, 5)},
			false, false, 0, stop, 0},
		{"we stopped; who knows of the higher term goes first", "As Bg Ck", []note.ModSeq{one, 0, at(2, 1, 5)}, false,
			false, time.Hour, wait, 0},
		{"who knows of the higher term takes over", "Ak Bg Cs", []note.ModSeq{one, 0, at(2, 1, 5)}, false, false, 0,
			takeOver, 0},
		{"not a replica", "AkL", []note.ModSeq{one}, false, false, 0, rest, 0},
	} {
		q := question{replicas: replicas(t, c.line, c.last...), starting: c.starting, lostNumbers: c.lostNumbers,
			waited: c.waited}
		got, with := decide(&q)
		if got != c.want || with != (note.UNID{c.with}) {
			t.Errorf("%s: %v %v, want %v", c.name, got, with[0], c.want)
		}
	}
	// A replica that was set back waits for a home, or a long time before it leads alone.
	q := question{replicas: replicas(t, "As Bg", one, one), suspect: true, waited: time.Minute}
	if got, _ := decide(&q); got != wait {
		t.Errorf("set back, alone: %v", got)
	}
	q.waited = suspectPatience
	if got, _ := decide(&q); got != takeOver {
		t.Errorf("set back, alone for long: %v", got)
	}
	q = question{replicas: replicas(t, "Ag Bs", one, one), suspect: true, waited: time.Minute}
	if got, _ := decide(&q); got != wait {
		t.Errorf("set back, the home is dead: %v", got)
	}
	// A home that has our last number continues from it: there is nothing to step down from.
	q = question{replicas: replicas(t, "As BkL", one, at(2, 1, 5))}
	q.replicas[1].at.Ended = []note.End{{Last: one}}
	if got, _ := decide(&q); got != rest {
		t.Errorf("the home took over from where we stand: %v", got)
	}
	q.replicas[0].competed = true
	if got, _ := decide(&q); got != stepDown {
		t.Errorf("the home took over from where we stand, and clients were here meanwhile: %v", got)
	}
	q.replicas[0].competed = false
	q.replicas[1].at.Ended = []note.End{{Last: one - 1}}
	if got, _ := decide(&q); got != stepDown {
		t.Errorf("the home took over before our last number: %v", got)
	}
}

// TestDecideAgrees runs decide at replicas that see each other, in random situations. At most one may become home in
// the first round, and after some rounds exactly one must lead.
func TestDecideAgrees(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 20_000 {
		n := 1 + rng.IntN(5)
		world := make([]standing, n)
		alive := 0
		for i := range world {
			r := &world[i]
			*r = standing{server: server(byte(i + 1)), slot: uint8(i), gone: true}
			home := uint8(rng.IntN(n))
			r.at = note.Ledger{Slot: r.slot, Shared: true, Last: at(1+rng.IntN(3), home, rng.IntN(4))}
			r.live = rng.IntN(3) > 0
			r.known, r.gone = r.live, !r.live
			r.leads = r.live && r.at.Last.Home() == r.slot && rng.IntN(3) == 0
			if r.live {
				alive++
			}
		}
		if alive == 0 {
			continue
		}
		for step := range 20 {
			became := 0
			next := append([]standing(nil), world...)
			for i := range world {
				if !world[i].live {
					continue
				}
				q := question{replicas: append([]standing(nil), world...), waited: time.Duration(step) * rankDelay}
				q.replicas[i].self = true
				got, with := decide(&q)
				r := &next[i]
				switch got {
				case resume:
					r.leads = true
					became++
				case takeOver:
					if err := r.at.TakeOver(); err != nil {
						t.Fatal(err)
					}
					r.leads = true
					became++
				case stop:
					r.leads = false
				case stepDown:
					r.leads = false
					r.at.StepDown(&world[int(with[0])-1].at)
				}
			}
			if became > 1 && step == 0 {
				t.Fatalf("round %d: %d became home at once: %+v", round, became, world)
			}
			world = next
			for i := range world { // followers catch up
				for j := range world {
					a, b := &world[i].at, &world[j].at
					if world[i].live && world[j].live && world[j].leads && !world[i].leads && a.Prefix(b) {
						a.Adopt(b, b.Last)
						a.Partial, a.Complete, a.High = false, 0, 0
					}
				}
			}
		}
		leads := 0
		for i := range world {
			if world[i].live && world[i].leads {
				leads++
			}
		}
		if leads != 1 {
			t.Fatalf("round %d: %d lead at the end: %+v", round, leads, world)
		}
	}
}
