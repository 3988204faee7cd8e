package reports

import (
	"net/url"
	"strings"
	"time"

	"doublet/mail/compose"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// message is a message with a report: a text and a file. All its texts are ASCII.
type message struct {
	from, to           smtp.Path
	date               time.Time
	host, id, subject  string
	fields             []string
	kind, text         string
	fileKind, fileName string
	file               []byte
}

func (m *message) bytes() []byte {
	boundary := "=_" + note.DeriveUNID([]byte("report"), []byte(m.id), []byte(m.to.String())).String()
	var b strings.Builder
	line := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
		b.WriteString("\r\n")
	}
	line("From: <", m.from.String(), ">")
	line("To: <", m.to.String(), ">")
	line("Subject: ", strings.ReplaceAll(m.subject, " Submitter: ", "\r\n Submitter: "))
	line("Date: ", m.date.UTC().Format(compose.DateLayout))
	line("Message-ID: <", note.DeriveUNID([]byte("report"), []byte(m.id)).String(), "@", m.host, ">")
	for _, f := range m.fields {
		line(f)
	}
	line("Auto-Submitted: auto-generated")
	line("MIME-Version: 1.0")
	line("Content-Type: ", m.kind, ";\r\n boundary=\"", boundary, "\"")
	line()
	line("--", boundary)
	line("Content-Type: text/plain; charset=us-ascii")
	line()
	b.WriteString(m.text)
	line()
	line("--", boundary)
	line("Content-Type: ", m.fileKind)
	line("Content-Transfer-Encoding: base64")
	line("Content-Disposition: attachment;\r\n filename=\"", m.fileName, "\"")
	line()
	raw := mime.AppendBase64Lines(nil, m.file, 76, true)
	b.Write(raw)
	line("--", boundary, "--")
	return []byte(b.String())
}

// unescape decodes the percent encoding of a URI. It returns an invalid encoding unchanged.
func unescape(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}
