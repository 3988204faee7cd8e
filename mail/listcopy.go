package mail

import (
	"cmp"
	"context"
	"strings"

	"doublet/directory"
	"doublet/mail/fields"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// listCopy is a message in the form for a list's members. Fields that differ between members go before head and tail.
type listCopy struct {
	s     *Lists
	group *directory.Group
	head  []byte // the list's own fields, such as List-Id
	tail  []byte // the message's header without replaced fields, and the body
	// rewritten is set if From has the list's address.
	rewritten bool
}

// rewrites reports whether a list replaces the author in From. strict is set if only servers of the author's domain may
// send for it.
func (s *Lists) rewrites(ctx context.Context, g *directory.Group, domain string, strict bool) bool {
	switch g.List.Rewrite {
	case "always":
		return true
	case "never":
		return false
	}
	local, _ := s.dir.Domains.IsLocal(ctx, domain) // an unknown domain counts as foreign
	return !local && strict                        // this server signs mail from local domains
}

// newListCopy prepares a list's copies. rest is the message from its Received field on.
//
// Implements: RFC 2369 §3 List-Help, List-Unsubscribe, List-Post, List-Owner
// Implements: RFC 2919 §3 List-Id
func (s *Lists) newListCopy(ctx context.Context, g *directory.Group, rest []byte, policy string,
	strange bool) *listCopy {
	end := mime.HeaderEnd(rest)
	header := rest[:end]
	h := fields.ReadFacts(header)
	rewrite := s.rewrites(ctx, g, h.Author.Host, strange || policy == "reject" || policy == "quarantine")
	c := &listCopy{s: s, group: g, rewritten: rewrite}
	line := func(parts ...string) {
		for _, p := range parts {
			c.head = append(c.head, p...)
		}
		c.head = append(c.head, "\r\n"...)
	}
	if rewrite {
		name := cmp.Or(mime.DecodeWords(h.Author.Name), h.Author.Mailbox)
		line("From: ", fields.DisplayName(name+" via "+g.Name), " <", g.InternetAddress, ">")
	}
	_, own := mime.Get(header, "Reply-To")
	if g.List.ReplyTo == "list" {
		line("Reply-To: <", g.InternetAddress, ">")
	} else if author := h.AuthorPath(); rewrite && !own && !author.IsNull() {
		line("Reply-To: <", author.String(), ">")
	}
	tag := "[" + g.List.Tag + "]"
	tagged := g.List.Tag != "" && !strings.Contains(mime.DecodeWords(h.Subject), tag)
	if tagged {
		line("Subject: ", tag, "\r\n ", foldable(h.Subject))
	}
	line("List-Id: ", fields.DisplayName(g.Name), " <", listIdentifier(g), ">")
	post := "<mailto:" + g.InternetAddress + ">"
	if g.List.Post == directory.PostModerators {
		post = "NO"
	}
	line("List-Post: ", post)
	line("List-Help: <mailto:", part(g, "help").String(), ">")
	line("List-Owner: <mailto:", part(g, "owner").String(), ">")
	line("Precedence: list")
	c.tail = make([]byte, 0, len(rest))
	for f := range mime.Fields(header) {
		if !replaced(f, rewrite, g.List.ReplyTo == "list", tagged) {
			c.tail = append(c.tail, header[f.Start:f.End]...)
		}
	}
	c.tail = append(append(c.tail, "\r\n"...), rest[end:]...)
	return c
}

// replaced reports whether a field of the message is left out of the list's copies: it requests an action from each
// reader, or the list sets its own.
func replaced(f mime.HeaderField, from, replyTo, subject bool) bool {
	switch {
	case f.Is("From"):
		return from
	case f.Is("Reply-To"):
		return replyTo
	case f.Is("Subject"):
		return subject
	case f.Is("Return-Path"), f.Is("Precedence"), f.Is("Errors-To"), f.Is("Disposition-Notification-To"),
		f.Is("Return-Receipt-To"), f.Is("Delivered-To"), f.Is("Bcc"), f.Is("Resent-Bcc"):
		return true
	}
	return len(f.Name) > 5 && strings.EqualFold(string(f.Name[:5]), "List-")
}

// foldable returns a one-line text, encoded and folded if it is too long.
func foldable(s string) string {
	if len(s) <= 900 {
		return fields.OneLine(s)
	}
	return fields.Encode(mime.DecodeWords(s))
}

// bytes returns a copy, and the length of its Return-Path field. link is the member's unsubscribe link.
//
// Implements: RFC 8058 §3 One-click unsubscribe
func (c *listCopy) bytes(from smtp.Path, link string) ([]byte, int) {
	b := make([]byte, 0, len(c.head)+len(c.tail)+600)
	b = append(from.Append(append(b, "Return-Path: <"...)), ">\r\n"...)
	n := len(b)
	b = append(b, "List-Unsubscribe: "...)
	if link != "" {
		b = append(append(append(b, '<'), link...), ">,\r\n "...)
	}
	b = append(append(append(b, "<mailto:"...), part(c.group, "unsubscribe").String()...), ">\r\n"...)
	if link != "" {
		b = append(b, "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"...)
	}
	return append(append(b, c.head...), c.tail...), n
}
