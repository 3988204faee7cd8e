package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/journal"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// outgoing is a message that another one causes: a forwarded message, a mailing list's copy, or a notice. It gets its
// own entry in mail.box, in the update that accepts the first message.
type outgoing struct {
	composed *mailbox.Composed
	entry    queue.Entry
	// asks is set if the update decides whether the message is sent. The update then sets due.
	asks, due bool
	record    *journal.Sealed // nil if it is not journaled
}

// send adds a message to those that a batch causes. Its queue ID is derived from the batch's ID and from what, so that
// a repeated deposit has no effect. rows must not be empty.
func (s *followUps) send(ctx context.Context, b *batch, what string, raw []byte, returnPath int, from smtp.Path,
	rows []queue.Recipient) (*outgoing, error) {
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	o := &outgoing{composed: c, entry: queue.Entry{
		ID: note.DeriveUNID(b.entry.ID[:], []byte(what)), From: from, Created: b.date, ReturnPath: returnPath,
		Recipients: rows, TLS: readDemands(raw, b.entry.TLS).tls,
	}}
	b.out = append(b.out, o) // it is released with the batch
	if o.record, err = s.recorder.caused(ctx, b, &o.entry, c, raw); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return o, nil
}

// address returns the recipients to which an address resolves: local people, members of groups, and remote addresses.
// It returns none for an unknown address. It also returns none for a mailing list, because an automatic message would
// bypass its moderators.
func (s *followUps) address(ctx context.Context, address string, notify smtp.Notify) ([]queue.Recipient, error) {
	t, err := s.dir.Names.Resolve(ctx, address)
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		return []queue.Recipient{{Address: address, Notify: notify, State: queue.Waiting}}, nil
	case errors.Is(err, directory.ErrNoSuchRecipient):
		if to, ok := s.srs.ReverseSRS(address); ok {
			return []queue.Recipient{{Address: to.String(), Notify: notify, State: queue.Waiting}}, nil
		}
		return nil, nil
	case errors.Is(err, directory.ErrInvalid):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("resolve %.80q: %w", address, err)
	case t.ListPart != "", t.Kind == directory.TargetGroup && t.Own:
		return nil, nil
	}
	x, err := s.dir.Names.Expand(ctx, []directory.Target{t})
	if err != nil {
		return nil, fmt.Errorf("expand %s: %w", t.Name, err)
	}
	return rowsOf(&x, address, notify), nil
}

// rowsOf returns the recipients of an expansion. Local people get the address address.
func rowsOf(x *directory.Expansion, address string, notify smtp.Notify) []queue.Recipient {
	rows := make([]queue.Recipient, 0, len(x.Recipients)+len(x.Outside))
	for i := range x.Recipients {
		r := &x.Recipients[i]
		rows = append(rows, queue.Recipient{Address: address, Name: r.Name, Notify: notify, Target: r.ID, Kind: r.Kind,
			State: queue.Pending})
	}
	for _, a := range x.Outside {
		rows = append(rows, queue.Recipient{Address: a, Notify: notify, State: queue.Waiting})
	}
	return rows
}

// notice holds the header and the text of a message from the server itself.
type notice struct {
	from, fromName, to string
	subject            string
	id                 note.UNID
	inReplyTo, refs    string
	auto               string // Auto-Submitted: auto-replied, auto-generated
	text               string
	entity             bool // text is a MIME entity with its own header fields
	more               [][2]string
}

// compose returns a notice with the null return path. Non-ASCII text is sent as 8bit UTF-8.
func (s *followUps) compose(n *notice) []byte {
	var b strings.Builder
	line := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
		b.WriteString("\r\n")
	}
	b.WriteString(nullReturnPath)
	if n.fromName != "" {
		line("From: ", fields.DisplayName(n.fromName), " <", n.from, ">")
	} else {
		line("From: <", n.from, ">")
	}
	line("To: <", n.to, ">")
	line("Subject: ", fields.Encode(n.subject))
	line("Date: ", s.env.Clock.Now().UTC().Format(fields.DateFormat))
	line("Message-ID: <", n.id.String(), "@", s.hostname, ">")
	if n.inReplyTo != "" {
		line("In-Reply-To: ", n.inReplyTo)
		refs := n.inReplyTo
		if n.refs != "" {
			refs = n.refs + "\r\n " + n.inReplyTo
		}
		line("References: ", refs)
	}
	line("Auto-Submitted: ", n.auto)
	for _, f := range n.more {
		line(f[0], ": ", fields.Encode(f[1]))
	}
	line("MIME-Version: 1.0")
	if n.entity {
		b.Write(mime.AppendCRLF(nil, []byte(n.text)))
		return []byte(b.String())
	}
	line("Content-Type: text/plain; charset=utf-8")
	if !fields.Ascii([]byte(n.text)) {
		line("Content-Transfer-Encoding: 8bit")
	}
	line()
	for l := range strings.SplitSeq(strings.TrimRight(n.text, "\r\n"), "\n") {
		writeBounded(line, strings.ReplaceAll(strings.TrimRight(l, "\r"), "\r", " "))
	}
	return []byte(b.String())
}

// maxLine is the maximum line length in bytes without the line end (RFC 5322 section 2.1.1).
const maxLine = 998

// writeBounded writes a line of text. It splits overlong lines between characters.
func writeBounded(line writeLine, l string) {
	for len(l) > maxLine {
		n := maxLine
		for n > 0 && l[n]&0xC0 == 0x80 {
			n--
		}
		if n == 0 {
			n = maxLine
		}
		line(l[:n])
		l = l[n:]
	}
	line(l)
}

const nullReturnPath = "Return-Path: <>\r\n"

// writeLine writes a line from parts, and its end.
type writeLine func(parts ...string)

var nullPath smtp.Path

// followUps creates the messages that other messages cause.
type followUps struct {
	env      *env.Env
	dir      *directory.Directory
	mailbox  *mailbox.Service
	srs      *SRS
	recorder *recorder
	hostname string
}
