package backup

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"doublet/env"
	"doublet/store/blob"
)

// A data folder can return to an older state without a restore: by a snapshot of the machine or of its disk. The store
// then uses the numbers of its files, and the positions in its segments, a second time, with the same incarnation.
// Pieces from the lost time could be taken for copies of the present files. So each backup leaves a random mark in the
// data folder and in the backup folder before it copies anything. If the backup folder has a mark that the data folder
// does not know, the names of pieces get a new lineage, and everything is copied again.

const (
	// marksName is the file in the data folder, markName the one in the backup folder.
	marksName = "BACKUPS"
	markName  = "writer"
	// folderMarks bounds the marks of one backup folder in a data folder. The last one is normally enough. The others
	// serve a backup folder that itself returns to an older state.
	folderMarks = 32
	// allMarks bounds the marks of all backup folders. The least recently used ones are removed first.
	allMarks = 512
	maxMark  = 128 << 10 // bytes of such a file; more than allMarks need
)

// mark is the mark of one backup. It is stored as JSON.
type mark struct {
	ID string `json:"id"`
	// Folder identifies the backup folder. It is set only in the data folder, and empty in marks of older versions.
	Folder string `json:"folder,omitempty"`
	// Lineage is a part of the names of pieces. It is empty until a data folder has returned to an older state.
	Lineage string `json:"lineage,omitempty"`
}

// marks holds the marks of a backup that has not copied anything yet.
type marks struct {
	all string // the path of the file in the data folder
	// known holds the marks of the data folder, the least recently used one first. It includes next.
	known []mark
	next  mark
}

// draw returns a text that no other backup has. It includes the time, because a machine that was reset together with
// its memory may produce the same random bytes again.
func draw(e *env.Env) string {
	var b [16]byte
	e.Fill(b[:])
	return hex.EncodeToString(b[:]) + "-" + strconv.FormatInt(e.Clock.Now().UnixNano(), 16)
}

// marks reads the marks of both folders, and draws the mark of a backup. It writes nothing.
func (r *repository) marks(ctx context.Context, data string, incarnation uint64) (m marks, err error) {
	m.all = r.env.FS.PathJoin(data, marksName)
	var last mark
	err = r.readMark(ctx, r.place, markName, &last)
	if errors.Is(err, blob.ErrDamaged) {
		last.ID, err = "damaged", nil // one that the data folder does not know, so that no piece is reused by mistake
	}
	if err = errors.Join(err, r.readMark(ctx, blob.Folder(r.env.FS, data), marksName, &m.known)); err != nil {
		return m, err
	}
	m.next = mark{ID: draw(r.env)}
	switch i := slices.IndexFunc(m.known, func(k mark) bool { return k.ID == last.ID }); {
	case i >= 0:
		used := m.known[i]
		if used.Folder == "" {
			used.Folder = draw(r.env)
		}
		m.next.Folder, m.next.Lineage = used.Folder, used.Lineage
		// The backup folder keeps this mark if the backup fails.
		m.known = append(slices.Delete(m.known, i, i+1), used)
	case last.ID != "" && r.hasOf(incarnation):
		m.next.Lineage = draw(r.env)
		r.env.Log.Warn("backup: data folder was restored to an older state after its last backup, so everything is "+
			"copied again", "folder", r.dir)
	}
	if m.next.Folder == "" {
		m.next.Folder = draw(r.env)
	}
	m.add()
	return m, nil
}

// add adds next to known, and removes marks beyond the bounds. Each backup folder has a bound of its own: frequent
// backups to one folder must not remove the mark of another one that is used once a week.
func (m *marks) add() {
	m.known = append(m.known, m.next)
	over := -folderMarks
	for _, k := range m.known {
		if k.Folder == m.next.Folder {
			over++
		}
	}
	m.known = slices.DeleteFunc(m.known, func(k mark) bool {
		if k.Folder != m.next.Folder || over <= 0 {
			return false
		}
		over--
		return true
	})
	m.known = m.known[max(0, len(m.known)-allMarks):]
}

// begin writes the mark of a backup to both folders.
func (r *repository) begin(ctx context.Context, m marks) error {
	// The data folder gets the mark before the backup folder has it under its name: a mark that only the data folder
	// has does no harm. But if the backup folder is full, no mark is left anywhere, however often the backup is
	// retried.
	own, err := json.Marshal(mark{ID: m.next.ID, Lineage: m.next.Lineage})
	if err == nil {
		err = r.place.Put(ctx, markName+".new", own)
	}
	if err == nil {
		err = r.stageMark(m.all, m.known)
	}
	if err == nil {
		err = r.publishMark(m.all)
	}
	if err == nil {
		err = r.place.Put(ctx, markName, own)
	}
	if err == nil {
		err = r.place.Remove(ctx, markName+".new")
	}
	if err != nil {
		return fmt.Errorf("backup: write the mark: %w", err)
	}
	return nil
}

// hasOf reports whether the backup folder has a generation of an incarnation.
func (r *repository) hasOf(incarnation uint64) bool {
	return slices.ContainsFunc(r.generations,
		func(g Generation) bool { return !g.unread && g.Incarnation == incarnation })
}

// readMark reads a file of marks into v. It leaves v unchanged if there is no file or the file is malformed.
func (r *repository) readMark(ctx context.Context, in blob.Store, name string, v any) error {
	b, err := in.Get(ctx, name, maxMark)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrTooLarge):
		return nil
	case err != nil:
		return fmt.Errorf("backup: %w", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		r.env.Log.Warn("backup: cannot read a file of marks", "file", name, "error", err)
	}
	return nil
}

// stageMark writes a file of marks under a temporary name.
func (r *repository) stageMark(path string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = writeFile(r.env.FS, path+".new", b)
	}
	if err != nil {
		return fmt.Errorf("backup: write %s: %w", path, err)
	}
	return nil
}

// publishMark renames a staged file to its final name.
func (r *repository) publishMark(path string) error {
	err := r.env.FS.Rename(path+".new", path)
	if err == nil {
		err = syncDir(r.env.FS, r.env.FS.PathDir(path))
	}
	if err != nil {
		return fmt.Errorf("backup: write %s: %w", path, err)
	}
	return nil
}
