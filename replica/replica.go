// Package replica brings replicas of a database together, two at a time, over any transport. It
// knows none: a replica is a Side, here (Local) or on another server (Remote, over a Carrier that
// moves requests: the bus, HTTPS, a test).
//
// Send brings one side up to another. Between replicas of a cluster it sends pages of the ledger, as
// the home has numbered them, and what a follower has that nobody has numbered; to and from a copy
// without a slot it sends what changed since last time. First it sends the names of what it has: only
// what the other side lacks travels. A page is applied or it is not; applying twice does nothing more;
// what was sent is remembered on both sides, and each side's memory is believed only about the life
// (the incarnation) of the store that it is about.
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// The versions of what travels. A side speaks Version and understands Oldest; two sides use the
// highest that both understand. Anything newer is refused with ErrVersion. Version 2 has LedgerPage.Told.
const (
	Version = 2
	Oldest  = max(1, Version-1)
)

// The kinds of error that callers branch on, beside those of the store. They are the same on both sides
// of a Carrier.
var (
	// ErrVersion: the other side speaks no version that this one understands.
	ErrVersion = errors.New("replica: the other side speaks another version")
	// ErrFormat: what came is not what replicas send.
	ErrFormat = errors.New("replica: not a page of replication")
	// ErrTooLarge: a note or an object is larger than is taken.
	ErrTooLarge = errors.New("replica: too large")
	// ErrBusy: too much is under way on the other side; try again.
	ErrBusy = errors.New("replica: too much is under way")
	// ErrSplit: both replicas number. The one with the lower term must step down first.
	ErrSplit = errors.New("replica: both replicas are home")
	// ErrMissing: a page names an object that is not here yet.
	ErrMissing = errors.New("replica: an object is missing")
	// ErrLocalOnly: the database is one that is not replicated this way.
	ErrLocalOnly = errors.New("replica: the database is not replicated")
)

// Peer is a replica as another knows it: which it is, and in which life of its store.
type Peer struct {
	// Store is the incarnation of the replica's store; another one after a restore.
	Store uint64
	// Replica names it; it stands in the stamps of what it writes.
	Replica note.ReplicaID
}

// Greeting is what a replica says of itself.
type Greeting struct {
	// Version and Oldest are what it speaks and understands.
	Version, Oldest uint8
	Peer
	// Title, Kind and Owner are the database's, for whoever makes a copy.
	Title, Kind string
	Owner       note.UNID
	// Shared replicas have a slot and one ledger; Leads says that this one numbers.
	Shared, Leads bool
	Position      store.Position
	// Seq is the sequence of its latest change, Notes how many notes it holds.
	Seq, Notes uint64
	// Seen is how far it has the changes of who asks: a sequence of that side, in the life that it met.
	Seen store.Cursor
	// Given is how far it believes who asks to have its own changes, and in which life of that side's
	// store it learned that; zero where it keeps no deletions for who asks.
	Given Given
	// Select is the selection under which it has seen and given that.
	Select Selection
	// May says what who asks may do.
	May May
	// Aside are notes of who asks that could not be taken last time; they are tried again.
	Aside []note.UNID
}

// Given is what a replica remembers of another: it has everything up to Seq, in its life Store.
type Given struct {
	Store, Seq uint64
}

// May is what somebody may do with a database.
type May uint8

// The rights of replication.
const (
	// MayPull: read it, as far as the access list grants.
	MayPull May = 1 << iota
	// MayPush: bring changes, each as far as the access list grants.
	MayPush
)

// Head names a note as a replica has it, without what is in it.
type Head struct {
	// Seq is the sequence of its latest change there.
	Seq  uint64
	UNID note.UNID
	// Version is a hash over its history and state: the same where both replicas have the same.
	Version [16]byte
	// Leaves are the revisions that no other builds on.
	Leaves []note.Revision
	// Out marks a note outside the selection: for who has it, and nobody else.
	Out bool
	// New marks a note that no home has numbered and nobody has revised. It is for who is on the same server as the
	// replica and does not travel.
	New bool
}

// HeadPage is a run of heads. Everything that changed behind From up to To is in it, or was not to be told.
type HeadPage struct {
	From, To uint64
	More     bool
	Heads    []Head
	// Refused are notes that could not be read there.
	Refused []Refused
	// Info is what the database is, where the home has not confirmed that.
	Info *layout.Info
}

// Scope says which notes a Query is about.
type Scope uint8

// The scopes.
const (
	// Unnumbered are the changes of a follower that no home has numbered yet.
	Unnumbered Scope = iota
	// All is every note.
	All
	// Folders is every folder's note: they go before the notes that are in them.
	Folders
)

// Query asks for heads.
type Query struct {
	Scope Scope
	// After is where to begin: behind a sequence of the replica, in the life of its store that it is of. One of a life
	// that is not known there begins at the beginning.
	After store.Cursor
	// Only, where it is not empty, asks for these notes, whatever changed.
	Only []note.UNID
	// Limit is the most heads to give (1,000 where it is 0).
	Limit  int
	Select Selection
}

// Want is what a replica lacks of a note that it was told of.
type Want uint8

// What may be wanted.
const (
	// Nothing: it is there as it is.
	Nothing Want = iota
	// State: history and state; all content is there.
	State
	// Whole: the note with its content.
	Whole
	// Buried: the note was deleted for good here.
	Buried
)

// Ask asks for one note.
type Ask struct {
	UNID note.UNID
	// Thin leaves content away.
	Thin bool
}

// Change is one note on its way. Thin says that its content was left away.
type Change struct {
	Thin bool
	Note *store.Remote
}

// ChangePage is a number of notes on their way.
type ChangePage struct {
	// From is where they come from.
	From  Peer
	Notes []Change
	// Info is what the database is, where that is to be taken too.
	Info *layout.Info
	// Left is how many of the notes that were asked for found no room; they are asked for again.
	Left int
	// Refused are notes that could not be read there.
	Refused []Refused
}

// LedgerPage is a run of the ledger with the notes that it numbers, and where it comes from.
type LedgerPage struct {
	store.LedgerPage
	Peer Peer
}

// Refused is a note that was set aside: the others go on.
type Refused struct {
	UNID note.UNID
	// Kind is the word for the error's kind, Text what it said.
	Kind, Text string
}

// Ack says what became of a page. It is given only when what it says is durable.
type Ack struct {
	Added, Updated, Deleted int
	// Again are notes of which more is needed than was sent: they are to come whole.
	Again []note.UNID
	// Missing are objects that notes named and that are not here: they and the notes are to come again.
	Missing []store.ObjectRef
	// Refused are notes that cannot be taken.
	Refused []Refused
	// Position is where the ledger stands now.
	Position store.Position
}

// Lack is an object that a replica does not have. Have is how much of it has come already.
type Lack struct {
	store.ObjectRef
	Have uint64
}

// Mark is what one replica tells another to remember.
type Mark struct {
	// Peer is who has it or gave it.
	Peer Peer
	// Knows says that Peer gets, or will get, what you have: your deletions are kept for it from now on. Gives says that too,
	// and how far it has come: to Given, a sequence of yours.
	Knows, Gives bool
	Given        uint64
	// Met, where it is not zero, is where your ledger stood then, of a Peer that has a slot. It is for a replica on the
	// same server as the sender and does not travel.
	Met layout.Met
	// Received: you have everything of Peer up to there, a sequence of Peer's; 0 leaves it as it is.
	Received uint64
	// Select is the selection that this was true under.
	Select Selection
	// Name is what people call the other side.
	Name string
	// Aside are notes of Peer that could not be taken; nil leaves those that are remembered.
	Aside []Refused
}

// Side is one replica of a database as replication sees it. Its methods may be called from any
// goroutine. What they return may be changed by the caller.
type Side interface {
	// Hello asks the replica about itself; by says who asks, the zero Peer for nobody in particular.
	Hello(ctx context.Context, db note.DatabaseID, by Peer) (Greeting, error)
	// Ledger gives what was numbered behind since, about most bytes of it, and the notes of again whole.
	Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID, most int64) (*LedgerPage, error)
	// ApplyLedger takes a page. One that does not begin where the replica stands is store.ErrGap.
	ApplyLedger(ctx context.Context, db note.DatabaseID, p *LedgerPage) (Ack, error)
	// Heads names what changed.
	Heads(ctx context.Context, db note.DatabaseID, q Query) (HeadPage, error)
	// Wants says of each head what is lacking here.
	Wants(ctx context.Context, db note.DatabaseID, heads []Head) ([]Want, error)
	// Notes gives notes, in the order in which they are asked for, about most bytes of them and at least one.
	Notes(ctx context.Context, db note.DatabaseID, asks []Ask, most int64) (*ChangePage, error)
	// Apply takes notes.
	Apply(ctx context.Context, db note.DatabaseID, p *ChangePage) (Ack, error)
	// Graves says which of the notes were deleted here for good.
	Graves(ctx context.Context, db note.DatabaseID, unids []note.UNID) ([]note.UNID, error)
	// Bury deletes notes that Peer has deleted for good. What was edited here and Peer has never seen comes back as a
	// new note.
	Bury(ctx context.Context, db note.DatabaseID, by Peer, unids []note.UNID) (Ack, error)
	// Mark lets the replica remember how far two have come.
	Mark(ctx context.Context, db note.DatabaseID, m Mark) error
	// Lacks says which of the objects are not here.
	Lacks(ctx context.Context, db note.DatabaseID, refs []store.ObjectRef) ([]Lack, error)
	// Object opens an object that the note names, from a byte on.
	Object(ctx context.Context, db note.DatabaseID, of note.UNID, ref store.ObjectRef, from uint64) (io.ReadCloser, error)
	// PutObject brings an object, from a byte on: what came before a cut stays for a while. It is held for
	// the notes that name it, which come next.
	PutObject(ctx context.Context, db note.DatabaseID, ref store.ObjectRef, from uint64, r io.Reader) error
}

// speak finds the version that two sides use.
func speak(mine, oldest uint8, g *Greeting) (uint8, error) {
	v := min(mine, g.Version)
	if v < oldest || v < g.Oldest {
		return 0, fmt.Errorf("%w: this side understands %d to %d, the other %d to %d: upgrade the older one", ErrVersion, oldest, mine, g.Oldest, g.Version)
	}
	return v, nil
}

// stub says whether a note is deleted.
func stub(r *store.Remote) bool {
	win, ok := r.Tree.Winner()
	return ok && win.Deleted
}
