package replica

import (
	"encoding/binary"
	"slices"

	"doublet/note"
	"doublet/store"
)

// Selection says which notes a copy is to hold; the zero Selection is all. What a copy holds is kept up
// to date wherever it goes: a message that leaves a selected folder leaves it in the copy too. So a
// selection decides what comes, and takes nothing away. Notes of folders always come.
type Selection struct {
	// Folders are names; a note in any of them, or in one below it, is selected. Notes in no folder are
	// then left out.
	Folders []string
	// Classes are the classes of notes that are selected.
	Classes []note.Class
	// MaxSize leaves out messages that are larger, in bytes.
	MaxSize uint64
	// Since leaves out what is dated earlier, Unix seconds.
	Since int64
}

// Bounds of a selection that comes from elsewhere.
const (
	maxFolders    = 1000
	maxFolderName = 1000
)

// All says that nothing is left out.
func (s *Selection) All() bool {
	return len(s.Folders) == 0 && len(s.Classes) == 0 && s.MaxSize == 0 && s.Since == 0
}

// Check says what is wrong with a selection.
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

// Equal says whether two selections are the same.
func (s *Selection) Equal(o *Selection) bool {
	return slices.Equal(s.Folders, o.Folders) && slices.Equal(s.Classes, o.Classes) && s.MaxSize == o.MaxSize && s.Since == o.Since
}

// chosen is a selection against the folders of one replica.
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

// takes says whether a note is selected. A deletion always is.
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
		return it.Kind == note.Member && it.Value != note.Off && len(it.Key) == len(note.UNID{}) && c.folders[note.UNID([]byte(it.Key))]
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
