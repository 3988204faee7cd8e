package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/admin"
	"doublet/bus"
	"doublet/bus/pki"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/replica/domain"
	"doublet/replica/https"
	"doublet/store"
	"doublet/test/program"
)

// door returns a replication client for a server's door https.
func door(t *testing.T, s *program.Server, o https.ClientOptions) *https.Client {
	t.Helper()
	o.URL = "https://127.0.0.1:" + s.Port["https"]
	if o.TLS == nil {
		c, err := tls.Dial("tcp", "127.0.0.1:"+s.Port["https"], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw)
		o.Fingerprint = hex.EncodeToString(sum[:])
		c.Close()
	}
	client, err := https.NewClient(env.Real(slog.New(slog.DiscardHandler)), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// databases returns the ids of all databases of a server, by kind.
func databases(t *testing.T, s *program.Server) map[string][]note.DatabaseID {
	t.Helper()
	var list []admin.Database
	if err := json.Unmarshal([]byte(s.Doublet("db", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string][]note.DatabaseID{}
	for _, d := range list {
		id, err := note.ParseDatabaseID(d.ID)
		if err != nil {
			t.Fatal(err)
		}
		out[d.Kind] = append(out[d.Kind], id)
	}
	return out
}

// appPassword creates an app password of a person.
func appPassword(t *testing.T, s *program.Server, user string) string {
	t.Helper()
	var p struct{ Secret string }
	if err := json.Unmarshal([]byte(s.Doublet("user", "app-password", "add", user, "laptop", "--json")),
		&p); err != nil || p.Secret == "" {
		t.Fatal(err)
	}
	return p.Secret
}

// TestReplicateAsAdministrator checks that an administrator's app password replicates the administrator's own databases
// only. It neither lists nor opens the mail of others, the directory or the sessions. The audit log records the first
// attempts with person and address.
func TestReplicateAsAdministrator(t *testing.T) {
	t.Parallel()
	s := program.Demo(t)
	ctx := context.Background()
	c := door(t, s, https.ClientOptions{User: "alice", Secret: appPassword(t, s, "alice")})
	a, err := c.Account(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if a.Admin || len(a.Databases) != 1 || a.Databases[0].ID != a.Mail {
		t.Errorf("an administrator gets more than her own: %+v", a)
	}
	all := databases(t, s)
	if len(all["mail"]) < 3 || len(all["directory"]) != 1 {
		t.Fatalf("the demo has %v", all)
	}
	denied := 0
	for kind, list := range all {
		for _, id := range list {
			_, err := c.Side().Hello(ctx, id, replica.Peer{})
			if id.String() == a.Mail {
				if err != nil {
					t.Errorf("her own mail: %v", err)
				}
				continue
			}
			denied++
			if !errors.Is(err, store.ErrDenied) && !errors.Is(err, replica.ErrLocalOnly) {
				t.Errorf("database %s of kind %s: %v", id, kind, err)
			}
		}
	}
	for _, id := range []note.DatabaseID{directory.ID, session.ID, session.SharedID} {
		if _, err := c.Side().Hello(ctx, id, replica.Peer{}); err == nil {
			t.Errorf("database %s is open", id)
		}
	}
	audit := regexp.MustCompile(
		`level=WARN msg="admin: refused" kind=audit verb="replica open" by="?Alice[^=]*person=[0-9A-Fa-f]+ ` +
			`from=127\.0\.0\.1 `)
	s.Stop(syscall.SIGTERM) // its output has come whole then
	// The audit log has a line for each, up to ten a minute (replica/https). The last three databases are refused too.
	if n := len(audit.FindAllString(s.Out.String(), -1)); n != min(denied+3, 10) {
		t.Errorf("%d lines of the audit about %d attempts:\n%s", n, denied, s.Out)
	}
}

// TestJoinDomain checks that no server joins the domain with an administrator's password, a forged token or an unknown
// key. A token admits the server that shows its own key, once, and the removal of that server excludes it.
func TestJoinDomain(t *testing.T) {
	t.Parallel()
	s := program.Demo(t)
	ctx := context.Background()
	e := env.Real(slog.New(slog.DiscardHandler))
	stranger, err := pki.MakeOwn(e, filepath.Join(t.TempDir(), "stranger"), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	question := func(secret []byte) []byte {
		raw, err := json.Marshal(domain.Applicant{Name: "stranger.example", Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	const hint = "doublet domain token"
	if _, err := door(t, s, https.ClientOptions{User: "alice", Secret: "demo"}).Admit(ctx,
		question(nil)); !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), hint) {
		t.Errorf("with a password: %v", err)
	}
	token, err := pki.ParseToken(field(s.Doublet("domain", "token", "--address", "127.0.0.1:"+s.Port["https"]),
		"doublet-domain-"))
	if err != nil {
		t.Fatal(err)
	}
	as := func(own *pki.Own) *https.Client {
		return door(t, s, https.ClientOptions{TLS: own.Client(bus.Key(token.Fingerprint), time.Now)})
	}
	c := as(stranger)
	if _, err := c.Account(ctx); !errors.Is(err, https.ErrSignIn) {
		t.Errorf("a key that nobody knows lists databases: %v", err)
	}
	if _, err := c.Side().Hello(ctx, directory.ID, replica.Peer{}); !errors.Is(err, https.ErrSignIn) {
		t.Errorf("a key that nobody knows opens the directory: %v", err)
	}
	for _, secret := range [][]byte{nil, {}, make([]byte, 16), make([]byte, 15), make([]byte, 4096)} {
		if _, err := c.Admit(ctx, question(secret)); !errors.Is(err, store.ErrDenied) {
			t.Errorf("a made-up token of %d bytes: %v", len(secret), err)
		}
	}
	if _, err := c.Admit(ctx, make([]byte, 1<<20)); err == nil {
		t.Error("a question of a megabyte is answered")
	}
	if show := s.Doublet("show", "domain"); strings.Contains(show, "stranger") {
		t.Errorf("it is in the domain:\n%s", show)
	}
	if _, err := c.Admit(ctx, question(token.Secret[:])); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Side().Hello(ctx, directory.ID, replica.Peer{}); err != nil {
		t.Errorf("who came with a token does not get the directory: %v", err)
	}
	for _, id := range []note.DatabaseID{session.ID, session.SharedID, replica.ID} {
		if _, err := c.Side().Hello(ctx, id, replica.Peer{}); err == nil {
			t.Errorf("a server of the domain opens %s, which is each place's own", id)
		}
	}
	other, err := pki.MakeOwn(e, filepath.Join(t.TempDir(), "other"), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as(other).Admit(ctx, question(token.Secret[:])); !errors.Is(err, store.ErrDenied) ||
		!strings.Contains(err.Error(), "was already used") {
		t.Errorf("a token lets in two: %v", err)
	}
	program.Want(t, s.Doublet("show", "domain"), "stranger.example")
	s.Doublet("server", "remove", "stranger.example")
	if _, err := c.Side().Hello(ctx, directory.ID, replica.Peer{}); !errors.Is(err, https.ErrSignIn) {
		t.Errorf("a server that was removed opens the directory: %v", err)
	}
	if _, err := c.Admit(ctx, question(token.Secret[:])); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a server that was removed comes back with its old token: %v", err)
	}
	program.Want(t, s.Out.String(), `verb="domain join" by=nobody from=127.0.0.1`,
		`verb="domain join" by=`+stranger.Key.String()+" from=127.0.0.1",
		`verb="replica sign-in" by=nobody from=127.0.0.1`)
}

// TestBorrowedName checks that a certificate with the name of a server of the domain but another key is rejected, also
// when it is shown to the door under the server's ordinary name.
func TestBorrowedName(t *testing.T) {
	t.Parallel()
	s := program.Demo(t)
	token, err := pki.ParseToken(field(s.Doublet("domain", "token", "--address", "127.0.0.1:"+s.Port["https"]),
		"doublet-domain-"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{pki.DomainName},
	}
	template.Subject.CommonName = pki.ServerID(bus.Key(token.Fingerprint)).String() // the server's own
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pki.DomainName, "localhost", "SERVER.domain.doublet.internal"} {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, ServerName: name,
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		}}}
		for _, path := range []string{"", "call/hello"} {
			method := http.MethodGet
			if path != "" {
				method = http.MethodPost
			}
			r, err := http.NewRequest(method, "https://127.0.0.1:"+s.Port["https"]+https.Path+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %q: %s", name, path, resp.Status)
			}
		}
	}
}

// field returns the word of a text that begins with a prefix.
func field(text, prefix string) string {
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, prefix) {
			return word
		}
	}
	return ""
}
