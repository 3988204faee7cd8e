package mime

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// plainMessage returns a mailing-list message of about 5 KB with a typical header.
func plainMessage() []byte {
	var b bytes.Buffer
	for i := range 5 {
		fmt.Fprintf(&b, "Received: from mx%d.example.com (mx%d.example.com [192.0.2.%d])\r\n"+
			"\tby relay.example.net with ESMTPS id 4F2A1B%d\r\n"+
			"\tfor <bob@example.net>; Tue, 3 Mar 2026 10:11:1%d +0100\r\n", i, i, i, i, i)
	}
	b.WriteString("DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=s1;\r\n" +
		"\th=from:to:subject:date; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;\r\n\tb=" +
		strings.Repeat("A", 160) + "\r\n")
	b.WriteString("Date: Tue, 3 Mar 2026 10:11:12 +0100\r\nFrom: \"Ann Example\" <ann@example.com>\r\n" +
		"To: Bob Example <bob@example.net>, carol@example.org\r\nCc: \"List, the\" <list@example.com>\r\n" +
		"Subject: Re: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?= from the meeting\r\n" +
		"Message-ID: <20260303101112.1234@example.com>\r\nIn-Reply-To: <abc@example.net>\r\n" +
		"References: <first@example.net>\r\n <abc@example.net>\r\n" +
		"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=\"utf-8\"\r\nContent-Transfer-Encoding: 8bit\r\n" +
		"X-Mailer: none\r\n\r\n")
	for b.Len() < 5000 {
		b.WriteString("The quick brown fox - always the same one - jumps over the lazy dog.\r\n")
	}
	return b.Bytes()
}

// attachmentMessage returns a multipart with text, HTML and a base64 attachment of size bytes.
func attachmentMessage(size int) []byte {
	b := bytes.NewBuffer(nil)
	b.WriteString("Date: Tue, 3 Mar 2026 10:11:12 +0100\r\nFrom: Ann <ann@example.com>\r\nTo: bob@example.net\r\n" +
		"Subject: report\r\nMessage-ID: <1@example.com>\r\n" +
		"Content-Type: multipart/mixed; boundary=\"=_outer\"\r\n\r\npreamble\r\n--=_outer\r\n" +
		"Content-Type: multipart/alternative; boundary=inner\r\n\r\n" +
		"--inner\r\nContent-Type: text/plain\r\n\r\nSee the report.\r\n--inner\r\n" +
		"Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
		"<p>See the <b>report</b>.</p>\r\n--inner--\r\n\r\n" +
		"--=_outer\r\nContent-Type: application/pdf; name=\"report.pdf\"\r\n" +
		"Content-Disposition: attachment; filename=\"report.pdf\"\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, size/78*57)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	b.Write(AppendBase64Lines(nil, data, 76, false))
	b.WriteString("\r\n--=_outer--\r\n")
	return b.Bytes()
}

func benchmarkParse(b *testing.B, raw []byte) {
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if Parse(raw, DefaultLimits).Envelope.Has == 0 {
			b.Fatal("no envelope")
		}
	}
}

func BenchmarkParse5K(b *testing.B)   { benchmarkParse(b, plainMessage()) }
func BenchmarkParse100K(b *testing.B) { benchmarkParse(b, attachmentMessage(100_000)) }

func BenchmarkParseDashes(b *testing.B) {
	raw := []byte("Content-Type: multipart/mixed; boundary=x\r\nSubject: x\r\n\r\n--x\r\n\r\n" +
		strings.Repeat("- -", 300_000))
	benchmarkParse(b, raw)
}

func BenchmarkParseNested(b *testing.B) { benchmarkParse(b, nestedMessage(100, 1_000_000)) }

// nestedMessage returns multiparts nested depth deep whose boundaries share a long prefix, and a body of lines that
// almost match them.
func nestedMessage(depth, size int) []byte {
	var b bytes.Buffer
	stem := strings.Repeat("b", 60)
	b.WriteString("Subject: nested\r\n")
	for i := range depth {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%s%03d\r\n\r\n--%s%03d\r\n", stem, i, stem, i)
	}
	b.WriteString("\r\n")
	for b.Len() < size {
		b.WriteString("--" + stem + "xyz\r\n")
	}
	return b.Bytes()
}

func BenchmarkIndex(b *testing.B) {
	raw := attachmentMessage(100_000)
	root := Parse(raw, DefaultLimits)
	var x []byte
	b.ReportAllocs()
	for b.Loop() {
		x = AppendIndex(x[:0], root)
	}
	b.ReportMetric(float64(len(x)), "bytes")
}

func BenchmarkPreview(b *testing.B) {
	raw := plainMessage()
	root := Parse(raw, DefaultLimits)
	b.ReportAllocs()
	for b.Loop() {
		Preview(raw, root)
	}
}

func BenchmarkSplitLeaves(b *testing.B) {
	raw := attachmentMessage(100_000)
	root := Parse(raw, DefaultLimits)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if len(SplitLeaves(raw, root, 32<<10)) != 1 {
			b.Fatal("no leaf")
		}
	}
}

func BenchmarkAppendCanonical(b *testing.B) {
	body := AppendBase64Lines(nil, make([]byte, 1<<20), 76, true)
	out := make([]byte, 0, len(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := AppendCanonical(out, body, 76); !ok {
			b.Fatal("not canonical")
		}
	}
}

func BenchmarkContainsFold(b *testing.B) {
	hay := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 2000)
	n := NewNeedle("Lazy Cat")
	b.SetBytes(int64(len(hay)))
	for b.Loop() {
		if n.In(hay) {
			b.Fatal("found")
		}
	}
}

func BenchmarkAppendBase64Lines(b *testing.B) {
	data := bytes.Repeat([]byte("some bytes of a picture "), 3000)
	out := AppendBase64Lines(nil, data, 76, true)
	b.SetBytes(int64(len(out)))
	for range b.N {
		out = AppendBase64Lines(out[:0], data, 76, true)
	}
}
