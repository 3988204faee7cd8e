package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/stat"
	"doublet/wire/dkim"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

var (
	bg      = context.Background()
	private = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
)

// zoneText is the zone for the tests. The name of each domain says its policy, and each allows 192.0.2.1 to send.
func zoneText() string {
	record, err := dkim.Record(private.Public())
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$TTL 300\nexample. SOA ns.example. h.example. 1 3600 600 86400 300\n")
	for _, d := range []struct{ name, dmarc string }{
		{"reject.example", "v=DMARC1; p=reject"},
		{"quarantine.example", "v=DMARC1; p=quarantine"},
		{"none.example", "v=DMARC1; p=none; rua=mailto:r@none.example"},
		{"strict.example", "v=DMARC1; p=reject; adkim=s; aspf=s"},
		{"sub.example", "v=DMARC1; p=none; sp=reject"},
		{"never.example", "v=DMARC1; p=reject; pct=0"},
		{"two.example", "v=DMARC1; p=reject\" \"\"\n_dmarc.two.example. TXT \"v=DMARC1; p=none"},
		{"silent.example", ""}, {"mail.silent.example", ""},
		{"mail.strict.example", ""},
		{"deep.sub.example", ""},
		{"mail.reject.example", ""},
		{"a.co.uk", "v=DMARC1; p=reject"}, {"b.co.uk", ""},
		{"trouble.example", "v=DMARC1; p=reject"},
	} {
		fmt.Fprintf(&b, "%s. TXT \"v=spf1 ip4:192.0.2.1 -all\"\nk._domainkey.%s. TXT \"%s\"\n", d.name, d.name, record)
		if d.dmarc != "" {
			fmt.Fprintf(&b, "_dmarc.%s. TXT \"%s\"\n", d.name, d.dmarc)
		}
	}
	b.WriteString("1.2.0.192.in-addr.arpa. PTR mx.reject.example.\nmx.reject.example. A 192.0.2.1\n")
	b.WriteString("9.2.0.192.in-addr.arpa. PTR liar.example.\nliar.example. A 192.0.2.10\n")
	b.WriteString("9.2.0.192.list.example. A 127.0.0.2\n9.2.0.192.list.example. TXT \"see https://list.example/9\"\n")
	b.WriteString("8.2.0.192.list.example. A 127.255.255.254\n7.2.0.192.list.example. A 192.0.2.80\n")
	return b.String()
}

func world(t testing.TB, o Options) (*Verifier, *zone.Server, *env.Fixture) {
	t.Helper()
	z := zone.Start(t, zoneText())
	f := env.Test(t)
	o.Hostname = "mx.example.com"
	o.Stats = stat.New(f.Clock)
	return New(f.Env, dns.New(f.Env, dns.Options{Servers: []string{z.Addr()}, Attempts: 1}), o), z, f
}

var whole = Options{DMARC: Reject, SPF: Mark}

func path(s string) smtp.Path {
	p, err := pathOf(s)
	if err != nil {
		panic(err)
	}
	return p
}

// letter returns a message of an author, signed by domains.
func letter(from string, signedBy ...string) []byte {
	m := []byte("From: " + from + "\r\nTo: bob@example.com\r\nSubject: hello\r\n\r\nHello.\r\n")
	var signers []dkim.Signer
	for _, d := range signedBy {
		signers = append(signers, dkim.Signer{Domain: d, Selector: "k", Key: private})
	}
	h, err := dkim.New(m).AppendSignatures(nil, signers, env.TestStart)
	if err != nil && len(signers) > 0 {
		panic(err)
	}
	return append(h, m...)
}

const (
	good = "192.0.2.1"
	evil = "192.0.2.9"
)

// TestDMARC checks which combinations of SPF and DKIM authenticate the author.
func TestDMARC(t *testing.T) {
	t.Parallel()
	v, _, _ := world(t, whole)
	for name, c := range map[string]struct {
		from, ip, sender string
		signed           []string
		want             Result
		action           Action
	}{
		"SPF, the same domain":  {"a@reject.example", good, "a@reject.example", nil, Pass, Accept},
		"SPF, below, relaxed":   {"a@reject.example", good, "a@mail.reject.example", nil, Pass, Accept},
		"SPF, author below":     {"a@mail.reject.example", good, "a@reject.example", nil, Pass, Accept},
		"SPF, below, strict":    {"a@strict.example", good, "a@mail.strict.example", nil, Fail, Refuse},
		"SPF, the same, strict": {"a@strict.example", good, "a@strict.example", nil, Pass, Accept},
		"SPF of a stranger":     {"a@reject.example", good, "a@none.example", nil, Fail, Refuse},
		"SPF fails":             {"a@reject.example", evil, "a@reject.example", nil, Fail, Refuse},
		"DKIM, the same domain": {"a@reject.example", evil, "a@reject.example", []string{"reject.example"},
			Pass, Accept},
		"DKIM, below, relaxed": {"a@reject.example", evil, "a@x.example", []string{"mail.reject.example"},
			Pass, Accept},
		"DKIM, below, strict": {"a@strict.example", evil, "a@x.example", []string{"mail.strict.example"},
			Fail, Refuse},
		"DKIM of a stranger": {"a@reject.example", evil, "a@x.example", []string{"none.example"},
			Fail, Refuse},
		"DKIM, second signature": {"a@reject.example", evil, "a@x.example",
			[]string{"none.example", "reject.example"}, Pass, Accept},
		"neighbours under a public suffix": {"a@a.co.uk", good, "a@b.co.uk", []string{"b.co.uk"}, Fail, Refuse},
		"quarantine":                       {"a@quarantine.example", evil, "a@x.example", nil, Fail, ToJunk},
		"none":                             {"a@none.example", evil, "a@x.example", nil, Fail, Accept},
		"sp of the organisation":           {"a@deep.sub.example", evil, "a@x.example", nil, Fail, Refuse},
		"p of the organisation":            {"a@sub.example", evil, "a@x.example", nil, Fail, Accept},
		"policy of the organisation":       {"a@any.mail.reject.example", evil, "a@x.example", nil, Fail, Refuse},
		"not in the sample":                {"a@never.example", evil, "a@x.example", nil, Fail, ToJunk},
		"two records are none":             {"a@two.example", evil, "a@x.example", nil, None, Accept},
		"SPF, no policy":                   {"a@silent.example", good, "a@mail.silent.example", nil, None, Accept},
		"DKIM, no policy": {"a@silent.example", evil, "a@x.example", []string{"silent.example"},
			None, Accept},
		"DKIM of a stranger without policy": {"a@silent.example", evil, "a@x.example", []string{"none.example"},
			None, Accept},
		"two authors, one proven, no word": {"a@silent.example, b@deep.none2.example", good, "a@silent.example", nil,
			None, Accept},
		"no policy":            {"a@silent.example", evil, "a@x.example", nil, None, Accept},
		"null sender, by HELO": {"a@reject.example", good, "", nil, Pass, Accept},
		"upper case":           {"A@REJECT.Example", good, "a@Reject.EXAMPLE", nil, Pass, Accept},
		"display name lies": {`"x@none.example" <a@reject.example>`, evil, "a@none.example", nil,
			Fail, Refuse},
		"two authors, one proven": {"a@none.example, b@reject.example", good, "a@none.example", nil,
			Fail, Refuse},
		"two From fields": {"a@none.example\r\nFrom: b@reject.example", good, "a@none.example", nil,
			Fail, Refuse},
		"no address": {"nobody", good, "a@none.example", nil, PermError, ToJunk},
		"bad domain": {"a@b..c", good, "a@none.example", nil, PermError, ToJunk},
		"a huge From": {strings.Repeat("a@reject.example,\r\n ", 5000) + "a@reject.example", good,
			"a@none.example", nil, PermError, ToJunk},
		"too many authors": {"a@a1.example, a@a2.example, a@a3.example, a@a4.example, " +
			"a@a5.example, a@a6.example", good, "a@none.example", nil, PermError, ToJunk},
	} {
		got := v.Message(bg, Client{netip.MustParseAddr(c.ip), "mail.reject.example", path(c.sender)},
			letter(c.from, c.signed...))
		if got.DMARC.Result != c.want || got.Action != c.action || (got.Reply != nil) != (c.action == Refuse) {
			t.Errorf("%s: %s, %s, %+v; want %s, %s", name, got.DMARC.Result, got.Action, got.DMARC, c.want, c.action)
		}
		if want := c.want == Pass || strings.HasSuffix(name, ", no policy"); got.DMARC.Aligned != want {
			t.Errorf("%s: aligned %v, want %v", name, got.DMARC.Aligned, want)
		}
	}
}

// TestEnforce checks the settings with a message that fails and whose domain has the policy reject.
func TestEnforce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		from string
		want Action
		code int
	}{
		{Options{}, "a@reject.example", Accept, 0},
		{Options{DMARC: Mark}, "a@reject.example", Accept, 0},
		{Options{DMARC: Junk}, "a@reject.example", ToJunk, 0},
		{Options{DMARC: Reject}, "a@reject.example", Refuse, 550},
		{Options{SPF: Mark}, "a@silent.example", Accept, 0},
		{Options{SPF: Junk}, "a@silent.example", ToJunk, 0},
		{Options{SPF: Reject}, "a@silent.example", Refuse, 550},
		{Options{SPF: Reject, DMARC: Mark}, "a@silent.example", Refuse, 550},
		{Options{DMARC: Reject, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, "a@reject.example",
			Accept, 0},
		{Options{Blocklists: []string{"list.example"}, Blocked: Junk}, "a@silent.example", ToJunk, 0},
	} {
		v, _, _ := world(t, c.o)
		got := v.Message(bg, Client{netip.MustParseAddr(evil), "x.example", path(c.from)}, letter(c.from))
		if got.Action != c.want || c.code != 0 && got.Reply.Code != c.code {
			t.Errorf("%+v: %s %v, want %s", c.o, got.Action, got.Reply, c.want)
		}
	}
	// SPF fails for forwarded mail; a signature of the author's domain has precedence.
	v, _, _ := world(t, Options{SPF: Reject, DMARC: Reject})
	got := v.Message(bg, Client{netip.MustParseAddr(evil), "x.example", path("a@reject.example")},
		letter("a@reject.example", "reject.example"))
	if got.Action != Accept || got.SPF.Result != Fail || got.DMARC.Result != Pass {
		t.Errorf("forwarded: %+v", got)
	}
}

// TestTroubleNeverRefuses checks that DNS failures never cause a permanent rejection.
func TestTroubleNeverRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"*", "_dmarc.trouble.example", "trouble.example", "k._domainkey.trouble.example"} {
		for _, later := range []bool{false, true} {
			v, z, _ := world(t, Options{DMARC: Reject, SPF: Reject, Defer: later, Blocklists: []string{"list.example"},
				Blocked: Reject})
			z.Fail(name, zone.ServFail)
			c := Client{netip.MustParseAddr(evil), "x.example", path("a@trouble.example")}
			if name == "*" && v.Listed(bg, c.IP) != nil {
				t.Error("listed, though the list does not answer")
			}
			// The signature does not match, but without the key this is unknown.
			message := bytes.Replace(letter("a@trouble.example", "trouble.example"), []byte("Hello."),
				[]byte("Hallo."), 1)
			got := v.Message(bg, c, message)
			want := map[bool]Action{true: TempFail, false: Accept}[later]
			if !later && name != "*" {
				want = ToJunk // SPF failed, or the policy is known and nothing authenticates the author
			}
			if got.Action != want {
				t.Errorf("%s fails, defer %v: %s %v, want %s", name, later, got.Action, got.Reply, want)
			}
			if later && (got.Reply == nil || !got.Reply.Temporary()) {
				t.Errorf("%s fails: %v", name, got.Reply)
			}
		}
	}
}

// TestLameSignature checks a signature for a subdomain of the author's domain whose DNS server does not answer. Anyone
// can add such a signature.
func TestLameSignature(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"reject.example", "quarantine.example"} {
		v, z, _ := world(t, whole)
		z.Fail("k._domainkey.lame."+d, zone.ServFail)
		z.Fail("lame."+d, zone.ServFail)
		for name, got := range map[string]Verdict{
			"DKIM": v.Message(bg, Client{netip.MustParseAddr(evil), "x.example", path("a@silent.example")},
				letter("boss@"+d, "lame."+d)),
			"SPF": v.Message(bg, Client{netip.MustParseAddr(evil), "x.example", path("a@lame." + d)},
				letter("boss@"+d)),
		} {
			if got.DMARC.Result != TempError || got.Action != ToJunk {
				t.Errorf("%s, %s: %s %s", d, name, got.DMARC.Result, got.Action)
			}
		}
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	v, _, _ := world(t, whole)
	got := v.Message(bg, Client{netip.MustParseAddr(good), "mx.reject.example", path("a@reject.example")},
		letter("a@reject.example", "reject.example", "none.example"))
	start := func(i int) string { return got.DKIM[i].Start }
	want := "Authentication-Results: mx.example.com;\r\n\tspf=pass smtp.mailfrom=reject.example;\r\n" +
		"\tiprev=pass (mx.reject.example) policy.iprev=192.0.2.1;\r\n" +
		"\tdkim=pass header.d=reject.example header.s=k header.a=ed25519-sha256 header.b=\"" + start(0) + "\";\r\n" +
		"\tdkim=pass header.d=none.example header.s=k header.a=ed25519-sha256 header.b=\"" + start(1) + "\";\r\n" +
		"\tdmarc=pass (p=reject applied=none) header.from=reject.example\r\n"
	if string(got.Header) != want {
		t.Errorf("got  %q\nwant %q", got.Header, want)
	}
	// Text from the sender cannot end a line or forge a result.
	evilHelo := "x.example;\r\n\tdmarc=pass header.from=bank.example"
	got = v.Message(bg, Client{netip.MustParseAddr(evil), evilHelo, smtp.Path{}}, letter("a@silent.example"))
	if bytes.Contains(got.Header, []byte("bank")) || bytes.Count(got.Header, []byte("\r\n")) != bytes.Count(got.Header,
		[]byte("\n")) {
		t.Errorf("%q", got.Header)
	}
	if id, ok := AuthservID(strings.TrimPrefix(string(got.Header), "Authentication-Results:")); !ok ||
		id != "mx.example.com" {
		t.Errorf("own field is not read back: %q %v", id, ok)
	}
}

func TestForged(t *testing.T) {
	t.Parallel()
	v, _, _ := world(t, whole)
	for value, want := range map[string]bool{
		"mx.example.com; spf=pass":                    true,
		"MX.Example.COM.; spf=pass":                   true,
		"mx.example.com 1; none":                      true,
		"mx.example.com":                              true,
		`"mx.example.com"; none`:                      true,
		`"m\x.example.com"; none`:                     true,
		"(a (nested) comment) mx.example.com (x); ok": true,
		"\r\n\tmx.example.com;\r\n\tspf=pass":         true,
		"other.example.com; spf=pass":                 false,
		"mx.example.com.evil; spf=pass":               false,
		"":                                            true, // the authserv-id cannot be read
		"(never ends mx.other; x":                     true,
		`"never ends`:                                 true,
		"; spf=pass":                                  true,
		"other example; spf=pass":                     true,
		"other/mx.example.com; x":                     true,
	} {
		if got := v.Forged(mime.HeaderField{Name: []byte("authentication-results"),
			Value: []byte(value)}); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	if v.Forged(mime.HeaderField{Name: []byte("X-Authentication-Results"), Value: []byte("mx.example.com")}) {
		t.Error("another field")
	}
}

func TestIPRev(t *testing.T) {
	t.Parallel()
	v, z, _ := world(t, whole)
	z.Fail("3.2.0.192.in-addr.arpa", zone.ServFail)
	for ip, want := range map[string]Result{good: Pass, evil: Fail, "192.0.2.2": PermError, "192.0.2.3": TempError} {
		if got, _ := v.iprev(bg, netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}

func TestBlocklist(t *testing.T) {
	t.Parallel()
	v, _, _ := world(t, Options{Blocklists: []string{"other.example", "list.example"}, Blocked: Reject})
	r := v.Listed(bg, netip.MustParseAddr("::ffff:"+evil))
	if r == nil || r.Code != 554 || !strings.Contains(r.Text(), "list.example; see https://list.example/9") {
		t.Errorf("%v", r)
	}
	// An error answer, one outside 127.0.0.0/8, no answer, and this machine.
	for _, ip := range []string{"192.0.2.8", "192.0.2.7", good, "2001:db8::1", "127.0.0.1"} {
		if r := v.Listed(bg, netip.MustParseAddr(ip)); r != nil {
			t.Errorf("%s: %v", ip, r)
		}
	}
	if got := string(appendReversed(nil, netip.MustParseAddr("2001:db8::1"))); got != "1.0.0.0."+
		strings.Repeat("0.", 20)+"8.b.d.0.1.0.0.2." {
		t.Error(got)
	}
}

func TestGreylist(t *testing.T) {
	t.Parallel()
	v, _, f := world(t, Options{GreylistDelay: 5 * time.Minute, GreylistEntries: 3})
	ask := func(ip, from, to string) bool {
		r := v.Greylisted(netip.MustParseAddr(ip), path(from), path(to))
		if r != nil && !r.Temporary() {
			t.Errorf("%v", r)
		}
		return r == nil
	}
	step := func(name string, wait time.Duration, ip, from, to string, want bool) {
		t.Helper()
		f.Time.Advance(wait)
		if got := ask(ip, from, to); got != want {
			t.Errorf("%s: passes %v, want %v", name, got, want)
		}
	}
	step("first", 0, evil, "a@x.example", "b@example.com", false)
	step("too soon", 4*time.Minute, evil, "a@x.example", "b@example.com", false)
	step("after the delay, a neighbour", time.Minute, "192.0.2.77", "A@X.example", "b@example.com", true)
	step("known", 30*24*time.Hour, evil, "a@x.example", "b@example.com", true)
	step("another recipient", 0, evil, "a@x.example", "c@example.com", false)
	step("another network", 0, "198.51.100.1", "a@x.example", "b@example.com", false)
	step("did not come again in time", 25*time.Hour, "198.51.100.1", "a@x.example", "b@example.com", false)
	step("forgotten", 32*24*time.Hour, evil, "a@x.example", "b@example.com", false)
	step("exempt", 0, "127.0.0.1", "a@x.example", "b@example.com", true)
	for i := range 10 {
		ask(evil, fmt.Sprintf("a%d@x.example", i), "b@example.com")
	}
	if n := v.grey.len(); n != 3 || v.grey.fresh.Len()+v.grey.known.Len() != n {
		t.Errorf("%d remembered", n)
	}
	// A flood of new senders does not evict known ones.
	step("one who", 0, good, "a@x.example", "b@example.com", false)
	step("comes again", 6*time.Minute, good, "a@x.example", "b@example.com", true)
	for i := range 10 {
		ask(evil, fmt.Sprintf("b%d@x.example", i), "b@example.com")
	}
	step("is known", 0, good, "a@x.example", "b@example.com", true)
	off, _, _ := world(t, whole)
	if off.Greylisted(netip.MustParseAddr(evil), path("a@b"), path("c@d")) != nil {
		t.Error("greylisting is off")
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"v=DMARC1; p=reject": "{reject reject false false 100 }",
		"v=DMARC1;p=none;sp=Quarantine;adkim=s;aspf=r;pct=20": "{none quarantine true false 20 }",
		"v=DMARC1; p=quarantine; pct=101; aspf=S; x=y; rua=mailto:a@b.c": "{quarantine quarantine false true 100 " +
			"mailto:a@b.c}",
		"v=DMARC1; p=nonsense; rua=mailto:a@b.c":            "{none none false false 100 mailto:a@b.c}",
		"v=DMARC1; p=reject; sp=nonsense; rua=mailto:a@b.c": "{none none false false 100 mailto:a@b.c}",
		"v=DMARC1; p=reject; sp=nonsense":                   "",
		"v=DMARC1; p=nonsense":                              "",
		"v=DMARC1":                                          "",
		"v=dmarc1; p=none":                                  "",
		"V = DMARC1 ; P = NONE ;":                           "{none none false false 100 }",
		"p=none; v=DMARC1":                                  "",
		"v=DMARC1; junk; p=reject":                          "{reject reject false false 100 }",
		"v=spf1 -all":                                       "",
		"":                                                  "",
		"v=DMARC1; p=none; " + strings.Repeat("x", maxRecord): "",
	} {
		r, ok := ParseRecord(text)
		got := ""
		if ok {
			got = fmt.Sprint(r)
		}
		if got != want {
			t.Errorf("%.60q: %s, want %s", text, got, want)
		}
	}
}

func TestSPFRecordSyntax(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]bool{
		"v=spf1":               true,
		"v=spf1 a mx ptr ?all": true,
		"V=SPF1 A:mail.example.com/24//64 MX/0 -ALL":   true,
		"v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32":    true,
		"v=spf1 include:%{d}._spf.example.com ~all":    true,
		"v=spf1 exists:%{ir}.%{l1r-+}._spf.%{d2} -all": true,
		"v=spf1 redirect=_spf.example.com x-y=%{c}":    true,
		"v=spf1 redirect=a.b redirect=a.b":             false,
		"v=spf1 ?redirect=a.b":                         false,
		"v=spf1 -all nonsense":                         false,
		"v=spf1 a/33":                                  false,
		"v=spf1 a/024":                                 false,
		"v=spf1 a//129":                                false,
		"v=spf1 ip4:192.0.2.0/33":                      false,
		"v=spf1 ip4:2001:db8::1":                       false,
		"v=spf1 include:":                              false,
		"v=spf1 include:nodots":                        false,
		"v=spf1 include:a.123":                         false,
		"v=spf1 exists:%{z}.example.com":               false,
		"v=spf1 exists:%{d0}.example.com":              false,
		"v=spf1 exists:%":                              false,
		"v=spf1 exists:%{d":                            false,
		"v=spf1 exp=%{c}.example.com":                  false,
		"v=spf1 all:x":                                 false,
		"v=spf1\ta":                                    false,
		"v=spf1 a:\xc3\xa9.example.com":                false,
		"v=spf10 -all":                                 false,
	} {
		if got := ValidSPF(record); got != want {
			t.Errorf("%q: %v, want %v", record, got, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("v=DMARC1; p=reject; sp=none; adkim=s; aspf=r; pct=50; rua=mailto:a@example.com")
	f.Add("v=DMARC1; p=;;=")
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := ParseRecord(text)
		if ok && (r.Percent < 0 || r.Percent > 100 || r.Policy == "" || r.Subdomains == "") {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzAuthservID(f *testing.F) {
	for _, s := range []string{"mx.example.com; spf=pass", `"a\"b" 1;`, "(x(y\\)z)) a (", "a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if id, ok := AuthservID(value); ok && id == "" {
			t.Error("an empty id")
		}
		_, _ = authors([]byte("From: " + value + "\r\n\r\n"))
	})
}

func FuzzSPFRecord(f *testing.F) {
	f.Add("v=spf1 a:%{d}/24//64 mx/1 ip4:1.2.3.4/5 exists:%{ir}.x.y redirect=%{d2}.a.b")
	f.Add("v=spf1 %{")
	f.Fuzz(func(_ *testing.T, record string) { ValidSPF(record) })
}

// BenchmarkMessage verifies a typical message of 12 KB with two signatures and cached DNS answers. The goal for SPF,
// DKIM and DMARC together is at most 0.4 ms of CPU time.
func BenchmarkMessage(b *testing.B) {
	v, _, _ := world(b, whole)
	body := bytes.Repeat([]byte("a line of a usual message, 60 bytes or so, with some words\r\n"), 200)
	message := append([]byte("From: a@reject.example\r\nTo: bob@example.com\r\nSubject: hello\r\n\r\n"), body...)
	h, err := dkim.New(message).AppendSignatures(nil, []dkim.Signer{{Domain: "reject.example", Selector: "k",
		Key: private}, {Domain: "none.example", Selector: "k", Key: private}}, env.TestStart)
	if err != nil {
		b.Fatal(err)
	}
	message = append(h, message...)
	c := Client{netip.MustParseAddr(good), "mx.reject.example", path("a@reject.example")}
	b.ReportAllocs()
	for b.Loop() {
		if got := v.Message(bg, c, message); got.DMARC.Result != Pass || got.DKIM[1].Result != Pass {
			b.Fatalf("%+v", got)
		}
	}
}
