package tlsreport

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSamples parses a report from Google and the example of RFC 8460 appendix B, and parses the encoded reports again.
func TestSamples(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		organization, domain string
		good, bad            int64
		details              int
	}{
		"google.json":  {"Google Inc.", "example.com", 3, 0, 0},
		"rfc8460.json": {"Company-X", "company-y.example", 5326, 303, 3},
	} {
		r, err := Parse(sample(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := r.Policies[0]
		if r.Organization != want.organization || p.Policy.Domain != want.domain || p.Policy.Type != STS ||
			p.Summary != (Summary{want.good, want.bad}) ||
			len(p.Details) != want.details || len(p.Policy.MX) != 1 ||
			r.Range.End.Sub(r.Range.Start) != 24*time.Hour-time.Second {
			t.Errorf("%s: %+v", name, r)
		}
		out, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(out); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%s: read again: %v\n%s", name, err, out)
		}
	}
}

// TestBounds checks that invalid reports are rejected, and that data beyond the limits is dropped.
func TestBounds(t *testing.T) {
	t.Parallel()
	good := string(sample(t, "google.json"))
	for _, x := range [][2]string{
		{"Google Inc.", ""}, {`"report-id":"2024-05-13T00:00:00Z_example.com"`, `"report-id":""`},
		{"2024-05-13T00:00:00Z\",\"end", "2024-06-13T00:00:00Z\",\"end"},
		{`"start-datetime":"2024`, `"start-datetime":"soon`}, {"}]}", "}]"}, {"[{\"policy\"", "{\"policy\""},
		{`:3,`, `:"3",`},
	} {
		if changed := strings.Replace(good, x[0], x[1], 1); changed == good {
			t.Errorf("%q is not there", x[0])
		} else if _, err := Parse([]byte(changed)); err == nil {
			t.Errorf("taken with %q", x[1])
		}
	}
	var b bytes.Buffer
	b.WriteString(`{"organization-name":"a\u0007\u009b` + strings.Repeat("x", 1000) +
		`","report-id":"i","date-range":{},"policies":[`)
	for i := range 300 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(
			`{"policy":{"policy-type":"sts"},"summary":{"total-failure-session-count":-5},"failure-details":[` +
				strings.Repeat(`{"result-type":"x"},`, 4) + `{}]}`)
	}
	b.WriteString("]}")
	r, err := Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	details, room := 0, 0
	for _, p := range r.Policies {
		details += len(p.Details)
		room += cap(p.Details)
	}
	if room > 2*maxDetails {
		t.Errorf("%d failures in room for %d", details, room)
	}
	if len(r.Policies) != maxPolicies || details != maxDetails || len(r.Organization) > maxText ||
		strings.ContainsAny(r.Organization, "\a\u009b") || r.Policies[0].Summary.Failed != 0 {
		t.Errorf("%d policies, %d details, %q", len(r.Policies), details, r.Organization)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		records []string
		want    string
	}{
		{[]string{"v=TLSRPTv1; rua=mailto:a@b.example"}, "mailto:a@b.example"},
		{[]string{"v=TLSRPTv1;rua=MAILTO:a@b.example , https://b.example/r"}, "mailto:a@b.example https://b.example/r"},
		{[]string{"v=spf1 -all", "v=TLSRPTv1; x=y; rua=https://b.example/r;"}, "https://b.example/r"},
		{[]string{"v=TLSRPTv1; rua=mailto:a@b", "v=TLSRPTv1; rua=mailto:c@b"}, ""},
		{[]string{"v=TLSRPTv2; rua=mailto:a@b"}, ""},
		{[]string{"v=TLSRPTv1; rua=http://b.example/r,ftp:x,mailto:"}, ""},
		{nil, ""},
	} {
		if got := strings.Join(Addresses(x.records), " "); got != x.want {
			t.Errorf("%q: %q, want %q", x.records, got, x.want)
		}
	}
	at := time.Unix(1013662812, 0)
	if got := FileName("mail.sender.example.com", "example.com", at,
		at.Add(86318*time.Second)); got != "mail.sender.example.com!example.com!1013662812!1013749130.json.gz" {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f, "google.json"))
	f.Add(sample(f, "rfc8460.json"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		out, err := r.Marshal()
		if err != nil {
			return // a year after 9999
		}
		if _, err := Parse(out); err != nil {
			t.Errorf("what it writes it does not read: %v\n%s", err, out)
		}
	})
}

func FuzzAddresses(f *testing.F) {
	f.Add("v=TLSRPTv1; rua=mailto:a@b.example,https://b.example/r")
	f.Fuzz(func(t *testing.T, record string) {
		for _, uri := range Addresses([]string{record}) {
			if !strings.HasPrefix(uri, "mailto:") && !strings.HasPrefix(uri, "https:") {
				t.Errorf("%q", uri)
			}
		}
	})
}
