package fields

import "doublet/wire/mime"

// CutFields removes the header fields for which drop returns true. It moves the fields before them towards the end, so
// that shorter begins later in the same memory. head is as in mail.Submission, and grows by the freed bytes.
func CutFields(message, head []byte, drop func(mime.HeaderField) bool) (shorter, longer []byte) {
	var cuts [][2]int
	for f := range mime.Fields(message) {
		if drop(f) {
			cuts = append(cuts, [2]int{f.Start, f.End})
		}
	}
	if len(cuts) == 0 {
		return message, head
	}
	to := cuts[len(cuts)-1][1]
	for i := len(cuts) - 1; i >= 0; i-- {
		from := 0
		if i > 0 {
			from = cuts[i-1][1]
		}
		kept := message[from:cuts[i][0]]
		to -= len(kept)
		copy(message[to:], kept)
	}
	if n := len(head); cap(head) >= n+len(message) {
		if whole := head[:n+len(message)]; n > 0 && &whole[n] == &message[0] {
			head = head[:n+to]
		}
	}
	return message[to:], head
}

// Headless reports whether a message begins with white space instead of a header field. Its first line would continue
// the last field that is put before it.
func Headless(message []byte) bool {
	return len(message) > 0 && (message[0] == ' ' || message[0] == '\t')
}

// PutBefore puts h before message. It uses the end of head if head is directly before the message and long enough;
// otherwise it copies.
func PutBefore(h, head, message []byte) []byte {
	if n := len(head); len(h) <= n && len(message) > 0 && cap(head) >= n+len(message) {
		whole := head[:n+len(message)]
		if &whole[n] == &message[0] {
			copy(whole[n-len(h):], h)
			return whole[n-len(h):]
		}
	}
	return append(append(make([]byte, 0, len(h)+len(message)), h...), message...)
}

// Prepend puts whole header fields before a message, into the end of head if there is room. It returns the message and
// the rest of head. head is as in mail.Submission.
func Prepend(fields, message, head []byte) (longer, shorter []byte) {
	raw := PutBefore(fields, head, message)
	if n := len(head) - len(fields); n >= 0 && len(fields) > 0 && &head[n] == &raw[0] {
		return raw, head[:n]
	}
	return raw, nil
}

// AppendHelo appends a HELO name, or "unknown" if the name is not safe in a field.
func AppendHelo(h []byte, helo string) []byte {
	for i := range len(helo) {
		c := helo[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_' || c == ':' ||
			c == '[' || c == ']') {
			return append(h, "unknown"...)
		}
	}
	if helo == "" {
		return append(h, "unknown"...)
	}
	return append(h, helo...)
}
