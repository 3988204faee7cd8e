package junk

import (
	"context"
	"slices"

	"doublet/mail/bayes"
	"doublet/note"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

type address = mime.Address

// firstOf is the number of messages of each kind that are read of a mail file of which nothing was learned: the newest
// ones.
const firstOf = 1000

// lesson learns from messages of one mail file.
type lesson struct {
	l      *learner
	f      *Filter
	db     note.DatabaseID
	places places
	entry  *entry
	// release ends the use of the entry. It is nil if entry is nil.
	release func()
}

// run learns from the messages ids. Nothing is learned from a mail file before its owner files junk, unless the model
// of the server learns from it: one class alone gives no verdict. Then it is learned from all messages.
func (b *lesson) run(ctx context.Context, r *store.Reader, ids []note.ID) error {
	for _, id := range ids {
		row, err := r.Note(id)
		if err != nil {
			continue // removed; what was learned of it stays
		}
		v := b.places.evidence(r, row)
		if v == none {
			continue
		}
		ready, first, err := b.open(ctx, v)
		if err != nil {
			return err
		}
		if !ready {
			continue
		}
		if first {
			return b.all(ctx, r)
		}
		if err := b.learn(ctx, r, id, row, v); err != nil {
			return err
		}
	}
	return nil
}

// open finds the entry of the mail file for a message. ready is set if something may be learned, first if nothing was
// ever learned from the mail file.
func (b *lesson) open(ctx context.Context, v evidence) (ready, first bool, err error) {
	if b.entry == nil {
		if b.entry, b.release, err = b.f.hold(ctx, b.db); err != nil {
			return false, false, err
		}
	}
	if v != isJunk && b.entry.empty() && !b.l.sharing(ctx, b.db) {
		return false, false, nil
	}
	return true, b.entry.begin(ownBits), nil
}

// empty reports whether nothing was ever learned.
func (e *entry) empty() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.memory == nil
}

// begin makes the memory of an entry that has none.
func (e *entry) begin(bits int) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.memory == nil {
		e.memory, e.dirty, first = bayes.NewMemory(bits), true, true
	}
	return first
}

// all learns from the newest messages of the mail file.
func (b *lesson) all(ctx context.Context, r *store.Reader) error {
	kinds := map[evidence][]note.ID{}
	if err := r.Notes(0, func(id note.ID, row *layout.Note) bool {
		v := b.places.evidence(r, row)
		if v == isRead {
			v = isGood
		}
		if v == isJunk || v == isGood || v == isSent {
			if kinds[v] = append(kinds[v], id); len(kinds[v]) >= 2*firstOf {
				kinds[v] = slices.Clone(kinds[v][firstOf:])
			}
		}
		return ctx.Err() == nil
	}); err != nil {
		return err
	}
	var ids []note.ID
	for _, list := range kinds {
		ids = append(ids, list[max(len(list)-firstOf, 0):]...)
	}
	slices.Sort(ids)
	for _, id := range ids {
		row, err := r.Note(id)
		if err != nil {
			continue
		}
		if err := b.learn(ctx, r, id, row, b.places.evidence(r, row)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// learn learns from one message what its state says.
func (b *lesson) learn(ctx context.Context, r *store.Reader, id note.ID, row *layout.Note, v evidence) error {
	e := b.entry
	e.mu.RLock()
	was := e.memory.ClassOf(row.UNID[:])
	_, good := e.memory.Model.Messages()
	e.mu.RUnlock()
	c := v.class(was, good < weakGood)
	if c == was && v != isSent {
		return nil
	}
	t, err := readMessage(r, id, row, b.f.opt.Parts)
	if err != nil {
		b.f.stat.failed.Inc()
		b.f.env.Log.Warn("junk: cannot read a message", "database", b.db.String(), "note", uint64(id), "err", err)
		return nil
	}
	if v == isSent {
		e.know(t)
		return nil
	}
	tokens := bayes.Read(t.raw, t.root)
	e.learn(row.UNID[:], tokens, c)
	b.f.sized(b.db, e)
	b.f.stat.learned(c)
	if !b.l.sharing(ctx, b.db) {
		return nil
	}
	all, release, err := b.f.hold(ctx, server)
	defer release()
	if err != nil {
		return err
	}
	all.begin(serverBits)
	all.learn(append([]byte(b.db.String()), row.UNID[:]...), tokens, c)
	b.f.sized(server, all)
	return nil
}

func (e *entry) learn(id []byte, t bayes.Tokens, c bayes.Class) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dirty = e.memory.Learn(id, t, c) || e.dirty
}

// read is a message that was read for learning.
type read struct {
	raw  []byte
	root *mime.Part
}

// sparseFrom is the size in bytes from which a message is read without its large parts that are not text.
const sparseFrom = 64 << 10

// readMessage reads and parses a message. Its tokens are those of the whole message.
func readMessage(r *store.Reader, id note.ID, row *layout.Note,
	partsOf func(summary []byte) (mime.Index, bool)) (*read, error) {
	st, err := r.Message(row)
	if err != nil {
		return nil, err
	}
	if row.Size >= sparseFrom && partsOf != nil {
		sum, err := r.Summary(nil, id)
		if err != nil {
			return nil, err
		}
		if parts, ok := partsOf(sum); ok {
			sp, err := text.ReadSparse(st.Size(), parts, st.AppendRange)
			if err != nil {
				return nil, err
			}
			return &read{sp.Raw(), mime.Parse(sp.Raw(), mime.Limits{})}, nil
		}
	}
	raw, err := st.AppendRange(make([]byte, 0, min(st.Size(), text.MaxMessage)), 0, text.MaxMessage)
	if err != nil {
		return nil, err
	}
	return &read{raw, mime.Parse(raw, mime.Limits{})}, nil
}
