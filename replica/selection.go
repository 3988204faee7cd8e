package replica

import (
	"encoding/binary"
	"slices"

	"doublet/note"
	"doublet/store"
)

// Selection selects the notes that a copy receives; the zero Selection selects all. A note that the copy has is kept up
// to date even if it is no longer selected: a message that moves out of a selected folder moves in the copy too. So a
// selection limits what is added and removes nothing. Notes that define folders are always selected.
type Selection struct {
	// Folders are folder names. A note in any of them, or in one of their subfolders, is selected. If Folders is not
	// empty, notes in no folder are not selected.
	Folders []string
	// Classes, if not empty, are the selected classes of notes.
	Classes []note.Class
	// MaxSize, if not 0, excludes larger notes, in bytes.
	MaxSize uint64
	// Since, if not 0, excludes notes with an earlier date, in Unix seconds.
	Since int64
}

// Limits of a selection from another side.
const (
	maxFolders    = 1000
	maxFolderName = 1000
)

// All reports whether everything is selected.
func (s *Selection) All() bool {
	return len(s.Folders) == 0 && len(s.Classes) == 0 && s.MaxSize == 0 && s.Since == 0
}

// Check returns ErrFormat if a selection exceeds the limits.
func (s *Selection) Check() error {
	if len(s.Folders) > maxFolders || len(s.Classes) > 16 {
		return formatError("a selection of more than %d folders", maxFolders)
	}
	for _, f := range s.Folders {
		if f == "" || len(f) > maxFolderName {
			return formatError("a folder's name of %d bytes", len(f))
		}
	}
	return nil
}

// Equal reports whether two selections are equal.
func (s *Selection) Equal(o *Selection) bool {
	return slices.Equal(s.Folders, o.Folders) && slices.Equal(s.Classes, o.Classes) && s.MaxSize == o.MaxSize &&
		s.Since == o.Since
}

// chosen is a selection with its folder names resolved in one replica.
type chosen struct {
	*Selection
	folders map[note.UNID]bool
}

func (s *Selection) against(r *store.Reader) chosen {
	c := chosen{Selection: s}
	if len(s.Folders) == 0 {
		return c
	}
	c.folders = map[note.UNID]bool{}
	for _, f := range r.Folders() {
		for _, name := range s.Folders {
			if f.Name == name || len(f.Name) > len(name) && f.Name[:len(name)] == name && f.Name[len(name)] == '/' {
				c.folders[f.UNID] = true
			}
		}
	}
	return c
}

// takes reports whether a note is selected. A tombstone always is.
func (c *chosen) takes(n *store.Remote) bool {
	if n.Class == note.Folder || stub(n) {
		return true
	}
	if len(c.Classes) > 0 && !slices.Contains(c.Classes, n.Class) {
		return false
	}
	if c.MaxSize > 0 && n.Size > c.MaxSize || c.Since != 0 && n.Date != 0 && n.Date < c.Since {
		return false
	}
	return c.folders == nil || slices.ContainsFunc(n.State, func(it note.StateItem) bool {
		return it.Kind == note.Member && it.Value != note.Off && len(it.Key) == len(note.UNID{}) &&
			c.folders[note.UNID([]byte(it.Key))]
	})
}

func appendSelection(dst []byte, s *Selection) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.Folders)))
	for _, f := range s.Folders {
		dst = appendString(dst, f)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Classes)))
	for _, c := range s.Classes {
		dst = append(dst, byte(c))
	}
	dst = binary.AppendUvarint(dst, s.MaxSize)
	return binary.AppendVarint(dst, s.Since)
}

func (r *reader) selection() (s Selection) {
	for range r.Count(1) {
		s.Folders = append(s.Folders, r.String())
	}
	for range r.Count(1) {
		s.Classes = append(s.Classes, note.Class(r.Byte()))
	}
	s.MaxSize, s.Since = r.Uvarint(), r.Varint()
	if err := s.Check(); err != nil {
		r.Bad = true
	}
	return s
}
