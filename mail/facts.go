package mail

import (
	"slices"
	"strings"

	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// facts are what a message's header says to forwarding, vacation notices and mailing lists. It is
// read only where one of them is concerned.
type facts struct {
	author      mime.Address // the first of From
	to          []string     // addresses of To, Cc, Resent-To, Resent-Cc, lower case
	deliveredTo []string
	lists       []string // List-Id, lower case, without brackets
	subject     string   // as it stands
	id          string
	references  string
	// auto is the first word of Auto-Submitted, lower case, empty for "no"; precedence likewise.
	auto, precedence string
	list             bool // any List- field
}

// maxNamed bounds the addresses of a header that are looked at.
const maxNamed = 2000

func readFacts(header []byte) *facts {
	h := &facts{}
	for f := range mime.Fields(header[:mime.HeaderEnd(header)]) {
		switch {
		case f.Is("From"):
			if list := mime.ParseAddressList(f.Value); len(list) > 0 && h.author.Mailbox == "" {
				h.author = list[0]
			}
		case f.Is("To"), f.Is("Cc"), f.Is("Resent-To"), f.Is("Resent-Cc"):
			for _, a := range mime.ParseAddressList(f.Value) {
				if !a.Group && len(h.to) < maxNamed {
					h.to = append(h.to, strings.ToLower(smtp.Path{Local: a.Mailbox, Domain: a.Host}.String()))
				}
			}
		case f.Is("Delivered-To"):
			h.deliveredTo = append(h.deliveredTo, strings.ToLower(f.Text()))
		case f.Is("Subject"):
			h.subject = f.Text()
		case f.Is("Message-ID"):
			h.id = oneLine(f.Text())
		case f.Is("References"):
			h.references = oneLine(f.Text())
		case f.Is("Auto-Submitted"):
			if h.auto = firstWord(f.Text()); h.auto == "no" {
				h.auto = ""
			}
		case f.Is("Precedence"):
			h.precedence = firstWord(f.Text())
		case len(f.Name) > 5 && strings.EqualFold(string(f.Name[:5]), "List-"):
			h.list = true
			if f.Is("List-Id") {
				h.lists = append(h.lists, listID(f.Text()))
			}
		}
	}
	return h
}

func firstWord(s string) string {
	i := strings.IndexAny(s, " \t;(,")
	if i < 0 {
		i = len(s)
	}
	return strings.ToLower(s[:i])
}

// listID is the identifier of a List-Id field: what stands in its brackets (RFC 2919 section 3).
func listID(s string) string {
	if i := strings.LastIndexByte(s, '<'); i >= 0 {
		s = s[i+1:]
		if j := strings.IndexByte(s, '>'); j >= 0 {
			s = s[:j]
		}
	}
	return strings.ToLower(strings.TrimSpace(s))
}

// authorPath is the address of the author, null where there is none.
func (h *facts) authorPath() smtp.Path {
	return smtp.Path{Local: h.author.Mailbox, Domain: h.author.Host}
}

// names says whether the header names one of the addresses as recipient.
func (h *facts) names(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool { return slices.Contains(h.to, strings.ToLower(a)) })
}

// machine says that a sender's address is of a program that reads no answers.
func machine(p smtp.Path) bool {
	l := strings.ToLower(p.Local)
	for _, word := range []string{"mailer-daemon", "noreply", "no-reply", "donotreply", "do-not-reply", "listserv", "majordomo", "postmaster"} {
		if l == word {
			return true
		}
	}
	return p.IsNull() || strings.HasPrefix(l, "owner-") || strings.HasSuffix(l, "-request") || strings.HasSuffix(l, "-owner") ||
		strings.HasSuffix(l, "-bounces") || strings.HasPrefix(l, "bounce") || strings.HasPrefix(l, "srs0=") || strings.HasPrefix(l, "srs1=") ||
		strings.Contains(l, "noreply") || strings.Contains(l, "no-reply")
}
