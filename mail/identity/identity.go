// Package identity is what a person writes as: names, addresses, signatures. They are of two kinds: one for each address
// that the directory gives the person, and those that the person made, for addresses that they may write from. What the
// person has said of them stands in a profile note of the mail file, which every door reads and changes.
package identity

import (
	"encoding/hex"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/note"
)

// Profile is the name of the profile note (mailbox.File.ProfileID), and its form.
const Profile = "Identities"

// The items of the note.
const (
	itemIdentity = "Identity." // with the id behind it
	itemSequence = "Sequence"  // of changes to identities
	// ItemGone remembers those that were deleted: "sequence id", the oldest first.
	ItemGone = "Gone"
)

// Bounds of identities: how many, bytes of a signature, and how many are remembered as gone.
const (
	Max          = 200
	MaxSignature = 64 << 10
	MaxGone      = 100
)

// Identity is one way to send mail (RFC 8621 section 6).
type Identity struct {
	ID string
	// Email may be "*@" and a domain, where the person made it: any address there.
	Name, Email  string
	ReplyTo, BCC string // JSON, "" for null
	Text, HTML   string // signatures
	MayDelete    bool
	// Made and Changed are sequence numbers; 0 for one that only the directory knows.
	Made, Changed int64
}

// ID names an identity.
func ID(u note.UNID) string { return "i" + hex.EncodeToString(u[:]) }

// List is the identities of a person, those of the directory first.
type List struct {
	All      []Identity
	Items    note.Items // of the profile note
	Sequence int64
	// Given says what the directory gives: it changes with that.
	Given string
}

// Read reads those of a mail file. profile is the UNID of the note, name and addresses are what the directory gives, which is
// asked before the mail file is opened for changing.
func Read(d *mailbox.Reading, profile note.UNID, name string, addresses []string) (*List, error) {
	x := &List{}
	var err error
	if x.Items, _, err = d.Profile(profile); err != nil {
		return nil, err
	}
	x.Sequence = x.Items.Get(itemSequence).AsInt()
	hash := note.DeriveUNID([]byte(name), []byte(strings.Join(addresses, "\x00")))
	x.Given = hash.String()[:8]
	taken := map[string]bool{}
	for _, a := range addresses {
		id := ID(note.DeriveUNID([]byte("identity"), []byte(strings.ToLower(a))))
		one := Identity{ID: id, Name: name, Email: a}
		if v := x.Items.Get(itemIdentity + id); v != nil {
			one.read(v.AsTextList())
			one.Email = a
		}
		taken[id] = true
		x.All = append(x.All, one)
	}
	for _, it := range x.Items {
		id, ok := strings.CutPrefix(it.Name, itemIdentity)
		if !ok || taken[id] {
			continue
		}
		one := Identity{ID: id}
		if one.read(it.Value.AsTextList()); one.MayDelete {
			x.All = append(x.All, one)
		}
	}
	return x, nil
}

// Columns are an identity as its item holds it.
func (i *Identity) Columns() []string {
	own := ""
	if i.MayDelete {
		own = "own"
	}
	return []string{i.Name, i.Email, i.ReplyTo, i.BCC, i.Text, i.HTML, own, strconv.FormatInt(i.Made, 10), strconv.FormatInt(i.Changed, 10)}
}

func (i *Identity) read(list []string) {
	if len(list) != 9 {
		return
	}
	i.Name, i.Email, i.ReplyTo, i.BCC, i.Text, i.HTML, i.MayDelete = list[0], list[1], list[2], list[3], list[4], list[5], list[6] != ""
	i.Made, _ = strconv.ParseInt(list[7], 10, 64)
	i.Changed, _ = strconv.ParseInt(list[8], 10, 64)
}

// Find is the identity of an id; nil where there is none.
func (x *List) Find(id string) *Identity {
	for i := range x.All {
		if x.All[i].ID == id {
			return &x.All[i]
		}
	}
	return nil
}

// With is the items of the profile note with one identity set, or gone where v is nil. Sequence is then that of the change.
func (x *List) With(id string, v note.Value) note.Items {
	items := x.Items.With(itemIdentity+id, v).With(itemSequence, note.Int(x.Sequence))
	if items.Get("Form") == nil {
		items = items.With("Form", note.Text(Profile))
	}
	if v == nil {
		gone := append(items.Get(ItemGone).AsTextList(), strconv.FormatInt(x.Sequence, 10)+" "+id)
		items = items.With(ItemGone, note.TextList(gone[max(0, len(gone)-MaxGone):]...))
	}
	return items
}
