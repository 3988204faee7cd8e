// Package journal keeps an encrypted copy of each message that the server accepts, with its envelope, in databases of
// its own: Domino's mail journaling. An entry is written in the update that accepts the message. The entries of a
// database are numbered and chained by hashes, so that a missing, changed, inserted or reordered entry is found.
//
// Time, queue ID, Message-ID, direction, sender, recipients and size of an entry are readable for searching. The
// message and all other facts are encrypted with age to the keys in the settings. Without one of these keys nobody can
// read them, the server included.
package journal

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"

	"filippo.io/age"
)

// Kind is the kind of journal databases. In a cluster each server has its own.
const Kind = "journal"

var (
	// ErrFailed means that a message cannot be journaled now. It wraps the cause.
	ErrFailed = errors.New("journal: cannot write")
	// ErrOpen means that a database cannot be removed, because the journal still writes to it.
	ErrOpen = errors.New("journal: database is the current one")
	// errRolled means that the database was closed after it was chosen. The caller chooses again.
	errRolled = errors.New("journal: database was closed meanwhile")
)

// Options are the settings.
type Options struct {
	// On makes the server journal. Existing databases can be read in any case.
	On bool
	// Rules select the messages.
	Rules Rules
	// Keys are the words of the setting journal.recipients, "server" if empty; see ParseKeys.
	Keys string
	// Readers are the names of people and groups that may read new databases.
	Readers []string
	// RollSize is the number of encrypted bytes, and RollDays that of days in UTC, after which a new database begins. 0
	// means never.
	RollSize uint64
	RollDays int
	// Keep is the age at which closed databases are removed; 0 means never.
	Keep time.Duration
	// Deliver delivers a message that cannot be journaled. Otherwise the message is put off.
	Deliver bool
	Stats   *stat.Tree
}

// Journal is the journal of a server. Its methods may be called from any goroutine.
type Journal struct {
	store *store.Store
	env   *env.Env
	dir   *directory.Directory
	opt   Options
	stat  *stats // nil if the journal is off
	to    []age.Recipient
	own   *age.X25519Identity
	sign  ed25519.PrivateKey

	rolling sync.Mutex // held while a database is created, closed or removed
	current atomic.Pointer[current]
	// earlier holds the databases at the time of the last roll-over or start, the current one too. It spares a message
	// that comes again a walk over all databases of the server.
	earlier atomic.Pointer[[]earlier]
}

// earlier is a database in which a message that comes again may be. closed is zero if it was not closed yet.
type earlier struct {
	id     note.DatabaseID
	closed time.Time
}

// current is the database that takes new entries.
type current struct {
	id     note.DatabaseID
	opened time.Time
	bytes  atomic.Uint64 // encrypted bytes in it, for the roll-over
}

// Open opens the journal. With Options.On it opens the current database when the first message comes.
func Open(s *store.Store, e *env.Env, d *directory.Directory, o Options) (*Journal, error) {
	j := &Journal{store: s, env: e, dir: d, opt: o}
	if strings.TrimSpace(j.opt.Keys) == "" {
		j.opt.Keys = ServerKey
	}
	var err error
	if j.own, err = age.ParseX25519Identity(identityText(d.Secret.Key("journal encryption"))); err != nil {
		return nil, fmt.Errorf("journal: key of the server: %w", err)
	}
	j.sign = ed25519.NewKeyFromSeed(d.Secret.Key("journal signature"))
	to, server, err := ParseKeys(j.opt.Keys)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if j.to = to; server {
		j.to = append(j.to, j.own.Recipient())
	}
	if o.On {
		j.stat = newStats(o.Stats)
	}
	return j, nil
}

// On reports whether the server journals.
func (j *Journal) On() bool { return j.opt.On }

// Delivers reports whether a message that cannot be journaled is delivered nevertheless.
func (j *Journal) Delivers() bool { return j.opt.Deliver }

// Identity returns the server's private key. It is the same at every server of the domain.
func (j *Journal) Identity() age.Identity { return j.own }

// Keys are the public keys of a journal.
type Keys struct {
	// Server is the key of the server for encryption, Recipients those that new entries are encrypted to.
	Server     string   `json:"server"`
	Recipients []string `json:"recipients"`
	// Signature is the key that signs archives, in hexadecimal.
	Signature string `json:"signature"`
}

// Keys returns the public keys.
func (j *Journal) Keys() Keys {
	return Keys{Server: j.own.Recipient().String(), Recipients: j.recipients(), Signature: j.signer()}
}

func (j *Journal) signer() string { return fmt.Sprintf("%x", j.sign.Public()) }

// recipients returns the public keys that entries are encrypted to, sorted.
func (j *Journal) recipients() []string {
	var out []string
	for _, r := range j.to {
		if x, ok := r.(*age.X25519Recipient); ok {
			out = append(out, x.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// head is the state of a database. It is a profile note, which each update that adds an entry changes.
type head struct {
	// series orders the databases of a server by the time at which they were begun. It is that time in Unix
	// milliseconds, and more than the series of each database that could be read then.
	series int64
	number uint64 // of the last entry, 0 for none
	hash   Hash   // of the last entry, or the origin
	origin Hash   // the Previous of the first entry
	bytes  uint64
	opened time.Time
	// closed is zero for the current database, and for one that could not be read when the next one was begun.
	closed   time.Time
	previous note.DatabaseID
	keys     []string // to which the entries are encrypted
}

// The items of a head.
const (
	itemSeries   = "Series"
	itemOrigin   = "OriginHash"
	itemBytes    = "Bytes"
	itemOpened   = "Opened" // Unix milliseconds
	itemClosed   = "Closed"
	itemBefore   = "PreviousDatabase"
	itemKeys     = "Keys"
	formHead     = "JournalHead"
	originPrefix = "doublet journal origin 1"
)

var headID = note.DeriveUNID([]byte("journal head"))

func (h *head) content() note.Content {
	at := func(t time.Time) note.Value {
		if t.IsZero() {
			return note.Int(0)
		}
		return note.Int(t.UnixMilli())
	}
	return note.Content{Items: note.MakeItems(
		note.Item{Name: itemForm, Value: note.Text(formHead)}, note.Item{Name: itemSeries, Value: note.Int(h.series)},
		note.Item{Name: itemNumber, Value: note.Int(int64(h.number))},
		note.Item{Name: itemHash, Value: note.Binary(h.hash[:])},
		note.Item{Name: itemOrigin, Value: note.Binary(h.origin[:])},
		note.Item{Name: itemBytes, Value: note.Int(int64(h.bytes))},
		note.Item{Name: itemOpened, Value: at(h.opened)}, note.Item{Name: itemClosed, Value: at(h.closed)},
		note.Item{Name: itemBefore, Value: note.Text(h.previous.String())},
		note.Item{Name: itemKeys, Value: note.TextList(h.keys...)},
	)}
}

// readHead reads the head of a database. Errors: store.ErrNotFound if the database was never opened.
func readHead(r *store.Reader) (head, error) {
	id, err := r.Find(headID)
	if err != nil {
		return head{}, err
	}
	c, err := r.Content(id)
	if err != nil {
		return head{}, err
	}
	it := c.Content.Items
	at := func(name string) time.Time {
		if n := it.Get(name).AsInt(); n != 0 {
			return time.UnixMilli(n).UTC()
		}
		return time.Time{}
	}
	h := head{
		series: it.Get(itemSeries).AsInt(), number: uint64(it.Get(itemNumber).AsInt()),
		bytes: uint64(it.Get(itemBytes).AsInt()), opened: at(itemOpened), closed: at(itemClosed),
		keys: it.Get(itemKeys).AsTextList(),
	}
	h.previous, err = note.ParseDatabaseID(it.Get(itemBefore).AsText())
	if err != nil || copy(h.hash[:], it.Get(itemHash).AsBinary()) != len(h.hash) ||
		copy(h.origin[:], it.Get(itemOrigin).AsBinary()) != len(h.origin) {
		return h, fmt.Errorf("%w: head of journal %s", store.ErrDamaged, r.Database())
	}
	return h, nil
}

// listed is a journal database with its head. err is the error of reading the head.
type listed struct {
	info layout.Info
	head head
	err  error
}

// open reports whether a database takes new entries.
func (l *listed) open() bool { return l.err == nil && l.head.closed.IsZero() }

// list returns the databases in the order in which they were begun. Those whose heads cannot be read come last. One
// that could not be read when the next one was begun is closed since then: it takes no entries any more.
func (j *Journal) list(ctx context.Context) ([]listed, error) {
	all, err := j.store.Databases()
	if err != nil {
		return nil, err
	}
	var out []listed
	for _, i := range all {
		if i.Kind != Kind || i.State == layout.PendingDelete {
			continue
		}
		l := listed{info: i}
		l.err = j.store.Read(ctx, note.System, i.ID, func(r *store.Reader) (err error) {
			l.head, err = readHead(r)
			return err
		})
		if l.err != nil {
			l.head = head{series: math.MaxInt64}
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b listed) int { return cmp.Compare(a.head.series, b.head.series) })
	for i := 1; i < len(out); i++ {
		if last, next := &out[i-1], &out[i]; last.open() && next.err == nil {
			last.head.closed = next.head.opened
		}
	}
	return out, nil
}

// Database describes a journal database.
type Database struct {
	ID    note.DatabaseID
	Title string
	State string // of service
	// Current marks the database that takes new entries; all others are read-only.
	Current        bool
	Entries, Bytes uint64
	Opened, Closed time.Time
	Keys           []string
	// Last is the hash of the last entry. It proves later that no entry up to it was removed.
	Last Hash
	Err  error
}

// Databases returns the journal databases in the order of their creation.
func (j *Journal) Databases(ctx context.Context) ([]Database, error) {
	list, err := j.list(ctx)
	out := make([]Database, 0, len(list))
	for _, l := range list {
		if errors.Is(l.err, store.ErrNotFound) {
			continue // it was created before a crash, and is empty: the next roll-over uses it
		}
		h := &l.head
		out = append(out, Database{ID: l.info.ID, Title: l.info.Title, State: l.info.State.String(),
			Current: l.open(), Entries: h.number, Bytes: h.bytes, Opened: h.opened,
			Closed: h.closed, Keys: h.keys, Last: h.hash, Err: l.err})
	}
	return out, err
}

// stats holds the statistics.
type stats struct {
	entries, bytes, failures, deferred, missed, rolled, removed *stat.Counter
	time                                                        *stat.Histogram
}

func newStats(t *stat.Tree) *stats {
	return &stats{
		entries:  t.Counter("Journal.Entries", "messages journaled"),
		bytes:    t.Counter("Journal.Bytes", "encrypted bytes of journaled messages"),
		failures: t.Counter("Journal.Failures", "failed attempts to journal a message"),
		deferred: t.Counter("Journal.Deferred", "messages put off because they could not be journaled"),
		missed:   t.Counter("Journal.NotJournaled", "messages delivered although they could not be journaled"),
		rolled:   t.Counter("Journal.RollOvers", "journal databases begun"),
		removed:  t.Counter("Journal.Removed", "journal databases removed"),
		time:     t.Histogram("Journal.EncryptTime", "time to compress and encrypt a message", stat.Seconds),
	}
}
