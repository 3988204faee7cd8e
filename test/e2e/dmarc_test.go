package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/mail/verify"
	"doublet/test/external"
	"doublet/wire/dkim"
	"doublet/wire/smtp"
)

// dmarcQuestion is a message in the form for libopendmarc: the results of SPF and DKIM, and the record.
type dmarcQuestion struct {
	From         string   `json:"from"`
	SPFDomain    string   `json:"spf_domain"`
	SPF          bool     `json:"spf"`
	DKIMDomains  []string `json:"dkim_domains"`
	DKIM         []bool   `json:"dkim"`
	Record       string   `json:"record"`
	Organization string   `json:"organization"` // domain of the record, if not the author's
}

// TestDMARCAgrees compares our verdicts on whole messages with libopendmarc's. It omits strict alignment, because the
// version of Debian 12 (1.4.2) passes messages that RFC 7489 section 3.1 does not.
func TestDMARCAgrees(t *testing.T) {
	t.Parallel()
	external.Need(t, python)
	const load = "import ctypes; ctypes.CDLL('libopendmarc.so.2'); " +
		"open('/usr/share/publicsuffix/public_suffix_list.dat')"
	if out, err := exec.Command(python, "-c", load).CombinedOutput(); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf("a Debian package is missing, libopendmarc2 or publicsuffix: %s", out)
		}
		t.Skipf("a Debian package is missing, libopendmarc2 or publicsuffix: %s", out)
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	wrong := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	published, err := dkim.Record(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	organizations := map[string]string{}
	for _, org := range []string{"a-example.org", "d-example.org", "e-example.com", "f-example.net", "g-example.com"} {
		for _, below := range []string{"", "x.", "y.x."} {
			organizations[below+org] = org
		}
	}
	records := map[string]string{
		"a-example.org": "v=DMARC1; p=reject; sp=quarantine", "x.a-example.org": "v=DMARC1; p=none; adkim=r",
		"d-example.org": "v=DMARC1; p=quarantine; aspf=r; adkim=r", "y.x.d-example.org": "v=DMARC1;p=reject;fo=1",
		"e-example.com": "v=DMARC1; p=reject; rua=mailto:a@e-example.com",
		"f-example.net": "v=DMARC1; p=none; sp=reject",
	}
	var domains []string
	var text strings.Builder
	text.WriteString("$TTL 300\n")
	for d := range organizations {
		text.WriteString(d + ". TXT \"v=spf1 ip4:192.0.2.1 -all\"\nk._domainkey." + d + ". TXT \"" + published + "\"\n")
		if r := records[d]; r != "" {
			text.WriteString("_dmarc." + d + ". TXT \"" + r + "\"\n")
		}
	}
	for _, org := range []string{"a-example.org", "d-example.org", "e-example.com", "f-example.net", "g-example.com"} {
		domains = append(domains, org, "x."+org, "y.x."+org)
	}

	z, f := zone.Start(t, text.String()), env.Test(t)
	v := verify.New(f.Env, dns.New(f.Env, dns.Options{Servers: []string{z.Addr()}}),
		verify.Options{DMARC: verify.Reject, Hostname: "mx.example.com"})
	r := mathrand.New(mathrand.NewPCG(5, 5))
	var questions []dmarcQuestion
	var ours []string
	for range 400 {
		q := dmarcQuestion{From: domains[r.IntN(len(domains))], SPFDomain: domains[r.IntN(len(domains))],
			SPF: r.IntN(2) == 0, DKIMDomains: []string{}, DKIM: []bool{}}
		if r.IntN(2) == 0 { // otherwise hardly any message is aligned
			q.SPFDomain = organizations[q.From]
		}
		var signers []dkim.Signer
		for range r.IntN(3) {
			s := dkim.Signer{Domain: domains[r.IntN(len(domains))], Selector: "k", Key: key}
			if r.IntN(3) == 0 {
				s.Domain = "x." + organizations[q.From]
			}
			if slices.ContainsFunc(q.DKIMDomains,
				func(d string) bool { return organizations[d] == organizations[s.Domain] }) {
				continue // libopendmarc considers only one of two signatures of an organisation
			}
			good := r.IntN(2) == 0
			if !good {
				s.Key = wrong
			}
			signers = append(signers, s)
			q.DKIMDomains, q.DKIM = append(q.DKIMDomains, s.Domain), append(q.DKIM, good)
		}
		if q.Record = records[q.From]; q.Record == "" {
			q.Organization = organizations[q.From]
			q.Record = records[q.Organization]
		}
		m := []byte("From: a@" + q.From + "\r\nSubject: x\r\n\r\nx\r\n")
		head, err := dkim.New(m).AppendSignatures(nil, signers, env.TestStart)
		if err != nil {
			t.Fatal(err)
		}
		client := verify.Client{IP: netip.MustParseAddr("192.0.2.9"), Helo: "x",
			From: smtp.Path{Local: "a", Domain: q.SPFDomain}}
		if q.SPF {
			client.IP = netip.MustParseAddr("192.0.2.1")
		}
		got := v.Message(context.Background(), client, append(head, m...)).DMARC
		word := string(got.Result)
		if got.Result == verify.Fail && got.Applied != "none" {
			word = got.Applied
		}
		questions, ours = append(questions, q), append(ours, word)
	}

	in, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/dmarc.py")
	cmd.Stdin = bytes.NewReader(in)
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("dmarc.py: %v", err)
	}
	var theirs []string
	if err := json.Unmarshal(raw, &theirs); err != nil || len(theirs) != len(ours) {
		t.Fatalf("dmarc.py answers %.200q: %v", raw, err)
	}
	seen := map[string]int{}
	for i := range ours {
		seen[ours[i]]++
		if ours[i] != theirs[i] {
			t.Errorf("%+v: %s, libopendmarc says %s", questions[i], ours[i], theirs[i])
		}
	}
	for _, word := range []string{"pass", "reject", "quarantine", "fail", "none"} {
		if seen[word] < 10 {
			t.Errorf("only %d are %s: %v", seen[word], word, seen)
		}
	}
}
