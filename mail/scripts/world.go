package scripts

import (
	"strconv"
	"strings"
	"time"

	"doublet/mail/rules"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// withUse returns the folder with a special use in the form of IMAP, as "\Archive".
func withUse(r *store.Reader, use string) (note.ID, bool) {
	use = strings.TrimPrefix(use, `\`)
	for _, h := range r.Folders() {
		if h.SpecialUse != "" && strings.EqualFold(h.SpecialUse, use) {
			return h.Note, true
		}
	}
	return 0, false
}

// World returns what a script can ask about a mail file, as a reader sees it.
func (s *Set) World(r *store.Reader, db note.DatabaseID, now time.Time, items map[string]string) *rules.World {
	var marks map[string]bool
	return &rules.World{
		Now: now, Items: items, Include: s.Include(r),
		Mailbox: func(name string) bool {
			_, err := Folder(r, &rules.Filing{Folder: name})
			return err == nil
		},
		SpecialUse: func(name, use string) bool {
			id, ok := withUse(r, use)
			if name == "" || !ok {
				return ok
			}
			named, err := Folder(r, &rules.Filing{Folder: name})
			return err == nil && named == id
		},
		Seen: func(mark string) bool {
			if marks == nil {
				marks = readMarks(r, db, now)
			}
			return marks[mark]
		},
	}
}

// DuplicateProfile is the name of the profile note with the marks of the test "duplicate".
const DuplicateProfile = "SieveDuplicates"

const (
	itemMarks = "Marks" // "Unix seconds of expiry, blank, mark", the oldest first
	// maxMarks is the number of marks that are remembered. The note is written with each, so there are not many.
	maxMarks = 500
)

func readMarks(r *store.Reader, db note.DatabaseID, now time.Time) map[string]bool {
	out := map[string]bool{}
	id, err := r.Find(profileID(DuplicateProfile, db))
	if err != nil {
		return out
	}
	doc, err := r.Content(id)
	if err != nil {
		return out
	}
	for _, line := range doc.Content.Items.Get(itemMarks).AsTextList() {
		until, mark, _ := strings.Cut(line, " ")
		if sec, _ := strconv.ParseInt(until, 10, 64); sec > now.Unix() {
			out[mark] = true
		}
	}
	return out
}

// WithMarks returns the items of DuplicateProfile with more marks, without those that have expired.
func WithMarks(items note.Items, now time.Time, marks []rules.Mark) note.Items {
	fresh := map[string]bool{}
	for _, m := range marks {
		fresh[m.Name] = true
	}
	var lines []string
	for _, line := range items.Get(itemMarks).AsTextList() {
		until, mark, _ := strings.Cut(line, " ")
		if sec, _ := strconv.ParseInt(until, 10, 64); sec > now.Unix() && !fresh[mark] {
			lines = append(lines, line)
		}
	}
	for _, m := range marks {
		lines = append(lines, strconv.FormatInt(m.Until.Unix(), 10)+" "+m.Name)
	}
	return items.With(itemMarks, note.TextList(lines[max(0, len(lines)-maxMarks):]...))
}

// Flags returns the keywords for a note, and whether it is seen or marked as deleted. It leaves out invalid flags.
func Flags(list []string) mailbox.Flags {
	var out mailbox.Flags
	for _, s := range list {
		seen, deleted, keyword, err := mailbox.ParseFlag(s)
		if err != nil {
			continue
		}
		out.Seen, out.Deleted = out.Seen || seen, out.Deleted || deleted
		if keyword != "" {
			out.Keywords = append(out.Keywords, keyword)
		}
	}
	return out
}
