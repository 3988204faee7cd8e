package pki

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"doublet/bus"
	"doublet/env"
)

// The join exchange is one question and one answer, each as four bytes of length and JSON, over TLS 1.3 at the direct
// address. The token authenticates both sides: the joining server checks the fingerprint of the authority, and the
// other server checks the secret.

// JoinProtocol is the ALPN name of the exchange (RFC 7301).
const JoinProtocol = "doublet-join/1"

const (
	maxJoin = 1 << 20
	// maxSkew is the maximum difference between the clocks of two servers of a cluster. Timestamps in the state that
	// are further ahead raise an alarm.
	maxSkew  = time.Minute
	joinTime = 30 * time.Second
)

// Further reasons why a server cannot join.
var (
	ErrUnreachable = errors.New("server that issued the token is unreachable")
	ErrClock       = errors.New("clocks differ: synchronize them (NTP) and join again")
	ErrNotAdmitted = errors.New("not admitted")
)

// Applicant is a joining server's description of itself.
type Applicant struct {
	// Name is the server's name, Host its host name, Version the version of its program.
	Name    string `json:"name"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// Route and Direct are its addresses for the other members.
	Route  string `json:"route,omitempty"`
	Direct string `json:"direct"`
	// Gateway is set if the server replicates only the two directories.
	Gateway bool `json:"gateway,omitempty"`
}

// Admission holds the admitting server's answer besides the certificate.
type Admission struct {
	// Members lists the members, including the new one.
	Members []bus.Member `json:"members"`
	// Domain is the Internet domain of people whose address has none.
	Domain string `json:"domain,omitempty"`
}

// Admit adds a server to the directory, or returns the reason for a rejection. It may be called again for the same
// member, if the first answer was lost.
type Admit func(ctx context.Context, m bus.Member, a Applicant) (Admission, error)

type question struct {
	Applicant
	Secret  []byte    `json:"secret"`
	Request []byte    `json:"request"` // PKCS #10
	Time    time.Time `json:"time"`
}

type answer struct {
	// Code is "" or the code of an error; Text explains it to people.
	Code string    `json:"code,omitempty"`
	Text string    `json:"text,omitempty"`
	Time time.Time `json:"time"`

	Certificate  []byte `json:"certificate,omitempty"`
	AuthorityKey []byte `json:"authority_key,omitempty"` // PKCS #8
	Admission
}

// codes maps the codes in answers to errors.
var codes = map[string]error{
	"used": ErrTokenUsed, "expired": ErrTokenExpired, "unknown": ErrTokenUnknown, "clock": ErrClock, "no key": ErrNoKey,
	"refused": ErrNotAdmitted,
}

func codeOf(err error) string {
	for code, known := range codes {
		if errors.Is(err, known) {
			return code
		}
	}
	return "refused"
}

func (a *answer) err() error {
	if a.Code == "" {
		return nil
	}
	known := codes[a.Code]
	if known == nil {
		known = ErrNotAdmitted
	}
	if more := strings.TrimPrefix(strings.TrimPrefix(a.Text, known.Error()), ": "); more != "" {
		return fmt.Errorf("%w: %s", known, more)
	}
	return known
}

// JoinServer returns the TLS configuration for joining servers. It sends the authority's certificate, which they
// compare with their token.
func (f *Folder) JoinServer() *tls.Config {
	c := f.Server(JoinProtocol)
	c.ClientAuth = tls.NoClientCert
	c.SessionTicketsDisabled = true
	return c
}

// ServeJoin answers one joining server. The caller closes the connection and logs the error.
func (f *Folder) ServeJoin(ctx context.Context, conn net.Conn, admit Admit) error {
	if err := conn.SetDeadline(env.Deadline(joinTime)); err != nil {
		return err
	}
	var q question
	if err := readJSON(conn, &q); err != nil {
		return err
	}
	a, err := f.admit(ctx, &q, admit)
	if err != nil {
		a = &answer{Code: codeOf(err), Text: err.Error()}
	}
	a.Time = f.env.Clock.Now().UTC()
	return errors.Join(err, writeJSON(conn, a))
}

func (f *Folder) admit(ctx context.Context, q *question, admit Admit) (*answer, error) {
	if !f.MayAdmit() {
		return nil, ErrNoKey
	}
	if err := compareClocks(f.env.Clock.Now(), q.Time); err != nil {
		return nil, err
	}
	key, err := parseRequest(q.Request)
	if err != nil {
		return nil, err
	}
	if err := checkName("server", q.Name); err != nil {
		return nil, err
	}
	if err := checkAddress(q.Direct); err != nil {
		return nil, err
	}
	if q.Route != "" {
		if err := checkAddress(q.Route); err != nil {
			return nil, err
		}
	}
	spki, err := keyOfPublic(key)
	if err != nil {
		return nil, err
	}
	authority, err := f.tokens.Redeem(q.Secret, spki)
	if err != nil {
		return nil, err
	}
	m := bus.Member{ID: ServerID(spki), Name: q.Name, Key: spki, Route: q.Route, Direct: q.Direct}
	var a answer
	if a.Admission, err = admit(ctx, m, q.Applicant); err != nil {
		return nil, err
	}
	if a.Certificate, err = f.authority.issue(f.env, key, m.ID, m.Name, f.opts.Life); err != nil {
		return nil, err
	}
	if authority {
		if a.AuthorityKey, err = x509.MarshalPKCS8PrivateKey(f.authority.key); err != nil {
			return nil, err
		}
	}
	return &a, nil
}

func compareClocks(here, there time.Time) error {
	d := here.Sub(there).Round(time.Second)
	switch {
	case d > maxSkew:
		return fmt.Errorf("%w: the joining server's is %s behind", ErrClock, d)
	case -d > maxSkew:
		return fmt.Errorf("%w: the joining server's is %s ahead", ErrClock, -d)
	}
	return nil
}

// Join makes this server a member of the token's cluster, with the description me, and saves the membership in dir. A
// failed attempt may be repeated; while the token is valid, it resumes.
func Join(ctx context.Context, e *env.Env, dir, word string, me Applicant, o Options) (*Folder, Admission, error) {
	token, err := ParseToken(word)
	if err == nil && token.Domain {
		err = fmt.Errorf("%w: it is of a domain: use it with doublet domain join", ErrBadToken)
	}
	if err != nil {
		return nil, Admission{}, err
	}
	f := newFolder(e, dir, o)
	if f.exists(authorityFile) {
		return nil, Admission{}, fmt.Errorf("%w: %s is there", ErrExists, f.path(authorityFile))
	}
	if err := f.ownKey(); err != nil {
		return nil, Admission{}, err
	}
	q := question{Applicant: me, Secret: token.Secret[:]}
	if q.Request, err = f.request(); err != nil {
		return nil, Admission{}, err
	}
	a, root, err := f.ask(ctx, token, &q)
	if err != nil {
		return nil, Admission{}, err
	}
	f.authority = &authority{cert: root}
	if len(a.AuthorityKey) > 0 {
		if f.authority.key, err = decodeKey(encodePEM("PRIVATE KEY", a.AuthorityKey)); err != nil {
			return nil, Admission{}, fmt.Errorf("received authority key: %w", err)
		}
		if !f.authority.key.PublicKey.Equal(root.PublicKey) {
			return nil, Admission{}, fmt.Errorf("received authority key: %w", ErrOtherCluster)
		}
	}
	if err := f.adopt(a.Certificate); err != nil {
		return nil, Admission{}, fmt.Errorf("received certificate: %w", err)
	}
	if err := f.save(a.Certificate, a.Members); err != nil {
		return nil, Admission{}, err
	}
	return f, a.Admission, nil
}

// ownKey loads the key of an earlier attempt, or makes and saves one. The admitting server recognizes a repeated
// attempt by the key.
func (f *Folder) ownKey() error {
	if f.exists(serverKeyFile) {
		raw, err := f.read(serverKeyFile)
		if err == nil {
			f.key, err = decodeKey(raw)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.path(serverKeyFile), err)
		}
		return nil
	}
	key, err := newKey(f.env)
	if err != nil {
		return err
	}
	if err := f.makeDir(); err != nil {
		return err
	}
	f.key = key
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	return f.write(serverKeyFile, text)
}

// ask sends the question to the token's server.
func (f *Folder) ask(ctx context.Context, token Token, q *question) (*answer, *x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	plain, err := f.env.Dial("tcp", token.Address, joinTime/3)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, token.Address, err)
	}
	defer plain.Close()
	defer context.AfterFunc(ctx, func() { plain.Close() })()
	var root *x509.Certificate
	conn := tls.Client(plain, &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: tlsName, NextProtos: []string{JoinProtocol}, Time: f.env.Clock.Now,
		// VerifyConnection checks the server against the token instead.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			root, err = token.verify(state)
			return err
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		if errors.Is(err, ErrOtherCluster) {
			return nil, nil, fmt.Errorf("%s: a server of another cluster than the token's: %w", token.Address,
				ErrOtherCluster)
		}
		return nil, nil, fmt.Errorf("%w: %s answers, but not as a server of a cluster: %w", ErrUnreachable,
			token.Address, err)
	}
	q.Time = f.env.Clock.Now().UTC()
	var a answer
	if err = writeJSON(conn, q); err == nil {
		err = readJSON(conn, &a)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s did not answer, retry later: %w", ErrUnreachable, token.Address, err)
	}
	if err := a.err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", token.Address, err)
	}
	return &a, root, nil
}

// verify checks the server's certificates against the token.
func (t Token) verify(state tls.ConnectionState) (*x509.Certificate, error) {
	certs := state.PeerCertificates
	if len(certs) != 2 || sha256.Sum256(certs[1].Raw) != t.Fingerprint {
		return nil, ErrOtherCluster
	}
	if err := certs[0].CheckSignatureFrom(certs[1]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOtherCluster, err)
	}
	_, err := identityOf(certs[0])
	return certs[1], err
}

func writeJSON(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
	return err
}

func readJSON(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxJoin {
		return fmt.Errorf("message of %d bytes, maximum is %d", n, maxJoin)
	}
	// The buffer grows with the data that arrives, not with the announced length.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return err
	}
	return json.Unmarshal(b.Bytes(), v)
}
