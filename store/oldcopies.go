package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/store/blob"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// oldKept is the time for which the copies of other incarnations stay after the last sign of life of any of them: a
	// data folder that was put aside may come back.
	oldKept = 30 * 24 * time.Hour
	// lookEvery is the time between two looks at the copies of other incarnations, and between two signs of life.
	lookEvery = 24 * time.Hour
	// metaOldCopies is the name of the incarnations that have copies at the place, as encodeSigns has them.
	metaOldCopies = "oldcopies"
)

// sign is the last sign of life of another incarnation: the content of its blob, and when this store first saw it, in
// Unix seconds by its own clock.
type sign struct{ content, seen uint64 }

// RemoveOldCopies removes copies that earlier incarnations of this store wrote, when no other incarnation gave a sign
// of life for 30 days: a store gives one a day. Each of them may need copies of the others. It never removes copies
// that a row names, and those that the key of this store does not open. Backups and the archive of the log hold all
// segments, and need no copies. It looks once a day; after a failure it tries again at the next call.
func (o *objects) RemoveOldCopies(ctx context.Context) error {
	if err := o.dbs.enter(); err != nil {
		return err
	}
	defer o.dbs.leave()
	t := o.tiers
	now := t.env.Clock.Now()
	if t.away == nil || !t.passing.TryLock() {
		return nil
	}
	defer t.passing.Unlock()
	if !t.looked.IsZero() && now.Sub(t.looked).Abs() < lookEvery {
		return nil
	}
	if err := t.removeOld(ctx, uint64(now.Unix())); err != nil {
		return fmt.Errorf("store: old copies of segments: %w", err)
	}
	t.looked = now
	return nil
}

// signName is the name of the blob with the sign of life of an incarnation.
func signName(incarnation uint64) string { return fmt.Sprintf("alive/%016x", incarnation) }

func (t *tiers) removeOld(ctx context.Context, now uint64) error {
	err := t.away.Put(ctx, signName(t.incarnation), binary.BigEndian.AppendUint64(nil, now))
	if err != nil {
		return err
	}
	others, err := t.others(ctx)
	if err != nil {
		return err
	}
	known, err := t.signs(now)
	if err != nil {
		return err
	}
	var last uint64 // when the latest sign was first seen
	signs := map[uint64]sign{}
	for id := range others {
		content, err := t.signOf(ctx, id)
		if err != nil {
			return err
		}
		if signs[id] = known[id]; signs[id].seen == 0 || signs[id].content != content || signs[id].seen > now {
			signs[id] = sign{content, now}
		}
		last = max(last, signs[id].seen)
	}
	signs[t.incarnation] = sign{now, now}
	// The time when a sign was seen first is durable before anything depends on it.
	err = t.eng.Set(layout.MetaKey(metaOldCopies), encodeSigns(signs), pebble.Sync)
	if err != nil {
		return t.die(engineError(err))
	}
	if time.Duration(now-last)*time.Second < oldKept {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(others)) {
		if err := t.removeCopies(ctx, id, others[id]); err != nil {
			return err
		}
	}
	return nil
}

// others returns the other incarnations that have copies or signs of life at the place, each with its copies that no
// row names.
func (t *tiers) others(ctx context.Context) (map[uint64][]string, error) {
	names, err := t.away.List(ctx, "segments/")
	if err != nil {
		return nil, err
	}
	alive, err := t.away.List(ctx, "alive/")
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	named := map[string]bool{}
	for _, c := range t.rows {
		named[c.Name] = true
	}
	out := map[uint64][]string{}
	for _, name := range alive {
		id, err := strconv.ParseUint(strings.TrimPrefix(name, "alive/"), 16, 64)
		if err == nil && id != t.incarnation {
			out[id] = nil
		}
	}
	for _, name := range names {
		if id, ok := incarnationOf(name); ok && id != t.incarnation && !named[name] {
			out[id] = append(out[id], name)
		}
	}
	return out, nil
}

// incarnationOf returns the incarnation that wrote a copy.
func incarnationOf(name string) (uint64, bool) {
	dir, base, ok := strings.Cut(strings.TrimPrefix(name, "segments/"), "/")
	if !ok || len(dir) != 16 || base == "" || base[0] < '0' || base[0] > '9' { // else it was interrupted
		return 0, false
	}
	id, err := strconv.ParseUint(dir, 16, 64)
	return id, err == nil
}

// removeCopies removes copies of an incarnation, if the key of this store opens them.
func (t *tiers) removeCopies(ctx context.Context, id uint64, names []string) error {
	stay := 0
	for _, name := range names {
		ours, err := t.away.Opens(ctx, name)
		if err != nil {
			return err
		}
		if !ours {
			stay++
			continue
		}
		if err := t.away.Remove(ctx, name); err != nil {
			return err
		}
	}
	if stay > 0 {
		t.log.Warn("old copies of segments stay: they are damaged, or of another store", "incarnation",
			fmt.Sprintf("%016x", id), "copies", stay)
		return nil
	}
	if err := t.away.Remove(ctx, signName(id)); err != nil {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	t.log.Info("copies of segments of an earlier incarnation were removed", "incarnation", fmt.Sprintf("%016x", id),
		"copies", len(names))
	return nil
}

// signOf returns the sign of life of an incarnation, 0 for none.
func (t *tiers) signOf(ctx context.Context, id uint64) (uint64, error) {
	b, err := t.away.Get(ctx, signName(id), 8)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrTooLarge) || err == nil && len(b) != 8 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// signs returns the signs of life that were seen before. That of this incarnation is the time of its last look. If it
// was long ago, the server or the place was away, or the clock is wrong: the time between is not counted, because
// nothing was observed in it. At the first look of an incarnation this leaves all signs in the future, and removeOld
// begins anew with each.
func (t *tiers) signs(now uint64) (map[uint64]sign, error) {
	v, err := getValue(t.eng, layout.MetaKey(metaOldCopies))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	out := map[uint64]sign{}
	for ; len(v) >= 24; v = v[24:] {
		out[binary.BigEndian.Uint64(v)] = sign{binary.BigEndian.Uint64(v[8:]), binary.BigEndian.Uint64(v[16:])}
	}
	const day = uint64(lookEvery / time.Second)
	if last := out[t.incarnation].seen; now > last+2*day {
		for id, s := range out {
			out[id] = sign{s.content, s.seen + now - last - day}
		}
	}
	return out, nil
}

func encodeSigns(signs map[uint64]sign) (v []byte) {
	for _, id := range slices.Sorted(maps.Keys(signs)) {
		v = binary.BigEndian.AppendUint64(v, id)
		v = binary.BigEndian.AppendUint64(v, signs[id].content)
		v = binary.BigEndian.AppendUint64(v, signs[id].seen)
	}
	return v
}
