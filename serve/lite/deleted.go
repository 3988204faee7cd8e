package lite

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// deletedPage lists the deleted messages that can be restored.
type deletedPage struct {
	*frame
	Page         string
	Rows         []deletedRow
	Newer, Older string // addresses, or ""
	More         int    // the server lists no more than so many; 0 if these are all
}

// deletedRow is a deleted message.
type deletedRow struct{ ID, Who, Subject, When string }

// deleted shows the deleted messages of the user's mail file that can be restored.
func (v *visit) deleted() error {
	own, err := v.own()
	if err != nil {
		return err
	}
	fr, _, err := v.framed("deleted.recover", note.UNID{})
	if err != nil {
		return err
	}
	list, more, err := own.Recoverable(v.ctx, time.Time{})
	if err != nil {
		return err
	}
	p := &deletedPage{frame: fr}
	if more {
		p.More = len(list)
	}
	page, _ := strconv.Atoi(v.form.Get("p")) // 0 if it is not a number
	page = max(1, min(page, (len(list)+perPage-1)/perPage))
	p.Page = strconv.Itoa(page)
	if page > 1 {
		p.Newer = v.at(pathDeleted, "p", strconv.Itoa(page-1))
	}
	if page*perPage < len(list) {
		p.Older = v.at(pathDeleted, "p", strconv.Itoa(page+1))
	}
	for i := range list[min(len(list), (page-1)*perPage):min(len(list), page*perPage)] {
		p.Rows = append(p.Rows, v.deletedRow(&list[(page-1)*perPage+i]))
	}
	v.toldOf(fr, "")
	v.s.show(v.w, 200, "deleted.html", p)
	return nil
}

func (v *visit) deletedRow(m *mailbox.Recoverable) deletedRow {
	var from []string
	for i := range m.Folders {
		from = append(from, v.fullName(&m.Folders[i]))
	}
	return deletedRow{ID: m.UNID.String(), Who: fit(names(m.From), 50, 80),
		Subject: fit(mime.DecodeWords(m.Subject), 120, 160),
		When:    v.T("deleted.deletedAt", v.Long(m.Deleted), fit(strings.Join(from, ", "), 80, 120))}
}

// restore puts the checked messages back into their folders.
func (v *visit) restore() error {
	own, err := v.own()
	if err != nil {
		return err
	}
	var ids []note.UNID
	for _, s := range v.form.Values["m"] {
		u, err := unid(s)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, u) && len(ids) < perPage {
			ids = append(ids, u)
		}
	}
	said, n := "nothingSelected", 0
	if len(ids) > 0 {
		if n, err = own.restore(v.ctx, ids); err != nil {
			return err
		}
		if said = "restoredCount"; n == 0 {
			said = "deleted.gone"
		}
	}
	return v.leave(pathDeleted, "said", said, "n", strconv.Itoa(n), "p", v.form.Get("p"))
}

// restore restores deleted messages, and returns their number. It skips those that are no longer there.
func (b *box) restore(ctx context.Context, ids []note.UNID) (n int, err error) {
	results, err := b.Recover(ctx, ids)
	if err != nil {
		return 0, err
	}
	for i := range results {
		switch r := &results[i]; {
		case r.Err == nil:
			n++
		case !errors.Is(r.Err, mailbox.ErrNoMessage):
			err = r.Err
		}
	}
	if n > 0 {
		err = nil // the page shows the number
	}
	return n, err
}
