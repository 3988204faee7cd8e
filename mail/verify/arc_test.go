package verify

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"doublet/client/dns/zone"
)

// TestARC checks that a chain is reported, and affects the action only if its newest sealer is trusted and reported
// dmarc=pass. The message was made with dkimpy: a list changed a message from reject.example.
func TestARC(t *testing.T) {
	t.Parallel()
	message, err := os.ReadFile("../../wire/dkim/testdata/arc.eml")
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile("../../wire/dkim/testdata/arc.key")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, trusted, old, new string
		want                    Action
		result                  Result
		fault                   bool
	}{
		{name: "nobody is trusted", want: Refuse, result: Pass},
		{name: "an older sealer is trusted", trusted: "one.example", want: Refuse, result: Pass},
		{name: "the newest is", trusted: "x.example LIST.example", want: Accept, result: Pass},
		{name: "the body was changed", trusted: "list.example", old: "Hi.", new: "Ho.", want: Refuse, result: Fail},
		{name: "another author", trusted: "list.example", old: "<ann@reject.example>", new: "<ann@strict.example>",
			want: Refuse, result: Fail},
		{name: "no chain", trusted: "list.example", old: "ARC-", new: "XRC-", want: Refuse, result: None},
		{name: "the key cannot be looked up", trusted: "list.example", want: Refuse, result: TempError, fault: true},
	} {
		v, z, _ := world(t, Options{DMARC: Reject, SPF: Mark, ARCTrusted: strings.Fields(c.trusted)})
		key := string(record)
		for _, d := range []string{"one.example", "list.example"} {
			z.Add("s._domainkey." + d + ". TXT \"" + key[:200] + "\" \"" + key[200:] + "\"\n")
		}
		if c.fault {
			z.Fail("s._domainkey.list.example.", zone.ServFail)
		}
		text := string(message)
		if c.old != "" {
			text = strings.ReplaceAll(text, c.old, c.new)
		}
		got := v.Message(t.Context(), Client{IP: netip.MustParseAddr(evil), Helo: "mx.list.example",
			From: path("bounces@list.example")}, []byte(text))
		if got.Action != c.want || got.ARC.Result != c.result || got.DMARC.Result != Fail {
			t.Errorf("%s: %v, arc=%s (%s), dmarc=%s", c.name, got.Action, got.ARC.Result, got.ARC.Reason,
				got.DMARC.Result)
		}
		if has := strings.Contains(string(got.Header), "\tarc="+string(c.result)); has != (c.result != None) {
			t.Errorf("%s: %s", c.name, got.Header)
		}
	}
}

// TestVouches checks that only real results of a trusted sealer for this author count, not text in comments or quoted
// strings.
func TestVouches(t *testing.T) {
	t.Parallel()
	v := &Verifier{opt: Options{ARCTrusted: []string{"list.example"}}}
	for results, want := range map[string]bool{
		"mx.a; dmarc=pass header.from=a.example":                    true,
		"mx.a; spf=fail; DMARC=pass (p=none) header.from=A.example": true,
		"mx.a; dmarc=pass header.from=b.example":                    false,
		"mx.a; dmarc=pass":                                          false,
		"mx.a; dmarc=fail header.from=a.example":                    false,
		"mx.a; x=y (; dmarc=pass header.from=a.example)":            false,
		"mx.a; x=\"; dmarc=pass header.from=a.example\"":            false,
		"mx.a; dmarc=pass; spf=pass header.from=a.example":          false,
	} {
		if got := v.vouches(&ARC{Result: Pass, Sealer: "list.example", results: results}, "a.example"); got != want {
			t.Errorf("%s: %v", results, got)
		}
	}
}
