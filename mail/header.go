package mail

import (
	"context"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// dateFormat is RFC 5322 section 3.3's.
const dateFormat = "Mon, 2 Jan 2006 15:04:05 -0700"

// stamped puts the fields of this hop before a message: one block, the same for all recipients.
// It uses the room before the message where there is some. The second result is the length of the
// Return-Path field.
//
// Implements: RFC 5321 §4.4 Trace information
func (s *Service) stamped(ctx context.Context, sub *Submission) (raw []byte, returnPath int, err error) {
	var room [1024]byte
	h := append(room[:0], "Return-Path: <"...)
	h = append(sub.From.Append(h), ">\r\n"...)
	returnPath = len(h)
	if sub.Received != nil {
		h = s.appendReceived(h, sub)
	}
	h = append(h, sub.Fields...)
	if sub.Submitter != nil {
		// Bcc is for its writer's eyes; Return-Path came with a delivery that is over.
		sub.Message, sub.Head = CutFields(sub.Message, sub.Head, func(f mime.HeaderField) bool { return f.Is("Bcc") || f.Is("Resent-Bcc") || f.Is("Return-Path") })
		if h, err = s.appendMissing(ctx, h, sub); err != nil {
			return nil, 0, err
		}
	}
	if headless(sub.Message) {
		h = append(h, "\r\n"...)
	}
	return prepend(h, sub.Head, sub.Message), returnPath, nil
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
func (s *Service) appendReceived(h []byte, sub *Submission) []byte {
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

func appendHex(dst []byte, id note.UNID) []byte {
	const digits = "0123456789abcdef"
	for _, b := range id {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}

// originator is what the header says of who wrote and who sent.
type originator struct {
	from, sender, resentFrom, resentSender int // addresses, of which foreign are somebody else's
	foreignFrom, foreignSender             bool
	behalf                                 bool // From has an address that needs the submitter's in Sender
	hasFrom, hasSender, hasDate, hasID     bool
}

// appendMissing checks that the message is in the submitter's own name, and adds what a submission
// may lack. All addresses of From must be the submitter's; Sender, too, where there is one. A
// message that was sent again (Resent-From) is checked by those fields. Sender is added where From
// names somebody on whose behalf the submitter may write, or several (RFC 5322 section 3.6.2). A From or Sender in which no address can be read is nobody's:
// a second field beside it would leave it to the reader's program which one to show.
//
// Implements: RFC 6409 §6.1 Submission rights
// Implements: RFC 6409 §8.1 Add Sender
// Implements: RFC 6409 §8.2 Add Date
// Implements: RFC 6409 §8.3 Add Message-ID
func (s *Service) appendMissing(ctx context.Context, h []byte, sub *Submission) ([]byte, error) {
	header := sub.Message[:mime.HeaderEnd(sub.Message)]
	if headless(sub.Message) {
		header = nil
	}
	if len(header) > mime.DefaultLimits.HeaderBytes {
		return nil, replyManyHead
	}
	o, err := s.originator(ctx, header, sub)
	switch {
	case err != nil:
		return nil, err
	case o.foreignFrom || o.hasFrom && o.from == 0, o.behalf && o.sender == 0 && sub.Submitter.Address == "":
		return nil, replyFrom
	case o.foreignSender || o.hasSender && o.sender == 0:
		return nil, replySender
	}
	address := sub.Submitter.Address
	if o.from == 0 && address != "" {
		h = append(append(append(h, "From: <"...), address...), ">\r\n"...)
	}
	if (o.from > 1 || o.behalf) && o.sender == 0 && address != "" {
		h = append(append(append(h, "Sender: <"...), address...), ">\r\n"...)
	}
	if !o.hasDate {
		h = append(h, "Date: "...)
		h = append(sub.Date.UTC().AppendFormat(h, dateFormat), "\r\n"...)
	}
	if !o.hasID {
		h = appendHex(append(h, "Message-ID: <"...), sub.ID)
		h = append(append(append(h, '@'), s.opt.Hostname...), ">\r\n"...)
	}
	return h, nil
}

func (s *Service) originator(ctx context.Context, header []byte, sub *Submission) (originator, error) {
	var o originator
	var err error
	resent := false
	for f := range mime.Fields(header) {
		resent = resent || f.Is("Resent-From") || f.Is("Resent-Sender")
	}
	// The fields of a resending stand together, before those of earlier ones, which are others' (RFC 5322 section 3.6.6):
	// what comes behind another field, or a second time, is of an earlier one.
	newest, over := false, false
	check := func(f mime.HeaderField, count *int, foreign *bool, binds, author bool) {
		for _, a := range mime.ParseAddressList(f.Value) {
			if a.Group {
				continue
			}
			*count++
			if err != nil {
				continue
			}
			var right directory.SendRight
			right, err = s.dir.SendRight(ctx, sub.Submitter.Who, smtp.Path{Local: a.Mailbox, Domain: a.Host}.String())
			if !binds {
				// Who sends somebody else's message again does not answer for its author.
				sub.unsigned = sub.unsigned || right == directory.SendNever
				continue
			}
			o.behalf = o.behalf || author && right == directory.SendOnBehalf
			*foreign = *foreign || right == directory.SendNever || right == directory.SendOnBehalf && !author
		}
	}
	for f := range mime.Fields(header) {
		over = over || newest && !strings.HasPrefix(strings.ToLower(string(f.Name)), "resent-")
		switch {
		case f.Is("From"):
			o.hasFrom = true
			check(f, &o.from, &o.foreignFrom, !resent, true)
		case f.Is("Sender"):
			o.hasSender = true
			check(f, &o.sender, &o.foreignSender, !resent, false)
		case f.Is("Resent-From"):
			check(f, &o.resentFrom, &o.foreignFrom, !over && o.resentFrom == 0, false)
			newest = true
		case f.Is("Resent-Sender"):
			check(f, &o.resentSender, &o.foreignSender, !over && o.resentSender == 0, false)
			newest = true
		case f.Is("Date"):
			o.hasDate = true
		case f.Is("Message-ID"):
			o.hasID = true
		}
	}
	// A resending that is nobody's would let any From through.
	o.foreignFrom = o.foreignFrom || resent && o.resentFrom+o.resentSender == 0
	return o, err
}

// now is the time of the server, as the store keeps it.
func (s *Service) now() time.Time { return s.env.Clock.Now() }
