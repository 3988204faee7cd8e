package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Direction is the way of a message, seen from the domain of the server.
type Direction string

// The directions. A message that goes to other domains is Out, wherever it comes from. A message from outside for
// people here is In. All others are Internal.
const (
	In       Direction = "in"
	Out      Direction = "out"
	Internal Direction = "internal"
)

// Hash is a SHA-256 hash of the chain.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText parses the result of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("journal: hash has %d characters, want %d", len(text), 2*len(h))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Entry is the readable part of an entry. Everything else about the message is encrypted.
type Entry struct {
	// Number counts the entries of a database from 1, without gaps.
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"` // acceptance, in milliseconds
	// ID is the queue ID of the message, MessageID its Message-ID field.
	ID        note.UNID `json:"queue_id"`
	MessageID string    `json:"message_id,omitempty"`
	Direction Direction `json:"direction"`
	// From is the sender of the envelope, empty for the null sender. Recipients are the recipients of the envelope,
	// with groups expanded. Recipients that the header does not name are among them.
	From       string   `json:"from"`
	Recipients []string `json:"recipients"`
	Size       uint64   `json:"size"` // bytes of the message
	// Content is the SHA-256 hash of the encrypted part.
	Content Hash `json:"content"`
	// Previous is the hash of the entry before this one, or the origin of the database. Hash covers it and all fields
	// above.
	Previous Hash `json:"previous"`
	Hash     Hash `json:"hash"`
}

// sum returns the hash of the entry. Every text is preceded by its length, so that no two entries have the same input.
func (e *Entry) sum() Hash {
	b := make([]byte, 0, 512)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text("doublet journal entry 1")
	b = append(b, e.Previous[:]...)
	b = binary.BigEndian.AppendUint64(b, e.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixMilli()))
	b = append(b, e.ID[:]...)
	text(e.MessageID)
	text(string(e.Direction))
	text(e.From)
	b = binary.AppendUvarint(b, uint64(len(e.Recipients)))
	for _, r := range e.Recipients {
		text(r)
	}
	b = binary.BigEndian.AppendUint64(b, e.Size)
	b = append(b, e.Content[:]...)
	return sha256.Sum256(b)
}

// The items of an entry's note. The encrypted part is the note's message.
const (
	itemForm       = "Form"
	itemNumber     = "Number"
	itemTime       = "Time" // Unix milliseconds
	itemID         = "QueueID"
	itemMessageID  = "MessageID"
	itemDirection  = "Direction"
	itemFrom       = "From"
	itemRecipients = "Recipients"
	itemSize       = "Size"
	itemPrevious   = "PreviousHash"
	itemHash       = "Hash"
	formEntry      = "Journal"
)

func (e *Entry) items() note.Items {
	return note.MakeItems(
		note.Item{Name: itemForm, Value: note.Text(formEntry)},
		note.Item{Name: itemNumber, Value: note.Int(int64(e.Number))},
		note.Item{Name: itemTime, Value: note.Int(e.Time.UnixMilli())},
		note.Item{Name: itemID, Value: note.Text(e.ID.String())},
		note.Item{Name: itemMessageID, Value: note.Text(e.MessageID)},
		note.Item{Name: itemDirection, Value: note.Text(string(e.Direction))},
		note.Item{Name: itemFrom, Value: note.Text(e.From)},
		note.Item{Name: itemRecipients, Value: note.TextList(e.Recipients...)},
		note.Item{Name: itemSize, Value: note.Int(int64(e.Size))},
		note.Item{Name: itemPrevious, Value: note.Binary(e.Previous[:])},
		note.Item{Name: itemHash, Value: note.Binary(e.Hash[:])},
	)
}

// readEntry reads an entry from its content. ok is false for other notes.
func readEntry(c *note.Content) (e Entry, ok bool, err error) {
	it := &c.Items
	if it.Get(itemForm).AsText() != formEntry {
		return e, false, nil
	}
	e = Entry{
		Number: uint64(it.Get(itemNumber).AsInt()), Time: time.UnixMilli(it.Get(itemTime).AsInt()).UTC(),
		MessageID: it.Get(itemMessageID).AsText(), Direction: Direction(it.Get(itemDirection).AsText()),
		From: it.Get(itemFrom).AsText(), Recipients: it.Get(itemRecipients).AsTextList(),
		Size: uint64(it.Get(itemSize).AsInt()), Content: Hash(c.Message),
	}
	if e.ID, err = note.ParseUNID(it.Get(itemID).AsText()); err != nil {
		return e, true, fmt.Errorf("%w: journal entry: %w", store.ErrDamaged, err)
	}
	if copy(e.Previous[:], it.Get(itemPrevious).AsBinary()) != len(e.Previous) ||
		copy(e.Hash[:], it.Get(itemHash).AsBinary()) != len(e.Hash) {
		return e, true, fmt.Errorf("%w: journal entry %d has no hash", store.ErrDamaged, e.Number)
	}
	return e, true, nil
}

// indexJournal finds entries by number, time, queue ID, Message-ID and address.
const indexJournal uint64 = 30

// maxKey is the maximum length in bytes of the text in an index key.
const maxKey = 200

// The prefixes of index keys.
const (
	byNumber    = 'n'
	byTime      = 't'
	byID        = 'q'
	byMessageID = 'm'
	byAddress   = 'a' // address, 0, time
)

// Indexes declares the index of journal databases, for store.Options.
func Indexes() []store.Index {
	return []store.Index{{Number: indexJournal, Kind: Kind, Keys: func(_ note.Class, c *note.Content) [][]byte {
		e, ok, err := readEntry(c)
		if !ok || err != nil {
			return nil
		}
		return e.keys()
	}}}
}

func (e *Entry) keys() [][]byte {
	keys := [][]byte{numberKey(byNumber, e.Number), timeKey(e.Time), textKey(byID, e.ID.String())}
	if e.MessageID != "" {
		keys = append(keys, textKey(byMessageID, e.MessageID))
	}
	seen := map[string]bool{}
	for _, a := range append([]string{e.From}, e.Recipients...) {
		k := addressKey(a, e.Time)
		if a != "" && !seen[string(k)] {
			seen[string(k)] = true
			keys = append(keys, k)
		}
	}
	return keys
}

func numberKey(prefix byte, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{prefix}, n) }

// timeKey orders times from 1970 on; earlier ones do not occur.
func timeKey(t time.Time) []byte { return numberKey(byTime, uint64(max(0, t.UnixMilli()))) }

func textKey(prefix byte, s string) []byte {
	s = strings.ToLower(strings.ReplaceAll(s, "\x00", ""))
	return append([]byte{prefix}, s[:min(len(s), maxKey)]...)
}

// addressPrefix returns the beginning of the keys of an address.
func addressPrefix(a string) []byte { return append(textKey(byAddress, a), 0) }

func addressKey(a string, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(addressPrefix(a), uint64(max(0, t.UnixMilli())))
}

// fits reports whether a key begins with a prefix, and is followed by nothing but a time.
func fits(key, prefix []byte) bool { return len(key) == len(prefix)+8 && bytes.HasPrefix(key, prefix) }
