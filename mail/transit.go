package mail

import (
	"strings"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Servers of a domain exchange mail between places by SMTP, and authenticate each other by the keys in their server
// documents. A private parameter (XDOUBLET) carries data for which SMTP has no words: the results of the checks where
// the message came in, and the directory IDs of the recipients, so that no name is resolved twice and no group is
// expanded twice. A server without the mail file rejects the recipient temporarily and never passes the message on. If
// the directories differ, the message therefore waits at one place and cannot loop.

// Transit is the data about a message that one server of the domain passes to another.
type Transit struct {
	// ID identifies the message, however often and to whichever recipients it is sent.
	ID note.UNID
	// Junk, Unsigned and Unproven correspond to the fields of queue.Entry and Submission.
	Junk, Unsigned, Unproven bool
	// Checked means that the first Authentication-Results field of the message is from a server of this domain.
	Checked bool
}

// String returns the value of the MAIL parameter.
func (t Transit) String() string {
	s := t.ID.String()
	for _, m := range t.marks() {
		if *m.on {
			s += "." + m.word
		}
	}
	return s
}

// Submission returns the queue ID of the message for a set of recipients. If the message comes again for the same
// recipients, after a lost reply, it has the same ID and is not delivered twice. For other recipients the ID differs,
// because a recipient that was rejected the first time is not in the stored entry.
func (t *Transit) Submission(to []Recipient) note.UNID {
	parts := [][]byte{t.ID[:]}
	for i := range to {
		parts = append(parts, to[i].Target.ID[:])
	}
	return note.DeriveUNID(parts...)
}

func (t *Transit) marks() []transitMark {
	return []transitMark{{"junk", &t.Junk}, {"unsigned", &t.Unsigned}, {"unproven", &t.Unproven}, {"ar", &t.Checked}}
}

// Checker returns the authserv-id of the results that a server of the domain put before a message, for
// Submission.Checker. The name itself is not in the parameter, because servers of earlier versions accept at most 64
// bytes.
func (t *Transit) Checker(message []byte) string {
	if !t.Checked {
		return ""
	}
	text, _ := mime.Get(message[:mime.HeaderEnd(message)], "Authentication-Results")
	id, _ := verify.AuthservID(text)
	return id
}

type transitMark struct {
	word string
	on   *bool
}

// ParseTransit parses the result of String. It ignores unknown words, which later versions may add.
func ParseTransit(text string) (t Transit, ok bool) {
	words := strings.Split(text, ".")
	id, err := note.ParseUNID(words[0])
	if err != nil || id.IsZero() {
		return t, false
	}
	t.ID = id
	for _, w := range words[1:] {
		for _, m := range t.marks() {
			*m.on = *m.on || m.word == w
		}
	}
	return t, true
}

// The prefixes for the kinds of recipients in the RCPT parameter.
const (
	transitPerson = "p-"
	transitMailIn = "m-"
)

func transitTo(q *queue.Recipient) string {
	if q.Kind == directory.TargetMailIn {
		return transitMailIn + q.Target.String()
	}
	return transitPerson + q.Target.String()
}

// The replies to servers of the domain.
var (
	replyTransit   = smtp.NewReply(501, 5, 5, 4, "Bad parameter")
	replyUnknown   = smtp.NewReply(451, 4, 4, 6, "The directory here does not have the recipient yet")
	replyElsewhere = smtp.NewReply(451, 4, 4, 6,
		"The mail file is at another place of the domain, says the directory here")
)
