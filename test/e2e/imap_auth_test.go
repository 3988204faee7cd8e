package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// TestImapSignIn checks that msmtp, curl and Python can sign in with an app password by SCRAM, also with channel
// binding, and with a token of an issuer, and can then use lists, quotas and compression.
func TestImapSignIn(t *testing.T) {
	external.Need(t, "curl", "msmtp", "python3")
	issuer := newIssuer(t)
	t.Setenv("DOUBLET_OAUTH_ISSUER", issuer.URL)
	t.Setenv("DOUBLET_OAUTH_AUDIENCE", "doublet")
	s := demo(t)
	app := lastWord(s.Doublet("user", "app-password", "add", "alice", "curl"))

	curl := func(args ...string) (string, error) {
		return program.Command("curl", append([]string{"--silent", "--show-error", "--insecure", "--max-time", "30"},
			args...)...)
	}
	imaps := "imaps://127.0.0.1:" + s.Port["imaps"]
	for _, c := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"PLAIN with an app password", []string{"--user", "alice:" + app, "--login-options", "AUTH=PLAIN", imaps},
			true},
		{"OAUTHBEARER", []string{"--user", "alice@example.com", "--oauth2-bearer", issuer.token(t, "alice@example.com"),
			"--login-options", "AUTH=OAUTHBEARER", imaps}, true},
		{"XOAUTH2", []string{"--user", "alice@example.com", "--oauth2-bearer", issuer.token(t, "alice@example.com"),
			"--login-options", "AUTH=XOAUTH2", imaps}, true},
		{"a token of somebody else", []string{"--user", "alice@example.com", "--oauth2-bearer",
			issuer.token(t, "bob@example.com"), "--login-options", "AUTH=XOAUTH2", imaps}, false},
		{"a token that is none", []string{"--user", "alice@example.com", "--oauth2-bearer", "nonsense",
			"--login-options", "AUTH=OAUTHBEARER", imaps}, false},
	} {
		out, err := curl(c.args...)
		if (err == nil) != c.ok || c.ok && !strings.Contains(out, "INBOX") {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
	program.Run(t, "Subject: x\n\nx\n", nil, "msmtp", "--host=127.0.0.1", "--port="+s.Port["submission"],
		"--auth=scram-sha-256", "--user=alice",
		"--passwordeval=echo "+app, "--from=alice@example.com", "--tls=off", "bob@example.com")
	program.Want(t, program.Run(t, scramScript, []string{"TLSPORT=" + s.Port["imaps"], "APP=" + app}, "python3", "-"),
		"done")
	program.Want(t, program.Run(t, sharingScript, []string{"PORT=" + s.Port["imap"]}, "python3", "-"), "done")
}

func lastWord(s string) string {
	f := strings.Fields(s)
	for i := len(f) - 1; i >= 0; i-- {
		if strings.Count(f[i], "-") == 7 {
			return f[i]
		}
	}
	return ""
}

// scramScript is an independent implementation of RFC 5802.
const scramScript = `
import base64, hashlib, hmac, imaplib, os, ssl
def login(user, password, bind):
    ctx = ssl.create_default_context(); ctx.check_hostname = False; ctx.verify_mode = ssl.CERT_NONE
    m = imaplib.IMAP4_SSL("127.0.0.1", int(os.environ["TLSPORT"]), ssl_context=ctx)
    assert "AUTH=SCRAM-SHA-256-PLUS" in m.capabilities, m.capabilities
    data = hashlib.sha256(m.sock.getpeercert(True)).digest() if bind else b""
    if bind == "wrong": data = bytes(32)
    header = b"p=tls-server-end-point,," if bind else b"n,,"
    first, state = b"n=" + user + b",r=pythonnonce", {}
    def step(challenge):
        if not challenge: return header + first
        if challenge.startswith(b"r="):
            a = dict(x.split(b"=", 1) for x in challenge.split(b","))
            salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(a[b"s"]), int(a[b"i"]))
            ck = hmac.digest(salted, b"Client Key", "sha256")
            final = b"c=" + base64.b64encode(header + data) + b",r=" + a[b"r"]
            auth = first + b"," + challenge + b"," + final
            proof = bytes(x ^ y for x, y in zip(ck, hmac.digest(hashlib.sha256(ck).digest(), auth, "sha256")))
            state["v"] = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), auth, "sha256")
            return final + b",p=" + base64.b64encode(proof)
        assert challenge == b"v=" + base64.b64encode(state["v"]), challenge
        state["server"] = True
        return b""
    m.authenticate("SCRAM-SHA-256-PLUS" if bind else "SCRAM-SHA-256", step)
    assert state["server"]
    assert m.select()[0] == "OK"
    m.logout()
app = os.environ["APP"].encode()
for password in (b"demo", app):
    for bind in (False, True):
        login(b"alice", password, bind)
for password, bind in ((b"wrong", True), (b"wrong", False), (app, "wrong")):
    try:
        login(b"alice", password, bind)
    except imaplib.IMAP4.error:
        continue
    raise SystemExit("signed in: %r %r" % (password, bind))
print("done")
`

const sharingScript = `
import imaplib, os, zlib, re
port = int(os.environ["PORT"])
def login(name):
    m = imaplib.IMAP4("127.0.0.1", port); m.login(name, "demo"); return m
a, b = login("alice"), login("bob")
# access lists, and a mailbox that is shared
assert a.create("Team")[0] == "OK"
assert a.append("Team", r"(\Seen)", None, b"Subject: for the team\r\n\r\nhello\r\n")[0] == "OK"
assert b"Other Users/alice/Team" not in b"".join(x for x in b.list('""', '"*"')[1] if x)
assert a.setacl("Team", "bob", "lrs")[0] == "OK"
assert b"bob lrs" in a.getacl("Team")[1][0], a.getacl("Team")
assert b.myrights('"Other Users/alice/Team"')[1][0].endswith(b" lrs"), b.myrights('"Other Users/alice/Team"')
assert b'"Other Users/alice/Team"' in b"".join(x for x in b.list('""', '"*"')[1] if x)
assert b.select('"Other Users/alice/Team"')[1] == [b"1"]
assert b.fetch("1", "(FLAGS BODY.PEEK[TEXT])")[1][0][1] == b"hello\r\n"
assert b.copy("1", "INBOX")[0] == "OK"
assert a.deleteacl("Team", "bob")[0] == "OK"
# quotas
assert a.getquotaroot("INBOX")[0] == "OK"
assert a.getquota('""')[0] == "OK"
typ, data = a.namespace()
assert b'"Other Users/"' in data[0], data
# annotations
a.xatom("SETMETADATA", "Team", '(/private/comment "mine")')
assert a.logout()[0] == "BYE"
# everything under DEFLATE
m = login("alice")
assert "COMPRESS=DEFLATE" in [c.decode() for c in m.capability()[1][0].split()]
imaplib.Commands["COMPRESS"] = ("AUTH", "SELECTED")
assert m._simple_command("COMPRESS", "DEFLATE")[0] == "OK"
sock, pack, unpack = m.sock, zlib.compressobj(9, zlib.DEFLATED, -15), zlib.decompressobj(-15)
class Packed:
    def __init__(self): self.b = b""
    def more(self):
        d = sock.recv(65536)
        if not d: raise EOFError
        self.b += unpack.decompress(d)
    def read(self, n):
        while len(self.b) < n: self.more()
        r, self.b = self.b[:n], self.b[n:]
        return r
    def readline(self, *_):
        while b"\n" not in self.b: self.more()
        i = self.b.index(b"\n") + 1
        r, self.b = self.b[:i], self.b[i:]
        return r
p = Packed()
m.read, m.readline = p.read, p.readline
m.send = lambda d: sock.sendall(pack.compress(d) + pack.flush(zlib.Z_SYNC_FLUSH))
raw = b"Subject: big\r\n\r\n" + b"lorem ipsum dolor sit amet\r\n" * 20000
assert m.append("Team", None, None, raw)[0] == "OK"
assert m.select("Team")[1] == [b"2"]
assert m.fetch("2", "(BODY.PEEK[])")[1][0][1] == raw
assert m.search(None, "SUBJECT", "big")[1] == [b"2"]
assert m._simple_command("COMPRESS", "DEFLATE")[0] == "NO"
print("done")
`

// issuer is an OpenID Connect issuer on loopback.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	i.Server = httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/keys" {
			e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())
			fmt.Fprintf(w, `{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"1","n":%q,"e":%q}]}`,
				base64.RawURLEncoding.EncodeToString(key.N.Bytes()), e)
			return
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`,
			"http://"+r.Host, "http://"+r.Host+"/keys")
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(t *testing.T, email string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"iss": i.URL, "aud": "doublet", "sub": email, "email": email,
		"email_verified": true, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"1"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}
