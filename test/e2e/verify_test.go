package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/mail/verify"
	"doublet/test/external"
	"doublet/wire/dkim"
)

// python is the system's Python, because Debian's modules belong to that one.
const python = "/usr/bin/python3"

// corpus is the input of verify.py.
type corpus struct {
	Zone map[string][][2]string `json:"zone"`
	SPF  []spfQuestion          `json:"spf"`
	DKIM [][]byte               `json:"dkim"`
	Sign []signJob              `json:"sign"`
}

type spfQuestion struct {
	IP     string `json:"ip"`
	Sender string `json:"sender"`
	Helo   string `json:"helo"`
}

type signJob struct {
	Message   []byte `json:"message"`
	Canon     string `json:"canon"`
	Algorithm string `json:"algorithm"`
	Selector  string `json:"selector"`
	Key       string `json:"key"`
}

type opinions struct {
	SPF    []string `json:"spf"`
	DKIM   [][]bool `json:"dkim"`
	Signed [][]byte `json:"signed"`
}

// TestVerdictsAgree compares our verdicts on a corpus with those of pyspf and dkimpy.
func TestVerdictsAgree(t *testing.T) {
	external.Need(t, python)
	if out, err := exec.Command(python, "-c", "import dkim, spf, nacl").CombinedOutput(); err != nil {
		const missing = "a Debian package is missing, python3-dkim, python3-spf or python3-nacl: %s"
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf(missing, out)
		}
		t.Skipf(missing, out)
	}
	r := mathrand.New(mathrand.NewPCG(7, 7))
	c := &corpus{Zone: map[string][][2]string{}}
	keys := signingKeys(t, c)
	spfZone(r, c)
	dkimCorpus(t, r, c, keys)

	in, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/verify.py")
	cmd.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("verify.py: %v\n%s", err, errs.Bytes())
	}
	var theirs opinions
	if err := json.Unmarshal(raw, &theirs); err != nil {
		t.Fatalf("verify.py answers %.200q: %v", raw, err)
	}
	compareSPF(t, c, &theirs)
	compareDKIM(t, c, &theirs, keys)
}

// master returns the zone for our resolver.
func (c *corpus) master() string {
	var b strings.Builder
	for name, records := range c.Zone {
		for _, x := range records {
			value := x[1]
			switch x[0] {
			case "TXT":
				value = ""
				for rest := x[1]; rest != ""; {
					part := rest[:min(len(rest), 200)]
					value += ` "` + part + `"`
					rest = rest[len(part):]
				}
			case "MX", "PTR":
				value += "."
			}
			fmt.Fprintf(&b, "%s. %s %s\n", name, x[0], value)
		}
	}
	return b.String()
}

func (c *corpus) add(name, kind, value string) {
	c.Zone[name] = append(c.Zone[name], [2]string{kind, value})
}

// spfZone creates domains whose records refer to each other, some with mistakes, and the questions about them.
func spfZone(r *mathrand.Rand, c *corpus) {
	const domains = 60
	ip := func() string { return fmt.Sprintf("192.0.2.%d", r.IntN(8)) }
	ip6 := func() string { return fmt.Sprintf("2001:db8::%x", r.IntN(8)) }
	name := func(i int) string { return fmt.Sprintf("d%d.example.com", i) }
	for i := range domains {
		other := name((i + 1 + r.IntN(domains-1)) % domains)
		terms := []string{
			"a", "mx", "ptr", "a:" + other, "mx:" + other, "-ip4:" + ip(), "ip4:" + ip() + "/30",
			"~ip6:" + ip6() + "/126", "?a/29//125",
			"include:" + other, "exists:%{ir}.%{v}.allow.example.com", "exists:%{l1r-}.%{d2}", "x-unknown=%{d}",
			"a:none.example.com", "exp=why." + other, "a:%{h}",
		}
		wrong := []string{"nonsense", "include:", "a:/24", "ip4:300.1.1.1", "ip6:192.0.2.1", "redirect=",
			"exists:%{z}.x.y", "mx/33", "all=", "?redirect=" + other}
		ends := []string{"-all", "~all", "?all", "+all", "redirect=" + other, ""}
		record := []string{"v=spf1"}
		for range r.IntN(5) {
			record = append(record, terms[r.IntN(len(terms))])
		}
		if r.IntN(8) == 0 {
			record = append(record, wrong[r.IntN(len(wrong))])
		}
		record = append(record, ends[r.IntN(len(ends))])
		if i%15 != 14 { // some publish nothing
			c.add(name(i), "TXT", strings.Join(record, " "))
		}
		// Both families or none: implementations differ in whether one of them alone is a void look-up.
		c.add(name(i), "A", ip())
		c.add(name(i), "AAAA", ip6())
		c.add(name(i), "MX", "10 "+name(r.IntN(domains)))
	}
	for i := range 8 {
		c.add(fmt.Sprintf("%d.2.0.192.in-addr.arpa", i), "PTR", name(r.IntN(domains)))
		c.add(fmt.Sprintf("192.0.2.%d.in-addr.allow.example.com", i), "A", "127.0.0.2")
	}
	for i := range domains {
		for range 4 {
			q := spfQuestion{IP: ip(), Sender: "joe-smith@" + name(i), Helo: name(r.IntN(domains))}
			if r.IntN(4) == 0 {
				q.IP = ip6()
			}
			c.SPF = append(c.SPF, q)
		}
	}
}

func compareSPF(t *testing.T, c *corpus, theirs *opinions) {
	z := zone.Start(t, c.master())
	f := env.Test(t)
	resolver := dns.New(f.Env, dns.Options{Servers: []string{z.Addr()}})
	seen := map[string]int{}
	for i, q := range c.SPF {
		ours := verify.CheckSPF(context.Background(), resolver, netip.MustParseAddr(q.IP), q.Helo, q.Sender)
		seen[string(ours)]++
		if string(ours) != theirs.SPF[i] {
			domain := q.Sender[strings.IndexByte(q.Sender, '@')+1:]
			t.Errorf("SPF of %s for %s, helo %s: %s, pyspf says %s; %v", q.Sender, q.IP, q.Helo, ours, theirs.SPF[i],
				c.Zone[domain])
		}
	}
	for _, result := range []string{"pass", "fail", "softfail", "neutral", "none", "permerror"} {
		if seen[result] == 0 {
			t.Errorf("no question ends in %s: %v", result, seen)
		}
	}
}

type keyPair struct {
	signer dkim.Signer
	text   string // in the form for dkimpy
}

func signingKeys(t *testing.T, c *corpus) []keyPair {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edKey := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	pairs := []keyPair{
		{dkim.Signer{Domain: "example.com", Selector: "r", Key: rsaKey},
			string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
				Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}))},
		{dkim.Signer{Domain: "example.com", Selector: "e", Key: edKey},
			base64.StdEncoding.EncodeToString(edKey.Seed())},
	}
	for _, p := range pairs {
		record, err := dkim.Record(p.signer.Key.Public())
		if err != nil {
			t.Fatal(err)
		}
		c.add(p.signer.Selector+"._domainkey.example.com", "TXT", record)
	}
	return pairs
}

func letter(r *mathrand.Rand) []byte {
	pieces := []string{"words and ", "more\r\n", "  two  blanks ", "\ttab", "\r\n\r\n", " \r\n", "line=3D\r\n", ".",
		"--bound\r\n", "end "}
	var b strings.Builder
	fmt.Fprintf(&b, "From: Ann  <ann@example.com>\r\nTo: bob@example.net,\r\n\tcy@example.net\r\n"+
		"Subject:  number %d\t x \r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n", r.IntN(1000))
	if r.IntN(3) == 0 {
		b.WriteString("List-Id: <a.example.com>\r\nReferences: <1@x>\r\n <2@x>\r\n")
	}
	b.WriteString("\r\n")
	for range r.IntN(30) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// dkimCorpus adds messages that we signed, unchanged and changed, and messages for the other side to sign.
func dkimCorpus(t *testing.T, r *mathrand.Rand, c *corpus, keys []keyPair) {
	t.Helper()
	for i := range 120 {
		m := letter(r)
		head, err := dkim.New(m).AppendSignatures(nil, []dkim.Signer{keys[0].signer, keys[1].signer}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m = append(head, m...)
		switch i % 6 {
		case 1:
			m = append(m, "one more line\r\n"...)
		case 2:
			m = append([]byte("Subject: free money\r\n"), m...)
		case 3:
			m = append(m, " \t\r\n\r\n"...) // whitespace and empty lines at the end are ignored
		case 4:
			m = bytes.Replace(m, []byte("ann@"), []byte("eve@"), 1)
		case 5:
			m = append([]byte("Received: from a\r\n\tby b\r\n"), m...)
		}
		c.DKIM = append(c.DKIM, m)
	}
	for range 40 {
		k := keys[r.IntN(2)]
		algorithm := "rsa-sha256"
		if k.signer.Selector == "e" {
			algorithm = "ed25519-sha256"
		}
		ways := []string{"simple", "relaxed"}
		c.Sign = append(c.Sign, signJob{letter(r), ways[r.IntN(2)] + "/" + ways[r.IntN(2)], algorithm,
			k.signer.Selector, k.text})
	}
}

func compareDKIM(t *testing.T, c *corpus, theirs *opinions, keys []keyPair) {
	verdicts := func(message []byte) []bool {
		m := dkim.New(message)
		var out []bool
		for _, s := range m.Signatures(10) {
			record, err := dkim.Record(keys[0].signer.Key.Public())
			if s.Selector == "e" {
				record, err = dkim.Record(keys[1].signer.Key.Public())
			}
			if err != nil {
				t.Fatal(err)
			}
			k, err := dkim.ParseKey([]string{record})
			out = append(out, err == nil && m.Verify(s, k, time.Now()) == nil)
		}
		return out
	}
	good, bad := 0, 0
	for i, m := range c.DKIM {
		ours := verdicts(m)
		if fmt.Sprint(ours) != fmt.Sprint(theirs.DKIM[i]) || len(ours) != 2 {
			t.Errorf("DKIM: %v, dkimpy says %v of\n%s", ours, theirs.DKIM[i], m)
		}
		if len(ours) == 2 && ours[0] {
			good++
		} else {
			bad++
		}
	}
	if good < 40 || bad < 40 {
		t.Errorf("%d good, %d bad", good, bad)
	}
	for i, m := range theirs.Signed {
		if got := verdicts(m); fmt.Sprint(got) != "[true]" {
			t.Errorf("signed by dkimpy (%s, %s): %v\n%s", c.Sign[i].Algorithm, c.Sign[i].Canon, got, m)
		}
	}
}
