// Package content generates the messages of simulated people: text that compresses like text, attachments that do not
// compress, and the same bytes for the same seed. No two seeds have a text or an attachment in common, so that a server
// which keeps equal content once saves no more than it would with people's mail.
package content

import (
	"strconv"
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

// Calendar is an invitation, a reply to one (RFC 6047), or an event of one's own.
type Calendar struct {
	// Method is REQUEST, REPLY or PUBLISH (RFC 5546 section 3.2).
	Method string
	// UID identifies the meeting; Organizer and Attendees are addresses. An event of one's own has neither.
	UID, Organizer string
	Attendees      []string
	// Begin is not in a reply.
	Begin time.Time
}

// Domain is the right part of Message-IDs.
const Domain = "bench.example"

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
		return AppendText(append(dst, "\r\n"...), m.Body, m.Seed)
	}
	dst = append(dst, "Content-Type: multipart/mixed; boundary=\""+boundary+"\"\r\n\r\n--"+boundary+
		"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"...)
	dst = AppendText(dst, m.Body, m.Seed)
	if m.Calendar != nil {
		dst = m.Calendar.append(m.Date, append(dst, "\r\n--"+boundary+"\r\n"...))
	}
	if m.Attachment > 0 {
		dst = append(dst, "\r\n--"+boundary+"\r\nContent-Type: application/octet-stream; name=\""...)
		dst = append(append(dst, FileName(m.Seed)...),
			"\"\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment\r\n\r\n"...)
		dst = appendEncoded(dst, m.Attachment, m.Seed)
	}
	return append(dst, "\r\n--"+boundary+"--\r\n"...)
}

func (c *Calendar) append(now time.Time, dst []byte) []byte {
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
	put("SEQUENCE:0")
	put("DTSTAMP:", stamp(now))
	if !c.Begin.IsZero() {
		put("DTSTART:", stamp(c.Begin))
		put("DTEND:", stamp(c.Begin.Add(time.Hour)))
	}
	if c.Organizer != "" {
		put("ORGANIZER:mailto:", c.Organizer)
	}
	status := "NEEDS-ACTION;RSVP=TRUE"
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
