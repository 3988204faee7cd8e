package check

import (
	"doublet/note"
	"doublet/store/layout"
)

// idRows calls fn for each row of a kind whose value is the id of a note. It reports those that cannot be read.
func (d *database) idRows(k layout.Kind, kind Kind, size int, fn func(key []byte, id note.ID)) error {
	return d.scan(d.prefix(k), func(key, value []byte) error {
		if id, err := layout.ReadUNIDRow(value); err == nil && len(key) == size {
			fn(key, id)
		} else {
			d.report(kind, key, []change{drop(key)}, "cannot be read")
		}
		return nil
	})
}

func (d *database) unids() error {
	return d.idRows(layout.KindUNID, UNIDRow, 22, func(k []byte, id note.ID) {
		u := note.UNID(k[6:])
		d.highNote = max(d.highNote, id)
		if id == 0 {
			return // a grave; a note with this UNID will miss its row
		}
		if r := d.find(id); r != nil && r.unid == u {
			r.mark |= hasUNID
			return
		}
		d.report(UNIDRow, k, []change{drop(k)}, "%s leads to note %d, which is not it", u, id)
	})
}

func (d *database) sequences() error {
	return d.idRows(layout.KindSequence, SequenceRow, 14, func(k []byte, id note.ID) {
		seq := layout.Tail64(k)
		r := d.find(id)
		if r == nil || r.seq != seq {
			d.report(SequenceRow, k, []change{drop(k)}, "note %d did not change last at sequence %d", id, seq)
			return
		}
		r.mark |= hasSequence
		if seq > d.cut {
			d.fresh++
		}
	})
}

// unnumbered compares the rows of unnumbered notes with the notes.
func (d *database) unnumbered() error {
	return d.idRows(layout.KindUnnumbered, UnnumberedRow, 14, func(k []byte, id note.ID) {
		if r := d.find(id); r != nil && r.unnumbered && r.seq == layout.Tail64(k) {
			r.mark |= hasUnnumbered
			return
		}
		d.report(UnnumberedRow, k, []change{drop(k)}, "note %d is numbered, or changed last at another sequence", id)
	})
}

func (d *database) threads() error {
	return d.scan(d.prefix(layout.KindThread), func(k, _ []byte) error {
		if len(k) != 30 {
			d.report(ThreadRow, k, []change{drop(k)}, "a key of %d bytes", len(k))
			return nil
		}
		id, thread := note.ID(layout.Tail64(k)), note.UNID(k[6:22])
		if r := d.find(id); r != nil && r.thread == thread && !thread.IsZero() {
			r.mark |= hasThread
			return nil
		}
		d.report(ThreadRow, k, []change{drop(k)}, "note %d is not in thread %s", id, thread)
		return nil
	})
}

func (d *database) modseqs() error {
	floor := d.counters.Floor
	return d.scan(d.prefix(layout.KindModSeq), func(k, v []byte) error {
		c, err := layout.ReadChange(v)
		if err != nil || len(k) != 14 {
			d.report(ModSeqRow, k, []change{drop(k)}, "cannot be read")
			return nil
		}
		mod := note.ModSeq(layout.Tail64(k))
		d.highNote = max(d.highNote, c.Note)
		r := d.find(c.Note)
		if !c.Expunged {
			if r == nil || !r.listed || r.mod != mod {
				d.report(ModSeqRow, k, []change{drop(k)}, "note %d did not change last at MODSEQ %d", c.Note, mod)
				return nil
			}
			r.mark |= hasModSeq
			return nil
		}
		d.lastTime = max(d.lastTime, c.Time)
		if mod <= floor {
			d.report(ModSeqRow, k, []change{drop(k)}, "an expunge at %d, below the floor %d", mod, floor)
			return nil
		}
		if r != nil && c.Folder != 0 {
			for _, m := range r.members {
				if m.Folder == c.Folder && m.UID == c.UID {
					d.report(ModSeqRow, k, []change{drop(k)}, "expunge of UID %d of folder %d, where note %d still is",
						c.UID, c.Folder, c.Note)
					return nil
				}
			}
		}
		d.highMod = max(d.highMod, mod)
		if d.noCount { // otherwise the ledger counts: UIDs from before a renumbering are above the ledger's
			d.highUID = max(d.highUID, c.UID)
		}
		d.expunged++
		return nil
	})
}

// missing reports derived rows that no scan has found.
func (d *database) missing() error {
	for i := range d.list {
		r := &d.list[i]
		if r.mark&hasUNID == 0 {
			key := layout.UNIDKey(d.num, r.unid)
			d.report(UNIDRow, key, []change{put(key, layout.UNIDRow(r.id))}, "missing, or a grave: note %d", r.id)
		}
		if err := d.missingSequence(r); err != nil {
			return err
		}
		if r.unnumbered && r.mark&hasUnnumbered == 0 {
			key := layout.IDKey(d.num, layout.KindUnnumbered, r.seq)
			d.report(UnnumberedRow, key, []change{put(key, layout.UNIDRow(r.id))}, "missing: note %d", r.id)
		}
		if err := d.missingModSeq(r); err != nil {
			return err
		}
		if r.mark&hasThread == 0 && !r.thread.IsZero() {
			key := layout.ThreadKey(d.num, r.thread, r.id)
			d.report(ThreadRow, key, []change{put(key, nil)}, "missing: note %d", r.id)
		}
		if int(r.found) != len(r.members) {
			if err := d.folders.missingMembers(r); err != nil {
				return err
			}
		}
		if err := d.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// missingSequence restores a note's by-sequence row if no scan has found it. If another note has the same sequence, the
// note gets a free one.
func (d *database) missingSequence(r *rec) error {
	if r.mark&hasSequence != 0 {
		return nil
	}
	key := layout.IDKey(d.num, layout.KindSequence, r.seq)
	v, ok, err := d.get(key)
	if err != nil {
		return err
	}
	id, _ := layout.ReadUNIDRow(v)
	if o := d.find(id); !ok || o == nil || o.seq != r.seq {
		d.report(SequenceRow, key, []change{put(key, layout.UNIDRow(r.id))}, "missing: note %d", r.id)
		return nil
	}
	n, err := d.readNote(d.num, r.id)
	if err != nil || n == nil {
		return err
	}
	var changes []change
	if n.Seq, ok = d.freeSequence(max(d.counters.Seq, d.highSeq)); ok {
		changes = []change{
			put(layout.NoteKey(d.num, layout.KindNote, r.id), layout.AppendNote(nil, n)),
			put(layout.IDKey(d.num, layout.KindSequence, n.Seq), layout.UNIDRow(r.id)),
		}
	}
	d.report(SequenceRow, key, changes, "note %d has it, and so says note %d", id, r.id)
	return nil
}

// missingModSeq does the same for the by-MODSEQ row.
func (d *database) missingModSeq(r *rec) error {
	if r.mark&hasModSeq != 0 || !r.listed && (r.stub || r.unnumbered) {
		return nil
	}
	key := layout.IDKey(d.num, layout.KindModSeq, uint64(r.mod))
	v, ok, err := d.get(key)
	if err != nil {
		return err
	}
	c, cerr := layout.ReadChange(v)
	o := d.find(c.Note)
	if r.mod != 0 && (!ok || cerr != nil || !c.Expunged && (o == nil || o.mod != r.mod)) {
		d.report(ModSeqRow, key, []change{put(key, layout.AppendChange(nil, &layout.Change{Note: r.id}))},
			"missing: note %d", r.id)
		return nil
	}
	n, err := d.readNote(d.num, r.id)
	if err != nil || n == nil {
		return err
	}
	n.Mod = d.freeMod()
	d.report(ModSeqRow, key, []change{
		put(layout.NoteKey(d.num, layout.KindNote, r.id), layout.AppendNote(nil, n)),
		put(layout.IDKey(d.num, layout.KindModSeq, uint64(n.Mod)),
			layout.AppendChange(nil, &layout.Change{Note: r.id})),
	}, "another change has it, and so says note %d", r.id)
	return nil
}
