package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"doublet/env"
)

// maxFile is the maximum size of a certificate or key file, in bytes. maxFolder is the maximum number of files in a
// folder.
const (
	maxFile   = 1 << 20
	maxFolder = 10_000
)

// Load reads a pair of PEM files, to check them.
func Load(e *env.Env, certificate, key string) (*tls.Certificate, error) {
	p := &Provider{env: e}
	entry, err := p.readPair(certificate, key, map[string]time.Time{})
	if err != nil {
		return nil, err
	}
	return entry.cert, nil
}

// readPair reads a certificate and its key, and stores their modification times in seen.
func (p *Provider) readPair(certificate, key string, seen map[string]time.Time) (*entry, error) {
	fail := func(err error) (*entry, error) {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certificate, key, err)
	}
	chain, err := p.readFile(certificate, seen)
	if err != nil {
		return fail(err)
	}
	secret := chain
	if key != certificate {
		if secret, err = p.readFile(key, seen); err != nil {
			return fail(err)
		}
	}
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		return fail(err)
	}
	return &entry{cert: &pair, source: fromFile, where: certificate}, nil
}

func (p *Provider) readFile(path string, seen map[string]time.Time) ([]byte, error) {
	f, err := p.env.FS.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Read the time first, so that a file that changes during the read is read again.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	seen[path] = info.ModTime()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	return raw, err
}

// readFolder reads the further certificates: NAME.pem (or .crt) with NAME.key, and certbot's folders. A pair that does
// not load fails the whole reload, so that the previous certificates stay.
func (p *Provider) readFolder(seen map[string]time.Time) ([]*entry, error) {
	dir := p.opts.Folder
	if dir == "" {
		return nil, nil
	}
	names, err := p.env.FS.List(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of certificates: %w", err)
	}
	if len(names) > maxFolder {
		return nil, fmt.Errorf("folder of certificates %s: more than %d files", dir, maxFolder)
	}
	if info, err := p.env.FS.Stat(dir); err == nil {
		seen[dir] = info.ModTime()
	}
	slices.Sort(names)
	var all []*entry
	for _, name := range names {
		certificate, key := p.env.FS.PathJoin(dir, name), ""
		base, pem := strings.CutSuffix(name, ".pem")
		if !pem {
			base, pem = strings.CutSuffix(name, ".crt")
		}
		if pem {
			key = p.env.FS.PathJoin(dir, base+".key")
		} else {
			key = p.env.FS.PathJoin(certificate, "privkey.pem")
			certificate = p.env.FS.PathJoin(certificate, "fullchain.pem")
		}
		if _, err := p.env.FS.Stat(key); errors.Is(err, fs.ErrNotExist) || !pem && err != nil {
			continue // not a pair: an intermediate certificate, a README
		}
		e, err := p.readPair(certificate, key, seen)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// changed reports whether a file has another modification time or was removed. The caller holds mu.
func (p *Provider) changed() bool {
	for path, then := range p.seen {
		info, err := p.env.FS.Stat(path)
		if err != nil || !info.ModTime().Equal(then) {
			return true
		}
	}
	return false
}

// writeFile writes a file atomically.
func (p *Provider) writeFile(path string, data []byte) error {
	temporary := path + ".new"
	f, err := p.env.FS.Create(temporary, "")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, p.env.FS.Remove(temporary))
	}
	return p.env.FS.Rename(temporary, path)
}
