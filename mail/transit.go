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

// Mail goes from place to place of a domain by SMTP, between servers that know each other by the keys in their documents.
// What the protocol has no words for goes with it in a parameter of our own: what was found out about the message where it
// came in, and who of the directory a recipient is, so that no name is looked up twice and no group expanded twice. A server
// that has not got the mail file refuses for now and hands nothing on: until the directories agree the message waits at one
// place, and cannot go round.

// Transit is what a server of the domain says of a message that it hands on.
type Transit struct {
	// ID is the message, however often and to whomever of it it is handed on.
	ID note.UNID
	// Junk, Unsigned and Unproven are those of Entry and Submission.
	Junk, Unsigned, Unproven bool
	// Checked says that the message's first Authentication-Results field is of a server of the domain.
	Checked bool
}

// String is the value of the parameter of MAIL.
func (t Transit) String() string {
	s := t.ID.String()
	for _, m := range t.marks() {
		if *m.on {
			s += "." + m.word
		}
	}
	return s
}

// Submission is the queue id of the message for the recipients who were taken of it: handed on again for the same ones, after a
// lost answer, it is the same delivery. For others it is another: who was refused the first time is none of what is kept by then.
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

// Checker gives the authserv-id of the results that the domain put before a message, for Submission. The name itself is
// not in the parameter, which servers of earlier versions take up to 64 bytes of.
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

// ParseTransit reads what String prints. Words of a later version are passed over.
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

// The letters of kinds of recipient in the parameter of RCPT.
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

// The answers to servers of the domain.
var (
	replyTransit   = smtp.NewReply(501, 5, 5, 4, "Bad parameter")
	replyUnknown   = smtp.NewReply(451, 4, 4, 6, "The directory here does not have the recipient yet")
	replyElsewhere = smtp.NewReply(451, 4, 4, 6, "The mail file is at another place of the domain, says the directory here")
)
