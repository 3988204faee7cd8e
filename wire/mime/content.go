package mime

import (
	"bytes"
	"strings"
)

// contentSeen is the set of fields already seen in a header; only the first of each counts.
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

// maxReferences limits the entries of References, maxLanguages those of Content-Language.
const (
	maxReferences = 1000
	maxLanguages  = 32
)

var usASCII = []Param{{Name: "charset", Value: "us-ascii"}}

// defaultType sets the type of a part without a valid Content-Type (RFC 2045 section 5.2, RFC 2046 section 5.1.5).
func (p *Part) defaultType(digest bool) {
	if digest {
		p.Type, p.Subtype = "message", "rfc822"
		return
	}
	p.Type, p.Subtype = "text", "plain"
	p.Params = usASCII[:1:1]
}

// field stores one header field and returns its mark.
func (p *Part) field(f HeaderField, seen contentSeen) contentSeen {
	if len(f.Name) > 8 && lowerByte(f.Name[0]) == 'c' && f.Name[7] == '-' && equalFold(f.Name[:8], "content-") {
		return p.contentField(f, seen)
	}
	if p.Envelope == nil {
		return 0
	}
	return p.Envelope.field(f, seen)
}

// contentField stores a Content-… field.
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
	case equalFold(name, "language") && p.Language == nil:
		p.Language = languages(Unfold(f.Value))
	default:
		if text := p.contentText(name); text != nil && *text == "" {
			*text = Unfold(f.Value)
		}
	}
	return 0
}

// contentText returns where the text of a Content-… field is stored, or nil.
func (p *Part) contentText(name []byte) *string {
	switch {
	case equalFold(name, "id"):
		return &p.ID
	case equalFold(name, "description"):
		return &p.Description
	case equalFold(name, "md5"):
		return &p.MD5
	case equalFold(name, "location"):
		return &p.Location
	}
	return nil
}

func languages(list string) (tags []string) {
	for _, tag := range strings.Split(list, ",") {
		if tag = string(firstToken([]byte(tag))); tag != "" && len(tags) < maxLanguages {
			tags = append(tags, tag)
		}
	}
	return tags
}

// contentType parses "type/subtype; parameters". A malformed value counts as absent.
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

// recipients returns the list that a field adds to, or nil.
func (e *Envelope) recipients(name []byte) *[]Address {
	switch {
	case equalFold(name, "to"):
		return &e.To
	case equalFold(name, "cc"):
		return &e.Cc
	case equalFold(name, "bcc"):
		return &e.Bcc
	}
	return nil
}

// firstAddresses stores the addresses of a field unless flag says that one of its name was seen.
func firstAddresses(list *[]Address, f HeaderField, seen, flag contentSeen) contentSeen {
	if seen&flag == 0 {
		*list = ParseAddressList(f.Value)
	}
	return flag
}

// field stores one field of the envelope. Of fields that are allowed once, the first counts; several To, Cc or Bcc
// fields form one list.
func (e *Envelope) field(f HeaderField, seen contentSeen) contentSeen {
	name := f.Name
	switch len(name) {
	case 2, 3:
		if list := e.recipients(name); list != nil {
			*list = appendAddresses(*list, f.Value)
		}
	case 4:
		if equalFold(name, "from") {
			return firstAddresses(&e.From, f, seen, seenFrom)
		}
		e.text(&e.Date, HasDate, f, "date")
	case 6:
		if equalFold(name, "sender") {
			return firstAddresses(&e.Sender, f, seen, seenSender)
		}
	case 7:
		e.text(&e.Subject, HasSubject, f, "subject")
	case 8:
		if equalFold(name, "reply-to") {
			return firstAddresses(&e.ReplyTo, f, seen, seenReplyTo)
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

// messageIDs returns the "<…>" in s, at most most.
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

// cutSemicolon splits a structured value from its parameters.
func cutSemicolon(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ';'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// firstToken returns the first token (RFC 2045) of b, after blanks and comments.
func firstToken(b []byte) []byte {
	b = b[skipCFWS(b, 0):]
	n := 0
	for n < len(b) && !isSpace(b[n]) && b[n] != '(' && b[n] != ';' && b[n] != ',' && b[n] != '"' {
		n++
	}
	return b[:n]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// skipCFWS returns the offset after the blanks and comments at i.
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

// skipComment returns the offset after the comment at i. An unterminated comment extends to the end.
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
