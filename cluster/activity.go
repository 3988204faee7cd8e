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
	"time"

	"doublet/bus"
	"doublet/note"
)

// Activity of databases: operations a day, older ones counting half as much each day. Each server counts what is done with
// its replicas, keeps that over restarts, and tells who asks.
const (
	activityHalf = 24 * time.Hour
	// sampleEvery is how often what the store has counted is taken up, saveEvery how often that is kept.
	sampleEvery = 10 * time.Second
	saveEvery   = 10 * time.Minute
	// leastActivity is what is not worth keeping.
	leastActivity = 0.5
	// maxActivity bounds what one answer tells of.
	maxActivity = 8000
)

// used is how much a database was used here. Guarded by Node.mu.
type used struct {
	seen  uint64  // what the store had counted when it was looked at last
	sum   float64 // operations, older ones counting less, at the time at
	at    time.Time
	saved float64 // what was kept last, which ages likewise: what is kept has its time
}

// until lets the sum age.
func (u *used) until(now time.Time) {
	if age := now.Sub(u.at); age > 0 {
		by := math.Exp2(-float64(age) / float64(activityHalf))
		u.sum *= by
		u.saved *= by
	}
	u.at = now
}

// keep writes it down where that says something else by now. What nobody uses is written no more.
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

// rate is the operations a day.
func (u *used) rate() float64 { return u.sum * math.Ln2 }

// Table holds keys and values that persist across restarts: a *keep.Table.
type Table interface {
	Put(key, value string)
	Drop(key string)
	Each(ctx context.Context, fn func(key, value string)) error
}

// ActivityTable names the table that keeps the activity.
const ActivityTable = "activity"

// Activity is the use of databases as it was kept before this start. Its zero value holds and keeps nothing.
type Activity struct {
	table Table
	list  map[note.DatabaseID]*used
}

// ReadActivity reads the activity that a table keeps.
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

// used returns the activity that a Node goes on with.
func (a *Activity) used() map[note.DatabaseID]*used {
	if a.list == nil {
		return map[note.DatabaseID]*used{}
	}
	return a.list
}

// sampleActivity takes up what was done with the databases here since the last time.
func (n *Node) sampleActivity() {
	now := n.now()
	times := map[note.DatabaseID]uint64{}
	n.store.Work(func(db note.DatabaseID, k uint64) { times[db] = k })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sampled = now
	for db, k := range times {
		if n.held[db] == nil {
			continue
		}
		u := n.used[db]
		if u == nil {
			u = &used{at: now}
			n.used[db] = u
		}
		u.until(now)
		if k > u.seen {
			u.sum += float64(k - u.seen)
		}
		u.seen = k
	}
	if n.opt.Activity.table == nil || now.Sub(n.kept) < saveEvery {
		return
	}
	n.kept = now
	for db, u := range n.used {
		if n.held[db] == nil {
			delete(n.used, db)
			n.opt.Activity.table.Drop(db.String())
			continue
		}
		u.until(now)
		u.keep(n.opt.Activity.table, db)
	}
}

// sampleDue does it where it is time.
func (n *Node) sampleDue() {
	n.mu.Lock()
	due := n.now().Sub(n.sampled) >= sampleEvery
	n.mu.Unlock()
	if due {
		n.sampleActivity()
	}
}

// usage is how much a database is used at a server, and how large it is there.
type usage struct {
	db   note.DatabaseID
	rate float64
	size uint64
}

// usages lists the databases here behind one.
func (n *Node) usages(after note.DatabaseID) []usage {
	n.mu.Lock()
	ids := n.heldIDs()
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	var out []usage
	now := n.now()
	for _, db := range ids[i:min(len(ids), i+maxActivity)] {
		x := usage{db: db}
		if u := n.used[db]; u != nil {
			u.until(now)
			x.rate = u.rate()
		}
		out = append(out, x)
	}
	n.mu.Unlock()
	for i := range out {
		out[i].size, _ = n.store.Size(out[i].db) // one that is gone, or damaged, has none
	}
	return out
}

// answerActivity tells a mate how much the databases here are used.
func (n *Node) answerActivity(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	r, err := begin(body)
	if err != nil {
		return nil, err
	}
	after := note.DatabaseID(r.Uint64())
	if err := r.end(); err != nil {
		return nil, err
	}
	n.sampleDue()
	return appendUsages(n.usages(after)), nil
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

// usagesOf asks a mate for all of them.
func (n *Node) usagesOf(ctx context.Context, mate note.UNID) ([]usage, error) {
	var all []usage
	for after := note.DatabaseID(0); ; {
		answer, err := n.ask(ctx, mate, verbActivity, binary.BigEndian.AppendUint64([]byte{Version}, uint64(after)))
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

// activities gathers how much each database is used, everywhere, and how large it is. silent are the members that did not
// tell.
func (n *Node) activities(ctx context.Context) (all map[note.DatabaseID]usage, silent []note.UNID) {
	all = map[note.DatabaseID]usage{}
	take := func(list []usage) {
		for _, u := range list {
			sum := all[u.db]
			all[u.db] = usage{u.db, sum.rate + u.rate, max(sum.size, u.size)}
		}
	}
	n.sampleActivity()
	for after := note.DatabaseID(0); ; {
		list := n.usages(after)
		if len(list) == 0 {
			break
		}
		take(list)
		after = list[len(list)-1].db
	}
	for _, mate := range n.Mates() {
		list, err := n.usagesOf(ctx, mate)
		if err != nil {
			n.log(slog.LevelDebug, "activity", "mate", n.name(mate), "err", err)
			silent = append(silent, mate)
		}
		take(list)
	}
	return all, silent
}
