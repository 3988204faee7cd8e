package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"doublet/note"
	"doublet/store"
)

// page asks the target what it lacks of the notes of a page, and sends it.
func (x *sender) page(ctx context.Context, p *HeadPage) error {
	if err := x.setAside(p.Refused...); err != nil {
		return err
	}
	x.res.Looked += len(p.Heads)
	if p.Info != nil {
		if _, err := x.to.Apply(ctx, x.db, &ChangePage{From: x.hf.Peer, Info: p.Info}); err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	if len(p.Heads) == 0 {
		return nil
	}
	heads, asks := x.unasked(p.Heads)
	wants, err := x.wants(ctx, heads)
	if err != nil {
		return err
	}
	var gone []note.UNID
	for i, w := range wants {
		switch u := heads[i].UNID; w {
		case State, Whole:
			asks = append(asks, Ask{UNID: u, Thin: w == State})
		case Buried:
			gone = append(gone, u)
		}
	}
	if err := x.buryAtSource(ctx, gone); err != nil {
		return err
	}
	return x.notes(ctx, asks)
}

// buryAtSource deletes at the source the notes that the target has deleted for good, if the sender may do that. A
// source that has a primary accepts this only from that primary.
func (x *sender) buryAtSource(ctx context.Context, gone []note.UNID) error {
	if x.hf.May&MayPush == 0 || x.hf.Shared && (x.o.Apart || !(x.ht.Shared && x.ht.Leads)) {
		return nil
	}
	if err := x.bury(ctx, x.from, x.ht.Peer, gone); err != nil && !errors.Is(err, store.ErrDenied) {
		return wrap("source", err)
	}
	return nil
}

// notes sends the notes that the target wants. It sends a note again if a part of it was missing.
func (x *sender) notes(ctx context.Context, asks []Ask) error {
	for round := 0; len(asks) > 0; round++ {
		if round == rounds {
			for _, a := range asks {
				if err := x.setAside(refuse(a.UNID, fmt.Errorf("%w after %d rounds", ErrMissing, rounds))); err != nil {
					return err
				}
			}
			return nil
		}
		var again []Ask
		for len(asks) > 0 {
			p, err := x.from.Notes(ctx, x.db, asks, x.o.Most)
			if err != nil {
				return fmt.Errorf("source: %w", err)
			}
			if p.Left >= len(asks) {
				return formatError("nothing of %d notes", len(asks))
			}
			asks = asks[len(asks)-p.Left:]
			if err := x.setAside(p.Refused...); err != nil {
				return err
			}
			more, err := x.deliver(ctx, p)
			if err != nil {
				return err
			}
			again = append(again, more...)
		}
		asks = again
	}
	return nil
}

// deliver sends the notes of a page with their objects. It limits the bytes of objects that the target holds at a time.
func (x *sender) deliver(ctx context.Context, p *ChangePage) (again []Ask, err error) {
	list := make([]*store.Remote, len(p.Notes))
	for i := range p.Notes {
		list[i] = p.Notes[i].Note
	}
	lacks, bad, err := x.lacking(ctx, list)
	if err != nil {
		return nil, err
	}
	var sum, most uint64
	for _, n := range list {
		mine := sizeOf(lacks.of(n))
		sum, most = sum+mine, max(most, mine)
	}
	give, err := x.room(ctx, min(sum, max(most, x.o.Objects)))
	if err != nil {
		return nil, err
	}
	defer give()
	part := &ChangePage{From: p.From}
	var held uint64
	flush := func() error {
		more, err := x.apply(ctx, part)
		again = append(again, more...)
		part, held = &ChangePage{From: p.From}, 0
		return err
	}
	for _, c := range p.Notes {
		if bad[c.Note.UNID] {
			continue
		}
		mine := lacks.of(c.Note)
		if held > 0 && held+sizeOf(mine) > x.o.Objects {
			if err := flush(); err != nil {
				return again, err
			}
		}
		ok, err := x.bringFor(ctx, c.Note.UNID, mine, lacks)
		if err != nil {
			return again, err
		}
		if ok {
			held += sizeOf(mine)
			part.Notes = append(part.Notes, c)
		}
	}
	return again, flush()
}

// apply sends notes whose objects have arrived.
func (x *sender) apply(ctx context.Context, part *ChangePage) (again []Ask, err error) {
	if len(part.Notes) == 0 {
		return nil, nil
	}
	ack, err := x.to.Apply(ctx, x.db, part)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	x.res.took(&ack)
	for _, u := range ack.Again {
		again = append(again, Ask{UNID: u})
	}
	var gone []note.UNID
	for _, r := range ack.Refused {
		if r.Kind == ErrorKind(store.ErrGrave) {
			gone = append(gone, r.UNID) // deleted at the target meanwhile
		} else if err := x.setAside(r); err != nil {
			return again, err
		}
	}
	return again, x.buryAtSource(ctx, gone)
}

// lackList holds the objects that a target lacks, by digest.
type lackList map[note.Digest]Lack

// of returns the objects of l that a note names.
func (l lackList) of(n *store.Remote) (out []Lack) {
	refs, _ := objectsOf(n) // lacking has already reported errors
	for _, ref := range refs {
		if x, lacks := l[ref.Digest]; lacks {
			out = append(out, x)
		}
	}
	return out
}

func sizeOf(list []Lack) (sum uint64) {
	for _, l := range list {
		sum += l.Size
	}
	return sum
}

// lacking asks the target which objects of the notes it lacks. bad holds notes whose list of objects cannot be read.
func (x *sender) lacking(ctx context.Context,
	list []*store.Remote) (lacks lackList, bad map[note.UNID]bool, err error) {
	var refs []store.ObjectRef
	seen := map[note.Digest]bool{}
	for _, n := range list {
		mine, err := objectsOf(n)
		if err != nil {
			if bad == nil {
				bad = map[note.UNID]bool{}
			}
			bad[n.UNID] = true
			if err := x.setAside(refuse(n.UNID, err)); err != nil {
				return nil, bad, err
			}
			continue
		}
		for _, ref := range mine {
			if !seen[ref.Digest] {
				seen[ref.Digest] = true
				refs = append(refs, ref)
			}
		}
	}
	lacks = lackList{}
	for part := range slices.Chunk(refs, maxRefs) {
		some, err := x.to.Lacks(ctx, x.db, part)
		if err != nil {
			return nil, bad, fmt.Errorf("target: %w", err)
		}
		for _, l := range some {
			lacks[l.Digest] = l
		}
	}
	return lacks, bad, nil
}

// bringFor sends the objects of a note. If one is unavailable, it sets the note aside and returns false.
func (x *sender) bringFor(ctx context.Context, u note.UNID, mine []Lack, all lackList) (bool, error) {
	for _, l := range mine {
		err := x.object(ctx, u, l)
		switch {
		case err == nil:
			delete(all, l.Digest) // later notes need not send it again
		case ctx.Err() == nil && aboutOne(err):
			return false, x.setAside(refuse(u, err))
		default:
			return false, err
		}
	}
	return true, nil
}

// aboutOne reports whether an error certainly concerns a single note or object.
func aboutOne(err error) bool {
	return ErrorKind(err) != failed && ofNote(err) && !errors.Is(err, ErrFormat)
}

// object sends one object, unless another Send to the same target does.
func (x *sender) object(ctx context.Context, of note.UNID, l Lack) error {
	return x.o.Transfers.once(ctx, l.Digest, func() error { return x.transfer(ctx, of, l) })
}

// transfer sends one object. After an interruption it resumes behind the bytes that have arrived.
func (x *sender) transfer(ctx context.Context, of note.UNID, l Lack) error {
	have := l.Have
	for tries := 0; ; {
		err := x.stream(ctx, of, l.ObjectRef, have)
		if err == nil {
			x.res.Objects++
			x.res.ObjectBytes += l.Size
			return nil
		}
		if ctx.Err() != nil || aboutOne(err) || tries >= rounds {
			return err
		}
		now, lost := x.to.Lacks(ctx, x.db, []store.ObjectRef{l.ObjectRef})
		switch {
		case lost != nil:
			return errors.Join(err, wrap("target", lost))
		case len(now) == 0:
			return nil // it arrived, and only the answer was lost
		case now[0].Have <= have:
			tries++
		}
		have = now[0].Have
	}
}

func (x *sender) stream(ctx context.Context, of note.UNID, ref store.ObjectRef, from uint64) error {
	if from > ref.Size {
		return formatError("%d bytes of object %s, which has %d", from, ref.Digest, ref.Size)
	}
	r, err := x.from.Object(ctx, x.db, of, ref, from)
	if err != nil {
		return wrap("source", err)
	}
	err = x.to.PutObject(ctx, x.db, ref, from, io.LimitReader(r, int64(ref.Size-from)))
	return errors.Join(wrap("target", err), wrap("source", r.Close()))
}
