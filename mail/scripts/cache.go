package scripts

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"doublet/mail/rules"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// maxCached is the number of mail files whose programs are kept in memory.
const maxCached = 2000

// Cache holds the programs of the mail files to which this server delivers. It may be used from any goroutine.
type Cache struct {
	mu    sync.Mutex
	files map[note.DatabaseID]*Set
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{files: map[note.DatabaseID]*Set{}} }

// Set holds the programs of one mail file, as of one change of its scripts.
type Set struct {
	list *List
	// Modified is the MODSEQ of the change. Program is nil if there is no active script, and Err is set if it cannot be
	// used.
	Modified note.ModSeq
	Program  *rules.Program
	Err      error

	mu       sync.Mutex
	included map[string]*rules.Program
}

// Load returns the programs of a mail file as a reader sees it. It returns nil if there is no active script.
func (c *Cache) Load(r *store.Reader, db note.DatabaseID) (*Set, error) {
	id, err := r.Find(profileID(listProfile, db))
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil, nil //nolint:nilnil // no scripts
	}
	if err != nil {
		return nil, err
	}
	row, err := r.Note(id)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	set := c.files[db]
	c.mu.Unlock()
	if set == nil || set.Modified != row.Mod {
		if set, err = load(r, id, row.Mod); err != nil {
			return nil, err
		}
		if !errors.Is(set.Err, store.ErrNotFound) { // the text follows the list in replication
			c.keep(db, set)
		}
	}
	if set.Program == nil && set.Err == nil {
		return nil, nil //nolint:nilnil // no active script
	}
	return set, nil
}

func (c *Cache) keep(db note.DatabaseID, set *Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.files {
		if len(c.files) < maxCached {
			break
		}
		delete(c.files, old)
	}
	c.files[db] = set
}

func profileID(name string, db note.DatabaseID) note.UNID {
	return note.DeriveUNID([]byte(name), []byte(db.String()))
}

func load(r *store.Reader, id note.ID, mod note.ModSeq) (*Set, error) {
	doc, err := r.Content(id)
	if err != nil {
		return nil, err
	}
	set := &Set{list: parse(doc.Content.Items, mod), Modified: mod, included: map[string]*rules.Program{}}
	if active := set.list.Active(); active != nil {
		if set.Program, set.Err = compile(r, active); set.Err != nil {
			set.Err = fmt.Errorf("script %.80q: %w", active.Name, set.Err)
		}
	}
	return set, nil
}

func compile(r *store.Reader, s *Script) (*rules.Program, error) {
	id, err := r.Find(s.ID)
	if err != nil {
		return nil, fmt.Errorf("text is not here: %w", err)
	}
	doc, err := r.Content(id)
	if err != nil {
		return nil, err
	}
	return rules.Compile(s.Name, doc.Content.Items.Get(itemText).AsText())
}

// Include returns a function for rules.World.
func (s *Set) Include(r *store.Reader) func(name string) *rules.Program {
	return func(name string) *rules.Program {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p, ok := s.included[name]; ok {
			return p
		}
		found := s.list.Find(name)
		if found == nil {
			return nil
		}
		p, err := compile(r, found)
		if err != nil {
			return nil
		}
		s.included[name] = p
		return p
	}
}

// Keyword marks a message on which a script failed.
const Keyword = "$sievefailed"

// maxTrouble is the number of failures that are kept, and maxTroubleText the length of one in bytes.
const (
	maxTrouble     = 20
	maxTroubleText = 300
)

// TroubleProfile is the name of the profile note that holds the last failures. WithTrouble adds one to its items.
const TroubleProfile = troubleProfile

// WithTrouble returns the items of TroubleProfile with one more failure. A failure that repeats replaces the last one.
func WithTrouble(items note.Items, at time.Time, text string) note.Items {
	text = strings.ToValidUTF8(text[:min(len(text), maxTroubleText)], "")
	list := items.Get(itemTrouble).AsTextList()
	if n := len(list); n > 0 && strings.HasSuffix(list[n-1], "Z "+text) {
		list = list[:n-1]
	}
	list = append(list[max(0, len(list)-maxTrouble+1):len(list):len(list)],
		at.UTC().Format("2006-01-02T15:04:05Z")+" "+text)
	return items.With(itemTrouble, note.TextList(list...))
}

// Folder returns the folder of a filing, or store.ErrNotFound. A special use is preferred to the name.
func Folder(r *store.Reader, f *rules.Filing) (note.ID, error) {
	if f.Use != "" {
		if id, ok := withUse(r, f.Use); ok {
			return id, nil
		}
	}
	name, err := mailbox.Normalize(f.Folder)
	if err != nil {
		return 0, store.ErrNotFound
	}
	h, err := r.FolderNamed(name)
	if err != nil {
		return 0, err
	}
	return h.Note, nil
}

// Try returns a script with the other scripts of a mail file beside it, to see what it would do.
func Try(r *store.Reader, db note.DatabaseID, script string) (*Set, error) {
	set := &Set{list: &List{}, included: map[string]*rules.Program{}}
	id, err := r.Find(profileID(listProfile, db))
	switch {
	case err == nil:
		doc, err := r.Content(id)
		if err != nil {
			return nil, err
		}
		set.list = parse(doc.Content.Items, 0)
	case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrGrave):
		return nil, err
	}
	set.Program, err = rules.Compile("", script)
	return set, err
}
