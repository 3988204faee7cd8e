package mail

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"doublet/mail/verify"
	"doublet/wire/mime"
)

// stamped puts the fields of this hop before a message: one block, the same for all recipients.
// It uses the room before the message where there is some. The second result is the length of the
// Return-Path field.
//
// Implements: RFC 5321 §4.4 Trace information
func (s *Depositor) stamped(ctx context.Context, sub *Submission) (raw []byte, returnPath int, err error) {
	var room [1024]byte
	h := append(room[:0], "Return-Path: <"...)
	h = append(sub.From.Append(h), ">\r\n"...)
	returnPath = len(h)
	if sub.Received != nil {
		h = s.appendReceived(h, sub)
	}
	h = append(h, sub.Fields...)
	if sub.Submitter != nil {
		if h, err = s.appendMissing(ctx, h, sub); err != nil {
			return nil, 0, err
		}
		sub.Message, sub.Head = CutFields(sub.Message, sub.Head, privateFields(sub.Message, s.opt.Hostname))
	}
	if headless(sub.Message) {
		h = append(h, "\r\n"...)
	}
	return prepend(h, sub.Head, sub.Message), returnPath, nil
}

// privateFields tells which fields of a submission do not leave its writer: Bcc, which is for their eyes; Return-Path, which came with
// a delivery that is over; results of authentication in the name of this server, which it has not found. An ARC set with such results
// is not this server's either, and a chain that lacks a field is broken: then all of it goes.
//
// Implements: RFC 8601 §5 Removing existing header fields from submissions
func privateFields(message []byte, host string) func(mime.HeaderField) bool {
	chain := false
	for f := range mime.Fields(message) {
		if f.Is("ARC-Authentication-Results") {
			_, results, _ := bytes.Cut(f.Value, []byte(";")) // behind the instance
			chain = chain || speaksFor(string(results), host)
		}
	}
	return func(f mime.HeaderField) bool {
		switch {
		case f.Is("Bcc"), f.Is("Resent-Bcc"), f.Is("Return-Path"):
			return true
		case f.Is("Authentication-Results"):
			return speaksFor(string(f.Value), host)
		case f.Is("Received-SPF"):
			return strings.Contains(strings.ToLower(string(f.Value)), strings.ToLower(host))
		}
		return chain && onChain(f)
	}
}

// speaksFor says that results of authentication are in a server's name, or in one that cannot be read.
func speaksFor(results, host string) bool {
	id, ok := verify.AuthservID(results)
	return !ok || strings.EqualFold(strings.TrimSuffix(id, "."), strings.TrimSuffix(host, "."))
}

// onChain says that a field is of an ARC set.
func onChain(f mime.HeaderField) bool {
	return len(f.Name) > 4 && strings.EqualFold(string(f.Name[:4]), "ARC-")
}

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

// headless says that a message begins with white space, and so with no field: behind the fields of
// this hop its first line would be read as more of the last of them.
func headless(message []byte) bool {
	return len(message) > 0 && (message[0] == ' ' || message[0] == '\t')
}

// prepend puts h before message: into the end of head where that lies directly before the message
// and is long enough, else into a copy.
func prepend(h, head, message []byte) []byte {
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
	raw := prepend(fields, head, message)
	if n := len(head) - len(fields); n >= 0 && len(fields) > 0 && &head[n] == &raw[0] {
		return raw, head[:n]
	}
	return raw, nil
}

// appendReceived adds the Received field. A recipient is named only where there is one: nobody is
// to learn from it of the others.
//
// Implements: RFC 6710 §4.1 PRIORITY clause of the Received field
func (s *Depositor) appendReceived(h []byte, sub *Submission) []byte {
	r := sub.Received
	h = append(h, "Received: from "...)
	h = appendHelo(h, r.Helo)
	if ip := r.IP.Unmap(); ip.IsValid() {
		h = append(h, " (["...)
		if ip.Is6() {
			h = append(h, "IPv6:"...)
		}
		h = append(ip.WithZone("").AppendTo(h), "])"...)
	}
	if r.TLS != "" {
		h = append(append(append(h, "\r\n\t(using "...), r.TLS...), ')')
	}
	h = append(append(h, "\r\n\tby "...), s.opt.Hostname...)
	h = append(append(h, " with "...), r.Protocol...)
	h = appendHex(append(h, " id "...), sub.ID)
	if len(sub.Recipients) == 1 {
		h = append(h, "\r\n\tfor <"...)
		h = append(sub.Recipients[0].To.Append(h), '>')
	}
	if sub.Params.HasPriority {
		h = strconv.AppendInt(append(h, "\r\n\tPRIORITY "...), int64(sub.Params.Priority), 10)
	}
	h = append(h, ";\r\n\t"...)
	return append(sub.Date.UTC().AppendFormat(h, dateFormat), "\r\n"...)
}

// appendHelo adds what the client called itself, if that can stand in a field as it is.
func appendHelo(h []byte, helo string) []byte {
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
