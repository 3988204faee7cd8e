// Package identity manages the identities under which a person sends mail: names, addresses and signatures. There is
// one identity for each address of the person in the directory, and the person can create more, for other addresses
// that they may send from. The person's settings are in a profile note of the mail file, which all protocols read and
// change.
package identity

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/note"
)

// Profile is the name of the profile note (mailbox.File.ProfileID) and of its form.
const Profile = "Identities"

// The items of the note.
const (
	itemIdentity = "Identity." // and the ID
	itemGone     = "Gone."     // and the ID of a deleted identity: the sequence number of its deletion
)

// Limits: the number of identities, the bytes of a signature, and the number of deleted identities in Gone.
const (
	Max          = 200
	MaxSignature = 64 << 10
	MaxGone      = 100
)

// Identity is a sender identity (RFC 8621 section 6).
type Identity struct {
	ID string
	// Email of an identity that the person created may be "*@" and a domain: any address there.
	Name, Email  string
	ReplyTo, BCC string // JSON, "" for null
	Text, HTML   string // signatures
	MayDelete    bool
	// Made and Changed are sequence numbers. They are 0 for an identity that only the directory has.
	Made, Changed int64
}

// ID returns the ID of an identity.
func ID(u note.UNID) string { return "i" + hex.EncodeToString(u[:]) }

// List holds the identities of a person, those of the directory first.
type List struct {
	All   []Identity
	Items note.Items // of the profile note
	// Sequence is the sequence number of the last change.
	Sequence int64
	// Gone holds the identities that were deleted last, at most MaxGone, the oldest first.
	Gone []Deleted
	// Given is a hash of the directory's data, and changes with it.
	Given string
}

// Deleted is a deleted identity. Sequence is the sequence number of its deletion.
type Deleted struct {
	ID       string
	Sequence int64
}

// Read returns the identities of a mail file. profile is the UNID of the profile note. name and addresses are from the
// directory, which callers read before they open the mail file for an update.
func Read(d *mailbox.Reading, profile note.UNID, name string, addresses []string) (*List, error) {
	x := &List{}
	var err error
	if x.Items, _, err = d.Profile(profile); err != nil {
		return nil, err
	}
	for id, v := range x.Items.Entries(itemGone) {
		x.Gone = append(x.Gone, Deleted{id, v.AsInt()})
		x.Sequence = max(x.Sequence, v.AsInt())
	}
	slices.SortStableFunc(x.Gone, func(a, b Deleted) int { return cmp.Compare(a.Sequence, b.Sequence) })
	hash := note.DeriveUNID([]byte(name), []byte(strings.Join(addresses, "\x00")))
	x.Given = hash.String()[:8]
	taken := map[string]bool{}
	for _, a := range addresses {
		id := ID(note.DeriveUNID([]byte("identity"), []byte(strings.ToLower(a))))
		one := Identity{ID: id, Name: name, Email: a}
		if v := x.Items.Get(itemIdentity + id); v != nil {
			one.read(v.AsTextList())
			one.Email = a
			x.Sequence = max(x.Sequence, one.Changed)
		}
		taken[id] = true
		x.All = append(x.All, one)
	}
	for id, v := range x.Items.Entries(itemIdentity) {
		if taken[id] {
			continue
		}
		one := Identity{ID: id}
		one.read(v.AsTextList())
		x.Sequence = max(x.Sequence, one.Changed)
		if one.MayDelete {
			x.All = append(x.All, one)
		}
	}
	return x, nil
}

// Columns returns an identity as stored in its item.
func (i *Identity) Columns() []string {
	own := ""
	if i.MayDelete {
		own = "own"
	}
	return []string{i.Name, i.Email, i.ReplyTo, i.BCC, i.Text, i.HTML, own, strconv.FormatInt(i.Made, 10),
		strconv.FormatInt(i.Changed, 10)}
}

func (i *Identity) read(list []string) {
	if len(list) != 9 {
		return
	}
	i.Name, i.Email, i.ReplyTo, i.BCC, i.Text, i.HTML, i.MayDelete = list[0], list[1], list[2], list[3], list[4],
		list[5], list[6] != ""
	i.Made, _ = strconv.ParseInt(list[7], 10, 64)
	i.Changed, _ = strconv.ParseInt(list[8], 10, 64)
}

// Find returns the identity with an ID, or nil.
func (x *List) Find(id string) *Identity {
	for i := range x.All {
		if x.All[i].ID == id {
			return &x.All[i]
		}
	}
	return nil
}

// With returns the items of the profile note with the value v for one identity; nil deletes the identity. x.Sequence
// must be the sequence number of the change.
func (x *List) With(id string, v note.Value) note.Items {
	items := x.Items.With(itemIdentity+id, v)
	if items.Get("Form") == nil {
		items = items.With("Form", note.Text(Profile))
	}
	if v == nil {
		items = items.With(itemGone+id, note.Int(x.Sequence))
		for _, old := range x.Gone[:max(0, len(x.Gone)+1-MaxGone)] {
			items = items.With(itemGone+old.ID, nil)
		}
	}
	return items
}
