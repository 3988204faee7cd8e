package mime

import "strings"

// BaseSubject is the subject without what replies, forwards and lists put around it (RFC 5256 section 2.1).
// s is the decoded subject (DecodeWords).
func BaseSubject(s string) string {
	base, _ := baseSubject(s)
	return base
}

// IsReply tells whether the subject says that the message is a reply or a forward (RFC 5256 section 2.1).
func IsReply(s string) bool {
	_, reply := baseSubject(s)
	return reply
}

// maxSubject bounds what is looked at.
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
		// Steps 3 to 5: leaders, and blobs as long as something is left.
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

// blanksToOne is step 1: each run of blanks becomes one space.
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

// leader is the length of subj-leader = *subj-blob ("re" / "fw" / "fwd") *WSP [subj-blob] ":" at the start.
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

// blob is the length of subj-blob = "[" *BLOBCHAR "]" *WSP at the start.
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

// ThreadKey is what the identity of a message's thread is hashed from: the first id of References, else of
// In-Reply-To, else the own Message-ID, then a NUL and the base subject under i;unicode-casemap (RFC 5256
// compares base subjects so). Without any id the key is the subject alone, behind the NUL; it is "" where
// there is none either, and the caller gives the message a thread of its own.
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
