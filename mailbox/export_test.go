package mailbox

import (
	"context"

	"doublet/store"
)

// DeletePiece is deletePiece.
const DeletePiece = deletePiece

// Hide runs only the first step of the deletion of a large folder, as if the power failed then.
func Hide(ctx context.Context, f *File, name string) error {
	h, err := f.Folder(ctx, name)
	if err != nil {
		return err
	}
	return f.hide(ctx, name, h.ID)
}

// Looks returns the number of messages that a query reads, not counting those in its result, and the number that it
// finds.
func Looks(ctx context.Context, f *File, q *Query) (looks, total int, err error) {
	err = f.withRoll(ctx, func(l *roll, r *store.Reader) error {
		x := f.querying(ctx, l, r, q)
		var out Found
		_, err := x.window(&out)
		looks, total = x.looks, out.Total
		return err
	})
	return looks, total, err
}

// Scratch returns the number of bytes that a view holds for summaries.
func (v *View) Scratch() int {
	if v.scratch == nil {
		return 0
	}
	return cap(*v.scratch)
}
