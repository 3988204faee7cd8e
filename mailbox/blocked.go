package mailbox

import (
	"errors"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

// The profile note that holds the senders whose mail is delivered to Junk, because the owner of the mail file blocked
// them. It is in the mail file, so that every replica that takes a delivery knows it.
const (
	blockedProfile = "BlockedSenders"
	itemSender     = "Sender." // and the sender
)

// MaxBlocked is the maximum number of blocked senders of a mail file.
const MaxBlocked = 1000

// maxSender is the maximum length of a blocked sender in bytes (RFC 5321 section 4.5.3.1.3).
const maxSender = 256

// ErrSender means that a text is neither an address nor a domain after an @.
var ErrSender = errors.New("not an address, nor a domain after an @")

// ParseSender returns a blocked sender as it is stored: an address, or a domain after an @ that stands for all its
// addresses, in lower case. It returns ErrSender for any other text.
func ParseSender(text string) (string, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	at := strings.LastIndexByte(s, '@')
	if at < 0 || at == len(s)-1 || len(s) > maxSender || strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == '<' || r == '>' || r == ','
	}) {
		return "", ErrSender
	}
	return s, nil
}

// BlockedSenders returns the blocked senders of the mail file, sorted.
func (d *Reading) BlockedSenders() (list []string, err error) {
	items, err := d.blocked(d.f.db)
	for sender := range items.Entries(itemSender) {
		list = append(list, sender)
	}
	return list, err
}

func (d *Reading) blocked(db note.DatabaseID) (note.Items, error) {
	items, _, err := d.Profile((&handle{db: db}).ProfileID(blockedProfile))
	return items.Split("Senders", itemSender), err
}

// SetBlockedSenders replaces the blocked senders of the mail file. It returns ErrLimit if there are more than
// MaxBlocked.
func (c *Changing) SetBlockedSenders(list []string) error {
	entries := map[string]note.Value{}
	for _, sender := range list {
		entries[sender] = note.Text("")
	}
	if len(entries) > MaxBlocked {
		return ErrLimit
	}
	items, err := c.blocked(c.f.db)
	if err != nil {
		return err
	}
	// An empty list stays: a note that was destroyed cannot be made again under its UNID.
	items = items.With("Form", note.Text(blockedProfile)).WithEntries(itemSender, entries)
	return c.PutProfile(c.f.ProfileID(blockedProfile), items)
}

// Blocks reports whether the mail file db, which r reads, blocks one of the authors of a message.
func Blocks(r *store.Reader, db note.DatabaseID, authors []mime.Address) (bool, error) {
	items, err := (&Reading{r: r}).blocked(db)
	if err != nil || len(items) == 0 {
		return false, err
	}
	return slices.ContainsFunc(authors, func(a mime.Address) bool {
		mailbox, domain := strings.ToLower(a.Mailbox), strings.ToLower("@"+a.Host)
		return !a.Group && (items.Get(itemSender+mailbox+domain) != nil || items.Get(itemSender+domain) != nil)
	}), nil
}
