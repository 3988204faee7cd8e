package mailbox

import (
	"errors"

	"doublet/note"
	"doublet/store"
)

// MutedKeyword is the keyword of the messages of a muted conversation (IANA registry of IMAP and JMAP keywords). New
// messages of the conversation are archived as read.
const MutedKeyword = "$muted"

// mutedWithin is the number of the newest messages of a conversation in which the keyword is looked for. Each new
// message of a muted conversation gets it too.
const mutedWithin = 20

// Muted reports whether a message of a conversation has MutedKeyword.
func Muted(r *store.Reader, thread note.UNID) (bool, error) {
	ids, err := r.Thread(thread)
	if err != nil {
		return false, err
	}
	if len(ids) > mutedWithin {
		ids = ids[len(ids)-mutedWithin:]
	}
	for _, id := range ids {
		row, err := r.Note(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if hasKeyword(row, MutedKeyword) && !deleted(r, row) {
			return true, nil
		}
	}
	return false, nil
}
