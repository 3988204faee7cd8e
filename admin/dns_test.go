package admin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/note"

	miekg "github.com/miekg/dns"
)

// attempt runs a verb as the server itself.
func attempt[R any](t *testing.T, s *Running, verb, args string) (R, error) {
	t.Helper()
	var out R
	raw, err := s.Run(context.Background(), note.System, verb, json.RawMessage(args), nil)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

func mustRun[R any](t *testing.T, s *Running, verb, args string) R {
	t.Helper()
	out, err := attempt[R](t, s, verb, args)
	if err != nil {
		t.Fatalf("%s %s: %v", verb, args, err)
	}
	return out
}

// withDNS makes a system use a stub zone.
func withDNS(t *testing.T, s *Running, records string) *zone.Server {
	t.Helper()
	z := zone.Start(t, records)
	s.DNS = dns.New(s.Env, dns.Options{Servers: []string{z.Addr()}, Attempts: 1, Timeout: time.Second})
	return z
}

func states(keys []Key) string {
	var words []string
	for _, k := range keys {
		words = append(words, k.Algorithm+" "+k.State)
	}
	return strings.Join(words, ", ")
}

func TestDomainKeys(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.Publish.DKIM = true
	z := withDNS(t, s, "")
	mustRun[Done](t, s, "domain add", `{"name":"example.org"}`)
	if got := states(mustRun[[]Key](t, s, "domain key list",
		`{"domain":"example.org"}`)); got != "rsa active, ed25519 active" {
		t.Errorf("a new domain has %s", got)
	}
	if got := mustRun[[]Key](t, s, "domain key list", `{"domain":"example.com"}`); len(got) != 0 {
		t.Errorf("%v", got)
	}
	k := mustRun[Key](t, s, "domain key add",
		`{"domain":"example.com","algorithm":"ed25519","selector":"Mine","active":true}`)
	if k.Name != "mine._domainkey.example.com" || !strings.HasPrefix(k.Record, "v=DKIM1; k=ed25519; p=") ||
		k.State != "active" {
		t.Errorf("%+v", k)
	}
	for args, kind := range map[string]string{
		`{"domain":"example.com","selector":"mine"}`:                      "exists",
		`{"domain":"example.com","selector":"a b","algorithm":"ed25519"}`: "usage",
		`{"domain":"example.com","algorithm":"dsa"}`:                      "usage",
		`{"domain":"elsewhere.example"}`:                                  "not found",
	} {
		if _, err := attempt[Key](t, s, "domain key add", args); Kind(err) != kind {
			t.Errorf("%s: %v, want %s", args, err, kind)
		}
	}
	// The first run makes keys. The second switches to them once they are published.
	r := mustRun[Rotated](t, s, "domain key rotate", `{"domain":"example.com"}`)
	if got := states(r.Keys); got != "ed25519 active, rsa next, ed25519 next" {
		t.Fatal(got)
	}
	if _, err := attempt[Rotated](t, s, "domain key rotate", `{"domain":"example.com"}`); err == nil ||
		!strings.Contains(err.Error(), "not in DNS yet") {
		t.Errorf("%v", err)
	}
	z.Fail("*", zone.ServFail)
	if _, err := attempt[Rotated](t, s, "domain key rotate", `{"domain":"example.com"}`); err == nil {
		t.Error("switched, though nobody knows what DNS shows")
	}
	z.Fail("*", zone.None)
	for _, k := range r.Keys {
		z.Add(k.Name + ". TXT " + quote(strings.ReplaceAll(k.Record, "; ", ";")))
	}
	s.DNS = dns.New(s.Env, dns.Options{Servers: []string{z.Addr()}}) // failures are cached for a second
	r = mustRun[Rotated](t, s, "domain key rotate", `{"domain":"example.com"}`)
	if got := states(r.Keys); got != "ed25519 retired, rsa active, ed25519 active" {
		t.Error(got)
	}
	mustRun[Done](t, s, "domain key remove", `{"domain":"example.com","selector":"mine"}`)
	if _, err := attempt[Done](t, s, "domain key remove",
		`{"domain":"example.com","selector":"mine"}`); Kind(err) != "not found" {
		t.Error(err)
	}
}

// TestDNSShowAndCheck publishes the output of show and checks it.
func TestDNSShowAndCheck(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.Publish = Publish{DKIM: true, MTASTS: "enforce", MTASTSAge: time.Hour, ACME: true}
	z := withDNS(t, s, "")
	noKey := func(c DNSCheck) bool {
		return c.State == "missing" && strings.Contains(c.Do, "domain key add example.com --active")
	}
	if got := mustRun[DNSChecks](t, s, "dns check", `{}`); !slices.ContainsFunc(got, noKey) {
		t.Errorf("nothing says that there is no key: %v", got)
	}
	if err := s.EnsureKeys(context.Background(), note.System, "example.com"); err != nil {
		t.Fatal(err)
	}
	records := mustRun[DNSRecords](t, s, "dns show", `{"domain":"example.com"}`)
	text := records.Text()
	// The output is a valid zone file.
	p := miekg.NewZoneParser(strings.NewReader(text), "", "")
	n := 0
	for _, ok := p.Next(); ok; _, ok = p.Next() {
		n++
	}
	if err := p.Err(); err != nil || n < 12 {
		t.Errorf("%d records: %v\n%s", n, err, text)
	}
	for _, want := range []string{
		"example.com. IN MX 10 mx.example.com.\n", `example.com. IN TXT "v=spf1 mx ~all"`,
		"._domainkey.example.com. IN TXT \"v=DKIM1; k=rsa; p=",
		`_dmarc.example.com. IN TXT "v=DMARC1; p=`, `_mta-sts.example.com. IN TXT "v=STSv1; id=`,
		"_imaps._tcp.example.com. IN SRV 0 1 993 mx.example.com.\n",
		"_caldavs._tcp.example.com. IN SRV 0 1 443 mx.example.com.\n",
		"_carddavs._tcp.example.com. IN SRV 0 1 443 mx.example.com.\n",
		"autoconfig.example.com. IN CNAME mx.example.com.\n", `example.com. IN CAA 0 issue "letsencrypt.org"`,
		"_smtp._tls.example.com. IN TXT",
		"; _25._tcp.mx.example.com. IN TLSA 3 1 1 HASH\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}

	check := func() map[string]DNSCheck {
		t.Helper()
		// Do not answer a question from the cache of an earlier one.
		s.DNS = dns.New(s.Env, dns.Options{Servers: []string{z.Addr()}, Attempts: 1, Timeout: time.Second})
		out := map[string]DNSCheck{}
		for _, c := range mustRun[DNSChecks](t, s, "dns check", `{}`) {
			out[c.Type+" "+c.Name] = c
		}
		return out
	}
	for name, c := range check() {
		if c.State != "missing" && c.State != "optional" || c.Do == "" {
			t.Errorf("nothing published: %s: %+v", name, c)
		}
	}
	published := text +
		"mx.example.com. A 198.51.100.1\nmx.example.com. AAAA 2001:db8::25\n" +
		"1.100.51.198.in-addr.arpa. PTR mx.example.com.\n" +
		"5.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. PTR mx.example.com.\n"
	z.Set(published)
	for name, c := range check() {
		if c.State != "ok" && c.Type != "TLSA" {
			t.Errorf("all published: %s: %+v", name, c)
		}
	}
	for name, c := range map[string]struct{ old, new, record, state, do string }{
		"mail goes elsewhere": {"MX 10 mx.example.com.", "MX 10 mx.example.net.", "MX example.com", "wrong",
			"MX 10 mx.example.com."},
		"SPF without us": {"v=spf1 mx ~all", "v=spf1 ip4:198.51.100.2 -all", "TXT example.com", "wrong",
			"does not let 2001:db8::25 send"},
		"SPF that is none": {"v=spf1 mx ~all", "v=spf1 mx nonsense", "TXT example.com", "wrong", "v=spf1 mx ~all"},
		"two SPF records": {"example.com. IN TXT \"v=spf1 mx ~all\"",
			"example.com. IN TXT \"v=spf1 mx\"\nexample.com. IN TXT \"v=spf1 a\"", "TXT example.com", "wrong",
			"several are none"},
		"another key":           {"k=ed25519; p=", "k=ed25519; p=AAAA", "", "wrong", "publish: "},
		"a policy that is none": {"v=DMARC1; p=quarantine", "v=DMARC1; q=quarantine", "", "", ""},
		"only watching":         {"p=quarantine", "p=none", "TXT _dmarc.example.com", "ok", "raise it"},
		"reverse": {"1.100.51.198.in-addr.arpa. PTR mx.example.com.",
			"1.100.51.198.in-addr.arpa. PTR host1.isp.example.", "PTR 198.51.100.1", "wrong",
			"reverse name mx.example.com"},
		"private":      {"A 198.51.100.1", "A 10.0.0.1", "A mx.example.com", "wrong", "no public address"},
		"another port": {"SRV 0 1 993", "SRV 0 1 994", "SRV _imaps._tcp.example.com", "wrong", "993"},
	} {
		changed := strings.Replace(published, c.old, c.new, 1)
		if changed == published {
			t.Fatalf("%s changes nothing", name)
		}
		z.Set(changed)
		found := false
		for key, got := range check() {
			if (c.record == key || c.record == "") && got.State == c.state && strings.Contains(got.Do, c.do) {
				found = true
			}
		}
		if !found && c.state != "" {
			t.Errorf("%s: nothing says so", name)
		}
	}
	z.Fail("*", zone.ServFail)
	for name, c := range check() {
		if c.State != "unknown" {
			t.Errorf("name servers fail: %s: %+v", name, c)
		}
	}
	if !(DNSChecks{{State: "wrong"}}).Bad() || (DNSChecks{{State: "ok"}, {State: "optional"}}).Bad() {
		t.Error("Bad")
	}
}
