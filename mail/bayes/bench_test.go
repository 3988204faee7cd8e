package bayes

import (
	"fmt"
	"strings"
	"testing"

	"doublet/wire/mime"
)

// ordinary returns a message of about 4 KB with a plain and an HTML part.
func ordinary() []byte {
	var b strings.Builder
	for i := range 28 {
		fmt.Fprintf(&b, "The turbine number%d arrives on day%d, please confirm the delivery date.\r\n", i, i*7)
	}
	text := b.String()
	return []byte("From: Ada <ada@mail.far.example>\r\nSubject: delivery of the turbines\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\r\n" + text + "\r\n--b\r\n" +
		"Content-Type: text/html\r\n\r\n<html><body><p>" + strings.ReplaceAll(text, "\r\n", "</p>\r\n<p>") +
		"<a href=\"https://www.far.example/a?b\">here</a></body></html>\r\n--b--\r\n")
}

// BenchmarkMessage measures the classification of a message of 4 KB that was parsed before.
func BenchmarkMessage(b *testing.B) {
	raw := ordinary()
	root := mime.Parse(raw, mime.Limits{})
	m := NewModel(16)
	for i := range 50 {
		t := Read(raw, root)
		m.Learn(t[:len(t)/2], Good)
		m.Learn(t[len(t)/3+i:], Junk)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		m.Score(Read(raw, root))
	}
}
