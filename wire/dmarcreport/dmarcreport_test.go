package dmarcreport

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func google(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("testdata/google.xml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSample parses a report from Google, also with the namespace and results of RFC 7489's schema, and parses the
// encoded report again.
func TestSample(t *testing.T) {
	t.Parallel()
	text := google(t)
	for name, text := range map[string]string{
		"google": text, "a namespace": strings.Replace(text, "<feedback>",
			`<feedback xmlns="urn:ietf:params:xml:ns:dmarc-2.0">`, 1),
		"another encoding": strings.Replace(text, "UTF-8", "US-ASCII", 1),
		"unknown elements": strings.Replace(text, "<report_metadata>", "<x><record/></x><report_metadata><y/>", 1),
	} {
		r, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, x := r.Metadata, r.Records[0]
		if m.Organization != "google.com" || m.ID != "10051505501689795560" || m.Begin != 1596412800 ||
			m.End != 1596499199 ||
			r.Policy != (Policy{Domain: "example.org", DKIM: "r", SPF: "r", Policy: "reject", Subdomains: "reject",
				Percent: 100}) || len(r.Records) != 1 ||
			x.Row.SourceIP != "127.0.0.1" || x.Row.Count != 1 || x.Row.Disposition != "none" || x.Row.DKIM != "fail" ||
			x.Row.SPF != "pass" ||
			x.Identifiers.HeaderFrom != "example.org" || x.Auth.DKIM[0] != (DKIM{"example.org", "example", "fail"}) ||
			x.Auth.SPF[0] != (SPF{"example.org", "", "pass"}) {
			t.Errorf("%s: %+v", name, r)
		}
		out, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if again.XMLName = r.XMLName; !reflect.DeepEqual(r, again) {
			t.Errorf("%s: read again:\n%s", name, out)
		}
	}
}

// TestBounds checks that invalid reports are rejected, and that records beyond the limit are counted.
func TestBounds(t *testing.T) {
	t.Parallel()
	text := google(t)
	for _, x := range [][2]string{
		{"google.com</org_name>", "</org_name>"}, {"<report_id>10051505501689795560", "<report_id>"},
		{"<domain>example.org</domain>\n    <adkim>", "<adkim>"},
		{"1596499199", "1"}, {"1596412800", "-1"}, {"<count>1<", "<count>x<"}, {"</feedback>", ""},
		{"feedback>", "other>"}, {"UTF-8", "UTF-7"},
	} {
		if changed := strings.Replace(text, x[0], x[1], 1); changed == text {
			t.Errorf("%q is not there", x[0])
		} else if _, err := Parse([]byte(changed)); err == nil {
			t.Errorf("taken with %q", x[1])
		}
	}
	row := "<record><row><source_ip>\x1b[1m" + strings.Repeat("x", 999) + "</source_ip><count>-1</count></row></record>"
	many := strings.Replace(text, "<record>", strings.Repeat("<record/>", maxRecords)+"<record>", 1)
	if r, err := Parse([]byte(many)); err != nil || len(r.Records) != maxRecords || r.Left != 1 {
		t.Errorf("%v", err)
	}
	if r, err := Parse([]byte(strings.Replace(text, "<record>", strings.Replace(row, "\x1b", "&#x9b;", 1)+"<record>",
		1))); err != nil ||
		len(r.Records[0].Row.SourceIP) > maxText || strings.Contains(r.Records[0].Row.SourceIP, "\u009b") ||
		r.Records[0].Row.Count != 0 {
		t.Errorf("%v", err)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for rua, want := range map[string][]Address{
		"mailto:a@b.example":                              {{"a@b.example", 0}},
		"MAILTO:a@b!10m, mailto:c@d!1":                    {{"a@b", 10 << 20}, {"c@d", 1}},
		"mailto:a@b!10K,mailto:c@d!2g,mailto:e@f!3T":      {{"a@b", 10 << 10}, {"c@d", 2 << 30}, {"e@f", 3 << 40}},
		"https://b.example, mailto:, mailto:a@b!x":        nil,
		"mailto:a@b!0, mailto:a@b!99999999999999t":        nil,
		strings.Repeat("mailto:a@b.example,", maxURIs+10): slicesOf(Address{"a@b.example", 0}, maxURIs),
	} {
		if got := Addresses(rua); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", rua, got)
		}
	}
	at := time.Unix(1013662812, 0)
	if got := FileName("mail.receiver.example", "example.com", at, at.Add(86318*time.Second),
		"7"); got != "mail.receiver.example!example.com!1013662812!1013749130!7.xml.gz" {
		t.Error(got)
	}
	if got := Subject("example.com", "mail.receiver.example",
		"2002.02.15.1"); got != "Report Domain: example.com Submitter: mail.receiver.example Report-ID: "+
		"<2002.02.15.1>" {
		t.Error(got)
	}
}

func slicesOf(a Address, n int) (out []Address) {
	for range n {
		out = append(out, a)
	}
	return out
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(google(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		out, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out); err != nil && r.Metadata.ID != "" {
			t.Errorf("what it writes it does not read: %v\n%s", err, out)
		}
	})
}

func FuzzAddresses(f *testing.F) {
	f.Add("mailto:a@b.example!10m,mailto:c@d")
	f.Fuzz(func(t *testing.T, rua string) {
		for _, a := range Addresses(rua) {
			if a.Most < 0 || a.Mail == "" && a.Most == 0 {
				t.Errorf("%+v", a)
			}
		}
	})
}

// TestBoundsWhileParsing checks that depth, tags and lists are bounded before memory for them is allocated.
func TestBoundsWhileParsing(t *testing.T) {
	head := "<feedback><report_metadata><org_name>o</org_name><report_id>1</report_id>"
	tail := "<date_range><begin>1</begin><end>2</end></date_range></report_metadata><policy_published><domain>" +
		"d</domain></policy_published>"
	const size = 4 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	long := "<b x=\">\" " + fill("a='' ") + "></b>"
	for name, text := range map[string]string{
		"attributes after a comment":      head + "<!--<a \"-->" + long + tail + "</feedback>",
		"attributes after text, comment":  head + "text<!-- don't <a -->" + long + tail + "</feedback>",
		"attributes after CDATA":          head + "<error><![CDATA[<a \"]]></error>" + long + tail + "</feedback>",
		"attributes after an instruction": head + "<?x <a \"?>" + long + tail + "</feedback>",
		"attributes after a declaration": "<!DOCTYPE f [<!-- ' --><!ENTITY a '>\"<'>]>" + head + long + tail +
			"</feedback>",
		"attributes after <a/>": head + "<a/>" + long + tail + "</feedback>",
		"attributes in another encoding": "<?xml version='1.0' encoding='iso-8859-1'?>" + head + "x" + long + tail +
			"</feedback>",
		"an end tag": head + "</" + fill("a") + ">" + tail + "</feedback>",

		"depth":           head + fill("<a>"),
		"attributes":      head + "<a " + fill("b='' ") + "/>" + tail + "</feedback>",
		"attributes of >": head + "<a " + fill("b='>' ") + "/>" + tail + "</feedback>",
		"a tag":           head + "<" + fill("a") + "/>" + tail + "</feedback>",
	} {
		data := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(data)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > size/4 {
			t.Errorf("%s: %d KB, %v", name, took>>10, err)
		}
	}
	r, err := Parse([]byte(head + fill("<error/>") + tail + "<record>" +
		"<row><policy_evaluated>" + fill("<reason/>") + "</policy_evaluated></row>" +
		"<auth_results>" + fill("<dkim/>") + fill("<spf/>") + "</auth_results></record></feedback>"))
	if err != nil {
		t.Fatal(err)
	}
	x := &r.Records[0]
	for name, list := range map[string][2]int{
		"errors": {len(r.Metadata.Errors), cap(r.Metadata.Errors)}, "reasons": {len(x.Row.Reasons), cap(x.Row.Reasons)},
		"DKIM": {len(x.Auth.DKIM), cap(x.Auth.DKIM)}, "SPF": {len(x.Auth.SPF), cap(x.Auth.SPF)},
	} {
		if list[0] != maxList || list[1] > 2*maxList {
			t.Errorf("%s: %d elements in room for %d", name, list[0], list[1])
		}
	}
	for _, ok := range []string{
		head + tail + "</feedback><!-- don't: " + fill("x") + "-->", head + tail + "<x y='>'>" + fill("don't ") +
			"</x></feedback>",
		head + tail + "<x><![CDATA[" + fill("it's ") + "]]></x></feedback>",
		head + tail + "<!-- <a b=' " + fill("x") + "--></feedback>",
		head + tail + "<x><![CDATA[<a b=\"" + fill("x") + "]]></x></feedback>",
		head + tail + "<?x <a b=\"" + fill("x") + "?></feedback>",
		head + tail + "<x>" + strings.Repeat("text<a b='>'/>", maxTag) + "</x></feedback>",
	} {
		if _, err := Parse([]byte(ok)); err != nil {
			t.Errorf("%.300s: %v", ok, err)
		}
	}
}
