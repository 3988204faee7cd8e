// Package archive keeps the transaction log of a store, so that the store can be restored as of any moment.
//
// An archive is a set of blobs beside the backups of the store. Each blob is a step: a part of the log, or a part of an
// object segment that the next part of the log needs. Steps have numbers without gaps within a timeline. A timeline
// begins when the archive begins, and again after a gap: a restore, a target that was away for too long, a part of the
// log that cannot be read. A moment is restored from a backup of the timeline that was taken before it (a base), and
// the steps from there on. Batches of the log may be applied again, so the base needs no exact position: it records the
// step that came next when it began.
package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/store"
	"doublet/store/blob"
)

// Errors that callers test for.
var (
	// ErrDamaged means that a step is missing or differs from what was written.
	ErrDamaged = errors.New("archive: damaged")
	// ErrNoMoment means that the archive cannot restore a moment.
	ErrNoMoment = errors.New("archive: the moment cannot be restored")
)

// Point is the place of a backup in the archive.
type Point struct {
	Timeline string `json:"timeline"`
	// Step is the first step that may hold a change that the backup does not contain.
	Step uint64 `json:"step"`
	// Captured is the time at which the backup's moment was complete. The archive restores later moments from it.
	Captured time.Time `json:"captured"`
	// Mark is that of the backup's moment: what the backup contains precedes it in the log. 0: an older backup.
	Mark uint64 `json:"mark,omitempty"`
}

// Range is a range of moments that can be restored, both ends included.
type Range struct{ From, To time.Time }

// Archive is the list of an archive's steps.
type Archive struct {
	blobs     blob.Store
	keys      blob.Keys
	timelines []*timeline // in ascending order of their starts
}

// timeline holds the steps of a timeline.
type timeline struct {
	name  string
	steps []named // in ascending order, without duplicates
	// idle says up to which time nothing came after a step.
	idle idle
}

// named is a step as its name describes it.
type named struct {
	number  uint64
	through int64
	blob    blob.Info
}

// Open lists an archive. keys decrypt its steps; without an identity, encrypted ones can only be listed.
func Open(ctx context.Context, blobs blob.Store, keys blob.Keys) (*Archive, error) {
	list, err := blobs.List(ctx, folder+"/")
	if err != nil {
		return nil, err
	}
	a := &Archive{blobs: blobs, keys: keys}
	for _, b := range list {
		parts := strings.Split(b.Name, "/")
		if len(parts) != 3 {
			continue
		}
		if n := len(a.timelines); n == 0 || a.timelines[n-1].name != parts[1] {
			a.timelines = append(a.timelines, &timeline{name: parts[1]})
		}
		t := a.timelines[len(a.timelines)-1]
		if number, through, ok := parseStepName(parts[2]); ok {
			t.steps = append(t.steps, named{number, through, b})
		} else if parts[2] == throughName {
			if err := t.readThrough(ctx, blobs, b.Name); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range a.timelines {
		t.steps = sorted(t.steps)
	}
	return a, nil
}

// sorted returns steps in ascending order, each once.
func sorted(steps []named) []named {
	// A step that was on its way when the server stopped may be there twice. The next step follows the later one.
	slices.SortFunc(steps, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(b.through, a.through))
	})
	return slices.CompactFunc(steps, func(a, b named) bool { return a.number == b.number })
}

// readThrough reads the blob named through. One that is malformed counts as missing.
func (t *timeline) readThrough(ctx context.Context, blobs blob.Store, name string) error {
	b, err := blobs.Get(ctx, name, 1<<10)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrDamaged) {
		return nil
	}
	if err != nil {
		return err
	}
	var i idle
	if json.Unmarshal(b, &i) == nil {
		t.idle = i
	}
	return nil
}

func (a *Archive) find(name string) *timeline {
	i := slices.IndexFunc(a.timelines, func(t *timeline) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return a.timelines[i]
}

// after returns the steps from a number on, up to the first one that is missing, and the time through which they go: 0
// if there are none and the number is not the next one.
func (t *timeline) after(number uint64) (steps []named, through int64) {
	next := number
	for _, n := range t.from(number) {
		if n.number != next {
			break
		}
		steps, through = append(steps, n), max(through, n.through)
		next++
	}
	if t.idle.Step+1 == next {
		through = max(through, t.idle.Through)
	}
	return steps, through
}

// from returns the steps from a number on.
func (t *timeline) from(number uint64) []named {
	i, _ := slices.BinarySearchFunc(t.steps, number,
		func(s named, n uint64) int { return cmp.Compare(s.number, n) })
	return t.steps[i:]
}

// Range returns the moments that can be restored from a backup at p. ok is false if there are none.
func (a *Archive) Range(p *Point) (r Range, ok bool) {
	if p == nil {
		return r, false
	}
	t := a.find(p.Timeline)
	if t == nil {
		return r, false
	}
	_, through := t.after(p.Step)
	if through <= nanos(p.Captured) {
		return r, false // the log that the backup has seen is not archived yet
	}
	return Range{p.Captured, time.Unix(0, through-1)}, true
}

// Reached reports whether the archive has the mark of p. Without it nothing can be restored from p, whatever the times
// of the steps: they are too late if the clock was set back before the backup. It reads the steps up to the mark. If
// one is damaged, or no key opens it, only the times tell.
func (a *Archive) Reached(ctx context.Context, p *Point) (bool, error) {
	t := a.find(p.Timeline)
	if p.Mark == 0 || t == nil {
		return t != nil, nil
	}
	steps, _ := t.after(p.Step)
	for _, n := range steps {
		s, err := a.read(ctx, p.Timeline, n)
		if errors.Is(err, ErrDamaged) || errors.Is(err, blob.ErrSealed) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for _, b := range s.batches {
			if set, err := store.MarkOfBatch(b); err != nil || set == p.Mark {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// Join returns ranges in ascending order, those that touch as one.
func Join(list []Range) (out []Range) {
	slices.SortFunc(list, func(a, b Range) int { return a.From.Compare(b.From) })
	for _, r := range list {
		if n := len(out); n > 0 && !r.From.After(out[n-1].To) {
			if r.To.After(out[n-1].To) {
				out[n-1].To = r.To
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// Nearest returns the last moment in ranges (see Join) before a time and the first one after it. Zero times mean none.
func Nearest(ranges []Range, at time.Time) (before, after time.Time) {
	for _, r := range ranges {
		if r.To.Before(at) {
			before = r.To
		} else if after.IsZero() && r.From.After(at) {
			after = r.From
		}
	}
	return before, after
}

// Size returns the bytes of the steps that Replay reads for a moment, as they are stored.
func (a *Archive) Size(p *Point, to time.Time) (int64, error) {
	_, n, err := a.steps(p, to)
	return n, err
}

// Target receives what a replay reads.
type Target interface {
	// Segment receives a part of an object segment. A part from 0 on replaces the segment. Parts may overlap what the
	// segment has already. If the segment is another one with the same number, which key says, parts from further on
	// are ignored.
	Segment(id uint64, key string, from int64, content []byte) error
	// Batch receives a batch of the log, and may keep its memory.
	Batch(b []byte) error
}

// Replay reads the archive from p up to the first batch that is later than a moment and after the mark of p. What
// precedes the mark may already be in the backup, so all of it is applied, also if the clock showed later times then.
// It fails with ErrNoMoment if the mark is not archived. progress is told of the bytes read; it may be nil.
func (a *Archive) Replay(ctx context.Context, p *Point, to time.Time, into Target,
	progress func(done, total int64)) error {
	steps, total, err := a.steps(p, to)
	if err != nil {
		return err
	}
	mark, done := p.Mark, int64(0)
	for _, n := range steps {
		s, err := a.read(ctx, p.Timeline, n)
		if err != nil {
			return err
		}
		if s.Segment != 0 {
			err = into.Segment(s.Segment, s.Key, s.From, s.content)
		}
		ended := false
		for _, b := range s.batches {
			if ended, err = apply(b, &mark, to, into); ended || err != nil {
				break
			}
		}
		if err != nil || ended {
			return err
		}
		if done += n.blob.Size; progress != nil {
			progress(done, max(done, total))
		}
	}
	if mark != 0 {
		return fmt.Errorf("%w: the log up to the end of the backup is not archived", ErrNoMoment)
	}
	return nil
}

// apply applies a batch, unless it is later than a time and no mark is awaited. The batch that sets the mark makes it
// 0.
func apply(b []byte, mark *uint64, to time.Time, into Target) (later bool, err error) {
	if *mark == 0 {
		t, err := store.TimeOfBatch(b)
		if err != nil || t.After(to) {
			return true, err
		}
		return false, into.Batch(b)
	}
	set, err := store.MarkOfBatch(b)
	if err != nil {
		return false, err
	}
	if set == *mark {
		*mark = 0
	}
	return false, into.Batch(b)
}

// steps returns the steps from which a moment is replayed, and the bytes of those that are read unless the clock was
// set back: their times do not go back with it.
func (a *Archive) steps(p *Point, to time.Time) (steps []named, bytes int64, err error) {
	r, ok := a.Range(p)
	if !ok || to.Before(r.From) || to.After(r.To) {
		return nil, 0, fmt.Errorf("%w: %s", ErrNoMoment, to.Format(time.RFC3339Nano))
	}
	steps, _ = a.find(p.Timeline).after(p.Step)
	for _, n := range steps {
		if bytes += n.blob.Size; n.through > nanos(to) {
			break
		}
	}
	return steps, bytes, nil
}

// read reads and verifies a step.
func (a *Archive) read(ctx context.Context, timeline string, n named) (*step, error) {
	b, err := a.blobs.Get(ctx, n.blob.Name, maxStep)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, n.blob.Name)
	}
	if errors.Is(err, blob.ErrDamaged) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	if b, err = a.keys.Unseal(b); errors.Is(err, blob.ErrForged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.blob.Name, err)
	}
	s, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.blob.Name, err)
	}
	if s.Timeline != timeline || s.Number != n.number || s.Through != n.through {
		return nil, fmt.Errorf("%w: %s holds step %d of timeline %s", ErrDamaged, n.blob.Name, s.Number, s.Timeline)
	}
	return s, nil
}

// Verify reads the steps of all timelines from the given points on, and returns the moments that can be restored from
// them, as Join does. The error names the damaged and missing steps.
func (a *Archive) Verify(ctx context.Context, points []*Point, progress func(done, total int64)) ([]Range, error) {
	first := firsts(points)
	v := &verifying{Archive: a, progress: progress}
	for _, t := range a.timelines {
		if from, ok := first[t.name]; ok {
			t.steps = t.from(from)
		} else {
			t.steps = nil // no backup needs them
		}
		for _, n := range t.steps {
			v.total += n.blob.Size
		}
	}
	for _, t := range a.timelines {
		if err := v.timeline(ctx, t, first[t.name]); err != nil {
			return nil, err
		}
	}
	return a.Ranges(points), errors.Join(v.damage...)
}

// verifying is a running Verify.
type verifying struct {
	*Archive
	progress    func(done, total int64)
	done, total int64
	damage      []error
}

// timeline reads the steps of a timeline, the first of which has to be next, and takes the damaged ones off the list.
func (v *verifying) timeline(ctx context.Context, t *timeline, next uint64) error {
	var sound []named
	for _, n := range t.steps {
		if n.number != next {
			v.damage = append(v.damage, fmt.Errorf("%w: the steps from %d to %d of timeline %s are missing", ErrDamaged,
				next, n.number-1, t.name))
		}
		next = n.number + 1
		_, err := v.read(ctx, t.name, n)
		switch {
		case errors.Is(err, ErrDamaged):
			v.damage = append(v.damage, err)
		case err != nil:
			return err
		default:
			sound = append(sound, n)
		}
		if v.done += n.blob.Size; v.progress != nil {
			v.progress(v.done, v.total)
		}
	}
	t.steps = sound
	return nil
}

// firsts returns the first step that one of the points needs, by timeline.
func firsts(points []*Point) map[string]uint64 {
	first := map[string]uint64{}
	for _, p := range points {
		if n, ok := first[p.Timeline]; !ok || p.Step < n {
			first[p.Timeline] = p.Step
		}
	}
	return first
}

// Ranges returns the moments that can be restored from the given points on, as Join does.
func (a *Archive) Ranges(points []*Point) []Range {
	var list []Range
	for _, p := range points {
		if r, ok := a.Range(p); ok {
			list = append(list, r)
		}
	}
	return Join(list)
}

// Thin removes the steps that no point needs, and returns their number and bytes. The latest timeline stays
// whole while it has no backup: its first one may be under way.
func (a *Archive) Thin(ctx context.Context, points []*Point) (steps int, bytes int64, err error) {
	first := firsts(points)
	for i, t := range a.timelines {
		from, ok := first[t.name]
		if !ok && i == len(a.timelines)-1 {
			continue // its first backup is not there yet
		}
		var names []string
		for _, n := range t.steps {
			if ok && n.number >= from {
				break
			}
			names, bytes = append(names, n.blob.Name), bytes+n.blob.Size
		}
		steps += len(names)
		if !ok {
			names = append(names, folder+"/"+t.name+"/"+throughName)
		}
		if err := a.blobs.Remove(ctx, names...); err != nil {
			return 0, 0, err
		}
	}
	return steps, bytes, nil
}
