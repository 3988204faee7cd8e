package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/note"
)

// Listing are the arguments of the verbs that list named documents of the directory.
type Listing struct {
	Prefix  string `json:"prefix" arg:"optional" help:"only names that begin so"`
	Search  string `json:"search" help:"only those whose names or addresses contain it"`
	After   string `json:"after" help:"only names behind this one, in the order of the list"`
	Limit   int    `json:"limit" help:"at most so many (1,000,000 where none is given)"`
	Removed bool   `json:"removed" help:"those that were removed and can be brought back"`
}

// everything is the maximum number of entries that a list verb returns without a limit.
const everything = 1_000_000

// page returns at most limit elements of a list in its order, from those after a position. next is the position of the
// next page, "" at the end.
type page[D any] func(limit int, after string) (list []D, next string, err error)

// whole returns a list as its only page.
func whole[D any](list []D, err error) page[D] {
	return func(int, string) ([]D, string, error) { return list, "", err }
}

// listed is the frame of list verbs. It reads page after page from the one after a position, keeps the elements that
// fit, and returns a row for each of the first limit ones. The result is never nil: it is [] in JSON.
func listed[D, R any](limit int, after string, read page[D], fits func(*D) bool, row func(D) R) ([]R, error) {
	out := []R{}
	for size := min(limit, 1000); len(out) < limit; size = 1000 {
		list, next, err := read(size, after)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if len(out) < limit && fits(&list[i]) {
				out = append(out, row(list[i]))
			}
		}
		if after = next; next == "" {
			break
		}
	}
	return out, nil
}

// rows returns the frame for a list that the verb shows as a whole.
func rows[D, R any](row func(D) R) func([]D, error) ([]R, error) {
	return func(list []D, err error) ([]R, error) {
		return listed(everything, "", whole(list, err), func(*D) bool { return true }, row)
	}
}

// atMost returns a verb's limit, or standard without one.
func atMost(limit, standard int) int {
	if limit <= 0 {
		return standard
	}
	return limit
}

// holds reports whether a text contains a part, in any case.
func holds(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// documents describes the named documents of a form in the directory, and their rows in the results of verbs.
type documents[D, R any] struct {
	form, word string
	list       func(ctx context.Context, prefix string, limit int, after string) ([]D, string, error)
	get        func(context.Context, note.UNID) (D, error)
	named      func(context.Context, string) (D, error)
	row        func(context.Context, D) R
	// names are the texts in which Listing.Search looks.
	names func(*D) []string
}

// find returns the document with a name, an address or an id.
func (x documents[D, R]) find(ctx context.Context, name string) (D, error) {
	d, err := x.named(ctx, name)
	if errors.Is(err, directory.ErrNotFound) || errors.Is(err, directory.ErrInvalid) {
		if id, bad := note.ParseUNID(name); bad == nil {
			return x.get(ctx, id)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s %q: %w", x.word, name, err)
	}
	return d, err
}

// listDocuments returns the function of a verb that lists documents. The removed ones come in the order of their
// removal, the newest first.
func listDocuments[D, R any](of func(*Call) documents[D, R]) func(context.Context, *Call, *Listing) ([]R, error) {
	return func(ctx context.Context, c *Call, a *Listing) ([]R, error) {
		x := of(c)
		read := func(limit int, after string) ([]D, string, error) { return x.list(ctx, a.Prefix, limit, after) }
		if a.Removed {
			read = whole(x.removed(ctx, c, a.Prefix))
		}
		search := strings.TrimSpace(a.Search)
		return listed(atMost(a.Limit, everything), directory.ListedName(a.After), read, func(d *D) bool {
			return search == "" || slices.ContainsFunc(x.names(d), func(s string) bool { return holds(s, search) })
		}, func(d D) R { return x.row(ctx, d) })
	}
}

// removed returns the removed documents whose names begin with prefix.
func (x documents[D, R]) removed(ctx context.Context, c *Call, prefix string) (out []D, err error) {
	all, err := c.removed(ctx, x.form, "")
	for _, r := range all {
		if !strings.HasPrefix(directory.ListedName(r.Name), directory.ListedName(prefix)) {
			continue
		}
		d, err := x.get(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, err
}
