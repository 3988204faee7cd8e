package mailbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store/layout"
)

// The keywords that IMAP writes with a backslash, by their JMAP names (RFC 8621 section 4.1.1).
const (
	Seen     = "$seen" // per person
	Answered = "$answered"
	Flagged  = "$flagged"
	Draft    = "$draft"
)

// ErrBadFlag reports a flag that cannot be set.
var ErrBadFlag = errors.New("not a flag that can be set")

// Limits on the keywords of a note: the length of one in bytes, how many are set, and how many the note remembers. A
// note remembers a cleared keyword, so that replicas agree on it; the limit keeps it from growing without bound.
const (
	maxKeyword    = 255
	maxKeywords   = 100
	maxRemembered = 1000
)

// Flags holds the flags of a message. Keywords are in canonical spelling (lower case) and sorted. Recent belongs to one
// session (see Recents) and cannot be set.
type Flags struct {
	Seen, Deleted bool
	Recent        bool
	Keywords      []string
}

// ParseFlag parses a flag in IMAP syntax.
func ParseFlag(flag string) (seen, deleted bool, keyword string, err error) {
	switch lower := strings.ToLower(flag); lower {
	case `\seen`:
		return true, false, "", nil
	case `\deleted`:
		return false, true, "", nil
	case `\answered`, `\flagged`, `\draft`:
		return false, false, "$" + lower[1:], nil
	default:
		if strings.HasPrefix(flag, `\`) || flag == "" || len(flag) > maxKeyword {
			return false, false, "", fmt.Errorf("%w: %s", ErrBadFlag, flag)
		}
		return false, false, lower, nil
	}
}

// ParseFlags parses a list of flags in IMAP syntax. It ignores \Recent: clients cannot change it (RFC 3501 section
// 2.3.2), but some send back all flags that they received.
func ParseFlags(list []string) (Flags, error) {
	var fl Flags
	for _, s := range list {
		if strings.EqualFold(s, `\recent`) {
			continue
		}
		seen, deleted, k, err := ParseFlag(s)
		if err != nil {
			return fl, err
		}
		fl.Seen, fl.Deleted = fl.Seen || seen, fl.Deleted || deleted
		if k != "" {
			fl.Keywords = append(fl.Keywords, k)
		}
	}
	slices.Sort(fl.Keywords)
	fl.Keywords = slices.Compact(fl.Keywords)
	if len(fl.Keywords) > maxKeywords {
		return fl, fmt.Errorf("%w: more than %d on one message", ErrBadFlag, maxKeywords)
	}
	return fl, nil
}

// permitted returns the flags that a person with these rights may set on a message of their own.
func (fl Flags) permitted(g note.Rights) Flags {
	fl.Seen = fl.Seen && g&note.KeepSeen != 0
	fl.Deleted = fl.Deleted && g&(note.DeleteMark|note.ExpungeOwn) != 0
	if g&(note.Write|note.WriteOwn) == 0 {
		fl.Keywords = nil
	}
	return fl
}

// AppendIMAP appends the flags in IMAP syntax, separated by spaces, without parentheses.
func (fl Flags) AppendIMAP(dst []byte) []byte {
	start := len(dst)
	if fl.Recent {
		dst = append(dst, `\Recent `...)
	}
	if fl.Seen {
		dst = append(dst, `\Seen `...)
	}
	if fl.Deleted {
		dst = append(dst, `\Deleted `...)
	}
	for _, k := range fl.Keywords {
		dst = append(appendKeyword(dst, k), ' ')
	}
	if len(dst) > start {
		dst = dst[:len(dst)-1]
	}
	return dst
}

func appendKeyword(dst []byte, k string) []byte {
	switch k {
	case Answered:
		return append(dst, `\Answered`...)
	case Flagged:
		return append(dst, `\Flagged`...)
	case Draft:
		return append(dst, `\Draft`...)
	}
	return append(dst, k...)
}

// mayRemember reports whether a keyword that is not set on a note may be set.
func mayRemember(n *layout.Note, keyword string) bool {
	count := 0
	for i := range n.State {
		if n.State[i].Kind == note.Keyword {
			if n.State[i].Key == keyword {
				return true
			}
			count++
		}
	}
	return count < maxRemembered
}

func flagsOf(n *layout.Note, folder note.ID, person note.UNID) Flags {
	m, _ := n.Member(folder)
	fl := Flags{Deleted: m.Deleted}
	for _, it := range n.State {
		switch {
		case it.Value != note.On:
		case it.Kind == note.Keyword:
			fl.Keywords = append(fl.Keywords, it.Key)
		case it.Kind == note.Seen && it.Key == string(person[:]):
			fl.Seen = true
		}
	}
	return fl
}
