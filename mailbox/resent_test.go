package mailbox

import (
	"strings"
	"testing"

	"doublet/wire/mime"
)

// TestResentSummary checks that a summary holds the Resent fields unchanged, that it marks fields that are too long,
// and that summaries of older versions can be read.
func TestResentSummary(t *testing.T) {
	t.Parallel()
	long := "Resent-From: " + strings.Repeat("a", maxResent) + "@x\r\n"
	for _, c := range []struct{ header, block, by string }{
		{"From: a@x\r\n", "\x01", ""},
		{"Resent-From: b@x\r\nReceived: from c\r\nresent-sender : s@x\r\nResent-Date: now\r\nResent-From:\r\n a@x\r\n" +
			"From: x@x\r\n",
			"\x01Resent-From: b@x\r\nresent-sender : s@x\r\nResent-From:\r\n a@x\r\n", "b@x s@x"},
		{"Resent-Sender: b@x\r\nResent-From: b@x, c@x\r\n", "\x01Resent-Sender: b@x\r\nResent-From: b@x, c@x\r\n",
			"b@x c@x"},
		{"Resent-Sender: s@x\r\n", "\x01Resent-Sender: s@x\r\n", "s@x"},
		{"Resent-From: nobody here\r\n" + long, "\x00", ""},
	} {
		raw := []byte(c.header + "\r\nResent-From: body@x\r\n")
		sum := appendSummary(nil, raw, mime.Parse(raw, mime.DefaultLimits))
		got, err := summaryField(sum, fieldResent)
		if err != nil || string(got) != c.block {
			t.Errorf("%.80q: %.80q %v", c.header, got, err)
		}
		old := sum[:len(sum)-len(got)-1]
		if c.block != "\x00" {
			if len(got) > 127 {
				t.Fatal("the length takes more than an octet")
			}
			if b, err := summaryField(old, fieldResent); b != nil || err != nil {
				t.Errorf("an older summary: %q %v", b, err)
			}
			var by []string
			for _, a := range Resenders(got[1:]) {
				by = append(by, a.Mailbox+"@"+a.Host)
			}
			if strings.Join(by, " ") != c.by {
				t.Errorf("%.80q: %q", c.header, by)
			}
		}
	}
}
