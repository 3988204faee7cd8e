package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/env"
	"doublet/note"
)

// The files of the folder.
const (
	authorityFile    = "authority.pem"
	authorityKeyFile = "authority.key"
	serverFile       = "server.pem"
	serverKeyFile    = "server.key"
	tokensFile       = "tokens.json"
	membersFile      = "members.json"

	maxFile = 1 << 20
)

// Options configures the storage of files and the life of certificates.
type Options struct {
	// WritePrivate writes a file that only the server's account may read. The write is atomic and durable. nil: use
	// env.FS, for tests.
	WritePrivate func(path string, data []byte) error
	// Life is the validity period of certificates issued here (default DefaultLife).
	Life time.Duration
}

// Folder is a server's membership in a cluster, loaded from its folder.
type Folder struct {
	env  *env.Env
	dir  string
	opts Options

	authority *authority
	roots     *x509.CertPool
	key       *ecdsa.PrivateKey
	current   atomic.Pointer[tls.Certificate]

	tokens *Tokens
}

// Create creates a cluster with this server as its first member.
func Create(e *env.Env, dir, cluster, server string, o Options) (*Folder, error) {
	f := newFolder(e, dir, o)
	if f.exists(authorityFile) {
		return nil, fmt.Errorf("%w: %s is there", ErrExists, f.path(authorityFile))
	}
	if err := checkName("server", server); err != nil {
		return nil, err
	}
	a, err := newAuthority(e, cluster)
	if err != nil {
		return nil, err
	}
	if err = f.ownKey(); err != nil { // a server of a domain keeps its key
		return nil, err
	}
	spki, err := keyOfPublic(&f.key.PublicKey)
	if err != nil {
		return nil, err
	}
	cert, err := a.issue(e, &f.key.PublicKey, ServerID(spki), server, f.opts.Life)
	if err != nil {
		return nil, err
	}
	f.authority = a
	if err := f.save(cert, nil); err != nil {
		return nil, err
	}
	return f, f.adopt(cert)
}

// Open loads the folder. It returns ErrNone if the folder has no cluster.
func Open(e *env.Env, dir string, o Options) (*Folder, error) {
	f := newFolder(e, dir, o)
	raw, err := f.read(authorityFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	fail := func(name string, err error) (*Folder, error) {
		return nil, fmt.Errorf("%s: %w", f.path(name), err)
	}
	if err != nil {
		return fail(authorityFile, err)
	}
	f.authority = &authority{}
	if f.authority.cert, err = decodeCertificate(raw); err != nil {
		return fail(authorityFile, err)
	}
	if raw, err = f.read(authorityKeyFile); err == nil {
		f.authority.key, err = decodeKey(raw)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(authorityKeyFile, err)
	}
	if k := f.authority.key; k != nil && !k.PublicKey.Equal(f.authority.cert.PublicKey) {
		return fail(authorityKeyFile, errors.New("key does not match authority.pem"))
	}
	if raw, err = f.read(serverKeyFile); err == nil {
		f.key, err = decodeKey(raw)
	}
	if err != nil {
		return fail(serverKeyFile, err)
	}
	if raw, err = f.read(serverFile); err == nil {
		raw, err = decodePEM("CERTIFICATE", raw)
	}
	if err == nil {
		err = f.adopt(raw)
	}
	if err != nil {
		return fail(serverFile, err)
	}
	return f, nil
}

func newFolder(e *env.Env, dir string, o Options) *Folder {
	if o.Life <= 0 {
		o.Life = DefaultLife
	}
	f := &Folder{env: e, dir: dir, opts: o}
	f.tokens = &Tokens{f: f, name: tokensFile, verb: "doublet cluster token"}
	if o.WritePrivate == nil {
		f.opts.WritePrivate = f.writeFile
	}
	return f
}

// adopt makes a certificate the current one, if our authority signed it and it has our key. It ignores the validity
// period, because renewal starts with an expired certificate.
func (f *Folder) adopt(der []byte) error {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	if err := leaf.CheckSignatureFrom(f.authority.cert); err != nil {
		return fmt.Errorf("%w: %w", ErrOtherCluster, err)
	}
	if !f.key.PublicKey.Equal(leaf.PublicKey) {
		return errors.New("certificate does not match server.key")
	}
	if _, err := identityOf(leaf); err != nil {
		return err
	}
	if f.roots == nil {
		f.roots = x509.NewCertPool()
		f.roots.AddCert(f.authority.cert)
	}
	f.current.Store(&tls.Certificate{Certificate: [][]byte{der, f.authority.cert.Raw}, PrivateKey: f.key, Leaf: leaf})
	return nil
}

// save writes all files. It writes authority.pem last, because that file makes the server a member.
func (f *Folder) save(cert []byte, members []bus.Member) error {
	if err := f.makeDir(); err != nil {
		return err
	}
	key, err := encodeKey(f.key)
	if err == nil {
		err = f.write(serverKeyFile, key)
	}
	if err == nil && f.authority.key != nil {
		if key, err = encodeKey(f.authority.key); err == nil {
			err = f.write(authorityKeyFile, key)
		}
	}
	if err == nil {
		err = f.SaveMembers(members)
	}
	if err == nil {
		err = f.write(serverFile, encodePEM("CERTIFICATE", cert))
	}
	if err == nil {
		err = f.write(authorityFile, encodePEM("CERTIFICATE", f.authority.cert.Raw))
	}
	return err
}

// Cluster returns the cluster's name.
func (f *Folder) Cluster() string { return f.authority.cert.Subject.CommonName }

// Fingerprint returns the SHA-256 of the authority's certificate, which identifies the cluster.
func (f *Folder) Fingerprint() note.Digest { return f.authority.fingerprint() }

// Identity returns this server's identity.
func (f *Folder) Identity() Identity {
	id, err := identityOf(f.current.Load().Leaf)
	if err != nil {
		panic("pki: adopted a certificate without a server: " + err.Error())
	}
	return id
}

// MayAdmit reports whether this server holds the authority's key, so that others can join here.
func (f *Folder) MayAdmit() bool { return f.authority.key != nil }

// Client returns the TLS configuration for connections to other servers of the cluster. It shows this server's
// certificate.
func (f *Folder) Client(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: f.roots, ServerName: tlsName, NextProtos: protocols,
		Time: f.env.Clock.Now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return f.current.Load(), nil
		},
	}
}

// Server returns the TLS configuration for connections from other servers of the cluster.
func (f *Folder) Server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientCAs: f.roots, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: protocols, Time: f.env.Clock.Now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current.Load(), nil },
	}
}

// Peer returns the identity of the other end of a connection. The connection must be made with Client or Server, which
// verify the certificate.
func (f *Folder) Peer(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, ErrNoServer
	}
	return identityOf(state.PeerCertificates[0])
}

// SaveMembers saves the members for the next start.
func (f *Folder) SaveMembers(members []bus.Member) error {
	raw, err := json.MarshalIndent(members, "", "\t")
	if err != nil {
		return err
	}
	return f.write(membersFile, append(raw, '\n'))
}

// Members returns the members of the last SaveMembers.
func (f *Folder) Members() ([]bus.Member, error) {
	raw, err := f.read(membersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var members []bus.Member
	if err == nil {
		err = json.Unmarshal(raw, &members)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(membersFile), err)
	}
	return members, nil
}

// RenewAt returns the time to renew the certificate: when a third of its life is left.
func (f *Folder) RenewAt() time.Time {
	leaf := f.current.Load().Leaf
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore.Add(backdate)) / 3)
}

// Renew gets a new certificate for the same key. It uses the authority's key if it is here. Otherwise ask takes a
// certificate request to a server that holds it, which answers with Resign.
func (f *Folder) Renew(ctx context.Context, ask func(ctx context.Context, request []byte) ([]byte, error)) error {
	me := f.Identity()
	var cert []byte
	var err error
	if f.MayAdmit() {
		cert, err = f.authority.issue(f.env, &f.key.PublicKey, me.ID, me.Name, f.opts.Life)
	} else {
		var request []byte
		if request, err = f.request(); err == nil {
			cert, err = ask(ctx, request)
		}
	}
	if err != nil {
		return fmt.Errorf("renew the certificate: %w", err)
	}
	old := f.current.Load()
	if err := f.adopt(cert); err != nil {
		return fmt.Errorf("renew the certificate: %w", err)
	}
	if now := f.Identity(); now.ID != me.ID || !now.Until.After(me.Until) {
		f.current.Store(old)
		return fmt.Errorf("renew the certificate: received one for server %s valid until %s", now.ID, now.Until)
	}
	return f.write(serverFile, encodePEM("CERTIFICATE", cert))
}

// Resign answers a renewal request of the member who. The request must have the same key.
func (f *Folder) Resign(who Identity, request []byte) ([]byte, error) {
	key, err := parseRequest(request)
	if err != nil {
		return nil, err
	}
	spki, err := keyOfPublic(key)
	if err != nil {
		return nil, err
	}
	if spki != who.Key {
		return nil, errors.New("key in the request differs from the member's")
	}
	return f.authority.issue(f.env, key, who.ID, who.Name, f.opts.Life)
}

// request makes a certificate request with our key.
func (f *Folder) request() ([]byte, error) {
	return x509.CreateCertificateRequest(f.env.Rand, &x509.CertificateRequest{}, f.key)
}

func parseRequest(der []byte) (*ecdsa.PublicKey, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve.Params().Name != "P-256" {
		return nil, errors.New("certificate request: key is not ECDSA P-256")
	}
	return key, nil
}

func (f *Folder) path(name string) string { return f.env.FS.PathJoin(f.dir, name) }

func (f *Folder) exists(name string) bool {
	_, err := f.env.FS.Stat(f.path(name))
	return err == nil
}

func (f *Folder) read(name string) ([]byte, error) {
	file, err := f.env.FS.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return raw, err
}

func (f *Folder) write(name string, data []byte) error {
	if err := f.opts.WritePrivate(f.path(name), data); err != nil {
		return fmt.Errorf("write %s: %w", f.path(name), err)
	}
	return nil
}

// writeFile is WritePrivate over env.FS.
func (f *Folder) writeFile(path string, data []byte) error {
	temporary := path + ".new"
	file, err := f.env.FS.Create(temporary, "")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, f.env.FS.Remove(temporary))
	}
	if err := f.env.FS.Rename(temporary, path); err != nil {
		return err
	}
	return env.SyncDir(f.env.FS, f.dir)
}

// makeDir makes the folder and syncs its parent.
func (f *Folder) makeDir() error {
	if err := f.env.FS.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return env.SyncDir(f.env.FS, f.env.FS.PathDir(f.dir))
}
