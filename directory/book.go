package directory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
)

// maxBook is the maximum number of records in a book, about 20 MB. A larger directory is read from the store for each
// Browse.
const maxBook = 20_000

// book holds all people, groups and mail-in databases in memory, as of one version of the directory. Its records are
// shared with later books, and must not be changed.
type book struct {
	version, seq uint64
	large        bool // more than maxBook records: there are none
	records      map[note.ID]*Record
	lists        map[byte][]listed // by the letter of indexList
}

// listed is a record under its key in indexList, without the letter.
type listed struct {
	name string
	*Record
}

// books makes the current book when somebody first asks for it. Afterwards it reads only what has changed.
type books struct {
	last atomic.Pointer[book]
	mu   sync.Mutex // held while a book is made
}

// now returns the current book, nil if the directory is too large for one.
func (bs *books) now(ctx context.Context, b *base) (*book, error) {
	current := func() *book {
		if k := bs.last.Load(); k != nil && k.version == b.version.Load() {
			return k
		}
		return nil
	}
	k := current()
	if k == nil {
		bs.mu.Lock()
		defer bs.mu.Unlock()
		if k = current(); k == nil {
			old := bs.last.Load()
			k = &book{version: b.version.Load(), records: map[note.ID]*Record{}, lists: map[byte][]listed{}}
			if err := b.read(ctx, func(r *store.Reader) error { return k.fill(ctx, r, old) }); err != nil {
				return nil, err
			}
			bs.last.Store(k)
		}
	}
	if k.large {
		return nil, nil
	}
	return k, nil
}

// row is an entry of indexList, under its key without the letter.
type row struct {
	name string
	id   note.ID
}

// scanList reads the entries of one letter, up to one more than most.
func scanList(r *store.Reader, letter byte, most int) (rows []row, err error) {
	err = r.Scan(indexList, []byte{letter}, func(key []byte, id note.ID) bool {
		if key[0] == letter {
			rows = append(rows, row{string(key[1:]), id})
		}
		return key[0] == letter && len(rows) <= most
	})
	return rows, err
}

// fill reads the list of a snapshot. It takes the records that have not changed from the book before, if there is one.
func (k *book) fill(ctx context.Context, r *store.Reader, old *book) error {
	k.seq = r.Counters().Seq
	changed := map[note.ID]bool{}
	if old == nil || old.seq > k.seq {
		old = &book{seq: k.seq}
	}
	err := r.Since(old.seq, func(_ uint64, id note.ID) bool {
		changed[id] = true
		return true
	})
	if err != nil {
		return err
	}
	for _, letter := range []byte{'p', 'g', 'm'} {
		rows, err := scanList(r, letter, maxBook-len(k.records))
		if err != nil {
			return err
		}
		if k.large = len(rows)+len(k.records) > maxBook; k.large {
			k.records, k.lists = nil, nil
			return nil
		}
		for i, x := range rows {
			if i%1000 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			rec := old.records[x.id]
			if rec == nil || changed[x.id] {
				if rec, err = readRecord(r, x.id); err != nil {
					return err
				}
			}
			if rec != nil {
				k.records[x.id] = rec
				k.lists[letter] = append(k.lists[letter], listed{x.name, rec})
			}
		}
	}
	return nil
}

// readRecord returns nil for a document that is no record.
func readRecord(r *store.Reader, id note.ID) (*Record, error) {
	row, c, err := r.Document(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if x, ok := makeRecord(row.UNID, c.Content.Items); ok {
		return &x, nil
	}
	return nil, nil
}

// page returns the records of a kind after a name, as Browse does.
func (k *book) page(letter byte, limit int, after string) (list []Record, next string) {
	rows := k.lists[letter]
	if after != "" {
		i, _ := slices.BinarySearchFunc(rows, after, func(x listed, name string) int {
			if strings.Compare(x.name, name) <= 0 {
				return -1
			}
			return 1
		})
		rows = rows[i:]
	}
	n := min(limit, len(rows))
	for n > 0 && n < len(rows) && rows[n].name == rows[n-1].name { // a conflict of replicas
		n++
	}
	if n < len(rows) {
		next = rows[n-1].name
	}
	list = make([]Record, n)
	for i := range list {
		list[i] = *rows[i].Record
	}
	return list, next
}
