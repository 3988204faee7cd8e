// Package content generates the messages of simulated people: text that compresses like text, attachments that do not
// compress, and the same bytes for the same seed. A message consists of pieces of two pools that are generated once, so
// that the driver spends its time on driving.
package content

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Message describes a message to generate.
type Message struct {
	From    string
	To      []string
	Subject string
	Date    time.Time
	// ID is the left part of the Message-ID; InReplyTo is the left part of the answered message's, "" for none.
	ID, InReplyTo string
	// Body and Attachment are sizes in bytes: of the text, and of the attached file before its encoding.
	Body, Attachment int64
	// Seed selects the pieces of the pools.
	Seed uint64
	// Calendar is an iMIP part, nil for none.
	Calendar *Calendar
}

// Calendar is an invitation or a reply to one (RFC 6047).
type Calendar struct {
	// Method is REQUEST or REPLY.
	Method string
	// UID identifies the meeting; Organizer and Attendees are addresses.
	UID, Organizer string
	Attendees      []string
	Begin          time.Time
}

// Domain is the right part of Message-IDs.
const Domain = "bench.example"

// line is the length of a line of the pools without CRLF.
const line = 76

// poolLines is the size of each pool in lines: 4 MB, so that pieces seldom repeat.
const poolLines = 54_000

// words are frequent words of English mail, the most frequent first.
var words = []string{
	"the", "to", "and", "of", "a", "in", "is", "that", "for", "it", "you", "we", "on", "with", "this", "be", "are",
	"as", "will", "have",
	"your", "not", "at", "from", "can", "or", "please", "meeting", "if", "our", "has", "but", "all", "by", "was",
	"would", "they", "an",
	"which", "there", "been", "about", "time", "any", "should", "report", "I", "more", "what", "these", "when", "need",
	"new", "one",
	"project", "do", "also", "work", "next", "week", "team", "server", "know", "up", "see", "were", "so", "only",
	"some", "like", "them",
	"could", "other", "into", "well", "just", "than", "its", "who", "office", "system", "use", "now", "information",
	"plan", "mail",
	"after", "first", "change", "call", "send", "attached", "regards", "question", "customer", "number", "schedule",
	"agreement",
	"December", "Monday", "quarter", "budget", "copy", "draft", "version", "network", "performance", "benchmark",
	"replication",
}

// pools holds text, noise as attached files contain it (raw), and the same noise in base64 as messages contain it.
type pools struct{ text, raw, noise []byte }

var pool = sync.OnceValue(func() pools {
	r := rand.New(rand.NewPCG(0xd0b1e7, 1))
	var p pools
	for len(p.text) < poolLines*(line+2) {
		start := len(p.text)
		for len(p.text)-start < line-12 {
			// The product of two draws prefers the front of the list, about as language does.
			p.text = append(append(p.text, words[r.IntN(r.IntN(len(words))+1)]...), ' ')
		}
		for len(p.text)-start < line-1 {
			p.text = append(p.text, byte('a'+r.IntN(26)))
		}
		p.text = append(p.text, '.', '\r', '\n')
	}
	raw := make([]byte, line/4*3)
	for range poolLines {
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		p.raw = append(p.raw, raw...)
		p.noise = append(base64.StdEncoding.AppendEncode(p.noise, raw), '\r', '\n')
	}
	return p
})

// appendPiece appends n bytes of whole lines of a pool. The seed selects the first line; after the last line of the
// pool the first one follows. The last line is cut and ends in CRLF.
func appendPiece(dst, from []byte, n int64, seed uint64) []byte {
	at := int(seed%poolLines) * (line + 2)
	for n > 2 {
		k := min(n-2, int64(len(from)-at))
		dst = append(dst, from[at:at+int(k)]...)
		n -= k
		at = (at + int(k)) % len(from)
	}
	return append(dst, '\r', '\n')
}

// AppendText appends n bytes of text: the text of a message with that seed.
func AppendText(dst []byte, n int64, seed uint64) []byte {
	return appendPiece(dst, pool().text, n, seed)
}

// AppendFile appends n bytes that do not compress: the attached file, before its encoding, of a message with that seed.
func AppendFile(dst []byte, n int64, seed uint64) []byte {
	raw := pool().raw
	at := int64((seed>>16)%poolLines) * (line / 4 * 3)
	for n > 0 {
		k := min(n, int64(len(raw))-at)
		dst = append(dst, raw[at:at+k]...)
		n, at = n-k, (at+k)%int64(len(raw))
	}
	return dst
}

// FileName returns the name of the attached file.
func FileName(seed uint64) string { return "attachment-" + strconv.FormatUint(seed%1000, 10) + ".bin" }

const boundary = "=_doublet_bench_0001"

// Append appends the message as CRLF lines.
func (m *Message) Append(dst []byte) []byte {
	field := func(name, value string) {
		dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
	}
	field("From", m.From)
	dst = append(dst, "To: "...)
	for i, to := range m.To {
		if i > 0 {
			dst = append(dst, ",\r\n "...)
		}
		dst = append(dst, to...)
	}
	dst = append(dst, "\r\n"...)
	field("Subject", m.Subject)
	field("Date", m.Date.UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000"))
	field("Message-ID", "<"+m.ID+"@"+Domain+">")
	if m.InReplyTo != "" {
		field("In-Reply-To", "<"+m.InReplyTo+"@"+Domain+">")
	}
	field("MIME-Version", "1.0")
	if m.Attachment == 0 && m.Calendar == nil {
		field("Content-Type", "text/plain; charset=utf-8")
		return appendPiece(append(dst, "\r\n"...), pool().text, m.Body, m.Seed)
	}
	dst = append(dst, "Content-Type: multipart/mixed; boundary=\""+boundary+"\"\r\n\r\n--"+boundary+
		"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"...)
	dst = appendPiece(dst, pool().text, m.Body, m.Seed)
	if m.Calendar != nil {
		dst = m.Calendar.append(append(dst, "\r\n--"+boundary+"\r\n"...))
	}
	if m.Attachment > 0 {
		dst = append(dst, "\r\n--"+boundary+"\r\nContent-Type: application/octet-stream; name=\""...)
		dst = append(append(dst, FileName(m.Seed)...),
			"\"\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment\r\n\r\n"...)
		// Whole lines and whole groups: the encoding is canonical, as mail programs write it.
		lines := (m.Attachment + line/4*3 - 1) / (line / 4 * 3)
		dst = appendPiece(dst, pool().noise, lines*(line+2), m.Seed>>16)
	}
	return append(dst, "\r\n--"+boundary+"--\r\n"...)
}

func (c *Calendar) append(dst []byte) []byte {
	put := func(parts ...string) {
		for _, p := range parts {
			dst = append(dst, p...)
		}
		dst = append(dst, '\r', '\n')
	}
	stamp := func(t time.Time) string { return t.UTC().Format("20060102T150405Z") }
	put("Content-Type: text/calendar; charset=utf-8; method=", c.Method)
	put()
	put("BEGIN:VCALENDAR")
	put("VERSION:2.0")
	put("PRODID:-//Doublet//bench//EN")
	put("METHOD:", c.Method)
	put("BEGIN:VEVENT")
	put("UID:", c.UID)
	put("DTSTAMP:", stamp(c.Begin))
	put("DTSTART:", stamp(c.Begin))
	put("DTEND:", stamp(c.Begin.Add(time.Hour)))
	put("ORGANIZER:mailto:", c.Organizer)
	status := "NEEDS-ACTION"
	if c.Method == "REPLY" {
		status = "ACCEPTED"
	}
	for _, a := range c.Attendees {
		put("ATTENDEE;PARTSTAT=", status, ":mailto:", a)
	}
	put("SUMMARY:", "Meeting ", c.UID)
	put("END:VEVENT")
	put("END:VCALENDAR")
	return dst
}
