// Package maildir parses and makes the names in a Maildir: message files with their flags and sizes, and the folders of
// Maildir++. It does not access files; the importer does.
package maildir

import (
	"strconv"
	"strings"
	"time"
)

// Entry holds the data in the name of a message file.
type Entry struct {
	// Unique is the name without the information after the colon.
	Unique string
	// Time is the time of delivery at the start of the name, in whole seconds; zero if absent.
	Time time.Time
	// Size is the file's size from the name (",S=123", Dovecot and Courier). CRLFSize is the size with CRLF line ends
	// (",W=123"). Both are -1 if absent.
	Size, CRLFSize int64
	// Flags holds IMAP flags in the order \Draft \Flagged $Forwarded \Answered \Seen \Deleted, then keywords.
	Flags []string
}

// letters maps the letters of the information "2,…" to flags, in ASCII order as Maildir requires.
var letters = [...]struct {
	letter byte
	flag   string
}{
	{'D', `\Draft`}, {'F', `\Flagged`}, {'P', "$Forwarded"}, {'R', `\Answered`}, {'S', `\Seen`}, {'T', `\Deleted`},
}

// maxName is the maximum length of a file name.
const maxName = 1024

// isMessage returns false for hidden files, files of the folder itself, and names that are too long.
func isMessage(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '.' && !strings.ContainsAny(name, "/\x00") &&
		!strings.HasPrefix(name, "dovecot") && !strings.HasPrefix(name, "courierimap") && name != "maildirfolder" &&
		name != "maildirsize" && name != "subscriptions"
}

// ParseName parses the name of a message file (without its folder). keywords maps the letters a to z, in order, to
// keywords (Dovecot's file dovecot-keywords); letters without a keyword are ignored. ok is false for names that are not
// messages: hidden files, files of the folder itself, names that are too long.
//
// The separator is a colon. A semicolon or exclamation mark, which replace it on some file systems, is accepted before
// "2,".
func ParseName(name string, keywords []string) (e Entry, ok bool) {
	if !isMessage(name) {
		return e, false
	}
	e = Entry{Unique: name, Size: -1, CRLFSize: -1}
	if i := infoAt(name); i >= 0 {
		e.Unique = name[:i]
		e.Flags = flags(name[i+3:], keywords)
	} else if i := strings.LastIndexByte(name, ':'); i >= 0 {
		e.Unique = name[:i] // experimental information "1,…": no flags
	}
	if e.Unique == "" {
		return Entry{}, false
	}
	if head, _, found := strings.Cut(e.Unique, "."); found {
		if sec, err := strconv.ParseInt(head, 10, 64); err == nil && sec > 0 && sec < 1<<36 {
			e.Time = time.Unix(sec, 0).UTC()
		}
	}
	for _, field := range strings.Split(e.Unique, ",")[1:] {
		if v, found := strings.CutPrefix(field, "S="); found {
			e.Size = size(v)
		} else if v, found := strings.CutPrefix(field, "W="); found {
			e.CRLFSize = size(v)
		}
	}
	return e, true
}

// infoAt returns the offset of the separator before "2,", or -1.
func infoAt(name string) int {
	for _, sep := range []string{":2,", ";2,", "!2,"} {
		if i := strings.LastIndex(name, sep); i >= 0 {
			return i
		}
	}
	return -1
}

func size(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

func flags(info string, keywords []string) []string {
	var have [128]bool
	for i := range len(info) {
		if info[i] < 128 {
			have[info[i]] = true
		}
	}
	var out []string
	for _, l := range letters {
		if have[l.letter] {
			out = append(out, l.flag)
		}
	}
	for i, k := range keywords {
		if i < 26 && k != "" && have['a'+i] {
			out = append(out, k)
		}
	}
	return out
}

// Name returns the name of a message file in cur: unique with the letters for the flags. Flags that have no letter and
// are not in keywords are omitted. System flags compare without regard to case.
func Name(unique string, flags, keywords []string) string {
	b := append([]byte(unique), ":2,"...)
	for _, l := range letters {
		if contains(flags, l.flag) {
			b = append(b, l.letter)
		}
	}
	for i, k := range keywords {
		if i < 26 && k != "" && contains(flags, k) {
			b = append(b, byte('a'+i))
		}
	}
	return string(b)
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if strings.EqualFold(v, s) {
			return true
		}
	}
	return false
}
