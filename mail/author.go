package mail

import (
	"context"
	"errors"
	"strings"

	"doublet/directory"
	"doublet/mail/fields"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// originator collects the header's authors and senders.
type originator struct {
	s   *Depositor
	sub *Submission
	// again says that the message is sent on: Resent-From or Resent-Sender is there, newest that a field of the newest such block
	// was seen, over that the block has ended, seen its names.
	again, newest, over bool

	from, sender, resentFrom, resentSender int // addresses, of which foreign are somebody else's
	foreignFrom, foreignSender             bool
	behalf                                 bool // From has an address that needs the submitter's in Sender
	borrowed                               bool // an author of what is sent on is somebody else
	hasFrom, hasSender, hasDate, hasID     bool
}

// ForbiddenFrom says that a message was refused since somebody else is its author or sender.
func ForbiddenFrom(err error) bool {
	return errors.Is(err, replyFrom) || errors.Is(err, replySender) || errors.Is(err, replyNotDelivered) || errors.Is(err, ErrUnproven)
}

// appendMissing checks that the message is in the submitter's own name, and adds what a submission
// may lack. All addresses of From must be the submitter's; Sender, too, where there is one. A
// message that is sent on (Resent-From) is checked by those fields; where its author is somebody else, it must be one that was
// delivered to the submitter. Sender is added where From names somebody on whose behalf the submitter may write, or several (RFC
// 5322 section 3.6.2). A From or Sender in which no address can be read is nobody's: a second field beside it would leave it to
// the reader's program which one to show.
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
	if o.borrowed && sub.takes == nil { // what an outbox releases was looked up when it came
		if err := checkResent(ctx, s, sub.Submitter.Who.Person, sub.Message); err != nil {
			return nil, err
		}
	}
	address := sub.Submitter.Address
	if o.from == 0 && !o.hasFrom && address != "" {
		h = append(append(append(h, "From: <"...), address...), ">\r\n"...)
	}
	if (o.from > 1 && !o.again || o.behalf) && o.sender == 0 && address != "" {
		h = append(append(append(h, "Sender: <"...), address...), ">\r\n"...)
	}
	if !o.hasDate {
		h = append(h, "Date: "...)
		h = append(sub.Date.UTC().AppendFormat(h, fields.DateFormat), "\r\n"...)
	}
	if !o.hasID {
		h = fields.AppendHex(append(h, "Message-ID: <"...), sub.ID)
		h = append(append(append(h, '@'), s.opt.Hostname...), ">\r\n"...)
	}
	return h, nil
}

// read goes through the header, and refuses one in a name that is not the submitter's.
func (o *originator) read(ctx context.Context, header []byte) error {
	for f := range mime.Fields(header) {
		o.again = o.again || f.Is("Resent-From") || f.Is("Resent-Sender")
	}
	for f := range mime.Fields(header) {
		if err := o.field(ctx, f); err != nil {
			return err
		}
	}
	switch {
	case o.foreignFrom, !o.again && o.hasFrom && o.from == 0, o.behalf && o.sender == 0 && o.sub.Submitter.Address == "",
		o.again && o.resentFrom+o.resentSender == 0: // a resending that is nobody's would let any From through
		return replyFrom
	case o.foreignSender, !o.again && o.hasSender && o.sender == 0:
		return replySender
	}
	o.borrowed = o.borrowed || o.again && (o.hasFrom && o.from == 0 || o.hasSender && o.sender == 0)
	return nil
}

// field reads one field. The fields of a resending stand together, before those of earlier ones, which are others' (RFC 5322
// section 3.6.6): what comes behind another field, or a second time, is of an earlier one.
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

// maxAuthors bounds the addresses of a field that is checked.
const maxAuthors = 1000

// check compares the addresses of a field with what the submitter may send as, where the field binds them; of what they send on
// it notes that somebody else is the author.
func (o *originator) check(ctx context.Context, f mime.HeaderField, count *int, foreign *bool, binds, author bool) error {
	list := mime.ParseAuthors(f.Value)
	if len(list) > maxAuthors {
		return replyFrom
	}
	for i, a := range list {
		if a.Group {
			continue
		}
		if i == 0 || list[i-1].Mailbox != a.Mailbox || list[i-1].Host != a.Host { // else an address that is its own name
			*count++
		}
		right, err := o.s.dir.Names.SendRight(ctx, o.sub.Submitter.Who, smtp.Path{Local: a.Mailbox, Domain: a.Host}.String())
		switch {
		case err != nil:
			return err
		case !binds:
			// Who sends somebody else's message again does not answer for its author.
			o.sub.unsigned = o.sub.unsigned || right == directory.SendNever
			o.borrowed = o.borrowed || right != directory.SendFully
		default:
			o.behalf = o.behalf || author && right == directory.SendOnBehalf
			*foreign = *foreign || right == directory.SendNever || right == directory.SendOnBehalf && !author
		}
	}
	return nil
}
