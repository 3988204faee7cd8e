package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"doublet/env"
	"doublet/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Bounds in bytes on what is read from a backup folder: one manifest, and all manifests and results of checks together.
// Each file of the store takes about 300 bytes of a manifest, and as much in memory.
const (
	maxManifest  = 256 << 20
	maxManifests = 1 << 30
)

// content reads a small file of the backup folder, and subtracts its length from left, the bytes that may still be
// read.
func (r *repository) content(path string, most int64, left *int64) ([]byte, error) {
	f, size, err := env.OpenRegular(r.env.FS, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if most = min(most, *left); size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, of which at most %d are read", ErrDamaged, path, size, most)
	}
	*left -= size
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}

// manifest reads and verifies a manifest.
func (r *repository) manifest(path string, left *int64) (g Generation, err error) {
	b, err := r.content(path, maxManifest, left)
	switch {
	case errors.Is(err, ErrDamaged):
		return g, err
	case errors.Is(err, env.ErrNotRegular):
		return g, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return g, fmt.Errorf("backup: read %s: %w", path, err)
	}
	head, body, _ := bytes.Cut(b, []byte("\n"))
	sum, ok := strings.CutPrefix(string(head), magic)
	if !ok {
		return g, fmt.Errorf("%w: %s is not a manifest that this program reads", ErrDamaged, path)
	}
	if have := sha256.Sum256(body); sum != hex.EncodeToString(have[:]) {
		return g, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, path)
	}
	if err := decodeManifest(body, &g); err != nil {
		return Generation{}, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return g, nil
}

// decodeManifest decodes a manifest, file by file and piece by piece, and stops at the first malformed one. So a
// manifest of millions of empty entries takes no memory.
func decodeManifest(body []byte, g *Generation) error {
	read := struct {
		*Generation
		Files manifestFiles `json:"files"`
	}{Generation: g}
	if err := json.Unmarshal(body, &read); err != nil {
		return err
	}
	g.Files = read.Files
	return nil
}

// manifestFiles holds the files of a manifest.
type manifestFiles []File

// UnmarshalJSON implements json.Unmarshaler.
func (l *manifestFiles) UnmarshalJSON(b []byte) error {
	var total int64
	return eachOf(b, func(d *json.Decoder) error {
		var f struct {
			Path   string         `json:"path"`
			Size   int64          `json:"size"`
			Pieces manifestPieces `json:"pieces"`
		}
		if err := d.Decode(&f); err != nil {
			return err
		}
		sound := File{Path: f.Path, Size: f.Size, Pieces: f.Pieces}
		if err := sound.sound(); err != nil {
			return err
		}
		if f.Size > math.MaxInt64-total {
			return fmt.Errorf("%s: %d bytes are more than a store can have", f.Path, f.Size)
		}
		total += f.Size
		*l = append(*l, sound)
		return nil
	})
}

// manifestPieces holds the pieces of a file of a manifest.
type manifestPieces []Piece

// UnmarshalJSON implements json.Unmarshaler.
func (l *manifestPieces) UnmarshalJSON(b []byte) error {
	return eachOf(b, func(d *json.Decoder) error {
		var p Piece
		if err := d.Decode(&p); err != nil {
			return err
		}
		if !plain(p.Name) || p.Size <= 0 || len(p.SHA256) != 2*sha256.Size {
			return fmt.Errorf("bad piece %.200q", p.Name)
		}
		*l = append(*l, p)
		return nil
	})
}

// eachOf calls read for the elements of a JSON array.
func eachOf(b []byte, read func(*json.Decoder) error) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(errors.New("not an array"), err)
	}
	for d.More() {
		if err := read(d); err != nil {
			return err
		}
	}
	return nil
}

// sound rejects a file that does not belong to a store, and one whose size its pieces do not add up to.
func (f *File) sound() error {
	dir, name, _ := strings.Cut(f.Path, "/")
	ok := false
	switch dir {
	case folderIndex, folderSegments:
		ok = store.OwnFile(name)
	case folderExtra:
		ok = f.Size <= maxExtra
	}
	if !ok || !plain(name) {
		return fmt.Errorf("%.200q is not a file of a store", f.Path)
	}
	var n int64
	for _, p := range f.Pieces {
		if p.Size > math.MaxInt64-n {
			return fmt.Errorf("%s: its pieces are too large", f.Path)
		}
		n += p.Size
	}
	if n != f.Size {
		return fmt.Errorf("%s: %d bytes of %d", f.Path, n, f.Size)
	}
	return nil
}

func plain(name string) bool {
	return name != "" && !strings.ContainsAny(name, "/\\\x00") && name != "." && name != ".."
}

// openPiece opens a piece and checks that it has the length given in the manifest.
func openPiece(files env.FS, path string, p *Piece, how ...vfs.OpenOption) (env.File, error) {
	f, size, err := env.OpenRegular(files, path, how...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if size != p.Size {
		return nil, errors.Join(fmt.Errorf("%w: %s has %d bytes, not the %d that it was written with", ErrDamaged, path,
			size, p.Size), f.Close())
	}
	return f, nil
}
