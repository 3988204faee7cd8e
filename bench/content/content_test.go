package content

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"doublet/wire/mime"
)

func message(body, attachment int64, seed uint64) *Message {
	return &Message{From: "mail1@example.com", To: []string{"mail2@example.com", "mail3@example.com"},
		Subject: "Hello", ID: "x1",
		Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Body: body, Attachment: attachment, Seed: seed}
}

func compressed(b []byte) float64 {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return float64(out.Len()) / float64(len(b))
}

func TestSizesAndSeed(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{2, 500, 10_000, 150_000, 10_000_000} {
		m := message(n, 0, 12345)
		raw := m.Append(nil)
		if body := len(raw) - bytes.Index(raw, []byte("\r\n\r\n")) - 4; int64(body) != n {
			t.Errorf("a body of %d has %d bytes", n, body)
		}
		if !bytes.Equal(raw, message(n, 0, 12345).Append(nil)) {
			t.Error("the same seed gave other bytes")
		}
		if n >= 500 && bytes.Equal(raw, message(n, 0, 12346).Append(nil)) {
			t.Error("another seed gave the same bytes")
		}
		for l := range strings.Lines(string(raw)) {
			if !strings.HasSuffix(l, "\r\n") || len(l) > 200 {
				t.Fatalf("a line of %d bytes: %q", len(l), l[:min(len(l), 100)])
			}
		}
	}
}

func TestTextCompressesAndAttachmentsDoNot(t *testing.T) {
	t.Parallel()
	if c := compressed(message(100_000, 0, 7).Append(nil)); c < 0.2 || c > 0.5 {
		t.Errorf("text shrinks to %.2f", c)
	}
	// base64 alone compresses to three quarters.
	if c := compressed(message(100, 200_000, 7).Append(nil)); c < 0.72 {
		t.Errorf("an attachment shrinks to %.2f", c)
	}
}

// TestNothingRepeats checks that messages have no line of text or of an attachment in common, so that a server that
// keeps equal content once stores all of it.
func TestNothingRepeats(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	lines, again := 0, 0
	for i := range 400 {
		raw := message(20_000, 20_000, uint64(i)*0x9e3779b97f4a7c15).Append(nil)
		for l := range bytes.Lines(raw[bytes.Index(raw, []byte("\r\n\r\n")):]) {
			if len(l) < 60 || bytes.HasPrefix(l, []byte("Content-")) {
				continue
			}
			lines++
			if seen[string(l)]++; seen[string(l)] > 1 {
				again++
			}
		}
	}
	if lines < 200_000 || again > 0 {
		t.Errorf("%d of %d lines were there before", again, lines)
	}
}

func TestMessagesAreWhole(t *testing.T) {
	t.Parallel()
	m := message(1000, 50_000, 99)
	m.Calendar = &Calendar{Method: "REQUEST", UID: "u1", Organizer: "mail1@example.com",
		Attendees: []string{"mail2@example.com"}, Begin: m.Date}
	raw := m.Append(nil)
	p := mime.Parse(raw, mime.DefaultLimits)
	if len(p.Children) != 3 {
		t.Fatalf("%d parts", len(p.Children))
	}
	file := p.Children[2]
	data := mime.AppendBase64(nil, file.Body(raw), -1)
	if len(data) < 50_000 || len(data) > 50_100 {
		t.Errorf("an attachment of 50,000 bytes has %d", len(data))
	}
	want := []string{"METHOD:REQUEST\r\n", "UID:u1\r\n",
		"ATTENDEE;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:mail2@example.com\r\n"}
	for _, w := range want {
		if !strings.Contains(string(p.Children[1].Body(raw)), w) {
			t.Errorf("%q is missing in the invitation", w)
		}
	}
}

func BenchmarkAppend100K(b *testing.B) {
	m := message(50_000, 50_000, 1)
	var buf []byte
	for b.Loop() {
		m.Seed += 77
		buf = m.Append(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

// TestPieces checks that text and file of a message equal those that a program writes itself, and that the file does
// not compress.
func TestPieces(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 1 << 20, 0xffff_ffff_ffff_ffff} {
		m := Message{Body: 5000, Attachment: 57 * 60_000, Seed: seed}
		whole := m.Append(nil)
		if text := AppendText(nil, m.Body, seed); len(text) != 5000 || !bytes.Contains(whole, text) {
			t.Errorf("seed %d: %d bytes of other text", seed, len(text))
		}
		file := AppendFile(nil, m.Attachment, seed)
		lines := make([]byte, 0, len(whole))
		for i := 0; i < len(file); i += 57 {
			lines = append(base64.StdEncoding.AppendEncode(lines, file[i:i+57]), '\r', '\n')
		}
		if len(file) != 57*60_000 || !bytes.Contains(whole, lines[:len(lines)-2]) ||
			!bytes.Contains(whole, []byte(FileName(seed))) {
			t.Errorf("seed %d: another file of %d bytes", seed, len(file))
		}
	}
}
