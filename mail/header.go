package mail

import (
	"bytes"
	"context"
	"encoding/hex"
	"strconv"
	"strings"

	"doublet/mail/fields"
	"doublet/mail/verify"
	"doublet/wire/mime"
)

// stamped puts the fields of this hop before a message, as one block for all recipients. It uses the memory before the
// message if there is room. returnPath is the length of the Return-Path field.
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
		sub.Message, sub.Head = fields.CutFields(sub.Message, sub.Head, privateFields(sub.Message, s.opt.Hostname))
	}
	if fields.Headless(sub.Message) {
		h = append(h, "\r\n"...)
	}
	return fields.PutBefore(h, sub.Head, sub.Message), returnPath, nil
}

// privateFields returns a function that reports which fields are removed from a submission: Bcc; Return-Path, which
// belongs to an earlier delivery; the table of people that a draft of a mail merge keeps (web/src/state/mergetable.ts);
// and authentication results in the name of this server, which it did not produce. If an ARC set contains such results,
// the whole chain is removed, because a chain with a missing field is broken.
//
// Implements: RFC 8601 §5 Removing existing header fields from submissions
func privateFields(message []byte, host string) func(mime.HeaderField) bool {
	chain := false
	for f := range mime.Fields(message) {
		if f.Is("ARC-Authentication-Results") {
			_, results, _ := bytes.Cut(f.Value, []byte(";")) // after the instance
			chain = chain || speaksFor(string(results), host)
		}
	}
	return func(f mime.HeaderField) bool {
		switch {
		case f.Is("Bcc"), f.Is("Resent-Bcc"), f.Is("Return-Path"), f.Is("Doublet-Merge-Table"):
			return true
		case f.Is("Authentication-Results"):
			return speaksFor(string(f.Value), host)
		case f.Is("Received-SPF"):
			return strings.Contains(strings.ToLower(string(f.Value)), strings.ToLower(host))
		}
		return chain && onChain(f)
	}
}

// speaksFor reports whether authentication results name a server as their author, or name none that can be read.
func speaksFor(results, host string) bool {
	id, ok := verify.AuthservID(results)
	return !ok || strings.EqualFold(strings.TrimSuffix(id, "."), strings.TrimSuffix(host, "."))
}

// onChain reports whether a field belongs to an ARC set.
func onChain(f mime.HeaderField) bool {
	return len(f.Name) > 4 && strings.EqualFold(string(f.Name[:4]), "ARC-")
}

// appendReceived appends the Received field. It names the recipient only if there is just one, so that recipients do
// not learn of each other.
//
// Implements: RFC 6710 §4.1 PRIORITY clause of the Received field
func (s *Depositor) appendReceived(h []byte, sub *Submission) []byte {
	r := sub.Received
	h = append(h, "Received: from "...)
	h = fields.AppendHelo(h, r.Helo)
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
	h = hex.AppendEncode(append(h, " id "...), sub.ID[:])
	if len(sub.Recipients) == 1 {
		h = append(h, "\r\n\tfor <"...)
		h = append(sub.Recipients[0].To.Append(h), '>')
	}
	if sub.Params.HasPriority {
		h = strconv.AppendInt(append(h, "\r\n\tPRIORITY "...), int64(sub.Params.Priority), 10)
	}
	h = append(h, ";\r\n\t"...)
	return append(sub.Date.UTC().AppendFormat(h, fields.DateFormat), "\r\n"...)
}
