package mailbox

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"doublet/note"
	"doublet/store"
)

// Limits on annotations.
const (
	// MaxAnnotation is the maximum length of a value, in bytes.
	MaxAnnotation = 16 << 10
	// maxAnnotations and maxAnnotationBytes apply to each folder: once to the annotations of each person, once to the
	// shared ones.
	maxAnnotations     = 100
	maxAnnotationBytes = 128 << 10
)

// Errors for an annotation that is rejected.
var (
	ErrAnnotationSize  = errors.New("annotation is too long")
	ErrAnnotationCount = errors.New("too many annotations")
)

// Annotation is an entry of METADATA (RFC 5464): a name below /private/ or /shared/, in lower case, and a value. Each
// person has their own entries below /private/.
type Annotation struct {
	Name, Value string
	// Remove, in SetAnnotations, removes the annotation.
	Remove bool
}

// Prefixes of the items of a folder's note that hold annotations: shared ones, and those of a person.
const (
	itemShared  = "$Shared."
	itemPrivate = "$Private."
)

// itemOf returns the name of the item for an annotation, the prefix of its kind, and the right needed to set it.
func (hd *handle) itemOf(name string, server bool) (item, kind string, right note.Rights) {
	kind, right = itemShared, note.Lookup|note.Write
	rest := strings.TrimPrefix(name, "/shared/")
	if private, ok := strings.CutPrefix(name, "/private/"); ok {
		kind, rest, right = itemPrivate+hd.who.Person.String()+".", private, note.Lookup
	}
	if server {
		kind += "*"
	}
	return kind + rest, kind, right
}

// Annotations returns the annotations of a folder that the person may see. With name "" it returns those of the server,
// which are stored at the person's INBOX.
func (f *File) Annotations(ctx context.Context, name string) (list []Annotation, err error) {
	list, _, err = f.AnnotationsSince(ctx, name, 0)
	return list, err
}

// AnnotationsSince is like Annotations, but also returns a state. If that is equal to since, the annotations have not
// changed, and none are returned. A state is never 0.
func (f *File) AnnotationsSince(ctx context.Context, name string,
	since uint64) (list []Annotation, now uint64, err error) {
	server := name == ""
	if server {
		name = Inbox
	}
	err = f.read(ctx, func(r *store.Reader) error {
		h, err := f.named(r, name)
		if err != nil {
			return err
		}
		row, err := r.Row(h.Note)
		if err != nil {
			return err
		}
		if now = row.Seq; now == since {
			return nil
		}
		items, err := r.FolderItems(h.Note)
		if err != nil {
			return err
		}
		g := r.FolderRights(h)
		for _, kind := range []string{"/private/", "/shared/"} {
			// Shared annotations are visible only with a right to the folder's contents (RFC 5464 section 3.3).
			if kind == "/shared/" && g&(note.Read|note.KeepSeen|note.Write|note.Insert|note.Post) == 0 {
				continue
			}
			_, prefix, _ := f.itemOf(kind, server)
			for _, it := range items {
				rest, ok := strings.CutPrefix(it.Name, prefix)
				if ok && !strings.HasPrefix(rest, "*") {
					list = append(list, Annotation{Name: kind + rest, Value: string(it.Value.AsBinary())})
				}
			}
		}
		return nil
	})
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, now, err
}

// SetAnnotations sets and removes annotations of a folder, all or none. With name "" it changes those of the server,
// where each person has only private ones.
func (f *File) SetAnnotations(ctx context.Context, name string, set []Annotation) error {
	server := name == ""
	if server {
		name = Inbox
	}
	return f.update(ctx, func(w *store.Writer) error {
		h, err := f.named(&w.Reader, name)
		if err != nil {
			return err
		}
		for i := range set {
			if err := f.annotate(w, h.Note, &set[i], server); err != nil {
				return err
			}
		}
		return nil
	})
}

func (hd *handle) annotate(w *store.Writer, folder note.ID, a *Annotation, server bool) error {
	item, kind, right := hd.itemOf(a.Name, server)
	if server && kind == itemShared+"*" {
		return store.ErrDenied // nobody may set shared annotations of the server
	}
	if a.Remove {
		return w.SetFolderItem(folder, item, nil, right)
	}
	if len(a.Value) > MaxAnnotation {
		return fmt.Errorf("%w: %d bytes", ErrAnnotationSize, len(a.Value))
	}
	items, err := w.FolderItems(folder)
	if err != nil {
		return err
	}
	count, bytes := 1, len(a.Value)+len(item)
	for _, it := range items {
		if strings.HasPrefix(it.Name, kind) && it.Name != item {
			count++
			bytes += len(it.Name) + len(it.Value.AsBinary())
		}
	}
	if count > maxAnnotations || bytes > maxAnnotationBytes {
		return ErrAnnotationCount
	}
	return w.SetFolderItem(folder, item, note.Binary([]byte(a.Value)), right)
}
