package verify

import (
	"strings"

	"doublet/wire/mime"
)

// header returns the Authentication-Results field. Values from the sender are included only if they are plain words.
//
// Implements: RFC 8601 §2 Definition and format of the header field
// Implements: RFC 6008 §4 header.b tells signatures apart
func (v *Verifier) header(c Client, out *Verdict) []byte {
	h := make(resultsField, 0, 512)
	h = append(append(h, "Authentication-Results: "...), v.opt.Hostname...)
	start := len(h)
	if v.opt.SPF != Off || v.opt.DMARC != Off {
		h.spf(out)
		h.method("iprev", out.IPRev)
		h.comment(out.RevName)
		h.property("policy.iprev", c.IP.String())
	}
	if v.opt.DMARC != Off {
		h.dkim(out.DKIM)
		if out.ARC.Sets > 0 {
			h.method("arc", out.ARC.Result)
			h.comment(out.ARC.words())
		}
		h.method("dmarc", out.DMARC.Result)
		switch {
		case out.DMARC.Published != "":
			h.comment("p=" + out.DMARC.Published + " applied=" + out.DMARC.Applied)
		default:
			h.comment(out.DMARC.Reason)
		}
		h.property("header.from", out.DMARC.Domain)
	}
	if len(h) == start {
		return nil
	}
	return append(h, "\r\n"...)
}

// resultsField is an Authentication-Results field while it is written.
type resultsField []byte

func (h *resultsField) method(name string, r Result) {
	*h = append(append(append(append(*h, ";\r\n\t"...), name...), '='), r...)
}

func (h *resultsField) property(name, value string) {
	if plainWord(value) {
		*h = append(append(append(append(*h, ' '), name...), '='), value...)
	}
}

func (h *resultsField) comment(text string) {
	if text != "" {
		*h = append(append(append(*h, " ("...), clean(text)...), ')')
	}
}

func (h *resultsField) spf(out *Verdict) {
	if !out.SPF.Helo {
		h.method("spf", out.SPF.Result)
		h.property("smtp.mailfrom", out.SPF.Domain)
	}
	if out.SPF.Helo || out.Helo.Result != None {
		h.method("spf", out.Helo.Result)
		h.property("smtp.helo", out.Helo.Domain)
	}
}

func (h *resultsField) dkim(list []DKIM) {
	if len(list) == 0 {
		h.method("dkim", None)
	}
	for i := range list {
		d := &list[i]
		h.method("dkim", d.Result)
		h.comment(d.Reason)
		h.property("header.d", d.Domain)
		h.property("header.s", d.Selector)
		h.property("header.a", d.Algorithm)
		if plainWord(d.Start) {
			// "/" and "=" are not allowed in a token: RFC 8601 section 2.2.
			*h = append(append(append(*h, ` header.b="`...), d.Start...), '"')
		}
	}
}

// Words returns the results in one line for the log.
func (out *Verdict) Words() string {
	dkim := None
	for i := range out.DKIM {
		if dkim = out.DKIM[i].Result; dkim == Pass {
			break
		}
	}
	words := ""
	for _, r := range [...]struct {
		name   string
		result Result
	}{{"spf=", out.SPF.Result}, {" dkim=", dkim}, {" dmarc=", out.DMARC.Result}} {
		if r.result != "" {
			words += r.name + string(r.result)
		}
	}
	return words
}

// plainWord reports whether a value may stand in the field without quotes.
func plainWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(".-_@:+/=", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// clean returns a text that is safe in a comment.
func clean(s string) string {
	b := []byte(printable(s, 120))
	for i, c := range b {
		if c == '(' || c == ')' || c == '\\' {
			b[i] = '_'
		}
	}
	return string(b)
}

// Forged reports whether a field of an incoming message must be removed. It is an Authentication-Results field that
// claims to be from this server, or whose authserv-id cannot be read. It is the drop function for fields.CutFields.
//
// Implements: RFC 8601 §5 Removing existing header fields
func (v *Verifier) Forged(f mime.HeaderField) bool {
	if !f.Is("Authentication-Results") {
		return false
	}
	id, ok := AuthservID(string(f.Value))
	return !ok || equalFold(strings.TrimSuffix(id, "."), strings.TrimSuffix(v.opt.Hostname, "."))
}

// token splits a token (RFC 2045 section 5.1) off s.
func token(s string) (word, rest string) {
	n := 0
	for n < len(s) && s[n] > ' ' && s[n] != 0x7f && strings.IndexByte(`()<>,;:\"/[]?=`, s[n]) < 0 {
		n++
	}
	return s[:n], s[n:]
}

// AuthservID returns the authserv-id of an Authentication-Results field. ok is false if the value is malformed.
//
// Implements: RFC 8601 §2.2 authserv-id
func AuthservID(value string) (id string, ok bool) {
	rest, ok := skipComments(value)
	if !ok || rest == "" {
		return "", false
	}
	if rest[0] == '"' {
		id, rest, ok = quoted(rest[1:])
		if !ok || id == "" {
			return "", false
		}
	} else {
		id, rest = token(rest)
	}
	rest, ok = skipComments(rest)
	if !ok || id == "" {
		return "", false
	}
	// An optional version follows, then a semicolon or the end of the field.
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	if rest, ok = skipComments(rest[digits:]); !ok || rest != "" && rest[0] != ';' {
		return "", false
	}
	return id, true
}

// quoted reads a quoted string whose first quote has been read.
func quoted(s string) (text, rest string, ok bool) {
	var b []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return string(b), s[i+1:], true
		case '\\':
			if i++; i < len(s) {
				b = append(b, s[i])
			}
		case '\r', '\n':
		default:
			b = append(b, c)
		}
	}
	return "", "", false
}

// skipComments skips blanks and nested comments.
func skipComments(s string) (rest string, ok bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == '\\' && depth > 0:
			i++
		case depth > 0, c == ' ', c == '\t', c == '\r', c == '\n':
		default:
			return s[i:], true
		}
	}
	return "", depth == 0
}
