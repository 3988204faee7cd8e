package note

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Who is the acting user, as resolved by the directory. The store compares ids and knows no names.
type Who struct {
	Person UNID
	// Groups holds all groups that the person is in, directly or through other groups.
	Groups []UNID
	Roles  []string
	// Directory is the version of the directory that this was resolved at.
	Directory uint64
	// System marks the server itself; it may do everything.
	System bool
}

// System is the server itself.
var System = Who{System: true}

// Level is one of the seven access levels.
type Level uint8

// The levels, from least to most.
const (
	NoAccess Level = iota
	Depositor
	Reader
	Author
	Editor
	Designer
	Manager
)

var levelNames = []string{"No Access", "Depositor", "Reader", "Author", "Editor", "Designer", "Manager"}

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "level ?"
}

// ParseLevel returns the level with a name. It ignores case and spaces.
func ParseLevel(s string) (Level, error) {
	want := strings.ReplaceAll(strings.ToLower(s), " ", "")
	for i, n := range levelNames {
		if strings.ReplaceAll(strings.ToLower(n), " ", "") == want {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("no access level %q: want one of %s", s, strings.Join(levelNames, ", "))
}

// Rights is a set of rights in the letters of RFC 4314.
type Rights uint16

// The rights. WriteOwn and ExpungeOwn are those of the level Author, on notes that the person wrote.
const (
	Lookup     Rights = 1 << iota // l
	Read                          // r
	KeepSeen                      // s
	Write                         // w
	Insert                        // i
	Post                          // p
	Create                        // k
	Remove                        // x
	DeleteMark                    // t
	Expunge                       // e
	Administer                    // a
	WriteOwn
	ExpungeOwn
)

// All contains every right.
const All = ExpungeOwn<<1 - 1

// Rights returns the rights that a level grants.
func (l Level) Rights() Rights {
	var r Rights
	if l == Depositor { // from Reader on, the right to insert is needed to add notes
		r |= Post
	}
	if l >= Reader {
		r |= Lookup | Read | KeepSeen
	}
	if l >= Author {
		r |= Insert | WriteOwn | ExpungeOwn
	}
	if l >= Editor {
		r |= Write | DeleteMark | Expunge
	}
	if l >= Designer {
		r |= Create | Remove
	}
	if l >= Manager {
		r |= Administer
	}
	return r
}

// Letters returns the rights in the letters of RFC 4314.
func (r Rights) Letters() string {
	var b strings.Builder
	for i, c := range "lrswipkxtea" {
		if r&(1<<i) != 0 {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// Entry grants a level, with changes to its rights, to a person or group.
type Entry struct {
	ID    UNID
	Level Level
	// Plus and Minus are rights added to and removed from the level's.
	Plus, Minus Rights
}

// ACL is an access control list.
type ACL struct {
	Default Level
	Entries []Entry
}

// Below, as the only bit of Plus, marks an entry that grants and refuses nothing. It means that the access list of a
// folder names this person or group. So the database's own list shows who may have access to something in it.
const Below Rights = 1 << 15

// marks reports whether an entry is only a mark of Below.
func (e *Entry) marks() bool { return e.Level == NoAccess && e.Plus == Below && e.Minus == 0 }

// Rights returns the rights that an entry grants.
func (e *Entry) Rights() Rights { return (e.Level.Rights() | e.Plus&All) &^ e.Minus }

// Grant returns the entry that grants exactly rights: the highest level that grants no other rights, with the missing
// ones in Plus.
func Grant(id UNID, rights Rights) Entry {
	e := Entry{ID: id}
	for l := Depositor; l <= Manager; l++ {
		if l.Rights()&^(WriteOwn|ExpungeOwn)&^rights == 0 && l != Author { // an Author's own rights have no letters
			e.Level = l
		}
	}
	e.Plus = rights &^ e.Level.Rights()
	return e
}

// ParseLetters parses rights in the letters of RFC 4314. It also accepts the two letters of RFC 2086: c for k and x, d
// for t and e.
func ParseLetters(s string) (Rights, error) {
	var r Rights
	for _, c := range s {
		i := strings.IndexRune("lrswipkxtea", c)
		switch {
		case i >= 0:
			r |= 1 << i
		case c == 'c':
			r |= Create | Remove
		case c == 'd':
			r |= DeleteMark | Expunge
		default:
			return 0, fmt.Errorf("no right %q", c)
		}
	}
	return r, nil
}

// Rights returns the rights that the list grants. The person's own entry decides if there is one, otherwise the union
// over the groups, otherwise the default. The default is the level, or an entry without an id if rights were changed.
func (a *ACL) Rights(who *Who) Rights {
	if who.System {
		return All
	}
	var sum Rights
	found, rest := false, a.Default.Rights()
	for i := range a.Entries {
		e := &a.Entries[i]
		switch {
		case e.marks():
		case e.ID.IsZero():
			rest = e.Rights()
		case e.ID == who.Person:
			return e.Rights()
		case slices.Contains(who.Groups, e.ID):
			sum, found = sum|e.Rights(), true
		}
	}
	if found {
		return sum
	}
	return rest
}

// With returns the list with an entry set. An entry with level NoAccess stays, and refuses access.
func (a ACL) With(e Entry) ACL {
	out := ACL{Default: a.Default, Entries: slices.Clone(a.Entries)}
	for i := range out.Entries {
		if out.Entries[i].ID == e.ID {
			out.Entries[i] = e
			return out
		}
	}
	out.Entries = append(out.Entries, e)
	return out
}

// Without returns the list without the entry of an id.
func (a ACL) Without(id UNID) ACL {
	a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e Entry) bool { return e.ID == id })
	return a
}

// Marked returns the list with a mark of Below for an id that it does not name. changed reports whether the mark was
// added.
func (a ACL) Marked(id UNID) (out ACL, changed bool) {
	for i := range a.Entries {
		if a.Entries[i].ID == id {
			return a, false
		}
	}
	return a.With(Entry{ID: id, Plus: Below}), true
}

// AppendACL appends the stored form of a.
func AppendACL(dst []byte, a *ACL) []byte {
	dst = append(dst, byte(a.Default))
	dst = binary.AppendUvarint(dst, uint64(len(a.Entries)))
	for _, e := range a.Entries {
		dst = append(append(dst, e.ID[:]...), byte(e.Level))
		dst = binary.AppendUvarint(dst, uint64(e.Plus))
		dst = binary.AppendUvarint(dst, uint64(e.Minus))
	}
	return dst
}

// ReadACL reads what AppendACL wrote and returns the rest.
func ReadACL(b []byte) (ACL, []byte, error) {
	var a ACL
	if len(b) == 0 {
		return a, nil, ErrCorrupt
	}
	a.Default = Level(b[0])
	n, b, err := readCount(b[1:], 19)
	if err != nil {
		return a, nil, err
	}
	for range n {
		var e Entry
		if len(b) < 17 {
			return a, nil, ErrCorrupt
		}
		copy(e.ID[:], b)
		e.Level = Level(b[16])
		var p, m uint64
		if p, b, err = readUvarint(b[17:]); err != nil {
			return a, nil, err
		}
		if m, b, err = readUvarint(b); err != nil {
			return a, nil, err
		}
		e.Plus, e.Minus = Rights(p), Rights(m)
		a.Entries = append(a.Entries, e)
	}
	return a, b, nil
}
