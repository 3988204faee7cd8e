package backup

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/env"
)

// Keep selects the generations that stay when old ones are thinned: the latest of each of so many days, weeks, months
// and years, counting those that have one. Days begin at 0:00 UTC, weeks on Monday (ISO 8601). The zero value keeps
// all.
type Keep struct{ Days, Weeks, Months, Years int }

// maxKeep bounds each number of a Keep.
const maxKeep = 10000

// ParseKeep parses a Keep such as "7d 4w 12m 3y". Each unit occurs at most once, and each number is at least 1. An
// empty text is the zero Keep.
func ParseKeep(text string) (k Keep, err error) {
	units := map[byte]*int{'d': &k.Days, 'w': &k.Weeks, 'm': &k.Months, 'y': &k.Years}
	for _, word := range strings.Fields(text) {
		unit := units[word[len(word)-1]]
		n, err := strconv.Atoi(word[:len(word)-1])
		if err != nil || unit == nil || *unit != 0 || n < 1 || n > maxKeep {
			return Keep{}, fmt.Errorf("%q does not say which backups stay: an example is 7d 4w 12m", text)
		}
		*unit = n
	}
	return k, nil
}

// periods returns the names of the day, week, month and year of a time.
func periods(t time.Time) [4]string {
	t = t.UTC()
	year, week := t.ISOWeek()
	return [4]string{t.Format(time.DateOnly), fmt.Sprint(year, week), t.Format("2006-01"), t.Format("2006")}
}

// doomed returns the generations to remove, in ascending order. Only generations that count are chosen to stay. Those
// after the latest one that counts stay too: one of them may be mended, or checked later. Without one that counts,
// nothing is removed. One whose manifest cannot be read stays until an administrator prunes it.
func (k Keep) doomed(list []Generation) (out []Generation) {
	last := len(list) - 1
	for last >= 0 && !list[last].counts() {
		last--
	}
	left := [4]int{k.Days, k.Weeks, k.Months, k.Years}
	if last < 0 || left == [4]int{} {
		return nil
	}
	var seen [4]string
	stays := make([]bool, last+1)
	stays[last] = true
	for i := last; i >= 0; i-- {
		if !list[i].counts() {
			continue
		}
		for n, name := range periods(list[i].Began) {
			if left[n] > 0 && name != seen[n] {
				stays[i], seen[n] = true, name
				left[n]--
			}
		}
	}
	for i, g := range list[:last] {
		if !stays[i] && !g.unread {
			out = append(out, g)
		}
	}
	return out
}

// Thin removes generations that k does not keep, with the pieces and the parts of the archive that no other generation
// needs. With dry, it removes nothing: Pruned lists the generations, and the pieces that only they need.
func Thin(ctx context.Context, e *env.Env, dir string, k Keep, dry bool) (Pruned, error) {
	return change(ctx, e, dir, !dry, func(r *repository) (out Pruned, err error) {
		for _, g := range r.generations {
			if !g.counts() {
				out.Uncounted = append(out.Uncounted, g.Number)
			}
		}
		list := k.doomed(r.generations)
		if len(list) == 0 {
			return out, nil
		}
		if !dry {
			return r.remove(ctx, list, out)
		}
		gone := map[uint64]bool{}
		for _, g := range list {
			gone[g.Number], out.Generations = true, append(out.Generations, g.Number)
		}
		out.Files, out.Bytes = r.freed(gone)
		return out, nil
	})
}

// freed returns the number and bytes of the pieces that only some generations need.
func (r *repository) freed(gone map[uint64]bool) (files int, bytes int64) {
	needed := map[string]bool{}
	each := func(of bool, fn func(p *Piece)) {
		for i := range r.generations {
			if gone[r.generations[i].Number] != of {
				continue
			}
			for _, f := range r.generations[i].Files {
				for n := range f.Pieces {
					fn(&f.Pieces[n])
				}
			}
		}
	}
	each(false, func(p *Piece) { needed[p.Name] = true })
	each(true, func(p *Piece) {
		if !needed[p.Name] {
			needed[p.Name] = true
			files, bytes = files+1, bytes+p.stored()
		}
	})
	return files, bytes
}
