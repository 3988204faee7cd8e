package dkim

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	peer "github.com/emersion/go-msgauth/dkim"
)

var now = time.Unix(1_600_000_000, 0)

func crlfs(s string) []byte { return []byte(strings.ReplaceAll(s, "\n", "\r\n")) }

const dinner = `From: Joe SixPack <joe@football.example.com>
To: Suzie Q <suzie@shopping.example.net>
Subject: Is dinner ready?
Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)
Message-ID: <20030712040037.46341.5F8J@football.example.com>

Hi.

We lost the game.  Are you hungry yet?

Joe.
`

// rfc6376 is the signed message of RFC 6376 appendix A.2, corrected by its erratum.
const rfc6376 = `DKIM-Signature: v=1; a=rsa-sha256; s=brisbane; d=example.com;
      c=simple/simple; q=dns/txt; i=joe@football.example.com;
      h=Received : From : To : Subject : Date : Message-ID;
      bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;
      b=AuUoFEfDxTDkHlLXSZEpZj79LICEps6eda7W3deTVFOk4yAUoqOB
      4nujc7YopdG5dWLSdNg6xNAZpOPr+kHxt1IrE+NahM6L/LbvaHut
      KVdkLLkpVaVVQPzeRDI009SO2Il5Lu7rDNH6mZckBdrIx0orEtZV
      4bmp/YzhwvcubU4=;
Received: from client1.football.example.com  [192.0.2.1]
      by submitserver.example.com with SUBMISSION;
      Fri, 11 Jul 2003 21:01:54 -0700 (PDT)
From: Joe SixPack <joe@football.example.com>
To: Suzie Q <suzie@shopping.example.net>
Subject: Is dinner ready?
Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)
Message-ID: <20030712040037.46341.5F8J@football.example.com>

Hi.

We lost the game. Are you hungry yet?

Joe.
`

// rfc8463 is the signed message of RFC 8463 appendix A.3.
const rfc8463 = `DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;
 d=football.example.com; i=@football.example.com;
 q=dns/txt; s=brisbane; t=1528637909; h=from : to :
 subject : date : message-id : from : subject : date;
 bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;
 b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus
 Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;
 d=football.example.com; i=@football.example.com;
 q=dns/txt; s=test; t=1528637909; h=from : to : subject :
 date : message-id : from : subject : date;
 bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;
 b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3
 DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz
 dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=
From: Joe SixPack <joe@football.example.com>
To: Suzie Q <suzie@shopping.example.net>
Subject: Is dinner ready?
Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)
Message-ID: <20030712040037.46341.5F8J@football.example.com>

Hi.

We lost the game.  Are you hungry yet?

Joe.
`

const (
	keyRSA = "v=DKIM1; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDwIRP/UC3SBsEmGqZ9ZJW3/DkMoGeLnQg1fWn7/zYt" +
		"IxN2SnFCjxOCKG9v3b4jYfcTNh5ijSsq631uBItLa7od+v/RtdC2UzJ1lWT947qR+Rcac2gbto/NMqJ0fzfVjH4OuKhi" +
		"tdY9tf6mcwGjaNBcWToIMmPSPDdQPNUYckcQ2QIDAQAB"
	keyEd   = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	keyTest = "v=DKIM1; k=rsa; " +
		"p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/" +
		"byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l" +
		"/K4w3QIDAQAB"
)

// check verifies every signature of a message. It returns "pass" or the kind of error for each.
func check(t testing.TB, message []byte, record string) []string {
	t.Helper()
	m := New(message)
	var out []string
	for _, s := range m.Signatures(10) {
		k, err := ParseKey([]string{record})
		if err == nil {
			err = m.Verify(s, k, now)
		}
		out = append(out, kind(err))
	}
	return out
}

func kind(err error) string {
	switch {
	case err == nil:
		return "pass"
	case errors.Is(err, ErrPermanent):
		return "permerror"
	case errors.Is(err, ErrPolicy):
		return "policy"
	case errors.Is(err, ErrFail):
		return "fail"
	}
	return err.Error()
}

func TestExamplesOfRFCs(t *testing.T) {
	t.Parallel()
	if got := check(t, crlfs(rfc6376), keyRSA); fmt.Sprint(got) != "[pass]" {
		t.Errorf("RFC 6376: %v", got)
	}
	if got := check(t, crlfs(strings.Replace(rfc6376, "lost", "won", 1)), keyRSA); fmt.Sprint(got) != "[fail]" {
		t.Errorf("RFC 6376 with another body: %v", got)
	}
	if got := check(t, crlfs(strings.Replace(rfc6376, "Suzie", "Susie", 1)), keyRSA); fmt.Sprint(got) != "[fail]" {
		t.Errorf("RFC 6376 with another header: %v", got)
	}
	if got := check(t, crlfs(rfc8463), keyEd); fmt.Sprint(got) != "[pass permerror]" {
		t.Errorf("RFC 8463, Ed25519: %v", got)
	}
	if got := check(t, crlfs(rfc8463), keyTest); fmt.Sprint(got) != "[permerror pass]" {
		t.Errorf("RFC 8463, RSA: %v", got)
	}
	// Relaxed: blanks may change, but a second Subject is not allowed.
	if got := check(t, crlfs(strings.Replace(rfc8463, "game.  Are", "game. \t Are", 1)), keyEd); got[0] != "pass" {
		t.Errorf("RFC 8463 with other blanks: %v", got)
	}
	if got := check(t, crlfs("Subject: free money\n"+rfc8463), keyEd); got[0] != "fail" {
		t.Errorf("RFC 8463 with a second subject: %v", got)
	}
}

// testRSA and testEd are generated once, because RSA keys take a while.
var testRSA, testEd = func() (*rsa.PrivateKey, ed25519.PrivateKey) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}()

var signers = []Signer{{"example.com", "r1", testRSA}, {"example.com", "e1", testEd}}

func lookup(name string) ([]string, error) {
	key := crypto.PublicKey(testRSA.Public())
	if strings.HasPrefix(name, "e1.") {
		key = testEd.Public()
	}
	r, err := Record(key)
	return []string{r}, err
}

func TestSign(t *testing.T) {
	t.Parallel()
	message := crlfs(dinner)
	head, err := New(message).AppendSignatures(nil, signers, now)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if len(line) > 78 {
			t.Errorf("line of %d: %s", len(line), line)
		}
	}
	signed := append(head, message...)
	m := New(signed)
	for _, s := range m.Signatures(10) {
		records, err := lookup(s.KeyName())
		if err != nil {
			t.Fatal(err)
		}
		k, err := ParseKey(records)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Verify(s, k, now); err != nil {
			t.Errorf("%s: %v\n%s", s.Algorithm, err, head)
		}
	}
	// The other implementation agrees, and also rejects added fields.
	for _, c := range []struct {
		message []byte
		want    bool
	}{{signed, true}, {append([]byte("From: <eve@example.net>\r\n"), signed...), false},
		{append([]byte("X-Hop: 1\r\n"), signed...), true}} {
		found, err := peer.VerifyWithOptions(bytes.NewReader(c.message), &peer.VerifyOptions{LookupTXT: lookup})
		if err != nil || len(found) != 2 {
			t.Fatalf("%v %v", found, err)
		}
		for _, v := range found {
			if (v.Err == nil) != c.want {
				t.Errorf("the other one says %v, want %v", v.Err, c.want)
			}
		}
	}
}

func TestSignNeedsFrom(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"", "\n", "Subject: x\n\nx", strings.Repeat("X: y\n", maxFields+1) +
		"From: a@example.com\n\n", "From: a\n" + strings.Repeat("From: a@example.com\n", maxSignedFields)} {
		if out, err := New(crlfs(message)).AppendSignatures(nil, signers, now); !errors.Is(err, ErrNoFrom) ||
			len(out) > 0 {
			t.Errorf("%.20q: %v", message, err)
		}
	}
}

// TestSignatureTags covers the reasons why a signature cannot be used.
func TestSignatureTags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"as it is":   {"", "", "pass"},
		"no version": {"v=1; ", "", "permerror"},
		"version 2":  {"v=1;", "v=2;", "permerror"},
		"tag twice":  {"v=1;", "v=1; v=1;", "permerror"},
		"no domain":  {"d=football.example.com; ", "", "permerror"},
		"sha1":       {"a=ed25519-sha256", "a=rsa-sha1", "permerror"},
		"unknown":    {"a=ed25519-sha256", "a=dsa-sha512", "permerror"},
		"stranger":   {"i=@football.example.com", "i=@example.net", "permerror"},
		"suffix":     {"i=@football.example.com", "i=@xfootball.example.com", "permerror"},
		// usable, but the tag is signed
		"below":     {"i=@football.example.com", "i=joe@a.football.example.com", "fail"},
		"query":     {"q=dns/txt", "q=carrier/pigeon", "permerror"},
		"canonical": {"c=relaxed/relaxed", "c=relaxed/nofws", "permerror"},
		"without From": {"h=from : to :\n subject : date : message-id : from :",
			"h=to :\n subject : date : message-id :", "permerror"},
		"expired":         {"t=1528637909", "t=1528637909; x=1528637910", "permerror"},
		"before its time": {"t=1528637909", "t=1528637909; x=15", "permerror"},
		"not a number":    {"t=1528637909", "t=x", "permerror"},
		"cut":             {"t=1528637909", "t=1528637909; l=3", "policy"},
		"longer":          {"t=1528637909", "t=1528637909; l=3000", "permerror"},
		"bad base64":      {"b=/gC", "b=*gC", "permerror"},
		"bad hash":        {"bh=2jUS", "bh=3jUS", "fail"},
		"key's place":     {"s=brisbane", "s=bris..bane", "permerror"},
		"tag list":        {"v=1;", "v=1; nonsense;", "permerror"},
	} {
		text := strings.Replace(rfc8463, c.old, c.new, 1)
		if got := check(t, crlfs(text), keyEd)[0]; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestKeyRecords(t *testing.T) {
	t.Parallel()
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p := "p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	pkcs1 := base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PublicKey(&short.PublicKey))
	for record, want := range map[string]string{
		"v=DKIM1; k=ed25519; " + p:                "pass",
		"k=ed25519; " + p:                         "pass",
		"k=ed25519; v=DKIM1; " + p:                "permerror",
		"v=DKIM2; k=ed25519; " + p:                "permerror",
		"k=ed25519; p=":                           "permerror",
		"k=ed25519":                               "permerror",
		"k=ed25519; p=YWJj":                       "permerror",
		"k=rsa; " + p:                             "permerror",
		"k=dsa; " + p:                             "permerror",
		"k=ed25519; h=sha1; " + p:                 "permerror",
		"k=ed25519; h=sha1:sha256; " + p:          "pass",
		"k=ed25519; s=tlsrpt; " + p:               "permerror",
		"k=ed25519; s=*; " + p:                    "pass",
		"k=ed25519; t=y; n=just a note; " + p:     "pass",
		"k=ed25519; t=s:y; " + p:                  "pass",
		"p=" + pkcs1:                              "permerror", // valid, but for another algorithm
		strings.Repeat("x=y; ", maxKeyRecord) + p: "permerror",
	} {
		if got := check(t, crlfs(rfc8463), record)[0]; got != want {
			t.Errorf("%.80q: %s, want %s", record, got, want)
		}
	}
	if _, err := ParseKey(nil); !errors.Is(err, ErrPermanent) {
		t.Error(err)
	}
	if k, err := ParseKey([]string{"p=" + pkcs1}); err != nil || k.rsa == nil {
		t.Errorf("PKCS #1: %v", err)
	}
	strict := strings.Replace(rfc8463, "i=@football.example.com", "i=@a.football.example.com", 1)
	if got := check(t, crlfs(strict), "k=ed25519; t=s; "+p)[0]; got != "permerror" {
		t.Errorf("t=s: %s", got)
	}
}

// TestAddedFields checks that a second field, added before a signed message, is detected. Programs may show it instead
// of the signed one, although the signature still matches.
func TestAddedFields(t *testing.T) {
	t.Parallel()
	message := crlfs(rfc6376)
	if got := check(t, message, keyRSA)[0]; got != "pass" {
		t.Fatalf("as it was signed: %s", got)
	}
	for field, want := range map[string]string{
		"From: Boss <boss@example.com>": "policy", "subject: Pay this": "policy", "To: you@example.net": "policy",
		"Date: Fri, 12 Jul 2003 21:00:37 -0700": "policy",
		// not signed
		"Received: from a by b; Fri, 11 Jul 2003 21:01:54 -0700": "pass", "X-Other: 1": "pass",
		"Reply-To: a@evil.example": "pass",
	} {
		if got := check(t, append([]byte(field+"\r\n"), message...), keyRSA)[0]; got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
}

// randomMessage makes a message with the edge cases of canonicalization.
func randomMessage(r *mathrand.Rand) []byte {
	pieces := []string{" ", "\t", "  ", "\r\n", "\r\n\r\n", "a", "bc", "=", " \r\n", "\t\r\n", "word", ";",
		"b=c", ".", "é"}
	var b strings.Builder
	b.WriteString("From: a@example.com\r\nSubject : " + pieces[r.IntN(3)] + "odd\r\n\t folded " +
		pieces[r.IntN(3)] + "\r\n")
	for range r.IntN(4) {
		b.WriteString([]string{"To: x@example.net\r\n", "X-Y:z\r\n", "subject: again \r\n",
			"List-Id:\r\n <x>\r\n"}[r.IntN(4)])
	}
	b.WriteString("\r\n")
	for range r.IntN(40) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return []byte(b.String())
}

// TestAgainstTheOther signs with each implementation and verifies with the other, in all four canonicalizations.
func TestAgainstTheOther(t *testing.T) {
	t.Parallel()
	r := mathrand.New(mathrand.NewPCG(1, 2))
	for range 300 {
		message := randomMessage(r)
		head, err := New(message).AppendSignatures(nil, signers[1:], now)
		if err != nil {
			t.Fatal(err)
		}
		found, err := peer.VerifyWithOptions(bytes.NewReader(append(head, message...)),
			&peer.VerifyOptions{LookupTXT: lookup})
		if err != nil || len(found) != 1 || found[0].Err != nil {
			t.Fatalf("ours to theirs: %v %v\n%q", err, found, message)
		}
		ways := []peer.Canonicalization{peer.CanonicalizationSimple, peer.CanonicalizationRelaxed}
		var out bytes.Buffer
		err = peer.Sign(&out, bytes.NewReader(message), &peer.SignOptions{Domain: "example.com", Selector: "e1",
			Signer:                 testEd,
			HeaderCanonicalization: ways[r.IntN(2)], BodyCanonicalization: ways[r.IntN(2)],
			HeaderKeys: []string{"From", "Subject", "Subject", "List-Id", "X-None"}})
		if err != nil {
			t.Fatal(err)
		}
		record, _ := lookup("e1.")
		want := "[pass]"
		if bytes.Count(message, []byte("subject: again")) > 1 {
			want = "[policy]" // the other implementation signed two of the Subject fields
		}
		if got := check(t, out.Bytes(), record[0]); fmt.Sprint(got) != want {
			t.Fatalf("theirs to ours: %v\n%q", got, out.Bytes())
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(crlfs(rfc6376), keyRSA)
	f.Add(crlfs(rfc8463), keyEd)
	f.Add([]byte("DKIM-Signature: v=1; b=; h=From\r\n\tx\r\n\r\n"), "p=")
	f.Add([]byte("DKIM-Signature: v=1"), "v=DKIM1;k=rsa;p=AA==")
	f.Fuzz(func(t *testing.T, message []byte, record string) {
		k, err := ParseKey([]string{record})
		m := New(message)
		for _, s := range m.Signatures(10) {
			if err == nil {
				_ = m.Verify(s, k, now)
			}
		}
		if head, err := m.AppendSignatures(nil, signers[1:], now); err == nil {
			own, _ := lookup("e1.")
			// A message that this package signed verifies, if its lines are complete.
			if got := check(t, append(head, message...), own[0]); !bytes.HasPrefix(message, []byte(" ")) &&
				!bytes.HasPrefix(message, []byte("\t")) && got[0] != "pass" {
				t.Errorf("own signature: %v", got)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	message := append(crlfs(dinner),
		bytes.Repeat([]byte("a line of a usual message, 60 bytes or so, with some words\r\n"), 200)...)
	for i, name := range []string{"RSA", "Ed25519"} {
		b.Run(name, func(b *testing.B) {
			head, err := New(message).AppendSignatures(nil, signers[i:i+1], now)
			if err != nil {
				b.Fatal(err)
			}
			signed := append(head, message...)
			record, _ := lookup(signers[i].Selector + ".")
			b.SetBytes(int64(len(signed)))
			b.ReportAllocs()
			for b.Loop() {
				if got := check(b, signed, record[0]); got[0] != "pass" {
					b.Fatal(got)
				}
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	message := append(crlfs(dinner),
		bytes.Repeat([]byte("a line of a usual message, 60 bytes or so, with some words\r\n"), 200)...)
	for i, name := range []string{"RSA", "Ed25519"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(message).AppendSignatures(nil, signers[i:i+1], now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
