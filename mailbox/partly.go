package mailbox

import (
	"errors"
	"fmt"

	"doublet/store"
)

// ErrPartly reports that the mail file moved to another server after a part of an operation was committed. It does not
// match store.ErrNotHome, because executing the whole operation again at the new primary would repeat that part.
var ErrPartly = errors.New("mailbox: the mail file moved after a part was done")

// partly returns ErrPartly instead of store.ErrNotHome if a part was committed, and any other error unchanged.
func partly(err error, committed bool) error {
	if committed && errors.Is(err, store.ErrNotHome) {
		return fmt.Errorf("%w: %v", ErrPartly, err)
	}
	return err
}
