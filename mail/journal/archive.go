package journal

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// A sealed archive is a tar file. For each entry it has a file "entries/NUMBER.json", the readable part with its hash,
// and "entries/NUMBER.age", the encrypted part. Then come "manifest.json" and "signature", which is the server's
// signature of the manifest (Ed25519, 64 bytes). The chain makes the hash of the last entry cover all entries before
// it, so that the signature covers them too.

// Manifest describes an archive.
type Manifest struct {
	Format   string    `json:"format"`
	Server   string    `json:"server"`
	Database string    `json:"database"`
	Title    string    `json:"title"`
	Created  time.Time `json:"created"`
	// By and Reason state who exported the entries, and why.
	By     string `json:"by"`
	Reason string `json:"reason"`
	// First and Last are the numbers of the entries; none are left out between them. Previous is the hash before the
	// first, Hash that of the last.
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Previous Hash   `json:"previous"`
	Hash     Hash   `json:"hash"`
	// Open reports that the database was still taking entries, so that later ones exist.
	Open bool `json:"open"`
	// Keys are the public keys that the entries are encrypted to. Signer is the public key of the signature, in
	// hexadecimal.
	Keys   []string `json:"keys"`
	Signer string   `json:"signer"`
}

// The parts of an archive.
const (
	archiveFormat = "doublet journal archive 1"
	manifestName  = "manifest.json"
	signatureName = "signature"
	maxEntryText  = 64 << 20 // bytes of the readable part; a message may have very many recipients
	maxManifest   = 1 << 20
)

// ErrArchive means that a file is no complete archive.
var ErrArchive = errors.New("journal: not a complete archive")

// Export are the arguments of Journal.Export.
type Export struct {
	Database    note.DatabaseID
	First, Last uint64 // 0: the first, the last of the database
	// Server is the name of the server. By and Reason are for the manifest.
	Server, By, Reason string
}

// Export writes entries as a sealed archive. who needs the right to read the database. A missing or damaged entry is an
// error, because the archive would be no proof. Errors: store.ErrDenied.
func (j *Journal) Export(ctx context.Context, who note.Who, x *Export, to io.Writer,
	progress func(done uint64)) (*Manifest, error) {
	if err := j.isJournal(x.Database); err != nil {
		return nil, err
	}
	m, err := j.manifest(ctx, who, x)
	if err != nil {
		return nil, err
	}
	// A file may change the bytes that it is given to write, and tar has zeros that it writes again and again.
	out := bufio.NewWriterSize(to, 64<<10)
	t := tar.NewWriter(out)
	c := newChain(m.First, m.Previous)
	for n := m.First; n <= m.Last; n++ {
		e, content, err := j.Entry(ctx, who, x.Database, n)
		if err != nil {
			return nil, fmt.Errorf("journal: export: %w", err)
		}
		if n == m.First && n > 1 {
			c.hash, m.Previous = e.Previous, e.Previous
		}
		if err := c.export(t, e, content); err != nil {
			return nil, err
		}
		progress(n - m.First + 1)
	}
	if m.Hash = c.hash; len(c.Findings) > 0 {
		return nil, fmt.Errorf("journal: export: %w: %s", store.ErrDamaged, c.Findings[0])
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	signature := ed25519.Sign(j.sign, raw)
	if err = put(t, manifestName, raw, m.Created); err == nil {
		err = put(t, signatureName, signature, m.Created)
	}
	return m, errors.Join(err, t.Close(), out.Flush())
}

// manifest returns the manifest of an export, without the hash of the last entry.
func (j *Journal) manifest(ctx context.Context, who note.Who, x *Export) (*Manifest, error) {
	m := &Manifest{Format: archiveFormat, Server: x.Server, Database: x.Database.String(), First: max(1, x.First),
		Created: j.env.Clock.Now().UTC().Truncate(time.Second), By: x.By, Reason: x.Reason, Signer: j.signer()}
	err := j.store.Read(ctx, who, x.Database, func(r *store.Reader) error {
		if r.Rights()&note.Read == 0 {
			return store.ErrDenied
		}
		h, err := readHead(r)
		if err != nil {
			return err
		}
		m.Title, m.Keys, m.Open, m.Previous = r.Info().Title, h.keys, h.closed.IsZero(), h.origin
		if m.Last = x.Last; m.Last == 0 {
			m.Last = h.number
		}
		if m.Last > h.number || m.First > m.Last+1 {
			return fmt.Errorf("entries %d to %d of journal %s, which has %d: %w", m.First, m.Last, x.Database, h.number,
				store.ErrNotFound)
		}
		return nil
	})
	return m, err
}

// export writes an entry and verifies it.
func (c *chain) export(t *tar.Writer, e *Entry, content io.WriterTo) error {
	var sealed bytes.Buffer
	if _, err := content.WriteTo(&sealed); err != nil {
		return err
	}
	c.take(e, sha256.Sum256(sealed.Bytes()))
	raw, err := json.Marshal(e)
	if err == nil {
		err = put(t, fmt.Sprintf("entries/%010d.json", e.Number), raw, e.Time)
	}
	if err == nil {
		err = put(t, fmt.Sprintf("entries/%010d.age", e.Number), sealed.Bytes(), e.Time)
	}
	return err
}

func put(t *tar.Writer, name string, content []byte, at time.Time) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o400, Size: int64(len(content)),
		ModTime: at.Truncate(time.Second), Format: tar.FormatPAX})
	if err == nil {
		_, err = t.Write(content)
	}
	return err
}

// Verified is the result of verifying an archive.
type Verified struct {
	Manifest Manifest
	Report   Report
}

// VerifyArchive verifies an archive: that it is complete, unchanged and signed. signer is the public key that it must
// be signed with, in hexadecimal; if it is empty, the key in the manifest is taken, which proves only that the archive
// was not changed since. each is called for each entry with its encrypted part, if it is not nil. Errors: ErrArchive.
func VerifyArchive(from io.Reader, signer string, each func(e *Entry, sealed []byte) error) (*Verified, error) {
	a := &archive{tar: tar.NewReader(from)}
	var c *chain
	for {
		e, sealed, err := a.entry()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if c == nil {
			c = newChain(e.Number, e.Previous)
		}
		c.take(e, sha256.Sum256(sealed))
		if each != nil {
			if err := each(e, sealed); err != nil {
				return nil, err
			}
		}
	}
	v := &Verified{Manifest: a.manifest}
	m := &v.Manifest
	if err := a.signed(signer); err != nil {
		return nil, err
	}
	if c == nil {
		c = newChain(m.First, m.Previous)
	}
	c.begin(m)
	v.Report = c.end(m.Last, m.Hash)
	return v, nil
}

// begin compares the first entry with the manifest.
func (c *chain) begin(m *Manifest) {
	first := c.First
	c.First = m.First
	switch {
	case c.Entries == 0:
	case first > m.First:
		c.add(Missing, m.First, first-1, "no entry has this number")
	case first < m.First:
		c.add(Inserted, first, m.First-1, fmt.Sprintf("the first entry is %d", m.First))
	case c.previous != m.Previous:
		c.add(Changed, first, first, "it does not continue the chain before the first entry")
	}
}

// archive reads an archive.
type archive struct {
	tar      *tar.Reader
	manifest Manifest
	raw      []byte // of the manifest
	sign     []byte
}

// entry returns the next entry and its encrypted part. At the end it reads the manifest and returns nil.
func (a *archive) entry() (*Entry, []byte, error) {
	name, raw, err := a.file()
	if err != nil {
		return nil, nil, err
	}
	if name == manifestName {
		return nil, nil, a.last(raw)
	}
	base, ok := strings.CutSuffix(name, ".json")
	e := &Entry{}
	if !ok {
		return nil, nil, fmt.Errorf("%w: unexpected file %.80q", ErrArchive, name)
	}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, nil, fmt.Errorf("%w: %.80s: %w", ErrArchive, name, err)
	}
	second, sealed, err := a.file()
	if err != nil {
		return nil, nil, err
	}
	if second != base+".age" {
		return nil, nil, fmt.Errorf("%w: %.80q follows %.80q", ErrArchive, second, name)
	}
	return e, sealed, nil
}

// file reads the next file.
func (a *archive) file() (string, []byte, error) {
	h, err := a.tar.Next()
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	limit := int64(maxEntryText)
	switch {
	case h.Typeflag != tar.TypeReg:
		return "", nil, fmt.Errorf("%w: %.80q is no file", ErrArchive, h.Name)
	case strings.HasSuffix(h.Name, ".age"):
		limit = maxPlain
	case h.Name == manifestName || h.Name == signatureName:
		limit = maxManifest
	}
	if h.Size > limit {
		return "", nil, fmt.Errorf("%w: %.80q has %d bytes, at most %d", ErrArchive, h.Name, h.Size, limit)
	}
	var b bytes.Buffer // grows with what arrives, not with what the header states
	if _, err := io.Copy(&b, a.tar); err != nil {
		return "", nil, fmt.Errorf("%w: %.80s: %w", ErrArchive, h.Name, err)
	}
	return h.Name, b.Bytes(), nil
}

// last reads the manifest and what follows it.
func (a *archive) last(raw []byte) error {
	if err := json.Unmarshal(raw, &a.manifest); err != nil || a.manifest.Format != archiveFormat {
		return fmt.Errorf("%w: manifest of format %.40q: %w", ErrArchive, a.manifest.Format,
			errors.Join(err, errors.New("unknown")))
	}
	name, sign, err := a.file()
	if err != nil || name != signatureName {
		return fmt.Errorf("%w: no signature: %w", ErrArchive, errors.Join(err, fmt.Errorf("file %.80q", name)))
	}
	if _, err := a.tar.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: files follow the signature", ErrArchive)
	}
	a.raw, a.sign = raw, sign
	return nil
}

// signed checks the signature.
func (a *archive) signed(signer string) error {
	if signer == "" {
		signer = a.manifest.Signer
	}
	key, err := hex.DecodeString(signer)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: %.80q is no public key of a server", ErrArchive, signer)
	}
	if !ed25519.Verify(key, a.raw, a.sign) {
		return fmt.Errorf("%w: the signature is not that of %s", ErrArchive, signer)
	}
	return nil
}
