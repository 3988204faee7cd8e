package store

import (
	"errors"

	"doublet/note"
	"doublet/store/layout"
)

// The kinds of error between replicas of a shared database.
var (
	// ErrNotHome means that this replica follows, and that only the home, the primary replica, can do what was asked.
	// Nothing has changed.
	ErrNotHome = errors.New("store: the database has its home elsewhere")
	// ErrNotShared means that the database has no other replica with a slot.
	ErrNotShared = errors.New("store: the database is not shared")
	// ErrGap means that a page of the ledger does not begin where this replica's ledger ends. Ask for the page after
	// Position.
	ErrGap = errors.New("store: page does not begin at the end of the ledger")
	// ErrParted means that the histories have diverged: both replicas have numbers that the other's history does not
	// know. The one with the lower term steps down first (StepDown). A replica that leads returns it for every page,
	// because the remedy is the same: exchange positions, which show which of the two steps down, if any.
	ErrParted = errors.New("store: the ledgers have parted")
	// ErrChanged means that the database that was to be removed has changed meanwhile.
	ErrChanged = errors.New("store: the database has changed meanwhile")
	// ErrBehind means that a replica lacks a part of the ledger that it is to continue from.
	ErrBehind = errors.New("store: replica is behind the handed-over ledger")
	// ErrIncomplete means that a note came without its content, and that the content is not here: see IncompleteError.
	ErrIncomplete = errors.New("store: note arrived without its content")
	// ErrUnconfirmed means that no mate has confirmed the change; a mate is another member of the cluster. If
	// Options.Confirm failed, the change is durable here. If Options.Admit refused it, nothing has changed.
	ErrUnconfirmed = errors.New("store: no mate has confirmed the change")
)

// IncompleteError names the notes that must be sent with their content: pass them to Reader.Ledger as again, or request
// them with Reader.Remote. It matches ErrIncomplete.
type IncompleteError struct{ UNIDs []note.UNID }

func (e *IncompleteError) Error() string { return ErrIncomplete.Error() + ": " + e.UNIDs[0].String() }

// Is reports whether target is ErrIncomplete.
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Position is a replica's position in the ledger of a database, and the history that it is on. Replicas send it to
// their mates and request pages with it. Encode it with note.AppendLedger: every part of it is needed.
//
// The slot of Last (Last.Home) is the last known home. Ledger.Beats decides whose history survives, Ledger.Common finds
// where two histories diverge, Ledger.Prefix reports that one is only behind the other.
type Position struct {
	note.Ledger
	// LastUIDValidity is the highest UIDVALIDITY that any folder has shown.
	LastUIDValidity uint32
}

// LedgerPage holds the changes that a home numbered after a position, in order of MODSEQ.
type LedgerPage struct {
	// From is the position that the page follows, To the one that it leads to. More means that there is more after To.
	// Until that has come the replica is partial.
	From, To note.ModSeq
	More     bool
	// Whole begins or continues a complete copy: the target's position lies below Floor, or on no history that is known
	// here. The target removes notes that no page of the copy names and that it has not changed itself.
	Whole bool
	// Floor is the MODSEQ up to which expunges are forgotten.
	Floor note.ModSeq
	// Of is the position of the sender.
	Of Position
	// Seq is the sequence of the sender that the target has passed, if it has applied the page, More is false, and its
	// position is not Pending. The sender then passes it to Peers.Set. A pending change may be one that a deletion did
	// not take into account.
	Seq uint64
	// Notes are in ascending order of Mod, except that the folders they are in come first. Contents, Summary and
	// Message are left out of a note whose content the target must have (Remote.Bare).
	Notes    []Numbered
	Expunged []Expunge
	// Again holds the notes that were requested by name, whole, as they are now. A page that holds nothing else has
	// From equal to To.
	Again []Numbered
	// Damaged holds the notes that the sender could not read, by the sender's ids.
	Damaged []note.ID
	// Told has an entry for each folder that the page concerns.
	Told []ToldFolder
	// Info is the database's description, if it changed after From. The target takes the parts that replicas share:
	// title, owner, quota, warning, access list, acknowledgement.
	Info *layout.Info
}

// Numbered is a note with the numbers that its home assigned.
type Numbered struct {
	Remote
	Mod, Created note.ModSeq
	Members      []NumberedMember
	// Folder is set for the notes of folders.
	Folder *NumberedFolder
	// Ahead means that the sender has changes of the note that the home has not numbered.
	Ahead bool
}

// NumberedMember is a membership of a note: its UID and flags in one folder.
type NumberedMember struct {
	Folder note.UNID
	UID    uint32
	// Saved is the time at which the note was put in the folder, in Unix seconds.
	Saved   int64
	Deleted bool
}

// NumberedFolder holds the numbers that the home assigned to a folder. The rest of its head follows from its note.
type NumberedFolder struct {
	UIDValidity uint32
	UIDNext     uint32
	Mod         note.ModSeq
}

// ToldFolder carries the Told of a folder's head (layout.Folder) at the sender. It has no MODSEQ. A target learns it
// with the next page that concerns the folder, and until then shows messages as recent that are not.
type ToldFolder struct {
	Folder note.UNID
	UID    uint32
}

// Expunge is the end of a membership or of a note.
type Expunge struct {
	Mod  note.ModSeq
	Note note.UNID
	// Folder is zero if the folder is gone, or if the note was in none.
	Folder note.UNID
	UID    uint32
	// Gone means that the note left the database. Stub is its deletion stub, if the sender still holds one. A Stub that
	// is Bare means that the note was restored since.
	Gone bool
	Time int64
	Stub *Remote
	// Class, Thread and Created are those of a note that is gone.
	Class   note.Class
	Thread  note.UNID
	Created note.ModSeq
}

// Changes holds a run of notes in order of their latest change.
type Changes struct {
	// From and To are sequences of the sender. The run holds every change after From and up to To.
	From, To uint64
	More     bool
	Notes    []*Remote
	// Info is the database's description, if the home has not confirmed it.
	Info *layout.Info
}

// ChangeQuery selects changes.
type ChangeQuery struct {
	// After is the sequence after which the run begins.
	After uint64
	// All selects every note, instead of only those that the home has not confirmed.
	All bool
	// Bare leaves out the content of notes that were never revised, for a target that has it. Among the notes that the
	// home has not confirmed, those that the target cannot have are still sent whole.
	Bare bool
	// Limit is the maximum number of notes, Max the approximate maximum of bytes. At least one note is returned.
	Limit int
	Max   int64
}

// LeadOptions are the options of Lead.
type LeadOptions struct {
	// HandOver is the position of the old home after its Follow: its open block of UIDs continues. If it is nil, the
	// replica takes over without a hand-over.
	HandOver *Position
}

// ObjectRef names an object and its size.
type ObjectRef struct {
	Digest note.Digest
	Size   uint64
}
