package session

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Kind is the kind of the sessions database.
const Kind = "sessions"

// The indexes of the database.
const (
	indexSessions      uint64 = 1 // a person's sessions
	indexSubscriptions uint64 = 2 // a person's subscriptions
	indexEnds          uint64 = 3 // all documents, by expiry
	indexCuts          uint64 = 4 // notes that ended all sessions of a person
	indexGuesses       uint64 = 5 // a person's guesses
)

// The forms of the database's documents.
const (
	formSession      = "Session"
	formCode         = "Code"
	formSubscription = "PushSubscription"
	formEnded        = "Ended"    // marks a session as ended
	formCut          = "EndedAll" // ends a person's sessions that began before a second
	formGuess        = "Guess"    // an attempt to enter a code
	formRight        = "Right"    // marks a guess as right
	formPasskey      = "Passkey"  // the last use of a passkey
)

// The names of items.
const (
	itemForm       = "Form"
	itemPerson     = "Person"
	itemHash       = "TokenHash"
	itemPasswordID = "PasswordID"
	itemSecond     = "SecondFactor"
	itemKeep       = "Keep"
	itemCreated    = "Created" // these three are Unix seconds
	itemUsed       = "Used"
	itemEnds       = "Ends"
	itemAddress    = "Address"
	itemAgent      = "UserAgent"
	itemCredential = "Credential"
	itemDevice     = "DeviceClientID"
	itemURL        = "PushURL"
	itemP256dh     = "PushP256DH"
	itemAuth       = "PushAuth"
	itemCode       = "PushCode"
	itemVerified   = "Verified"
	itemTypes      = "Types"
	itemBefore     = "Before" // Unix seconds
	itemBut        = "But"
	itemAfter      = "After"
	itemBucket     = "Bucket"
	itemPasskey    = "Passkey"
	itemIssuer     = "Issuer"
	itemAuthTime   = "AuthTime" // Unix seconds
	itemCounter    = "SignatureCounter"
)

// SecretItem reports whether an item of that name holds a secret that nobody may read.
func SecretItem(name string) bool {
	switch name {
	case itemHash, itemURL, itemP256dh, itemAuth, itemCode:
		return true
	}
	return false
}

// Indexes returns the indexes of the database, for store.Options.
func Indexes() []store.Index {
	of := func(number uint64, form string, key func(note.Items) []byte) store.Index {
		return store.Index{Number: number, Kind: Kind, Keys: func(_ note.Class, c *note.Content) [][]byte {
			if form != "" && c.Items.Get(itemForm).AsText() != form {
				return nil
			}
			return [][]byte{key(c.Items)}
		}}
	}
	person := func(items note.Items) []byte { return []byte(items.Get(itemPerson).AsText()) }
	return []store.Index{
		of(indexSessions, formSession, person),
		of(indexSubscriptions, formSubscription, person),
		of(indexCuts, formCut, person),
		of(indexGuesses, formGuess, person),
		of(indexEnds, "", func(items note.Items) []byte { return endKey(items.Get(itemEnds).AsInt()) }),
	}
}

func personKey(person note.UNID) []byte { return []byte(person.String()) }

// endKey returns a key that sorts by time.
func endKey(unix int64) []byte {
	return hex.AppendEncode(nil, []byte{byte(unix >> 56), byte(unix >> 48), byte(unix >> 40), byte(unix >> 32),
		byte(unix >> 24), byte(unix >> 16), byte(unix >> 8), byte(unix)})
}

// maxListed is the maximum length of a list over all people.
const maxListed = 100_000

// list returns the documents of a person in an index. The zero UNID means everybody.
func list(r *store.Reader, index uint64, person note.UNID) ([]note.ID, error) {
	if !person.IsZero() {
		return r.Lookup(index, personKey(person))
	}
	var out []note.ID
	err := r.Scan(index, nil, func(_ []byte, id note.ID) bool {
		out = append(out, id)
		return len(out) < maxListed
	})
	return out, err
}

// document reads the items of a document.
func document(r *store.Reader, id note.ID) (note.UNID, note.Items, error) {
	row, c, err := r.Document(id)
	if err != nil {
		return note.UNID{}, nil, err
	}
	return row.UNID, c.Content.Items, nil
}

// revise replaces a document's items.
func revise(w *store.Writer, id note.ID, items note.Items) error {
	c, err := w.Content(id)
	if err != nil {
		return err
	}
	next := c.Content
	next.Items = items
	return w.Rewrite(id, next)
}

func unix(v note.Value) time.Time { return time.Unix(v.AsInt(), 0).UTC() }

// maxText is the maximum length of a text from a browser, in bytes.
const maxText = 200

func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }

func (s *Session) items(hash []byte) note.Items {
	var after, passkey, issuer, authTime note.Value
	if s.After != "" {
		after = note.Text(s.After)
	}
	if s.Passkey != "" {
		passkey = note.Text(s.Passkey)
	}
	if s.Issuer != "" {
		issuer = note.Text(s.Issuer)
	}
	if !s.AuthTime.IsZero() {
		authTime = note.Int(s.AuthTime.Unix())
	}
	return note.Items(nil).With(itemAfter, after).With(itemPasskey, passkey).With(itemIssuer, issuer).
		With(itemAuthTime, authTime).
		With(itemForm, note.Text(formSession)).With(itemPerson, note.Text(s.Person.String())).
		With(itemHash, note.Binary(hash)).With(itemPasswordID, note.Text(s.PasswordID)).With(itemSecond,
		note.Bool(s.Second)).With(itemKeep, note.Bool(s.Keep)).
		With(itemCreated, note.Int(s.Created.Unix())).With(itemUsed, note.Int(s.Used.Unix())).With(itemEnds,
		note.Int(s.Ends.Unix())).
		With(itemAddress, note.Text(short(s.Address))).With(itemAgent, note.Text(short(s.Agent)))
}

// readSession reads a session. It returns the zero Session for a document of another form.
func readSession(r *store.Reader, id note.ID) (s Session, hash []byte, err error) {
	u, items, err := document(r, id)
	if err != nil || items.Get(itemForm).AsText() != formSession {
		return s, nil, err
	}
	s = Session{
		ID: u, PasswordID: items.Get(itemPasswordID).AsText(), Second: items.Get(itemSecond).AsBool(),
		Keep:    items.Get(itemKeep).AsBool(),
		Created: unix(items.Get(itemCreated)), Used: unix(items.Get(itemUsed)), Ends: unix(items.Get(itemEnds)),
		Address: items.Get(itemAddress).AsText(), Agent: items.Get(itemAgent).AsText(),
		After: items.Get(itemAfter).AsText(), Passkey: items.Get(itemPasskey).AsText(),
		Issuer: items.Get(itemIssuer).AsText(),
	}
	if v := items.Get(itemAuthTime); len(v) > 0 {
		s.AuthTime = unix(v)
	}
	if s.Person, err = note.ParseUNID(items.Get(itemPerson).AsText()); err != nil {
		return s, nil, fmt.Errorf("%w: session %s", store.ErrDamaged, u)
	}
	return s, bytes.Clone(items.Get(itemHash).AsBinary()), nil
}

func sortByUse(list []Session) {
	slices.SortFunc(list, func(a, b Session) int {
		if c := b.Used.Compare(a.Used); c != 0 {
			return c
		}
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return a.ID.Compare(b.ID)
	})
}
