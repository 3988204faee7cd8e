package mime

import (
	"bytes"
	"strings"
	"testing"
)

// decodedLeaves returns the decoded contents of a message's leaves.
func decodedLeaves(raw []byte, p *Part) (out []string) {
	if len(p.Children) == 0 {
		b, _ := AppendDecoded(nil, p.Body(raw), EncodingOf(p.Encoding), -1)
		return []string{p.Type + "/" + p.Subtype + " " + string(b)}
	}
	for _, c := range p.Children {
		out = append(out, decodedLeaves(raw, c)...)
	}
	return out
}

// checkSevenBit checks that SevenBit keeps the content of the parts.
func checkSevenBit(t *testing.T, raw []byte) (out []byte, ok bool) {
	t.Helper()
	out, ok = SevenBit(raw)
	if !ok {
		return out, ok
	}
	if eightBit(out) {
		t.Fatalf("8-bit characters are left:\n%q", out)
	}
	again, ok := SevenBit(out)
	if !ok || !bytes.Equal(again, out) {
		t.Fatalf("converted twice:\n%q\n%q", out, again)
	}
	return out, true
}

func TestSevenBit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 500)
	for _, c := range []struct{ name, raw, want string }{
		{"seven bits stay", "Subject: a\r\nContent-Transfer-Encoding: 8bit\r\n\r\nplain\r\n",
			"Subject: a\r\nContent-Transfer-Encoding: 8bit\r\n\r\nplain\r\n"},
		{"text", "Subject: a\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n" +
			"Content-Transfer-Encoding: 8bit\r\n\r\n. Grüße = x \r\n\t\r\nend",
			"Subject: a\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n" +
				"Content-Transfer-Encoding: quoted-printable\r\n\r\n. Gr=C3=BC=C3=9Fe =3D x=20\r\n=09\r\nend"},
		{"no MIME at all", "Subject: a\r\n\r\nÄ a line that is long enough not to look like data\r\n",
			"Subject: a\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n" +
				"Content-Transfer-Encoding: quoted-printable\r\n\r\n" +
				"=C3=84 a line that is long enough not to look like data\r\n"},
		{"no header", "\r\nplain words with one ä in them\r\n",
			"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n" +
				"Content-Transfer-Encoding: quoted-printable\r\n\r\nplain words with one =C3=A4 in them\r\n"},
		{"much of it", "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + long + "\r\n",
			"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n" +
				"\r\n" + string(AppendBase64Lines(nil, []byte(long+"\r\n"), 76, true))},
		{"parts", "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n" +
			"Content-Transfer-Encoding: 8bit\r\n\r\npre\r\n--b\r\n\r\none\r\n--b\r\nContent-Type: message/rfc822\r\n" +
			"Content-Transfer-Encoding: 8bit\r\n\r\nSubject: in\r\n\r\nan ä among many other letters\r\n--b--\r\n" +
			"epi\r\n",
			"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 7bit\r\n" +
				"\r\npre\r\n--b\r\n\r\none\r\n--b\r\nContent-Type: message/rfc822\r\n" +
				"Content-Transfer-Encoding: 7bit\r\n\r\nSubject: in\r\nMIME-Version: 1.0\r\n" +
				"Content-Type: text/plain; charset=unknown-8bit\r\nContent-Transfer-Encoding: quoted-printable\r\n" +
				"\r\nan =C3=A4 among many other letters\r\n--b--\r\nepi\r\n"},
		{"header", "Subject: ä\r\n\r\nä\r\n", ""},
		{"signed", "Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nä\r\n--b\r\n\r\nsig\r\n--b--\r\n", ""},
		{"signed within", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n" +
			"Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nä\r\n--b\r\n\r\nsig\r\n--b--\r\n--a--\r\n",
			""},
		{"signed, in seven bits",
			"Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/signed; boundary=b\r\n" +
				"\r\n--b\r\n\r\nx\r\n--b\r\n\r\nsig\r\n--b--\r\n--a\r\n\r\nmany letters and an ä\r\n--a--\r\n",
			"Content-Type: multipart/mixed; boundary=a\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: 7bit\r\n" +
				"\r\n--a\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b\r\n\r\nsig\r\n" +
				"--b--\r\n--a\r\nContent-Type: text/plain; charset=unknown-8bit\r\n" +
				"Content-Transfer-Encoding: quoted-printable\r\n\r\nmany letters and an =C3=A4\r\n--a--\r\n"},
		{"between the parts", "Content-Type: multipart/mixed; boundary=b\r\n\r\nä\r\n--b\r\n\r\nx\r\n--b--\r\n", ""},
		{"behind the parts", "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\nä\r\n", ""},
		{"header of a part",
			"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Description: ä\r\n\r\nx\r\n--b--\r\n", ""},
		{"no parts", "Content-Type: multipart/mixed\r\n\r\nä\r\n", ""},
		{"no encoding allowed", "Content-Type: message/delivery-status\r\n\r\nä\r\n", ""},
		{"encoded already, they say", "Content-Transfer-Encoding: base64\r\n\r\nä\r\n", ""},
		{"unknown encoding", "Content-Transfer-Encoding: x-y\r\n\r\nä\r\n", ""},
	} {
		got, ok := checkSevenBit(t, []byte(c.raw))
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s:\n%q\n%q", c.name, got, c.want)
		}
	}
}

// FuzzSevenBit checks that the result has only 7-bit characters, short lines in encoded parts, and parts with the same
// content.
func FuzzSevenBit(f *testing.F) {
	f.Add(crlf(numberedMessage))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n\xc3\xa4 \t\r\n=\r\r\n--b\r\n" +
		"Content-Type: message/rfc822\r\n\r\nA: b\r\n\r\n\xff\x00" + strings.Repeat("a \xe4", 60) + "\r\n--b--\r\n"))
	f.Add([]byte("Content-Type: message/global\r\n\r\nSubject: \xc3\xa4\r\n\r\nx\r\n"))
	f.Add([]byte("Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nSubject: x\r\n\r\n\xc3\xa4\r\n" +
		"--b--\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, ok := checkSevenBit(t, raw)
		if !ok {
			return
		}
		before, after := decodedLeaves(raw, Parse(raw, Limits{})), decodedLeaves(out, Parse(out, Limits{}))
		if strings.Join(before, "\x00") != strings.Join(after, "\x00") &&
			!bytes.Contains(bytes.ToLower(raw), []byte("message/global")) {
			t.Fatalf("other contents:\n%q\n%q\n%q", before, after, out)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("a\r\n b \r\n=\t\r\n\rx\n" + strings.Repeat("z", 80) + strings.Repeat("\xff", 80) + " "))
	f.Fuzz(func(t *testing.T, body []byte) {
		out := appendPrintable(nil, body)
		for line := range strings.SplitSeq(string(out), "\r\n") {
			if len(line) > printableLine || strings.HasSuffix(line, " ") || strings.HasSuffix(line, "\t") {
				t.Fatalf("line %q", line)
			}
		}
		if back := AppendQuotedPrintable(nil, out, -1); !bytes.Equal(back, body) {
			t.Fatalf("%q comes back as %q", body, back)
		}
	})
}

// TestWithoutNUL checks that the parts keep their content, and that messages that cannot be encoded without loss are
// rejected.
func TestWithoutNUL(t *testing.T) {
	t.Parallel()
	const binary = "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\r\n"
	for _, c := range []struct {
		name, raw string
		ok        bool
	}{
		{"a message", "Subject: ä\r\nMIME-Version: 1.0\r\n" + binary + "a\x00b\r\n\x00", true},
		{"no MIME at all", "Subject: a\r\n\r\na\x00b\r\n", true},
		{"a part", "Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: binary\r\n\r\nprä\r\n" +
			"--b\r\n\r\nä\r\n--b\r\n" + binary + "\x00\r\n\x01\r\n--b--\r\n", true},
		{"a message within",
			"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: binary\r\n\r\nSubject: in\r\n" + binary +
				"\x00", true},
		{"a header", "Subject: a\x00\r\n\r\nx", false},
		{"between parts", "Content-Type: multipart/mixed; boundary=b\r\n\r\n\x00\r\n--b\r\n\r\nx\r\n--b--\r\n", false},
		{"behind parts", "Content-Type: multipart/mixed; boundary=b\r\n\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n\x00", false},
		{"in base64", "Content-Transfer-Encoding: base64\r\n\r\nQU\x00JD", false},
		{"signed", "Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\n\x00\r\n--b\r\n\r\nsig\r\n--b--\r\n",
			false},
	} {
		raw := []byte(c.raw)
		out, ok := WithoutNUL(raw)
		if ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		}
		if !ok {
			continue
		}
		was, now := decodedLeaves(raw, Parse(raw, Limits{})), decodedLeaves(out, Parse(out, Limits{}))
		if hasNUL(out) || strings.Join(was, "|") != strings.Join(now, "|") {
			t.Errorf("%s:\n%q\n%q", c.name, raw, out)
		}
	}
	large := append([]byte("\r\n"), make([]byte, 1<<20)...)
	if out, ok := WithoutNUL(large); !ok || cap(out) > EncodedRoom(len(large))+8192 { // rounded up to whole pages
		t.Errorf("%v, %d bytes are taken, %d are counted", ok, cap(out), EncodedRoom(len(large)))
	}
}
