package mailbox

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"doublet/note"
	"doublet/store"
)

// settleBatch is the number of messages that one commit of Settle removes or marks.
const settleBatch = 5000

// UIDs returns the UIDs of the messages that the session knows, ascending.
func (v *View) UIDs(ctx context.Context) ([]uint32, error) {
	out := make([]uint32, 0, v.exists)
	err := v.f.read(ctx, func(r *store.Reader) error {
		if v.uidNext <= 1 {
			return nil
		}
		return v.members(r, []Range{{1, v.uidNext - 1}}, func(uid uint32, _ note.ID) (bool, error) {
			out = append(out, uid)
			return true, nil
		})
	})
	return out, err
}

// Settle ends a POP3 session: it marks messages \Seen and removes others from the folder, whatever their flags, in
// commits of 5,000 messages. It skips messages that no longer exist.
func (v *View) Settle(ctx context.Context, seen, remove []uint32) error {
	if v.readOnly {
		return ErrReadOnly
	}
	for part := range slices.Chunk(seen, settleBatch) {
		if err := v.settle(ctx, part, nil); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(remove, settleBatch) {
		if err := v.settle(ctx, nil, part); err != nil {
			return err
		}
	}
	return nil
}

func (o *opened) settle(ctx context.Context, seen, remove []uint32) error {
	return o.f.update(ctx, func(w *store.Writer) error {
		each := func(uids []uint32, fn func(id note.ID) error) error {
			for _, uid := range uids {
				id, err := w.Member(o.folder, uid)
				if err == nil {
					err = fn(id)
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
			}
			return nil
		}
		err := each(seen, func(id note.ID) error { return w.SetSeen(id, o.f.who.Person, true) })
		if err != nil {
			return err
		}
		return each(remove, func(id note.ID) error { return o.f.expunge(w, id, o.folder) })
	})
}

// Travels returns the size of the message with CRLF line ends, as POP3 sends it. known is false if the summary lacks
// it, because an older version stored the message; the caller then has to read the message.
func (m *Message) Travels() (size int64, known bool, err error) {
	if _, err := m.field(fieldPreview); err != nil { // reads the summary
		return 0, false, err
	}
	sum := m.summary
	for range fieldTravel {
		n, k := binary.Uvarint(sum)
		sum = sum[k+int(n):] // checked by field
	}
	n, k := binary.Uvarint(sum)
	if k <= 0 || n > uint64(len(sum)-k) {
		return 0, false, nil
	}
	more, k := binary.Uvarint(sum[k : k+int(n)])
	return m.Size() + int64(more), k > 0, nil
}
