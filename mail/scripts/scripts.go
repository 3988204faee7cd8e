// Package scripts keeps the Sieve scripts of people. A script is a profile note in its person's mail file, and so are
// the list of scripts and the last failures. They replicate, are backed up and count as any note of the file does.
package scripts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"doublet/mail/rules"
	"doublet/mailbox"
	"doublet/note"
)

// Limits: the number of scripts of a person, and the bytes of one and of a name.
const (
	Max     = 50
	MaxSize = 128 << 10
	MaxName = 512 // RFC 5804 section 1.6 and RFC 9661 section 1.2.1 ask for at least as many
)

// The profile notes and their items.
const (
	listProfile    = "SieveScripts"
	scriptProfile  = "SieveScript"
	troubleProfile = "SieveTrouble"
	itemForm       = "Form"
	itemScript     = "Script."  // and the UNID: the name
	itemChanges    = "Changes." // and the UNID: number of changes of the text
	itemActive     = "Active"   // UNID
	itemText       = "Text"
	itemTrouble    = "Trouble" // "RFC 3339 time, blank, text", the oldest first
)

// Errors of changes.
var (
	ErrNotFound = errors.New("script does not exist")
	ErrExists   = errors.New("script with this name already exists")
	ErrActive   = errors.New("script is active: deactivate it first")
	ErrMany     = fmt.Errorf("more than %d scripts: delete one first", Max)
	ErrTooBig   = fmt.Errorf("script is larger than %d bytes: split it", MaxSize)
	ErrName     = errors.New("invalid name of a script: use 1 to 512 bytes of text without control characters")
)

// Script is an entry of the list of scripts.
type Script struct {
	ID     note.UNID
	Name   string
	Active bool
}

// List holds the scripts of a mail file, sorted by name.
type List struct {
	Scripts []Script
	// Modified is the MODSEQ of the last change, 0 if there was none.
	Modified note.ModSeq
	items    note.Items
}

// Read returns the list of the scripts in a mail file.
func Read(f *mailbox.File, d *mailbox.Reading) (*List, error) {
	items, mod, err := d.Profile(f.ProfileID(listProfile))
	if err != nil {
		return nil, err
	}
	return parse(items, mod), nil
}

func parse(items note.Items, mod note.ModSeq) *List {
	l := &List{Modified: mod, items: items.Split("Scripts", itemScript)}
	active := items.Get(itemActive).AsText()
	for id, name := range l.items.Entries(itemScript) {
		if u, err := note.ParseUNID(id); err == nil {
			l.Scripts = append(l.Scripts, Script{ID: u, Name: name.AsText(), Active: id == active})
		}
	}
	slices.SortStableFunc(l.Scripts, func(a, b Script) int { return strings.Compare(a.Name, b.Name) })
	return l
}

// Find returns the script with a name, or nil.
func (l *List) Find(name string) *Script {
	i := slices.IndexFunc(l.Scripts, func(s Script) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &l.Scripts[i]
}

// WithID returns the script with an id, or nil.
func (l *List) WithID(id note.UNID) *Script {
	i := slices.IndexFunc(l.Scripts, func(s Script) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &l.Scripts[i]
}

// Active returns the active script, or nil.
func (l *List) Active() *Script {
	i := slices.IndexFunc(l.Scripts, func(s Script) bool { return s.Active })
	if i < 0 {
		return nil
	}
	return &l.Scripts[i]
}

// Text returns the text of a script.
func Text(d *mailbox.Reading, s *Script) (string, error) {
	items, mod, err := d.Profile(s.ID)
	if err == nil && mod == 0 {
		err = fmt.Errorf("%w: %.80q", ErrNotFound, s.Name)
	}
	return items.Get(itemText).AsText(), err
}

// Check returns the mistakes in a script, nil if it may be stored.
func Check(text string) error {
	if len(text) > MaxSize {
		return ErrTooBig
	}
	_, err := rules.Compile("", text)
	return err
}

// CheckName returns ErrName for a name that is not allowed.
//
// Implements: RFC 5804 §1.6 names of scripts
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return ErrName
	}
	for _, c := range name {
		if c < 0x20 || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 {
			return ErrName
		}
	}
	return nil
}

// Room checks whether a script of a size may be stored under a name.
func Room(d *mailbox.Reading, l *List, name string, size int) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if size > MaxSize {
		return ErrTooBig
	}
	if l.Find(name) == nil && len(l.Scripts) >= Max {
		return ErrMany
	}
	u, err := d.Usage()
	if err == nil && u.Limit > 0 && u.Used+uint64(size) > u.Limit {
		return mailbox.ErrOverQuota
	}
	return err
}

// Editor changes the scripts of a mail file in an update.
type Editor struct {
	f *mailbox.File
	c *mailbox.Changing
	l *List
}

// Edit returns an editor for an update. Its List shows the changes made.
func Edit(f *mailbox.File, c *mailbox.Changing) (*Editor, error) {
	l, err := Read(f, c.Reading)
	return &Editor{f, c, l}, err
}

// List returns the scripts as they are now.
func (e *Editor) List() *List { return e.l }

// Put stores a script. id is the UNID of a new one. The script must have been checked.
func (e *Editor) Put(name, text string, id note.UNID) error {
	if err := Room(e.c.Reading, e.l, name, len(text)); err != nil {
		return err
	}
	s := e.l.Find(name)
	if s == nil {
		e.l.Scripts = append(e.l.Scripts, Script{ID: id, Name: name})
		s = &e.l.Scripts[len(e.l.Scripts)-1]
	}
	if err := e.c.PutProfile(s.ID, note.MakeItems(note.Item{Name: itemForm, Value: note.Text(scriptProfile)},
		note.Item{Name: itemText, Value: note.Text(text)})); err != nil {
		return err
	}
	changes := itemChanges + s.ID.String() // the MODSEQ of the list tells of changes of texts, too
	e.l.items = e.l.items.With(changes, note.Int(e.l.items.Get(changes).AsInt()+1))
	return e.save()
}

// Delete removes a script that is not active.
func (e *Editor) Delete(name string) error {
	s := e.l.Find(name)
	switch {
	case s == nil:
		return ErrNotFound
	case s.Active:
		return ErrActive
	}
	if err := e.c.RemoveProfile(s.ID); err != nil {
		return err
	}
	e.l.items = e.l.items.With(itemChanges+s.ID.String(), nil)
	e.l.Scripts = slices.DeleteFunc(e.l.Scripts, func(x Script) bool { return x.Name == name })
	return e.save()
}

// Rename changes the name of a script, which stays active if it is.
func (e *Editor) Rename(from, to string) error {
	s := e.l.Find(from)
	if s == nil {
		return ErrNotFound
	}
	if err := CheckName(to); err != nil {
		return err
	}
	if e.l.Find(to) != nil {
		return ErrExists
	}
	s.Name = to
	return e.save()
}

// Activate makes a script the active one; "" deactivates all.
func (e *Editor) Activate(name string) error {
	if name != "" && e.l.Find(name) == nil {
		return ErrNotFound
	}
	for i := range e.l.Scripts {
		e.l.Scripts[i].Active = e.l.Scripts[i].Name == name && name != ""
	}
	return e.save()
}

// save writes the list.
func (e *Editor) save() error {
	names, active := map[string]note.Value{}, ""
	for _, s := range e.l.Scripts {
		if names[s.ID.String()] = note.Text(s.Name); s.Active {
			active = s.ID.String()
		}
	}
	e.l.items = e.l.items.With(itemForm, note.Text(listProfile)).WithEntries(itemScript, names).
		With(itemActive, note.Text(active))
	return e.c.PutProfile(e.f.ProfileID(listProfile), e.l.items)
}

// Trouble returns the last failures of scripts at deliveries, the oldest first: a time and a text each.
func Trouble(f *mailbox.File, d *mailbox.Reading) ([]string, error) {
	items, _, err := d.Profile(f.ProfileID(troubleProfile))
	return items.Get(itemTrouble).AsTextList(), err
}
