package directory

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"doublet/note"
	"doublet/store"
)

// maxPage is the maximum number of entries in one page of a listing.
const maxPage = 1000

// ListedName returns a name in the form by which lists are sorted. Pass it as after to list the entries that follow the
// name.
func ListedName(name string) string {
	if n, err := NormalName(name); err == nil {
		return n
	}
	return lower(name)
}

// list calls fn, in order, for the documents of a form whose canonical name begins with prefix and sorts after the name
// in after. It returns the name from which to continue, or "" at the end.
func (b *base) list(ctx context.Context, letter byte, prefix string, limit int, after string,
	fn func(note.UNID, note.Items)) (next string, err error) {
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	begin := append([]byte{letter}, lower(strings.TrimLeft(prefix, " "))...)
	from := begin
	if a := append([]byte{letter}, after...); after != "" && bytes.Compare(a, from) >= 0 {
		// Rows are key, 0x00, id: 0x01 sorts after all rows of the key after.
		from = append(a, 1)
	}
	err = b.read(ctx, func(r *store.Reader) error {
		var ids []note.ID
		var last []byte
		err := r.Scan(indexList, from, func(key []byte, id note.ID) bool {
			if !bytes.HasPrefix(key, begin) {
				return false
			}
			// A name is unique unless replicas conflict. Keep entries with the same name on one page.
			if len(ids) >= limit && !bytes.Equal(key, last) {
				next = string(last[1:])
				return false
			}
			ids, last = append(ids, id), append(last[:0], key...)
			return true
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			row, c, err := r.Document(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			fn(row.UNID, c.Content.Items)
		}
		return nil
	})
	return next, err
}
