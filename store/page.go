package store

import (
	"errors"

	"doublet/note"
	"doublet/store/layout"
)

// The kinds of error between replicas of a shared database.
var (
	// ErrNotHome: the replica follows, and what was asked gives numbers. Nothing has changed.
	ErrNotHome = errors.New("store: the database has its home elsewhere")
	// ErrNotShared: the database has no other replica with a slot.
	ErrNotShared = errors.New("store: the database is not shared")
	// ErrGap: a page of the ledger does not begin where this replica's ends, or is not for a replica
	// that leads. Ask for the page behind Position.
	ErrGap = errors.New("store: the page does not begin where the ledger ends")
	// ErrParted: both replicas have numbers that the other's line does not know. The one with the
	// lower term steps down first (StepDown).
	ErrParted = errors.New("store: the ledgers have parted")
	// ErrChanged: what was to be removed has changed meanwhile.
	ErrChanged = errors.New("store: the database has changed meanwhile")
	// ErrBehind: a hand-over to a replica that does not have all that it is to go on from.
	ErrBehind = errors.New("store: the replica is behind what is handed over")
	// ErrIncomplete: a note came without its content, and is not here: see IncompleteError.
	ErrIncomplete = errors.New("store: the note came without its content")
	// ErrUnconfirmed: the change is durable here, and no mate has confirmed it (Options.Confirm).
	ErrUnconfirmed = errors.New("store: no mate has confirmed the change")
)

// IncompleteError names the notes that must come whole: pass them to Reader.Ledger as again, or ask
// for them by Reader.Remote. It is ErrIncomplete.
type IncompleteError struct{ UNIDs []note.UNID }

func (e *IncompleteError) Error() string { return ErrIncomplete.Error() + ": " + e.UNIDs[0].String() }

// Is makes it an ErrIncomplete.
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Position is how far a replica knows the ledger of a database, and on which line: what it tells its
// mates, and what they ask each other for pages with. To send it use note.AppendLedger: every part of
// it counts.
//
// Last's slot (Last.Home) is the home by record. Ledger.Beats says whose line survives, Ledger.Common
// where two lines parted, Ledger.Prefix that one only is behind the other.
type Position struct {
	note.Ledger
	// LastUIDValidity is the highest UIDVALIDITY that any folder has shown.
	LastUIDValidity uint32
}

// LedgerPage is what a home has numbered behind a position, in order of MODSEQ.
type LedgerPage struct {
	// From is the position that it follows, To the one that it leads to. More says that there is more
	// behind To: until then the replica is partial.
	From, To note.ModSeq
	More     bool
	// Whole begins a complete copy, or goes on with one: the target's position lies below Floor, or on
	// no line that is known here. What no page of it names and the target has not changed itself, goes.
	Whole bool
	// Floor is the MODSEQ up to which expunges are no longer known.
	Floor note.ModSeq
	// Of is where the sender stands.
	Of Position
	// Seq is the sequence of the sender that the target has passed when it has applied the page, there is no
	// more, and its position then says that nothing is Pending: what the sender calls SetPeer with. While
	// something is, it may be what a deletion did not know of.
	Seq uint64
	// Notes ascend by Mod, but for folders that they are in, which come first. Of a note whose content
	// the target must have, Contents, Summary and Message are left out (Remote.Bare).
	Notes    []Numbered
	Expunged []Expunge
	// Again are the notes that were asked for by name, whole, as they stand. A page with nothing but
	// them has From equal to To.
	Again []Numbered
	// Damaged are notes of the sender, by its own ids, that it could not read.
	Damaged []note.ID
	// Told has the folders that the page concerns.
	Told []ToldFolder
	// Info is what the database is, where that changed behind From. Of it, those parts are taken that
	// replicas share: title, owner, quota, warning, access list, acknowledgement.
	Info *layout.Info
}

// Numbered is a note with the numbers that its home gave it.
type Numbered struct {
	Remote
	Mod, Created note.ModSeq
	Members      []NumberedMember
	// Folder is set for the notes of folders.
	Folder *NumberedFolder
	// Ahead says that the sender knows more of the note than the home has numbered.
	Ahead bool
}

// NumberedMember is a note's place in a folder.
type NumberedMember struct {
	Folder note.UNID
	UID    uint32
	// Saved is when it came there, Unix seconds.
	Saved   int64
	Deleted bool
}

// NumberedFolder is what the home has numbered of a folder. The rest of its head follows from its note.
type NumberedFolder struct {
	UIDValidity uint32
	UIDNext     uint32
	Mod         note.ModSeq
}

// ToldFolder carries the Told of a folder's head (layout.Folder) at the sender. It has no MODSEQ: a target learns of it with
// the next page that concerns the folder, and until then holds messages for recent that are not.
type ToldFolder struct {
	Folder note.UNID
	UID    uint32
}

// Expunge is the end of a membership, or of a note.
type Expunge struct {
	Mod  note.ModSeq
	Note note.UNID
	// Folder is zero where the folder is gone, and where the note was in none.
	Folder note.UNID
	UID    uint32
	// Gone says that the note left the database. Stub is what is left of it, where it is held; one that is Bare
	// says that the note has come to life again since.
	Gone bool
	Time int64
	Stub *Remote
	// Class, Thread and Created are those of a note that is gone.
	Class   note.Class
	Thread  note.UNID
	Created note.ModSeq
}

// Changes is a run of notes in order of their latest change.
type Changes struct {
	// From and To are sequences of the sender: every change behind From up to To is in it.
	From, To uint64
	More     bool
	Notes    []*Remote
	// Info is what the database is, where the home has not confirmed that.
	Info *layout.Info
}

// ChangeQuery asks for changes.
type ChangeQuery struct {
	// After is the sequence behind which to begin.
	After uint64
	// All asks for every note, and not only for what the home has not confirmed.
	All bool
	// Bare leaves out the content of notes that were never revised, for a target that has them; of what
	// the home has not confirmed those go whole that it cannot have.
	Bare bool
	// Limit is how many notes at most, Max about how many bytes: at least one note is given.
	Limit int
	Max   int64
}

// LeadOptions say how a replica becomes home.
type LeadOptions struct {
	// HandOver is the position of the old home after its Follow: its open block of UIDs goes on. Without
	// it the home is taken over.
	HandOver *Position
}

// ObjectRef names an object and its size.
type ObjectRef struct {
	Digest note.Digest
	Size   uint64
}
