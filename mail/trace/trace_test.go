package trace

import (
	"strings"
	"testing"
	"time"

	"doublet/mail/fields"
	"doublet/note"
)

// FuzzHop checks that a hop with any text is one line, which parses back to the same hop.
func FuzzHop(f *testing.F) {
	f.Add("<1@far.example>", "alice@example.com", "u@far.example", "mx[127.0.0.1]", "250 2.0.0 ok")
	f.Add("a\tb", "\r\n", "", "\x00", strings.Repeat("x", 2000))
	f.Fuzz(func(t *testing.T, id, from, to, host, reply string) {
		h := Hop{
			Time: time.UnixMilli(1767600000123).UTC(), Event: HopSent, ID: note.UNID{1, 2}, MessageID: id,
			From: from, To: to,
			Accepted: time.Unix(1767600000, 0).UTC(), Host: host, Reply: reply, Secure: "TLS, DANE",
		}
		line := h.String()
		if strings.ContainsAny(line, "\r\n\x00") {
			t.Fatalf("%q", line)
		}
		got, ok := parseHop(line)
		h.MessageID, h.From, h.To, h.Host, h.Reply = fields.OneLine(id), fields.OneLine(from), fields.OneLine(to),
			fields.OneLine(host), fields.OneLine(reply)
		if !ok || got != h {
			t.Fatalf("%+v became %+v", h, got)
		}
		parseHop(reply)
	})
}
