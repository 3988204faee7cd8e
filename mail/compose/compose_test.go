package compose

import (
	"strings"
	"testing"

	"doublet/env"
	"doublet/wire/mime"
)

func TestMessage(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	name, ok := Address("Jürgen, the \"Great\"", "j@example.com")
	if !ok {
		t.Fatal("no address")
	}
	long := strings.Repeat("🎲 Ä ", 2000)
	w := Writer{Env: fix.Env, MaxSize: 1 << 20, Fields: []Field{{Name: "From", Words: name},
		{Name: "To", Words: []string{"b@example.com"}}, {Name: "Subject", Words: EncodeText(long)}}}
	text := "Grüße\nFrom here on\n.\n"
	raw, err := w.Message(Body(&Part{Type: "text", Subtype: "plain", IsText: true, Text: text}, nil, nil, []*Part{{
		Type: "application", Subtype: "pdf", Disposition: "attachment", Name: "Übersicht.pdf", Size: 3,
		Content: func() ([]byte, error) { return []byte("pdf"), nil },
	}}))
	if err != nil {
		t.Fatal(err)
	}
	p := mime.Parse(raw, mime.DefaultLimits)
	if got := mime.DecodeWords(p.Envelope.Subject); got != long {
		t.Errorf("subject %.60q", got)
	}
	if a := p.Envelope.From[0]; a.Name != "Jürgen, the \"Great\"" &&
		mime.DecodeWords(a.Name) != "Jürgen, the \"Great\"" || a.Mailbox+"@"+a.Host != "j@example.com" {
		t.Errorf("from %+v", a)
	}
	if got, _ := mime.DecodeText(p.Children[0], raw, 1<<20); strings.ReplaceAll(got, "\r\n", "\n") != text {
		t.Errorf("text %q", got)
	}
	if got := p.Children[1].Filename(); got != "Übersicht.pdf" {
		t.Errorf("name %q", got)
	}
	if p.Envelope.MessageID == "" || p.Envelope.Date == "" {
		t.Errorf("%+v", p.Envelope)
	}
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		if len(line) > 998 {
			t.Errorf("a line of %d", len(line))
		}
	}
	w = Writer{Env: fix.Env, MaxSize: 2}
	if _, err := w.Message(Body(nil, nil, nil, []*Part{{Type: "a", Subtype: "b", Size: 3,
		Content: func() ([]byte, error) { return []byte("abc"), nil }}})); err == nil {
		t.Error("a file that is too large is taken")
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, email string
		ok          bool
	}{
		{"", "a@b", true}, {"X", "half", true}, {"", "", false}, {"", "a@b\r\nBcc: c@d", false},
		{"a\r\nBcc: x", "a@b", false}, {"", "a b@c", false}, {"", "a@b, c@d", false}, {"", "<a@b>", false},
	} {
		if _, ok := Address(c.name, c.email); ok != c.ok {
			t.Errorf("%q %q: %v", c.name, c.email, ok)
		}
	}
}

func TestRecipients(t *testing.T) {
	t.Parallel()
	got := Recipients([]byte("To: A <a@x>, b@x\r\nCc: team: c@x, A@X;\r\nBcc: d@x\r\nReply-To: e@x\r\n\r\nTo: f@x\r\n"))
	if strings.Join(got, " ") != "a@x b@x c@x d@x" {
		t.Errorf("%q", got)
	}
}
