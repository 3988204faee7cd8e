package cluster

import (
	"encoding/binary"

	"doublet/note"
)

// appendEntries encodes the documents that a server needs before it has the Cluster Database Directory.
func appendEntries(list []*Entry) []byte {
	b := binary.AppendUvarint([]byte{Version}, uint64(len(list)))
	for _, e := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(e.ID))
		for _, s := range []string{e.Kind, e.Title} {
			s = s[:min(len(s), maxWord)]
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
		b = binary.AppendUvarint(append(b, bits(e.Queue)), uint64(len(e.Replicas)))
		for _, r := range e.Replicas {
			b = append(append(b, r.Server[:]...), r.Slot)
			b = binary.BigEndian.AppendUint64(binary.AppendVarint(b, int64(r.Order)), r.Incarnation)
		}
	}
	return b
}

func readEntries(b []byte) ([]*Entry, error) {
	r, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := make([]*Entry, r.AtMost(maxPositions, 12))
	for i := range list {
		e := &Entry{ID: note.DatabaseID(r.Uint64()), Kind: r.Word(maxWord), Title: r.Word(maxWord)}
		e.Queue = r.Byte()&1 != 0
		for range r.AtMost(note.Slots, 26) {
			x := Replica{Server: r.UNID(), Slot: r.Byte() & (note.Slots - 1), State: Serving}
			x.Order, x.Incarnation = int(r.Varint()), r.Uint64()
			e.Replicas = append(e.Replicas, x)
			e.used |= 1 << x.Slot
		}
		e.sort()
		list[i] = e
	}
	return list, r.end()
}
