package mime

import "strings"

// BaseSubject returns the subject without the prefixes and suffixes of replies, forwards and lists (RFC 5256 section
// 2.1). s must be decoded (DecodeWords).
func BaseSubject(s string) string {
	base, _ := baseSubject(s)
	return base
}

// IsReply reports whether the subject marks a reply or a forward (RFC 5256 section 2.1).
func IsReply(s string) bool {
	_, reply := baseSubject(s)
	return reply
}

// maxSubject limits the bytes of a subject that are processed.
const maxSubject = 1000

func baseSubject(s string) (base string, reply bool) {
	s = blanksToOne(cut(s, maxSubject))
	for {
		// Step 2: trailers.
		for {
			s = strings.TrimRight(s, " ")
			if n := len(s); n >= 5 && strings.EqualFold(s[n-5:], "(fwd)") {
				s, reply = s[:n-5], true
				continue
			}
			break
		}
		// Steps 3 to 5: leaders, and blobs as long as text is left.
		for {
			before := len(s)
			s = strings.TrimLeft(s, " ")
			if n := leader(s); n > 0 {
				s, reply = s[n:], true
				continue
			}
			if n := blob(s); n > 0 && n < len(s) {
				s = s[n:]
			}
			if len(s) == before {
				break
			}
		}
		// Step 6: the form "[fwd: …]".
		if len(s) >= 6 && strings.EqualFold(s[:5], "[fwd:") && s[len(s)-1] == ']' {
			s, reply = s[5:len(s)-1], true
			continue
		}
		return s, reply
	}
}

// blanksToOne performs step 1: it replaces each run of blanks with one space.
func blanksToOne(s string) string {
	if strings.IndexByte(s, '\t') < 0 && strings.IndexByte(s, '\n') < 0 && !strings.Contains(s, "  ") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if !isSpace(s[i]) {
			out = append(out, s[i])
		} else if n := len(out); n == 0 || out[n-1] != ' ' {
			out = append(out, ' ')
		}
	}
	return string(out)
}

// leader returns the length of subj-leader = *subj-blob ("re" / "fw" / "fwd") *WSP [subj-blob] ":" at the start.
func leader(s string) int {
	i := 0
	for {
		n := blob(s[i:])
		if n == 0 {
			break
		}
		i += n
	}
	switch {
	case len(s)-i >= 3 && strings.EqualFold(s[i:i+3], "fwd"):
		i += 3
	case len(s)-i >= 2 && (strings.EqualFold(s[i:i+2], "re") || strings.EqualFold(s[i:i+2], "fw")):
		i += 2
	default:
		return 0
	}
	for i < len(s) && s[i] == ' ' {
		i++
	}
	i += blob(s[i:])
	if i < len(s) && s[i] == ':' {
		return i + 1
	}
	return 0
}

// blob returns the length of subj-blob = "[" *BLOBCHAR "]" *WSP at the start.
func blob(s string) int {
	if s == "" || s[0] != '[' {
		return 0
	}
	i := strings.IndexAny(s[1:], "[]")
	if i < 0 || s[1+i] == '[' {
		return 0
	}
	i += 2
	for i < len(s) && s[i] == ' ' {
		i++
	}
	return i
}

// ThreadKey returns the text whose hash identifies a message's thread. It is an ID, a NUL and the base subject under
// i;unicode-casemap, with which RFC 5256 compares base subjects. The ID is the first of References, else of
// In-Reply-To, else the message's own. Without an ID the key is a NUL and the subject. Without a subject too, it is "",
// and the caller must give the message a thread of its own.
func ThreadKey(e *Envelope) string {
	id := ""
	switch {
	case len(e.References) > 0:
		id = e.References[0]
	default:
		id = firstID(e.InReplyTo)
		if id == "" {
			id = firstID(e.MessageID)
		}
		if id == "" {
			id = e.MessageID
		}
	}
	subject := Casemap(BaseSubject(DecodeWords(e.Subject)))
	if id == "" && subject == "" {
		return ""
	}
	return id + "\x00" + subject
}

func firstID(s string) string {
	if ids := messageIDs(s, 1); len(ids) > 0 {
		return ids[0]
	}
	return ""
}
