package balance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/note"
)

func id(n int) note.UNID { return note.UNID{byte(n + 1)} }

// apply returns the databases after the moves.
func apply(t *testing.T, dbs []Database, moves []Move) []Database {
	t.Helper()
	out := slices.Clone(dbs)
	for i := range out {
		out[i].Replicas = slices.Clone(out[i].Replicas)
	}
	for _, m := range moves {
		k := slices.IndexFunc(out, func(d Database) bool { return d.ID == m.Database })
		d := &out[k]
		from, to := slices.Index(d.Replicas, m.From), slices.Index(d.Replicas, m.To)
		if d.Fixed {
			t.Fatalf("%s is fixed and moves", d.ID)
		}
		switch m.Kind {
		case Replica:
			if from < 0 || to >= 0 {
				t.Fatalf("%+v of %v", m, d.Replicas)
			}
			d.Replicas[from] = m.To
		case Home:
			if to < 0 {
				t.Fatalf("%+v of %v", m, d.Replicas)
			}
			d.Replicas = slices.Insert(slices.Delete(d.Replicas, to, to+1), 0, m.To)
		}
	}
	return out
}

// one returns a database with replicas on the servers with the given numbers.
func one(n int, activity float64, size uint64, on ...int) Database {
	d := Database{ID: note.DatabaseID(n), Activity: activity, Size: size}
	for _, s := range on {
		d.Replicas = append(d.Replicas, id(s))
	}
	return d
}

func servers(n int) []Server {
	var out []Server
	for i := range n {
		out = append(out, Server{ID: id(i)})
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	busy := []Database{one(1, 400, 0, 0, 1), one(2, 300, 0, 0, 1), one(3, 200, 0, 0, 1), one(4, 100, 0, 0, 1)}
	for _, c := range []struct {
		name    string
		servers []Server
		dbs     []Database
		o       Options
		want    string
	}{
		{"nothing", nil, nil, Options{}, ""},
		{"one server", servers(1), busy[:1], Options{}, ""},
		{"all homes on one of two", servers(2), busy, Options{}, "1 home 0>1, 4 home 0>1"},
		{"no more than", servers(2), busy, Options{Most: 1}, "1 home 0>1"},
		{"too little to judge", servers(2), []Database{one(1, 20, 0, 0, 1), one(2, 20, 0, 0, 1)}, Options{}, ""},
		{"within the limits", servers(2), []Database{one(1, 500, 0, 0, 1), one(2, 500, 0, 1, 0), one(3, 200, 0, 0, 1)},
			Options{}, ""},
		{"one database is all there is", servers(2), []Database{one(1, 5000, 0, 0, 1)}, Options{}, ""},
		{"twice the machine takes twice", []Server{{ID: id(0), Capacity: 2}, {ID: id(1), Capacity: 1}},
			[]Database{one(1, 100, 0, 0, 1), one(2, 100, 0, 0, 1), one(3, 100, 0, 0, 1)}, Options{}, "1 home 0>1"},
		{"a closed server gets nothing", []Server{{ID: id(0)}, {ID: id(1), Closed: true}}, busy, Options{}, ""},
		{"what is fixed stays", servers(2), []Database{{ID: 1, Activity: 900, Replicas: []note.UNID{id(0), id(1)},
			Fixed: true}, one(2, 100, 0, 0, 1)}, Options{}, "2 home 0>1"},
		{"replica of a former member", servers(2), []Database{one(1, 900, 0, 0, 7), one(2, 900, 0, 0, 1)}, Options{},
			"2 home 0>1"},
		{"sites", []Server{{ID: id(0), Site: "a"}, {ID: id(1), Site: "a"}, {ID: id(2), Site: "b"}},
			[]Database{one(1, 0, 9, 0, 1)}, Options{}, "1 replica 1>2"},
		{"an empty server", servers(3), []Database{one(1, 0, 0, 0, 1), one(2, 0, 0, 1, 0), one(3, 0, 0, 0, 1)},
			Options{Fill: true}, "1 replica 1>2, 2 replica 0>2"},
		{"a server that is not empty enough", servers(3), []Database{one(1, 0, 0, 0, 1), one(2, 0, 0, 1, 2),
			one(3, 0, 0, 0, 2), one(4, 0, 0, 0, 1)}, Options{Fill: true}, ""},
		{"the only replica moves", servers(2), []Database{one(1, 0, 0, 0), one(2, 0, 0, 0)}, Options{},
			"1 replica 0>1, 1 home 0>1"},
	} {
		moves, _, _ := Plan(c.servers, c.dbs, c.o)
		apply(t, c.dbs, moves)
		got := ""
		for i, m := range moves {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprintf("%d %s %d>%d", m.Database, m.Kind, int(m.From[0])-1, int(m.To[0])-1)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPlanRandom checks plans for random clusters: the number of replicas stays the same, closed servers get nothing,
// no plan reduces the number of sites of a database or makes the load less even, and repeated plans soon become empty.
func TestPlanRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		list := servers(2 + rng.IntN(6))
		sites, least := 1+rng.IntN(3), 1+rng.IntN(2)
		for i := range list {
			list[i].Capacity = float64(rng.IntN(4))
			list[i].Closed = rng.IntN(6) == 0
			list[i].Site = string(rune('a' + rng.IntN(sites)))
		}
		var dbs []Database
		for n := range rng.IntN(120) {
			on := rng.Perm(len(list))[:min(len(list), least+rng.IntN(2))]
			d := one(n+1, rng.ExpFloat64()*100, uint64(rng.ExpFloat64()*1e7), on...)
			d.Fixed = rng.IntN(10) == 0
			dbs = append(dbs, d)
		}
		o := Options{Fill: rng.IntN(4) == 0}
		moves, before, after := Plan(list, dbs, o)
		rng.Shuffle(len(dbs), func(i, j int) { dbs[i], dbs[j] = dbs[j], dbs[i] })
		again, _, _ := Plan(list, dbs, o)
		if !slices.Equal(moves, again) {
			t.Fatalf("seed %d: %v, then %v", seed, moves, again)
		}
		then := apply(t, dbs, moves)
		closed := map[note.UNID]bool{}
		at := map[note.UNID]string{}
		for _, s := range list {
			closed[s.ID], at[s.ID] = s.Closed, s.Site
		}
		for _, m := range moves {
			if closed[m.To] {
				t.Fatalf("seed %d: %+v: it is closed", seed, m)
			}
		}
		count := func(list []note.UNID) int {
			seen := map[string]bool{}
			for _, r := range list {
				seen[at[r]] = true
			}
			return len(seen)
		}
		for i, d := range then {
			if len(d.Replicas) != len(dbs[i].Replicas) || count(d.Replicas) < count(dbs[i].Replicas) {
				t.Fatalf("seed %d: %v became %v", seed, dbs[i].Replicas, d.Replicas)
			}
		}
		rest, _, _ := Plan(list, then, o)
		// The move of a home may release a replica that could not move before, so a second plan may have moves; it must
		// end soon.
		for range 3 {
			if len(rest) == 0 {
				break
			}
			then = apply(t, then, rest)
			rest, _, _ = Plan(list, then, o)
		}
		if len(rest) > 0 {
			t.Fatalf("seed %d: it does not settle: %v", seed, rest)
		}
		// moves with its home, by size
		alone := slices.ContainsFunc(dbs, func(d Database) bool { return len(d.Replicas) == 1 })
		if worst(list, before) < worst(list, after)-1e-9 && !o.Fill && sites == 1 && !alone {
			t.Fatalf("seed %d: less even: %v, then %v", seed, before, after)
		}
	}
}

// worst returns the maximum activity of an open server relative to its capacity.
func worst(list []Server, loads []Load) float64 {
	top := 0.0
	for _, l := range loads {
		k := slices.IndexFunc(list, func(s Server) bool { return s.ID == l.Server })
		if !list[k].Closed {
			top = max(top, l.Activity/cmp.Or(list[k].Capacity, 1))
		}
	}
	return top
}

// BenchmarkPlan plans for six evenly loaded servers, the usual case, and for filling an empty seventh one with at most
// 32 moves.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		var dbs []Database
		for i := range n {
			dbs = append(dbs, one(i+1, float64(i%50), uint64(i%1000)*1000, i%6, (i+1)%6))
		}
		b.Run(fmt.Sprintf("even/%d", n), func(b *testing.B) {
			for b.Loop() {
				Plan(servers(6), dbs, Options{Most: 1000})
			}
		})
		b.Run(fmt.Sprintf("fill/%d", n), func(b *testing.B) {
			for b.Loop() {
				Plan(servers(7), dbs, Options{Fill: true, Most: 32})
			}
		})
	}
}
