// Package replica synchronizes two replicas of a database over any transport. A replica is a Side: a local one (Local)
// or one on another server (Remote). A Remote uses a Carrier, which transports requests over the bus, over HTTPS, or in
// a test.
//
// The replicas of a database in a cluster share one ledger. The primary (home in Domino's words) assigns UIDs and
// MODSEQs ("numbers" notes) and records them in the ledger in order. The other replicas are followers. Each replica
// that may become the primary has a slot. A copy, for example on a user's computer, has no slot.
//
// Send copies what one side lacks from the other. Between replicas of a cluster it sends pages of the ledger, and then
// the changes of a follower that no primary has numbered. To and from a copy without a slot it sends the changes since
// the last Send. It first sends names and version hashes, so only notes that the other side lacks travel. A page is
// applied completely or not at all, and a page can be applied twice without harm. Both sides record the progress of a
// Send. A record is valid only for the store incarnation that it names.
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

// Protocol versions. A side sends Version and also understands Oldest; two sides use the highest version that both
// understand. Newer versions are rejected with ErrVersion. Version 2 adds LedgerPage.Told.
const (
	Version = 2
	Oldest  = max(1, Version-1)
)

// Errors that callers test for, besides those of the store. They are preserved across a Carrier.
var (
	// ErrVersion means that the two sides have no version in common.
	ErrVersion = errors.New("replica: other side uses another protocol version")
	// ErrFormat means that received data is malformed.
	ErrFormat = errors.New("replica: malformed replication data")
	// ErrTooLarge means that a note or an object exceeds the size limit.
	ErrTooLarge = errors.New("replica: too large")
	// ErrBusy means that the other side has reached a limit on concurrent work; retry later.
	ErrBusy = errors.New("replica: too many concurrent requests, retry later")
	// ErrSplit means that both replicas act as primary. The one with the lower term must step down first.
	ErrSplit = errors.New("replica: both replicas are primary")
	// ErrMissing means that a page names an object that is not here yet.
	ErrMissing = errors.New("replica: an object is missing")
	// ErrLocalOnly means that the database is not replicated in this way.
	ErrLocalOnly = errors.New("replica: the database is not replicated")
)

// Peer identifies a replica and the incarnation of its store.
type Peer struct {
	// Store is the incarnation of the replica's store. It changes when the store is restored.
	Store uint64
	// Replica is the replica's id, which is also part of the stamps of its changes.
	Replica note.ReplicaID
}

// Greeting describes a replica to the side that called Hello.
type Greeting struct {
	// Version and Oldest are the newest and the oldest version that it understands.
	Version, Oldest uint8
	Peer
	// Title, Kind and Owner are those of the database. A new copy takes them over.
	Title, Kind string
	Owner       note.UNID
	// Shared marks a replica that has a slot and takes part in the ledger. Leads marks the primary.
	Shared, Leads bool
	Position      store.Position
	// Seq is the sequence number of its latest change. Notes is the number of its notes.
	Seq, Notes uint64
	// Seen is a sequence number of the caller: this replica has the caller's changes up to it. Seen also names the
	// incarnation of the caller's store.
	Seen store.Cursor
	// Given is a sequence number of this replica: the caller should have its changes up to it. Given also names the
	// incarnation of the caller's store. It is zero if this replica keeps no deletions for the caller.
	Given Given
	// Select is the selection that applied to Seen and Given.
	Select Selection
	// May holds the rights of the caller.
	May May
	// Aside lists notes of the caller that could not be applied last time; they are retried.
	Aside []note.UNID
}

// Given records that another replica, with store incarnation Store, has every change up to Seq.
type Given struct {
	Store, Seq uint64
}

// May is a set of replication rights on a database.
type May uint8

// The rights of replication.
const (
	// MayPull allows reading, as far as the access list grants it.
	MayPull May = 1 << iota
	// MayPush allows sending changes; the access list is checked for each one.
	MayPush
)

// Head names a note and its version, without its content.
type Head struct {
	// Seq is the sequence number of the note's latest change at the source.
	Seq  uint64
	UNID note.UNID
	// Version is a hash of the note's history and state. Equal hashes mean equal notes.
	Version [16]byte
	// Leaves are the revisions that no other revision builds on.
	Leaves []note.Revision
	// Out marks a note outside the selection. It is sent only to a side that already has the note.
	Out bool
	// New marks a note that no primary has numbered and nobody has revised. Only a caller on the replica's own server
	// sees it; it is not sent over a Carrier.
	New bool
}

// HeadPage is a page of heads. It covers every change after From and up to To that the caller may see.
type HeadPage struct {
	From, To uint64
	More     bool
	Heads    []Head
	// Refused lists notes that could not be read at the source.
	Refused []Refused
	// Info holds the properties of the database if they changed here and the primary has not confirmed that yet; else
	// nil.
	Info *layout.Info
}

// Scope selects the notes that a Query covers.
type Scope uint8

// Values of Scope.
const (
	// Unnumbered selects the changes of a follower that no primary has numbered yet.
	Unnumbered Scope = iota
	// All selects every note.
	All
	// Folders selects the notes that define folders. They are sent before the notes in those folders.
	Folders
)

// Query requests heads.
type Query struct {
	Scope Scope
	// After is the position to start after: a sequence number of the replica and the incarnation of its store. If the
	// replica does not know the incarnation, it starts at the beginning.
	After store.Cursor
	// Only, if not empty, requests exactly these notes, changed or not.
	Only []note.UNID
	// Limit is the maximum number of heads (0: 1,000).
	Limit  int
	Select Selection
}

// Want is the amount of an announced note that a replica lacks.
type Want uint8

// Values of Want.
const (
	// Nothing means that the note is there in this version.
	Nothing Want = iota
	// State requests the history and the state; all content is there.
	State
	// Whole requests the note with its content.
	Whole
	// Buried means that the note was deleted for good here.
	Buried
)

// Ask requests one note.
type Ask struct {
	UNID note.UNID
	// Thin omits the content.
	Thin bool
}

// Change is one transferred note. Thin means that its content was omitted.
type Change struct {
	Thin bool
	Note *store.Remote
}

// ChangePage is a page of transferred notes.
type ChangePage struct {
	// From is the replica that the notes come from.
	From  Peer
	Notes []Change
	// Info, if not nil, holds properties of the database to apply too.
	Info *layout.Info
	// Left is the number of requested notes that did not fit. They are the last ones of the request; the caller
	// requests them again.
	Left int
	// Refused lists notes that could not be read at the source.
	Refused []Refused
}

// LedgerPage is a range of the ledger with the notes that it numbers, and the replica that sends it.
type LedgerPage struct {
	store.LedgerPage
	Peer Peer
}

// Refused is a note that was set aside with an error, so that the other notes can continue.
type Refused struct {
	UNID note.UNID
	// Kind is the word for the kind of error (see ErrorKind). Text is the error's message.
	Kind, Text string
}

// Ack reports the result of applying a page. It is sent only when all that it reports is durable.
type Ack struct {
	Added, Updated, Deleted int
	// Again lists notes that arrived without their content although it is needed here; they must be sent whole.
	Again []note.UNID
	// Missing lists objects that the notes name and that are not here. They must be sent, and then the notes again.
	Missing []store.ObjectRef
	// Refused lists notes that cannot be applied.
	Refused []Refused
	// Position is the ledger position after the page.
	Position store.Position
}

// Lack is an object that a replica lacks. Have is the number of bytes that have already arrived.
type Lack struct {
	store.ObjectRef
	Have uint64
}

// Mark is a progress record that one replica sends another to store.
type Mark struct {
	// Peer is the replica that the record is about, at the other end of the transfer.
	Peer Peer
	// Knows means that Peer receives your changes, now or later: keep your deletions for it from now on. Gives implies
	// the same and also means that Peer has your changes up to Given, one of your sequence numbers.
	Knows, Gives bool
	Given        uint64
	// Met, if not zero, is a position in your ledger that Peer had reached. Peer then has a slot. It is only for a
	// replica on the sender's own server and is not sent over a Carrier.
	Met layout.Met
	// Received means that you have all changes of Peer up to this sequence number of Peer's; 0 leaves the record
	// unchanged.
	Received uint64
	// Select is the selection that applied.
	Select Selection
	// Name is the display name of the other side.
	Name string
	// Aside lists notes of Peer that could not be applied. nil leaves the stored list unchanged.
	Aside []Refused
}

// Side is one replica of a database as replication sees it. Its methods are safe for concurrent use. The caller may
// modify their results.
type Side interface {
	// Hello returns a description of the replica. by is the replica of the caller, or the zero Peer.
	Hello(ctx context.Context, db note.DatabaseID, by Peer) (Greeting, error)
	// Ledger returns the entries after since, about most bytes of them, and the notes of again with their content.
	Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID,
		most int64) (*LedgerPage, error)
	// ApplyLedger applies a page. If the page does not start at the replica's position, it returns store.ErrGap.
	ApplyLedger(ctx context.Context, db note.DatabaseID, p *LedgerPage) (Ack, error)
	// Heads returns the names and versions of changed notes.
	Heads(ctx context.Context, db note.DatabaseID, q Query) (HeadPage, error)
	// Wants returns, for each head, the amount of the note that is lacking here.
	Wants(ctx context.Context, db note.DatabaseID, heads []Head) ([]Want, error)
	// Notes returns the requested notes in order: about most bytes of them, and at least one.
	Notes(ctx context.Context, db note.DatabaseID, asks []Ask, most int64) (*ChangePage, error)
	// Apply applies notes.
	Apply(ctx context.Context, db note.DatabaseID, p *ChangePage) (Ack, error)
	// Graves returns those of the notes that were deleted for good here.
	Graves(ctx context.Context, db note.DatabaseID, unids []note.UNID) ([]note.UNID, error)
	// Bury deletes notes that Peer by has deleted for good. A local edit that by never had is kept as a new note.
	Bury(ctx context.Context, db note.DatabaseID, by Peer, unids []note.UNID) (Ack, error)
	// Mark stores a progress record.
	Mark(ctx context.Context, db note.DatabaseID, m Mark) error
	// Lacks returns those of the objects that are not here.
	Lacks(ctx context.Context, db note.DatabaseID, refs []store.ObjectRef) ([]Lack, error)
	// Object opens an object that the note of names, at the byte offset from.
	Object(ctx context.Context, db note.DatabaseID, of note.UNID, ref store.ObjectRef,
		from uint64) (io.ReadCloser, error)
	// PutObject receives an object from the byte offset from. After an interruption the received bytes are kept for a
	// while. The object is held for the notes that name it, which are sent next.
	PutObject(ctx context.Context, db note.DatabaseID, ref store.ObjectRef, from uint64, r io.Reader) error
}

// speak returns the version that two sides use.
func speak(mine, oldest uint8, g *Greeting) (uint8, error) {
	v := min(mine, g.Version)
	if v < oldest || v < g.Oldest {
		return 0, fmt.Errorf("%w: this side understands %d to %d, the other %d to %d: upgrade the older one",
			ErrVersion, oldest, mine, g.Oldest, g.Version)
	}
	return v, nil
}

// stub reports whether a note is a tombstone.
func stub(r *store.Remote) bool {
	win, ok := r.Tree.Winner()
	return ok && win.Deleted
}
