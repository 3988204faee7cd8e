package dump

import (
	"encoding/hex"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

func (d *dumper) notes() error {
	return d.scan(layout.Prefix(d.db, layout.KindNote), d.note)
}

func (d *dumper) note(k, v []byte) error {
	id := note.ID(layout.Tail64(k))
	n, err := layout.ReadNote(v)
	if err != nil {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "note", "id", uint64(id), "unid", n.UNID.String(), "class", n.Class.String(), "stub", n.Stub,
		"sequence", n.Seq, "modseq", uint64(n.Mod),
		"created", uint64(n.Created), "recipe", uint64(n.Recipe), "size", n.Size, "date", seconds(n.Date), "thread",
		unid(n.Thread), "author", unid(n.Author),
		"foldered", n.Foldered, "attached", n.Attached)
	for _, m := range n.Members {
		d.record(1, "member", "folder", uint64(m.Folder), "uid", m.UID, "saved", seconds(m.Saved), "deleted", m.Deleted)
	}
	d.state(n.State)
	ck := layout.NoteKey(d.db, layout.KindContent, id)
	cv, err := d.get(ck)
	if errors.Is(err, store.ErrNotFound) {
		d.record(1, "content", "missing", true)
		return nil
	}
	if err != nil {
		return err
	}
	plain, err := d.s.Unseal(ck, cv)
	if errors.Is(err, store.ErrLocked) {
		d.record(1, "content", "locked", true)
		return nil
	}
	c, err := layout.ReadContentRow(plain)
	if err != nil {
		if d.o.Secret != nil {
			cv = nil // it is not known to which item its bytes belong
		}
		d.bad(1, ck, cv)
		return nil
	}
	win, _ := c.Tree.Winner()
	for _, x := range c.Tree {
		parent := ""
		if !x.Parent.IsZero() {
			parent = x.Parent.String()
		}
		d.record(1, "revision", "rev", x.Rev.String(), "parent", parent, "winner", x.Rev == win.Rev, "deleted",
			x.Deleted, "changed", x.Changed)
	}
	if len(c.Summary) > 0 {
		d.record(1, "summary", "bytes", len(c.Summary), "hex", hexBytes(c.Summary))
	}
	d.content(1, &c.Content)
	return d.scan(layout.NoteKey(d.db, layout.KindLeaf, id), d.leaf)
}

// leaf prints a conflict of a note.
func (d *dumper) leaf(k, v []byte) error {
	plain, err := d.s.Unseal(k, v)
	if errors.Is(err, store.ErrLocked) {
		d.record(1, "conflict", "locked", true)
		return nil
	}
	var c note.Content
	if err == nil {
		c, _, err = note.ReadContent(plain)
	}
	_, _, rest, _ := layout.Split(k)
	if err != nil || len(rest) != 32 {
		if d.o.Secret != nil {
			v = nil // as of a damaged content
		}
		d.bad(1, k, v)
		return nil
	}
	d.record(1, "conflict", "rev", fmt.Sprintf("%d-%s", layout.Tail64(rest[8:16]), hex.EncodeToString(rest[16:])))
	d.content(2, &c)
	return nil
}

var stateNames = map[note.StateKind]string{note.Keyword: "keyword", note.Seen: "seen", note.Member: "member",
	note.Subscribed: "subscribed"}

var valueNames = []string{"off", "on", "deleted"}

func (d *dumper) state(s note.State) {
	for _, it := range s {
		name, key, value := stateNames[it.Kind], it.Key, fmt.Sprint(it.Value)
		if name == "" {
			name = fmt.Sprint(it.Kind)
		}
		if it.Kind != note.Keyword {
			key = hex.EncodeToString([]byte(key))
		}
		if int(it.Value) < len(valueNames) {
			value = valueNames[it.Value]
		}
		d.record(1, "state", "of", name, "key", key, "value", value, "time", seconds(it.Stamp.Time>>16/1000), "stamp",
			it.Stamp.Time,
			"replica", fmt.Sprintf("%016x", uint64(it.Stamp.Replica)))
	}
}

func (d *dumper) content(depth int, c *note.Content) {
	for _, it := range c.Items {
		var v any = value(it.Value)
		if d.o.Secret != nil && d.o.Secret(it.Name) {
			v = fmt.Sprintf("(secret, %d bytes)", len(it.Value))
		}
		d.record(depth, "item", "name", it.Name, "value", v)
	}
	for _, a := range c.Attachments {
		d.record(depth, "attachment", "name", a.Name, "type", a.Type, "digest", a.Digest.String(), "size", a.Size)
	}
	if !c.Message.IsZero() {
		d.record(depth, "message", "digest", c.Message.String())
	}
}

// rows prints the rows that are derived from the notes.
func (d *dumper) rows() error {
	for _, x := range []struct {
		kind layout.Kind
		fn   func(k, v []byte) error
	}{
		{layout.KindUNID, d.unidRow}, {layout.KindSequence, d.sequenceRow}, {layout.KindModSeq, d.changeRow},
		{layout.KindMember, d.memberRow},
		{layout.KindChunk, d.chunkRow}, {layout.KindDeleted, d.deletedRow}, {layout.KindThread, d.threadRow},
		{layout.KindView, d.viewRow},
	} {
		if err := d.scan(layout.Prefix(d.db, x.kind), x.fn); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) unidRow(k, v []byte) error {
	id, err := layout.ReadUNIDRow(v)
	if err != nil {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "unid", "unid", hexBytes(k[6:]), "note", uint64(id), "grave", id == 0)
	return nil
}

func (d *dumper) sequenceRow(k, v []byte) error {
	id, err := layout.ReadUNIDRow(v)
	if err != nil {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "sequence", "sequence", layout.Tail64(k), "note", uint64(id))
	return nil
}

func (d *dumper) changeRow(k, v []byte) error {
	c, err := layout.ReadChange(v)
	if err != nil {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "modseq", "modseq", layout.Tail64(k), "note", uint64(c.Note), "expunged", c.Expunged, "gone", c.Gone,
		"folder", uint64(c.Folder),
		"uid", c.UID, "unid", unid(c.UNID), "time", seconds(c.Time))
	return nil
}

func (d *dumper) memberRow(k, v []byte) error {
	id, err := layout.ReadUNIDRow(v)
	if err != nil || len(k) != 18 {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "index", "folder", layout.Tail64(k[:14]), "uid", layout.Tail32(k), "note", uint64(id))
	return nil
}

func (d *dumper) chunkRow(k, v []byte) error {
	c, err := layout.ReadChunk(v)
	if err != nil || len(k) != 18 {
		d.bad(0, k, v)
		return nil
	}
	first := layout.Tail32(k) << layout.ChunkShift
	d.record(0, "chunk", "folder", layout.Tail64(k[:14]), "from_uid", first, "total", c.Total)
	d.seen(c.Seen)
	return nil
}

func (d *dumper) deletedRow(k, v []byte) error {
	if len(k) != 18 {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "deleted", "folder", layout.Tail64(k[:14]), "uid", layout.Tail32(k))
	return nil
}

func (d *dumper) threadRow(k, v []byte) error {
	if len(k) != 30 {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "thread", "thread", hexBytes(k[6:22]), "note", layout.Tail64(k))
	return nil
}

// viewRow prints the rows of built-in indexes. Views have a dump of their own.
func (d *dumper) viewRow(k, v []byte) error {
	if len(k) < 14 {
		d.bad(0, k, v)
		return nil
	}
	number := layout.Tail64(k[:14])
	if number>>63 != 0 {
		return errStop
	}
	if len(k) < 23 {
		d.bad(0, k, v)
		return nil
	}
	d.record(0, "entry", "index", number, "key", string(k[14:len(k)-9]), "note", layout.Tail64(k))
	return nil
}
