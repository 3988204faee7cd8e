package replica

import (
	"context"
	"errors"
	"fmt"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// kinds are the errors that have a meaning on the other side of a Carrier, each under a word.
var kinds = []struct {
	word string
	err  error
	// whole marks what is wrong with the replica and not with one note: nothing goes on.
	whole bool
}{
	{"gap", store.ErrGap, true},
	{"parted", store.ErrParted, true},
	{"behind", store.ErrBehind, true},
	{"not shared", store.ErrNotShared, true},
	{"unconfirmed", store.ErrUnconfirmed, true},
	{"not home", store.ErrNotHome, true},
	{"split", ErrSplit, true},
	{"version", ErrVersion, true},
	{"no space", store.ErrNoSpace, true},
	{"out of service", store.ErrOutOfService, true},
	{"local only", ErrLocalOnly, true},
	{"closed", store.ErrClosed, true},
	{"busy", ErrBusy, true},
	{"cancelled", context.Canceled, true},
	{"timeout", context.DeadlineExceeded, true},
	{"incomplete", store.ErrIncomplete, false},
	{"mismatch", store.ErrMismatch, false},
	{"over quota", mailbox.ErrOverQuota, false},
	{"grave", store.ErrGrave, false},
	{"missing", ErrMissing, false},
	{"denied", store.ErrDenied, false},
	{"too large", ErrTooLarge, false},
	{"format", ErrFormat, false},
	{"damaged", store.ErrDamaged, false},
	{"corrupt", note.ErrCorrupt, false},
	{"exists", store.ErrExists, false},
	{"not found", store.ErrNotFound, false},
}

// failed is the word for an error that means nothing in particular.
const failed = "failed"

// ErrorKind is the word for an error's kind.
func ErrorKind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.word
		}
	}
	return failed
}

// RemoteError is an error of the other side. It is of the kind that it has there.
type RemoteError struct{ Kind, Text string }

func (e *RemoteError) Error() string { return "replica: the other side: " + e.Text }

// Unwrap gives the error of this kind on this side.
func (e *RemoteError) Unwrap() error {
	for _, k := range kinds {
		if k.word == e.Kind {
			return k.err
		}
	}
	return nil
}

// ofNote says whether an error is about one note, so that the others can go on. What is not known may
// be either: it is tried note by note, and what fails then is the note's.
func ofNote(err error) bool {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return !k.whole
		}
	}
	return true
}

// maxText bounds the text of an error that travels.
const maxText = 500

func refuse(u note.UNID, err error) Refused {
	text := err.Error()
	return Refused{UNID: u, Kind: ErrorKind(err), Text: text[:min(len(text), maxText)]}
}

func formatError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}
