package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/sign"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/store"
	"doublet/test/external"
	"doublet/wire/dkim"
	"doublet/wire/smtp"
)

// arcQuestion is a request to dkimpy: seal a message, or check its chain.
type arcQuestion struct {
	Message []byte            `json:"message"`
	Records map[string]string `json:"records"`
	Seal    bool              `json:"seal"`
	Domain  string            `json:"domain"`
	Key     string            `json:"key"`
	Host    string            `json:"host"`
}

type arcAnswer struct {
	Sealed []byte `json:"sealed"`
	CV     string `json:"cv"`
	Sets   int    `json:"sets"`
	Reason string `json:"reason"`
}

func askDKIMPy(t *testing.T, q *arcQuestion) (a arcAnswer) {
	t.Helper()
	in, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/arc.py")
	cmd.Stdin = bytes.NewReader(in)
	raw, err := cmd.CombinedOutput()
	if err != nil || json.Unmarshal(raw, &a) != nil {
		t.Fatalf("arc.py: %v: %s", err, raw)
	}
	return a
}

// TestARCAgrees sends a message through six servers that each change it as mailing lists do: ours (ours.example) and
// dkimpy (theirs.example) in turn. After each hop both must report that the chain passes, and its length. Then the
// message is corrupted, and both must report failure; the set that our server then adds ends the chain for both.
func TestARCAgrees(t *testing.T) {
	t.Parallel()
	external.Need(t, python)
	if out, err := exec.Command(python, "-c", "import dkim, authres").CombinedOutput(); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf("a Debian package is missing, python3-dkim or python3-authres: %s", out)
		}
		t.Skipf("a Debian package is missing, python3-dkim or python3-authres: %s", out)
	}
	fix := env.TestRealTime(t)
	s, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: directory.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := directory.Open(s, fix.Env, password.New(fix.Env, 1, 10), directory.Options{Domain: "ours.example"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
	signer := sign.New(fix.Env, d, nil)
	ours, err := sign.Add(t.Context(), d, note.System, "ours.example", sign.RSA, "s", directory.KeyActive, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, ourRecord, err := sign.Record(&ours)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	theirRecord, err := dkim.Record(theirs.Public())
	if err != nil {
		t.Fatal(err)
	}
	q := arcQuestion{Records: map[string]string{"s._domainkey.ours.example": ourRecord,
		"s._domainkey.theirs.example": theirRecord}}
	q.Domain, q.Host = "theirs.example", "mx.theirs.example"
	q.Key = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(theirs)}))
	var text strings.Builder
	text.WriteString("$TTL 300\nexample. SOA ns.example. h.example. 1 3600 600 86400 300\n")
	for name, record := range q.Records {
		text.WriteString(name + ". TXT \"" + record[:200] + "\" \"" + record[200:] + "\"\n")
	}
	z := zone.Start(t, text.String())
	verifiers := map[string]*verify.Verifier{}
	for _, host := range []string{"mx.ours.example", "mx.theirs.example"} {
		verifiers[host] = verify.New(fix.Env, dns.New(fix.Env, dns.Options{Servers: []string{z.Addr()}}),
			verify.Options{DMARC: verify.Mark, Hostname: host})
	}
	client := verify.Client{IP: netip.MustParseAddr("192.0.2.1"), Helo: "x",
		From: smtp.Path{Local: "a", Domain: "one.example"}}
	// arrive checks a message at a host and prepends the results.
	arrive := func(host string, message []byte) ([]byte, verify.Verdict) {
		v := verifiers[host].Message(t.Context(), client, message)
		message, _ = fields.CutFields(bytes.Clone(message), nil, verifiers[host].Forged)
		return append(v.Header, message...), v
	}
	seal := func(message []byte) []byte {
		set, err := signer.Sealer().Seal(t.Context(), "ours.example", "mx.ours.example", nil, message)
		if err != nil {
			t.Fatal(err)
		}
		return append(set, message...)
	}
	both := func(when string, message []byte, want verify.Result, sets int) {
		t.Helper()
		q.Message, q.Seal = message, false
		_, v := arrive("mx.ours.example", message)
		a := askDKIMPy(t, &q)
		if v.ARC.Result != want || v.ARC.Sets != sets || a.CV != string(want) {
			t.Errorf("%s: ours says %+v, dkimpy %+v; want %s of %d", when, v.ARC, a, want, sets)
		}
	}
	message := []byte("From: Ann <ann@one.example>\r\nTo: list@ours.example\r\nSubject: hello\r\n" +
		"Date: Mon, 5 Jan 2026 08:00:00 +0000\r\nMessage-ID: <1@one.example>\r\n\r\nHi.  there\r\n\r\n")
	for hop := 1; hop <= 6; hop++ {
		host := []string{"mx.theirs.example", "mx.ours.example"}[hop%2]
		message, _ = arrive(host, message)
		message = bytes.Replace(message, []byte("Subject: "), []byte("Subject: [x] "), 1)
		if host == "mx.ours.example" {
			message = seal(message)
		} else {
			q.Message, q.Seal = message, true
			message = askDKIMPy(t, &q).Sealed
		}
		both("hop "+string('0'+rune(hop)), message, verify.Pass, hop)
	}
	broken := bytes.Replace(message, []byte("Hi."), []byte("Ho."), 1)
	both("changed", broken, verify.Fail, 6)
	broken, _ = arrive("mx.ours.example", broken)
	broken = seal(broken)
	q.Message, q.Seal = broken, false
	_, v := arrive("mx.ours.example", broken)
	a := askDKIMPy(t, &q)
	if v.ARC.Result != verify.Fail || !strings.Contains(a.Reason, "ARC-Seal[7] reported failure") {
		t.Errorf("a failed chain: %+v, %+v", v.ARC, a)
	}
	if again := seal(broken); !bytes.Equal(again, broken) {
		t.Error("a failed chain is sealed twice")
	}
}
