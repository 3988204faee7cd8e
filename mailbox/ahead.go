package mailbox

import (
	"errors"

	fulltext "doublet/search"
	"doublet/store"
)

// waiting is a message that matches a query, or may match.
type waiting struct {
	i      uint32 // of the roll's entries
	unread bool   // whether it matches is not known yet
	ok     bool
	err    error
}

// matching calls fn with the entries at(0) to at(n-1) of the roll that match, in this order, until fn returns false. A
// query that reads texts evaluates several entries at once.
func (x *querying) matching(n int, at func(k int) uint32, fn func(i uint32) (more bool, err error)) error {
	found := func(i uint32, ok bool, err error) (more bool, _ error) {
		if err != nil || !ok {
			return err == nil, err
		}
		return fn(i)
	}
	var wave []waiting
	for k := 0; k < n; {
		most := fulltext.Ahead(x.asked, x.left)
		if most == 1 {
			i := at(k)
			k++
			ok, err := x.fits(i)
			if more, err := found(i, ok, err); !more || err != nil {
				return err
			}
			continue
		}
		wave, k = x.gather(wave[:0], most, k, n, at)
		if err := x.evaluate(wave); err != nil {
			return err
		}
		for _, w := range wave {
			if more, err := found(w.i, w.ok, w.err); !more || err != nil {
				return err
			}
		}
	}
	return nil
}

// fits reports whether the person sees an entry of the roll, and it matches.
func (x *querying) fits(i uint32) (bool, error) {
	e := &x.l.entries[i]
	if !x.shown[e.members] {
		return false, nil
	}
	return x.match(&x.root, e)
}

// gather appends entries from k on that match or may match, until wave has most of them. It reads no message. It
// returns the place behind the last entry.
func (x *querying) gather(wave []waiting, most, k, n int, at func(k int) uint32) ([]waiting, int) {
	x.guessing = true
	for ; k < n && len(wave) < most; k++ {
		w := waiting{i: at(k)}
		w.ok, w.err = x.fits(w.i)
		if errors.Is(w.err, errUnread) {
			w.unread, w.err = true, nil
		}
		if w.ok || w.unread || w.err != nil {
			wave = append(wave, w)
		}
	}
	x.guessing = false
	return wave, k
}

// evaluate reads the messages of a wave that were not read yet, on all processors that are free.
func (x *querying) evaluate(wave []waiting) error {
	var unread []*waiting
	for i := range wave {
		if wave[i].unread {
			unread = append(unread, &wave[i])
		}
	}
	return x.f.svc.fullText().Each(x.ctx, x.r, len(unread), func(r *store.Reader, i int) {
		y := *x
		y.r = r
		text := *x.text
		text.v, text.r, text.m.row = viewOf(x.f), r, nil
		y.text = &text
		unread[i].ok, unread[i].err = y.fits(unread[i].i)
	})
}
