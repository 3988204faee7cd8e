package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"doublet/env"
	"doublet/store"
	"doublet/store/blob"
)

// Bounds in bytes on what is read from a backup folder: one manifest, and all manifests and results of checks together.
// Each file of the store takes about 300 bytes of a manifest, and as much in memory.
const (
	maxManifest  = 256 << 20
	maxManifests = 1 << 30
)

// content reads a small blob of the backup place, and subtracts its length from left, the bytes that may still be read.
func (r *repository) content(ctx context.Context, name string, most int64, left *int64) ([]byte, error) {
	b, err := r.place.Get(ctx, name, min(most, *left))
	switch {
	case errors.Is(err, blob.ErrTooLarge), errors.Is(err, blob.ErrDamaged), errors.Is(err, env.ErrNotRegular):
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return nil, fmt.Errorf("backup: %w", err)
	}
	*left -= int64(len(b))
	return b, nil
}

// manifest reads and verifies a manifest.
func (r *repository) manifest(ctx context.Context, path string, left *int64) (g Generation, err error) {
	b, err := r.content(ctx, path, maxManifest, left)
	if err != nil {
		return g, err
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
		if !plain(p.Name) || p.Size <= 0 || p.Stored < 0 || len(p.SHA256) != 2*sha256.Size {
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

// openPiece opens a piece as plain text. It returns ErrDamaged if the piece is missing or has another length than in
// the manifest.
func (r *repository) openPiece(ctx context.Context, p *Piece) (blob.Reader, error) {
	f, err := r.openStored(ctx, p)
	if err != nil || p.Stored == 0 {
		return f, err
	}
	f, err = r.keys.UnsealReader(f)
	if errors.Is(err, blob.ErrForged) {
		err = fmt.Errorf("%w: %s: %w", ErrDamaged, p.Name, err)
	}
	if err == nil && f.Size() != p.Size {
		return nil, errors.Join(wrongSize(p, f.Size(), p.Size), f.Close())
	}
	return f, err
}

func wrongSize(p *Piece, have, want int64) error {
	return fmt.Errorf("%w: %s has %d bytes, not the %d that it was written with", ErrDamaged, p.Name, have, want)
}

// openStored opens the blob of a piece.
func (r *repository) openStored(ctx context.Context, p *Piece) (blob.Reader, error) {
	f, err := r.place.Open(ctx, piecesName+"/"+p.Name)
	if errors.Is(err, blob.ErrAway) || err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if f.Size() != p.stored() {
		return nil, errors.Join(wrongSize(p, f.Size(), p.stored()), f.Close())
	}
	return f, nil
}
