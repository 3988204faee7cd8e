// Package fields reads and writes header fields: those on which mail processing depends, and those that it adds or
// removes.
package fields

import (
	"slices"
	"strings"

	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Facts holds the parts of a message's header that forwarding, vacation notices and mailing lists need. The header is
// parsed only for those.
type Facts struct {
	Author      mime.Address // the first address of From
	to          []string     // addresses of To, Cc, Resent-To, Resent-Cc, lower case
	DeliveredTo []string
	Lists       []string // List-Id, lower case, without brackets
	Subject     string   // undecoded
	ID          string
	References  string
	// auto is the first word of Auto-Submitted in lower case, empty for "no". precedence is that of Precedence.
	Auto, Precedence string
	List             bool // there is a List- field
}

// maxNamed is the maximum number of recipient addresses read from a header.
const maxNamed = 2000

// ReadFacts reads the facts of a header. A body after the header is ignored.
func ReadFacts(header []byte) *Facts {
	h := &Facts{}
	for f := range mime.Fields(header[:mime.HeaderEnd(header)]) {
		switch {
		case f.Is("From"):
			if list := mime.ParseAddressList(f.Value); len(list) > 0 && h.Author.Mailbox == "" {
				h.Author = list[0]
			}
		case f.Is("To"), f.Is("Cc"), f.Is("Resent-To"), f.Is("Resent-Cc"):
			h.addNamed(mime.ParseAddressList(f.Value))
		case f.Is("Delivered-To"):
			h.DeliveredTo = append(h.DeliveredTo, strings.ToLower(f.Text()))
		case f.Is("Subject"):
			h.Subject = f.Text()
		case f.Is("Message-ID"):
			h.ID = OneLine(f.Text())
		case f.Is("References"):
			h.References = OneLine(f.Text())
		case f.Is("Auto-Submitted"):
			h.Auto = automatic(f.Text())
		case f.Is("Precedence"):
			h.Precedence = FirstWord(f.Text())
		case len(f.Name) > 5 && strings.EqualFold(string(f.Name[:5]), "List-"):
			h.addList(f)
		}
	}
	return h
}

// addNamed adds recipients that the header names, at most maxNamed.
func (h *Facts) addNamed(list []mime.Address) {
	for _, a := range list {
		if !a.Group && len(h.to) < maxNamed {
			h.to = append(h.to, strings.ToLower(smtp.Path{Local: a.Mailbox, Domain: a.Host}.String()))
		}
	}
}

// automatic returns the first word of Auto-Submitted, or "" for a message that a person wrote.
func automatic(value string) string {
	if word := FirstWord(value); word != "no" {
		return word
	}
	return ""
}

func (h *Facts) addList(f mime.HeaderField) {
	h.List = true
	if f.Is("List-Id") {
		h.Lists = append(h.Lists, listID(f.Text()))
	}
}

// FirstWord returns the first word of a structured field in lower case, without parameters and comments.
func FirstWord(s string) string {
	i := strings.IndexAny(s, " \t;(,")
	if i < 0 {
		i = len(s)
	}
	return strings.ToLower(s[:i])
}

// listID returns the identifier of a List-Id field, the text in its angle brackets (RFC 2919 section 3).
func listID(s string) string {
	if i := strings.LastIndexByte(s, '<'); i >= 0 {
		s = s[i+1:]
		if j := strings.IndexByte(s, '>'); j >= 0 {
			s = s[:j]
		}
	}
	return strings.ToLower(strings.TrimSpace(s))
}

// AuthorPath returns the address of the author, or the null path if there is none.
func (h *Facts) AuthorPath() smtp.Path {
	return smtp.Path{Local: h.Author.Mailbox, Domain: h.Author.Host}
}

// Names reports whether the header names one of the addresses as a recipient.
func (h *Facts) Names(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool { return slices.Contains(h.to, strings.ToLower(a)) })
}

// Machine reports whether an address belongs to a program that reads no replies.
func Machine(p smtp.Path) bool {
	l := strings.ToLower(p.Local)
	for _, word := range []string{"mailer-daemon", "noreply", "no-reply", "donotreply", "do-not-reply", "listserv",
		"majordomo", "postmaster"} {
		if l == word {
			return true
		}
	}
	return p.IsNull() || strings.HasPrefix(l, "owner-") || strings.HasSuffix(l, "-request") ||
		strings.HasSuffix(l, "-owner") ||
		strings.HasSuffix(l, "-bounces") || strings.HasPrefix(l, "bounce") || strings.HasPrefix(l, "srs0=") ||
		strings.HasPrefix(l, "srs1=") ||
		strings.Contains(l, "noreply") || strings.Contains(l, "no-reply")
}
