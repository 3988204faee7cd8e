// Package collect stores reports of all statistics in a database, at regular intervals, and thins them by age. It is
// Domino's statistics database (statrep.nsf).
package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// ID is the ID of the statistics database, Kind its kind. In a cluster each server has its own.
const (
	ID   note.DatabaseID = 0x00000000005747A7
	Kind                 = "statistics"
)

// The items of a report besides the statistics, each of which is an item under its own name. No statistic's name
// begins with a dollar sign.
const (
	itemForm = "Form"
	form     = "Statistics Report"
)

const (
	// piece is the number of reports that one read or update holds.
	piece = 200
	// Reports older than the time that the settings keep all of them are thinned to one an hour, those older than
	// yearly to one a day. Those older than longest are removed.
	yearly  = 365 * 24 * time.Hour
	longest = 5 * yearly
)

// History is the statistics database. Its methods may be called from any goroutine.
type History struct {
	store *store.Store
	env   *env.Env
	tree  *stat.Tree
}

// Open opens the statistics database, and creates it in a new store. Reports hold the statistics of tree.
func Open(s *store.Store, e *env.Env, tree *stat.Tree) (*History, error) {
	h := &History{store: s, env: e, tree: tree}
	if _, err := s.Info(ID); err == nil {
		return h, nil
	}
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Statistics", Kind: Kind, Queue: true})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("collect: create database: %w", err)
	}
	return h, nil
}

// Collect stores a report of all statistics as they are now, and returns their number.
func (h *History) Collect(ctx context.Context) (statistics int, err error) {
	items := []note.Item{{Name: itemForm, Value: note.Text(form)}}
	for _, e := range h.tree.Snapshot("") {
		if v, ok := valueOf(e); ok {
			items = append(items, note.Item{Name: e.Name, Value: v})
		}
	}
	now := h.env.Clock.Now().Unix()
	err = h.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		_, err = w.Create(store.New{Content: note.Content{Items: note.MakeItems(items...)}, Date: now})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("collect: %w", err)
	}
	return len(items) - 1, nil
}

// valueOf returns the value of an item, false for a statistic that has none now.
func valueOf(e stat.Entry) (note.Value, bool) {
	if e.Kind == stat.KindText {
		return note.Text(e.Text), true
	}
	if math.IsNaN(e.Value) || math.IsInf(e.Value, 0) {
		return nil, false
	}
	if n := int64(e.Value); float64(n) == e.Value {
		return note.Int(n), true
	}
	v, err := note.FromJSON(strconv.AppendFloat(nil, e.Value, 'g', -1, 64))
	return v, err == nil
}

// Report is one report.
type Report struct {
	Time  time.Time
	items note.Items
}

// Number returns the value of a statistic, false if the report has no such number.
func (r *Report) Number(name string) (float64, bool) {
	v := r.items.Get(name)
	if v == nil {
		return 0, false
	}
	return number(v)
}

func number(v note.Value) (float64, bool) {
	switch x := v.Any().(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// Each calls fn for the statistics of a report whose names a console pattern fits (stat.Match), in the order of their
// names. Only numbers have a history.
func (r *Report) Each(pattern string, fn func(name string, value float64)) {
	for _, it := range r.items {
		if it.Name == itemForm || !stat.Match(pattern, it.Name) {
			continue
		}
		if v, ok := number(it.Value); ok {
			fn(it.Name, v)
		}
	}
}

// Each calls fn for the reports from a time on, the oldest first, until fn returns false. A report that cannot be read
// is logged and left out.
func (h *History) Each(ctx context.Context, from time.Time, fn func(*Report) bool) error {
	next, more := note.ID(0), true
	for more && ctx.Err() == nil {
		var reports []Report
		err := h.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
			list, err := h.page(r, next, func(n *layout.Note) bool { return n.Date >= from.Unix() })
			if more = len(list) == piece; more {
				next = list[piece-1].id + 1
			}
			for _, x := range list {
				c, bad := r.Content(x.id)
				if bad != nil {
					h.damaged(x.id, bad)
					continue
				}
				reports = append(reports, Report{time.Unix(x.date, 0).UTC(), c.Content.Items})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("collect: read: %w", err)
		}
		for i := range reports {
			if !fn(&reports[i]) {
				return nil
			}
		}
	}
	return ctx.Err()
}

// row is the place of a report.
type row struct {
	id   note.ID
	date int64 // Unix seconds
}

// page returns the first piece reports from an id on that keep accepts.
func (h *History) page(r *store.Reader, from note.ID, keep func(*layout.Note) bool) (list []row, err error) {
	err = store.ReadableNotes(r, from, h.damaged, func(id note.ID, n *layout.Note) bool {
		if keep(n) {
			list = append(list, row{id, n.Date})
		}
		return len(list) < piece
	})
	return list, err
}

func (h *History) damaged(id note.ID, err error) {
	h.env.Log.Error("collect: cannot read a report", "note", uint64(id), "err", err)
}

// Thin removes reports by age: none that is younger than keep, all but the first of each hour up to a year, all but the
// first of each day up to five years, and all older ones. It returns the number of reports that it removed.
func (h *History) Thin(ctx context.Context, keep time.Duration) (removed int, err error) {
	now := h.env.Clock.Now()
	last := int64(math.MinInt64)
	next, more := note.ID(0), true
	for more && ctx.Err() == nil {
		var list []row
		err := h.store.Read(ctx, note.System, ID, func(r *store.Reader) (err error) {
			list, err = h.page(r, next, func(n *layout.Note) bool { return n.Date < now.Add(-keep).Unix() })
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("collect: thin: %w", err)
		}
		if more = len(list) == piece; more {
			next = list[piece-1].id + 1
		}
		var drop []note.ID
		for _, x := range list {
			if s := span(now.Unix() - x.date); s == 0 || x.date/s == last {
				drop = append(drop, x.id)
			} else {
				last = x.date / s
			}
		}
		if err := h.destroy(ctx, drop); err != nil {
			return removed, fmt.Errorf("collect: thin: %w", err)
		}
		removed += len(drop)
	}
	return removed, ctx.Err()
}

// span returns the seconds of which one report is kept at an age in seconds, 0 if none is.
func span(age int64) int64 {
	switch d := time.Duration(age) * time.Second; {
	case d > longest:
		return 0
	case d > yearly:
		return 24 * 3600
	}
	return 3600
}

func (h *History) destroy(ctx context.Context, ids []note.ID) error {
	if len(ids) == 0 {
		return nil
	}
	return h.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		for i := 0; err == nil && i < len(ids); i++ {
			err = w.Destroy(ids[i])
		}
		return err
	})
}
