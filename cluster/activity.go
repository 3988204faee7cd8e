package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/bus"
	"doublet/note"
)

// activity counts the operations on the local databases, persists the counts, and sends them to mates on request. The
// count of a database is a decaying sum with a half-life of a day.
type activity struct {
	*core

	mu   sync.Mutex
	used map[note.DatabaseID]*used
	// sampled is the time of the last sample of the store's counters. kept is the time at which the counts were last
	// saved.
	sampled, kept time.Time
}

const (
	activityHalf = 24 * time.Hour
	// sampleEvery is the time between two samples, saveEvery between two saves.
	sampleEvery = 10 * time.Second
	saveEvery   = 10 * time.Minute
	// leastActivity is the sum below which a count is not saved.
	leastActivity = 0.5
	// maxActivity is the maximum number of databases in one answer.
	maxActivity = 8000
)

// used holds the use of a database at this server.
type used struct {
	seen  uint64  // the counter of the store at the last sample
	sum   float64 // operations, decayed up to the time at
	at    time.Time
	saved float64 // the sum saved last, decayed likewise
}

// until decays the sums up to the time now.
func (u *used) until(now time.Time) {
	if age := now.Sub(u.at); age > 0 {
		by := math.Exp2(-float64(age) / float64(activityHalf))
		u.sum *= by
		u.saved *= by
	}
	u.at = now
}

// keep saves the sum if it differs by more than 10 % from the saved one. It removes an unused database from the table.
func (u *used) keep(t Table, db note.DatabaseID) {
	switch {
	case u.sum < leastActivity:
		if u.saved > 0 {
			t.Drop(db.String())
			u.saved = 0
		}
	case math.Abs(u.sum-u.saved) > 0.1*u.saved:
		t.Put(db.String(), strconv.FormatFloat(u.sum, 'g', 6, 64)+" "+strconv.FormatInt(u.at.Unix(), 10))
		u.saved = u.sum
	}
}

// rate returns the operations a day.
func (u *used) rate() float64 { return u.sum * math.Ln2 }

// Table holds keys and values that persist across restarts: a *keep.Table.
type Table interface {
	Put(key, value string)
	Drop(key string)
	Each(ctx context.Context, fn func(key, value string)) error
}

// ActivityTable is the name of the table that keeps the activity.
const ActivityTable = "activity"

// Activity holds the use of databases before this start. The zero value is empty and saves nothing.
type Activity struct {
	table Table
	list  map[note.DatabaseID]*used
}

// ReadActivity reads the activity saved in a table.
func ReadActivity(ctx context.Context, t Table, now time.Time) (Activity, error) {
	list := map[note.DatabaseID]*used{}
	err := t.Each(ctx, func(key, value string) {
		db, err := note.ParseDatabaseID(key)
		sum, at, _ := strings.Cut(value, " ")
		s, err2 := strconv.ParseFloat(sum, 64)
		seconds, err3 := strconv.ParseInt(at, 10, 64)
		if err != nil || err2 != nil || err3 != nil || math.IsNaN(s) || s < 0 || math.IsInf(s, 0) {
			return
		}
		u := &used{sum: s, at: time.Unix(seconds, 0), saved: s}
		u.until(now)
		list[db] = u
	})
	if err != nil {
		return Activity{}, fmt.Errorf("read activity of databases: %w", err)
	}
	return Activity{t, list}, nil
}

// used returns the initial counts of a Node.
func (a *Activity) used() map[note.DatabaseID]*used {
	if a.list == nil {
		return map[note.DatabaseID]*used{}
	}
	return a.list
}

// sample adds the operations since the last sample to the counts. It saves the counts every saveEvery.
func (a *activity) sample() {
	now := a.now()
	ids := a.holdings.ids()
	times := map[note.DatabaseID]uint64{}
	a.store.Work(func(db note.DatabaseID, k uint64) {
		if _, have := slices.BinarySearch(ids, db); have {
			times[db] = k
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sampled = now
	for db, k := range times {
		u := a.used[db]
		if u == nil {
			u = &used{at: now}
			a.used[db] = u
		}
		u.until(now)
		if k > u.seen {
			u.sum += float64(k - u.seen)
		}
		u.seen = k
	}
	table := a.opt.Activity.table
	if table == nil || now.Sub(a.kept) < saveEvery {
		return
	}
	a.kept = now
	for db, u := range a.used {
		if _, have := slices.BinarySearch(ids, db); !have {
			delete(a.used, db)
			table.Drop(db.String())
			continue
		}
		u.until(now)
		u.keep(table, db)
	}
}

// sampleDue samples the counters if the last sample is older than sampleEvery.
func (a *activity) sampleDue() {
	a.mu.Lock()
	due := a.now().Sub(a.sampled) >= sampleEvery
	a.mu.Unlock()
	if due {
		a.sample()
	}
}

// usage holds the use of a database at a server, in operations a day, and its size there in bytes.
type usage struct {
	db   note.DatabaseID
	rate float64
	size uint64
}

// usages returns the usage of local databases with an id above after, at most maxActivity.
func (a *activity) usages(after note.DatabaseID) []usage {
	ids := a.holdings.ids()
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	out := a.rates(ids[i:min(len(ids), i+maxActivity)])
	for i := range out {
		out[i].size, _ = a.store.Size(out[i].db) // 0 if it is gone or damaged
	}
	return out
}

func (a *activity) rates(ids []note.DatabaseID) (out []usage) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, db := range ids {
		x := usage{db: db}
		if u := a.used[db]; u != nil {
			u.until(now)
			x.rate = u.rate()
		}
		out = append(out, x)
	}
	return out
}

// answer returns the usage of the local databases to a mate.
func (a *activity) answer(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	r, err := begin(body)
	if err != nil {
		return nil, err
	}
	after := note.DatabaseID(r.Uint64())
	if err := r.end(); err != nil {
		return nil, err
	}
	a.sampleDue()
	return appendUsages(a.usages(after)), nil
}

func appendUsages(list []usage) []byte {
	b := binary.AppendUvarint([]byte{Version}, uint64(len(list)))
	for _, u := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(u.db))
		b = binary.AppendUvarint(b, uint64(max(0, math.Round(u.rate))))
		b = binary.AppendUvarint(b, u.size)
	}
	return b
}

func readUsages(b []byte) ([]usage, error) {
	r, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := make([]usage, r.AtMost(maxActivity, 10))
	for i := range list {
		list[i] = usage{note.DatabaseID(r.Uint64()), float64(r.Uvarint()), r.Uvarint()}
	}
	return list, r.end()
}

// usagesOf requests the usage of all databases from a mate.
func (a *activity) usagesOf(ctx context.Context, mate note.UNID) ([]usage, error) {
	var all []usage
	for after := note.DatabaseID(0); ; {
		answer, err := a.ask(ctx, mate, verbActivity, binary.BigEndian.AppendUint64([]byte{Version}, uint64(after)))
		if err != nil {
			return all, err
		}
		list, err := readUsages(answer)
		if err != nil || len(list) == 0 {
			return all, err
		}
		all = append(all, list...)
		if next := list[len(list)-1].db; next > after {
			after = next
		} else {
			return all, errFormat
		}
	}
}

// everywhere adds up the use of each database over all members and returns its largest size. silent lists the members
// that did not answer.
func (a *activity) everywhere(ctx context.Context) (all map[note.DatabaseID]usage, silent []note.UNID) {
	all = map[note.DatabaseID]usage{}
	take := func(list []usage) {
		for _, u := range list {
			sum := all[u.db]
			all[u.db] = usage{u.db, sum.rate + u.rate, max(sum.size, u.size)}
		}
	}
	a.sample()
	for after := note.DatabaseID(0); ; {
		list := a.usages(after)
		if len(list) == 0 {
			break
		}
		take(list)
		after = list[len(list)-1].db
	}
	v := a.members.view()
	for _, mate := range v.mates {
		list, err := a.usagesOf(ctx, mate)
		if err != nil {
			a.log(slog.LevelDebug, "ask for activity", "mate", v.name(mate), "err", err)
			silent = append(silent, mate)
		}
		take(list)
	}
	return all, silent
}
