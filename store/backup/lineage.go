package backup

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"doublet/env"
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
	// maxMarks bounds the marks in a data folder. There may be several backup folders, each with several marks.
	maxMarks = 32
	maxMark  = 64 << 10 // bytes of such a file
)

// mark is the mark of one backup. It is stored as JSON.
type mark struct {
	ID string `json:"id"`
	// Lineage is a part of the names of pieces. It is empty until a data folder has returned to an older state.
	Lineage string `json:"lineage,omitempty"`
}

// draw returns a text that no other backup has. It includes the time, because a machine that was reset together with
// its memory may produce the same random bytes again.
func draw(e *env.Env) string {
	var b [16]byte
	e.Fill(b[:])
	return hex.EncodeToString(b[:]) + "-" + strconv.FormatInt(e.Clock.Now().UnixNano(), 16)
}

// begin writes the mark of a backup to both folders, and returns the lineage of its pieces.
func (r *repository) begin(data string, incarnation uint64) (lineage string, err error) {
	var known []mark
	var last mark
	marks, own := r.env.FS.PathJoin(data, marksName), r.env.FS.PathJoin(r.dir, markName)
	if err := errors.Join(r.readMark(marks, &known), r.readMark(own, &last)); err != nil {
		return "", err
	}
	next := mark{ID: draw(r.env)}
	switch i := slices.IndexFunc(known, func(m mark) bool { return m.ID == last.ID }); {
	case i >= 0:
		next.Lineage = known[i].Lineage
	case last.ID != "" && r.hasOf(incarnation):
		next.Lineage = draw(r.env)
		r.env.Log.Warn("backup: the data folder was put back to an older state after its last backup: everything is copied anew", "folder", r.dir)
	}
	known = append(known, next)
	known = known[max(0, len(known)-maxMarks):]
	// The data folder comes first: a mark that only the data folder has does no harm.
	return next.Lineage, errors.Join(r.writeMark(marks, known), r.writeMark(own, next))
}

// hasOf reports whether the backup folder has a generation of an incarnation.
func (r *repository) hasOf(incarnation uint64) bool {
	return slices.ContainsFunc(r.generations, func(g Generation) bool { return !g.unread && g.Incarnation == incarnation })
}

// readMark reads a file of marks into v. It leaves v unchanged if there is no file or the file is malformed.
func (r *repository) readMark(path string, v any) error {
	left := int64(maxMark)
	b, err := r.content(path, maxMark, &left)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrDamaged):
		return nil
	case err != nil:
		return fmt.Errorf("backup: read %s: %w", path, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		r.env.Log.Warn("backup: a file of marks cannot be read", "file", path, "error", err)
	}
	return nil
}

func (r *repository) writeMark(path string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = writeFile(r.env.FS, path+".new", b)
	}
	if err == nil {
		err = errors.Join(r.env.FS.Rename(path+".new", path), syncDir(r.env.FS, r.env.FS.PathDir(path)))
	}
	if err != nil {
		return fmt.Errorf("backup: write %s: %w", path, err)
	}
	return nil
}
