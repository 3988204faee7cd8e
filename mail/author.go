package mail

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"doublet/directory"
	"doublet/mail/fields"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// originator collects the authors and senders of a header.
type originator struct {
	s   *Depositor
	sub *Submission
	// again is set if there is a Resent-From or Resent-Sender field. newest is set once a field of the newest resent
	// block was seen, and over once that block has ended.
	again, newest, over bool

	from, sender, resentFrom, resentSender int // numbers of addresses per kind of field
	foreignFrom, foreignSender             bool
	behalf                                 bool // From has an address for which Sender must name the submitter
	borrowed                               bool // the author of the resent message is someone else
	hasFrom, hasSender, hasDate, hasID     bool
}

// ForbiddenFrom reports whether a message was rejected because the submitter may not use its From or Sender address.
func ForbiddenFrom(err error) bool {
	return errors.Is(err, replyFrom) || errors.Is(err, replySender) || errors.Is(err, replyNotDelivered) ||
		errors.Is(err, ErrUnproven)
}

// appendMissing checks that the submitter may use the addresses in the header, and adds missing fields. All addresses
// of From, and Sender if present, must be the submitter's.
//
// A resent message (with Resent-From) is checked by its Resent- fields. If its author is someone else, the message must
// have been delivered to the submitter before.
//
// Sender is added if From has several addresses, or one on whose behalf the submitter may write (RFC 5322 section
// 3.6.2). A From or Sender field without a readable address is rejected: mail programs might show it instead of the
// added field.
//
// Implements: RFC 6409 §6.1 Submission rights
// Implements: RFC 6409 §8.1 Add Sender
// Implements: RFC 6409 §8.2 Add Date
// Implements: RFC 6409 §8.3 Add Message-ID
func (s *Depositor) appendMissing(ctx context.Context, h []byte, sub *Submission) ([]byte, error) {
	header := sub.Message[:mime.HeaderEnd(sub.Message)]
	if fields.Headless(sub.Message) {
		header = nil
	}
	if len(header) > mime.DefaultLimits.HeaderBytes {
		return nil, replyManyHead
	}
	o := originator{s: s, sub: sub}
	if err := o.read(ctx, header); err != nil {
		return nil, err
	}
	if o.borrowed && sub.takes == nil { // checked already when the message went into the outbox
		if err := checkResent(ctx, s, sub.Submitter.Who.Person, sub.Message); err != nil {
			return nil, err
		}
	}
	h = o.appendAuthor(h)
	if !o.hasDate {
		h = append(h, "Date: "...)
		h = append(sub.Date.UTC().AppendFormat(h, fields.DateFormat), "\r\n"...)
	}
	if !o.hasID {
		h = append(append(append(h, "Message-ID: "...), messageIDFor(sub, s.opt.Hostname)...), "\r\n"...)
	}
	return h, nil
}

// messageIDFor returns the Message-ID of a submission without one.
func messageIDFor(sub *Submission, host string) string {
	return "<" + hex.EncodeToString(sub.ID[:]) + "@" + host + ">"
}

// appendAuthor adds From and Sender if they are missing.
func (o *originator) appendAuthor(h []byte) []byte {
	address := o.sub.Submitter.Address
	if o.from == 0 && !o.hasFrom && address != "" {
		h = append(append(append(h, "From: <"...), address...), ">\r\n"...)
	}
	if (o.from > 1 && !o.again || o.behalf) && o.sender == 0 && address != "" {
		h = append(append(append(h, "Sender: <"...), address...), ">\r\n"...)
	}
	return h
}

// isResent reports whether the header has Resent- fields with an author.
func isResent(header []byte) bool {
	for f := range mime.Fields(header) {
		if f.Is("Resent-From") || f.Is("Resent-Sender") {
			return true
		}
	}
	return false
}

// read checks the header, and rejects addresses that the submitter may not use.
func (o *originator) read(ctx context.Context, header []byte) error {
	o.again = isResent(header)
	for f := range mime.Fields(header) {
		if err := o.field(ctx, f); err != nil {
			return err
		}
	}
	noFrom, noSender := o.hasFrom && o.from == 0, o.hasSender && o.sender == 0
	if o.again {
		o.borrowed = o.borrowed || noFrom || noSender
		// A resent block without addresses would bypass the check of From.
		noFrom, noSender = o.resentFrom+o.resentSender == 0, false
	}
	switch {
	case o.foreignFrom, noFrom, o.behalf && o.sender == 0 && o.sub.Submitter.Address == "":
		return replyFrom
	case o.foreignSender, noSender:
		return replySender
	}
	return nil
}

// field reads one field. The fields of a resent block are adjacent, before those of earlier blocks, which are other
// people's (RFC 5322 section 3.6.6). A Resent- field after any other field, or a repeated one, belongs to an earlier
// block.
func (o *originator) field(ctx context.Context, f mime.HeaderField) error {
	o.over = o.over || o.newest && !strings.HasPrefix(strings.ToLower(string(f.Name)), "resent-")
	switch {
	case f.Is("From"):
		o.hasFrom = true
		return o.check(ctx, f, &o.from, &o.foreignFrom, !o.again, true)
	case f.Is("Sender"):
		o.hasSender = true
		return o.check(ctx, f, &o.sender, &o.foreignSender, !o.again, false)
	case f.Is("Resent-From"):
		binds := !o.over && o.resentFrom == 0
		o.newest = true
		return o.check(ctx, f, &o.resentFrom, &o.foreignFrom, binds, false)
	case f.Is("Resent-Sender"):
		binds := !o.over && o.resentSender == 0
		o.newest = true
		return o.check(ctx, f, &o.resentSender, &o.foreignSender, binds, false)
	case f.Is("Date"):
		o.hasDate = true
	case f.Is("Message-ID"):
		o.hasID = true
	}
	return nil
}

// maxAuthors is the maximum number of addresses in a checked field.
const maxAuthors = 1000

// borrow records the author of a resent message. The person who resends it is not responsible for the author.
func (o *originator) borrow(right directory.SendRight) {
	o.sub.unsigned = o.sub.unsigned || right == directory.SendNever
	o.borrowed = o.borrowed || right != directory.SendFully
}

// check compares the addresses of a field with the submitter's rights. If binds is false, because the message is
// resent, it only records that the author is someone else.
func (o *originator) check(ctx context.Context, f mime.HeaderField, count *int, foreign *bool, binds,
	author bool) error {
	list := mime.ParseAuthors(f.Value)
	if len(list) > maxAuthors {
		return replyFrom
	}
	for i, a := range list {
		if a.Group {
			continue
		}
		// otherwise it is an address whose display name is an address
		if i == 0 || list[i-1].Mailbox != a.Mailbox || list[i-1].Host != a.Host {
			*count++
		}
		right, err := o.s.dir.Names.SendRight(ctx, o.sub.Submitter.Who,
			smtp.Path{Local: a.Mailbox, Domain: a.Host}.String())
		switch {
		case err != nil:
			return err
		case !binds:
			o.borrow(right)
		default:
			o.behalf = o.behalf || author && right == directory.SendOnBehalf
			*foreign = *foreign || right == directory.SendNever || right == directory.SendOnBehalf && !author
		}
	}
	return nil
}
