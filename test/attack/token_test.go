package attack

import (
	"bufio"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/test/long"
	"doublet/test/program"
)

// issuer is an OpenID Connect issuer that issues tokens for alice.
func issuer(t *testing.T) (at string, token func(life time.Duration) string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			fmt.Fprintf(w, `{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"k","n":%q,"e":%q}]}`,
				b64(key.N.Bytes()), b64(big.NewInt(int64(key.E)).Bytes()))
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, s.URL,
			s.URL+"/keys")
	}))
	t.Cleanup(s.Close)
	return s.URL, func(life time.Duration) string {
		now := time.Now()
		body, _ := json.Marshal(map[string]any{"iss": s.URL, "aud": "doublet", "sub": "1", "exp": now.Add(life).Unix(),
			"iat": now.Unix(), "email": "alice@example.com"})
		text := b64([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + b64(body)
		sum := sha256.Sum256([]byte(text))
		sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + b64(sig)
	}
}

// lines is a connection of a text protocol.
type lines struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dialLines(t *testing.T, port string) *lines {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return &lines{t, c, bufio.NewReader(c)}
}

// say sends a line and returns everything up to a line that begins with until, or to the end.
func (l *lines) say(line, until string) (out string) {
	l.t.Helper()
	if line != "" {
		_, _ = io.WriteString(l.Conn, line+"\r\n")
	}
	for {
		s, err := l.r.ReadString('\n')
		if out += s; err != nil || strings.HasPrefix(s, until) {
			return out
		}
	}
}

// TestTokenEnds checks that a connection opened with a token ends when the token expires, even if it is idle: IMAP in
// IDLE, POP3, an event stream. A connection opened with an app password or a password ends when that is revoked, before
// it receives more data.
func TestTokenEnds(t *testing.T) {
	long.Test(t)
	at, token := issuer(t)
	t.Setenv("DOUBLET_OAUTH_ISSUER", at)
	t.Setenv("DOUBLET_OAUTH_AUDIENCE", "doublet")
	s := program.Demo(t)
	const life = 20 * time.Second
	began := time.Now()
	bearer := func() string {
		return base64.StdEncoding.EncodeToString([]byte("user=alice@example.com\x01auth=Bearer " + token(life) +
			"\x01\x01"))
	}
	idle := dialLines(t, s.Port["imap"])
	program.Want(t, idle.say("a AUTHENTICATE XOAUTH2 "+bearer(), "a "), "a OK")
	program.Want(t, idle.say("b SELECT INBOX", "b "), "b OK")
	program.Want(t, idle.say("c IDLE", "+"), "+")
	pop := dialLines(t, s.Port["pop3"])
	pop.say("", "+OK")
	program.Want(t, pop.say("AUTH XOAUTH2 "+bearer(), "+OK"), "+OK")
	r, err := http.NewRequest("GET", "http://127.0.0.1:"+s.Port["http"]+
		"/jmap/eventsource/?types=*&closeafter=no&ping=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token(life))
	events, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	if events.StatusCode != http.StatusOK {
		t.Fatalf("EventSource: %d", events.StatusCode)
	}
	for name, wait := range map[string]func(){
		"IMAP":        func() { program.Want(t, idle.say("", "* BYE"), "* BYE") },
		"POP3":        func() { _, _ = io.Copy(io.Discard, pop.r) },
		"EventSource": func() { _, _ = io.Copy(io.Discard, events.Body) },
	} {
		wait()
		if took := time.Since(began); took < life-2*time.Second || took > life+time.Minute {
			t.Errorf("%s ended after %v", name, took)
		}
	}

	// Revoke the passwords.
	app := dialLines(t, s.Port["imap"])
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(s.Doublet("user", "app-password", "add", "alice", "phone", "--json")),
		&made); err != nil || made.Secret == "" {
		t.Fatal(err)
	}
	program.Want(t, app.say("a LOGIN alice "+made.Secret, "a "), "a OK")
	password := dialLines(t, s.Port["imap"])
	program.Want(t, password.say("a LOGIN bob demo", "a "), "a OK")
	program.Want(t, app.say("b NOOP", "b "), "b OK")
	s.Doublet("user", "app-password", "remove", "alice", "phone")
	s.Doublet("user", "password", "bob", "--password", "another-password")
	for name, c := range map[string]*lines{"the app password": app, "the password": password} {
		if got := c.say("c SELECT INBOX", "c "); !strings.HasPrefix(got, "* BYE") {
			t.Errorf("%s was taken away, and its connection goes on: %q", name, got)
		}
	}
}
