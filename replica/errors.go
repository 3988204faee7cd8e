package replica

import (
	"context"
	"errors"
	"fmt"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// kinds lists the errors that a Carrier preserves, each with its word on the wire.
var kinds = []struct {
	word string
	err  error
	// whole marks errors of the whole replica rather than of one note: replication stops.
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

// failed is the word for any other error.
const failed = "failed"

// ErrorKind returns the word for the kind of err.
func ErrorKind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.word
		}
	}
	return failed
}

// RemoteError is an error that the other side returned. It wraps the local error of the same kind.
type RemoteError struct{ Kind, Text string }

func (e *RemoteError) Error() string { return "replica: the other side: " + e.Text }

// Unwrap returns the local error of this kind, or nil.
func (e *RemoteError) Unwrap() error {
	for _, k := range kinds {
		if k.word == e.Kind {
			return k.err
		}
	}
	return nil
}

// ofNote reports whether an error concerns one note, so that the others can continue. For an unknown error it returns
// true: the notes are then tried one by one, and those that fail are set aside.
func ofNote(err error) bool {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return !k.whole
		}
	}
	return true
}

// maxText is the maximum length of an error's text on the wire in bytes.
const maxText = 500

func refuse(u note.UNID, err error) Refused {
	text := err.Error()
	return Refused{UNID: u, Kind: ErrorKind(err), Text: text[:min(len(text), maxText)]}
}

func formatError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}
