package fields

import "doublet/wire/mime"

// CutFields takes the fields out of a header that drop names, by moving those before them: the
// message comes back shorter at its beginning. head is as in Submission, and comes back longer.
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

// Headless says that a message begins with white space, and so with no field: behind the fields of
// this hop its first line would be read as more of the last of them.
func Headless(message []byte) bool {
	return len(message) > 0 && (message[0] == ' ' || message[0] == '\t')
}

// PutBefore puts h before message: into the end of head where that lies directly before the message
// and is long enough, else into a copy.
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

// Prepend puts whole header fields before a message, into the end of head where there is room; the
// rest of head comes back, for more. head is as in Submission.
func Prepend(fields, message, head []byte) (longer, shorter []byte) {
	raw := PutBefore(fields, head, message)
	if n := len(head) - len(fields); n >= 0 && len(fields) > 0 && &head[n] == &raw[0] {
		return raw, head[:n]
	}
	return raw, nil
}

// AppendHelo adds what the client called itself, if that can stand in a field as it is.
func AppendHelo(h []byte, helo string) []byte {
	for i := range len(helo) {
		c := helo[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']') {
			return append(h, "unknown"...)
		}
	}
	if helo == "" {
		return append(h, "unknown"...)
	}
	return append(h, helo...)
}
