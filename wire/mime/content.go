package mime

import (
	"bytes"
	"strings"
)

// contentSeen tells which fields of a header were there already: the first one counts.
type contentSeen uint16

const (
	seenType contentSeen = 1 << iota
	seenEncoding
	seenDisposition
	seenFrom
	seenSender
	seenReplyTo
	seenReferences
)

// maxReferences bounds the list of a References field, maxLanguages that of a Content-Language.
const (
	maxReferences = 1000
	maxLanguages  = 32
)

var usASCII = []Param{{Name: "charset", Value: "us-ascii"}}

// defaultType is what RFC 2045 section 5.2 and RFC 2046 section 5.1.5 say of a part without a (legible)
// Content-Type.
func (p *Part) defaultType(digest bool) {
	if digest {
		p.Type, p.Subtype = "message", "rfc822"
		return
	}
	p.Type, p.Subtype = "text", "plain"
	p.Params = usASCII[:1:1]
}

// field takes over one field and returns its mark.
func (p *Part) field(f HeaderField, seen contentSeen) contentSeen {
	if len(f.Name) > 8 && lowerByte(f.Name[0]) == 'c' && f.Name[7] == '-' && equalFold(f.Name[:8], "content-") {
		return p.contentField(f, seen)
	}
	if p.Envelope == nil {
		return 0
	}
	return p.Envelope.field(f, seen)
}

// contentField takes over a Content-… field.
func (p *Part) contentField(f HeaderField, seen contentSeen) contentSeen {
	switch name := f.Name[8:]; {
	case equalFold(name, "type") && seen&seenType == 0:
		return p.contentType(f.Value)
	case equalFold(name, "transfer-encoding") && seen&seenEncoding == 0:
		if word := firstToken(f.Value); len(word) > 0 {
			p.Encoding = lower(word)
			return seenEncoding
		}
	case equalFold(name, "disposition") && seen&seenDisposition == 0:
		word, rest := cutSemicolon(f.Value)
		if word = firstToken(word); len(word) > 0 {
			p.Disposition = lower(word)
			p.DispositionParams = parseParams(rest)
			return seenDisposition
		}
	case equalFold(name, "id") && p.ID == "":
		p.ID = Unfold(f.Value)
	case equalFold(name, "description") && p.Description == "":
		p.Description = Unfold(f.Value)
	case equalFold(name, "md5") && p.MD5 == "":
		p.MD5 = Unfold(f.Value)
	case equalFold(name, "location") && p.Location == "":
		p.Location = Unfold(f.Value)
	case equalFold(name, "language") && p.Language == nil:
		for _, tag := range strings.Split(Unfold(f.Value), ",") {
			if tag = string(firstToken([]byte(tag))); tag != "" && len(p.Language) < maxLanguages {
				p.Language = append(p.Language, tag)
			}
		}
	}
	return 0
}

// contentType takes over "type/subtype; parameters". An illegible one counts as absent.
func (p *Part) contentType(value []byte) contentSeen {
	word, rest := cutSemicolon(value)
	word = bytes.Trim(word, " \t\r\n")
	i := bytes.IndexByte(word, '/')
	if i <= 0 {
		return 0
	}
	major, minor := firstToken(word[:i]), firstToken(word[i+1:])
	if len(major) == 0 || len(minor) == 0 {
		return 0
	}
	p.Type, p.Subtype = lower(major), lower(minor)
	p.Params = parseParams(rest)
	return seenType
}

// field takes over a field of the envelope. Of fields that may stand once the first counts; several To,
// Cc or Bcc are one list.
func (e *Envelope) field(f HeaderField, seen contentSeen) contentSeen {
	name := f.Name
	switch len(name) {
	case 2:
		if equalFold(name, "to") {
			e.To = appendAddresses(e.To, f.Value)
		} else if equalFold(name, "cc") {
			e.Cc = appendAddresses(e.Cc, f.Value)
		}
	case 3:
		if equalFold(name, "bcc") {
			e.Bcc = appendAddresses(e.Bcc, f.Value)
		}
	case 4:
		if equalFold(name, "from") && seen&seenFrom == 0 {
			e.From = ParseAddressList(f.Value)
			return seenFrom
		}
		e.text(&e.Date, HasDate, f, "date")
	case 6:
		if equalFold(name, "sender") && seen&seenSender == 0 {
			e.Sender = ParseAddressList(f.Value)
			return seenSender
		}
	case 7:
		e.text(&e.Subject, HasSubject, f, "subject")
	case 8:
		if equalFold(name, "reply-to") && seen&seenReplyTo == 0 {
			e.ReplyTo = ParseAddressList(f.Value)
			return seenReplyTo
		}
	case 10:
		if equalFold(name, "references") && seen&seenReferences == 0 {
			e.References = messageIDs(Unfold(f.Value), maxReferences)
			return seenReferences
		}
		e.text(&e.MessageID, HasMessageID, f, "message-id")
	case 11:
		e.text(&e.InReplyTo, HasInReplyTo, f, "in-reply-to")
	}
	return 0
}

func (e *Envelope) text(to *string, mark Field, f HeaderField, name string) {
	if e.Has&mark == 0 && equalFold(f.Name, name) {
		*to = Unfold(f.Value)
		e.Has |= mark
	}
}

// messageIDs lists the "<…>" in s.
func messageIDs(s string, most int) []string {
	n := min(strings.Count(s, "<"), most)
	if n == 0 {
		return nil
	}
	ids := make([]string, 0, n)
	for len(ids) < n {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		s = s[i:]
		j := strings.IndexByte(s, '>')
		if j < 0 {
			break
		}
		if k := strings.LastIndexByte(s[:j], '<'); k > 0 {
			s, j = s[k:], j-k
		}
		if j > 1 {
			ids = append(ids, s[:j+1])
		}
		s = s[j+1:]
	}
	return ids
}

// cutSemicolon splits a structured value before its parameters.
func cutSemicolon(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ';'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// firstToken is the first token (RFC 2045) of b, behind blanks and comments.
func firstToken(b []byte) []byte {
	b = b[skipCFWS(b, 0):]
	n := 0
	for n < len(b) && !isSpace(b[n]) && b[n] != '(' && b[n] != ';' && b[n] != ',' && b[n] != '"' {
		n++
	}
	return b[:n]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// skipCFWS is the offset of what follows the blanks and comments at i.
func skipCFWS(b []byte, i int) int {
	for i < len(b) {
		switch {
		case isSpace(b[i]):
			i++
		case b[i] == '(':
			i = skipComment(b, i)
		default:
			return i
		}
	}
	return i
}

// skipComment is the offset behind the comment at i; one that does not end takes all.
func skipComment[T []byte | string](b T, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}
