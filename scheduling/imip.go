package scheduling

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"doublet/calendar/itip"
	"doublet/mail"
	"doublet/mail/fields"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// mail sends the messages to people of other servers, and records the outcome in states. Recipients of equal messages
// get one mail.
//
// Implements: RFC 6047 iCalendar Message-Based Interoperability Protocol (iMIP)
func (c *change) mail(ctx context.Context) {
	type letter struct {
		m  *itip.Message
		to []mail.Addressee
	}
	var letters []*letter
	same := map[string]*letter{}
	for _, m := range c.outside {
		address := itip.Address(m.To)
		to, err := smtp.ParsePath(address)
		if err != nil {
			c.states[address] = itip.InvalidUser
			continue
		}
		m = c.inlined(ctx, m)
		text := string(m.Text())
		if same[text] == nil {
			same[text] = &letter{m: m}
			letters = append(letters, same[text])
		}
		same[text].to = append(same[text].to, mail.Addressee{To: to})
	}
	for _, l := range letters {
		err := c.s.post(ctx, c, l.m, l.to)
		for i := range l.to {
			address := strings.ToLower(l.to[i].To.String())
			switch {
			case err != nil && mail.ForbiddenFrom(err):
				c.states[address] = itip.NoAuthority
			case err != nil || l.to[i].Refused != nil:
				c.states[address] = itip.Undelivered
			default:
				c.states[address] = itip.Sent
				c.s.stats.mailed.Inc()
			}
		}
		if err != nil {
			c.s.env.Log.Warn("scheduling: a mail was not sent", "method", l.m.Method, "err", err)
		}
	}
}

// post sends one mail in the name of the owner of a calendar.
func (s *Service) post(ctx context.Context, c *change, m *itip.Message, to []mail.Addressee) error {
	name, err := s.dir.Names.NameOf(ctx, c.t.Owner)
	if err != nil {
		return err
	}
	sub := &mail.Submission{Answer: mail.AnswerNone}
	from := c.from
	if who := c.t.File.Who(); !who.System { // a room sends by itself
		writer, err := s.dir.Names.Person(ctx, who.Person)
		if err != nil {
			return err
		}
		from, sub.Submitter = writer.InternetAddress, &mail.Submitter{Who: who, Address: writer.InternetAddress}
	}
	if sub.From, err = smtp.ParsePath(from); err != nil {
		return err
	}
	var id note.UNID
	s.env.Fill(id[:])
	sub.Message = s.compose(m, name, c.from, to, id)
	_, err = s.mail.Send(ctx, sub, to, time.Time{})
	return err
}

// words has the start of the subject and the first line of a mail, by method.
var words = map[string][2]string{
	itip.Request: {"Invitation", "You are invited."}, itip.Cancel: {"Cancelled", "This event is cancelled."},
}

// answers has the same for REPLY, by participation status.
var answers = map[string][2]string{
	"ACCEPTED":  {"Accepted", "The invitation was accepted."},
	"DECLINED":  {"Declined", "The invitation was declined."},
	"TENTATIVE": {"Tentative", "The invitation was accepted tentatively."},
	"DELEGATED": {"Delegated", "The invitation was passed on to somebody else."},
}

// compose returns the mail of a message: a text for people, and the object.
//
// Implements: RFC 6047 §2.4 Content Type
func (s *Service) compose(m *itip.Message, name, from string, to []mail.Addressee, id note.UNID) []byte {
	w := words[m.Method]
	if m.Method == itip.Reply {
		w = answers[m.Answer()]
	}
	if w[0] == "" {
		w = [2]string{"Event", "This message concerns an event."}
	}
	var b []byte
	line := func(parts ...string) {
		for _, p := range parts {
			b = append(b, p...)
		}
		b = append(b, "\r\n"...)
	}
	addresses := make([]string, len(to))
	for i := range to {
		addresses[i] = "<" + to[i].To.String() + ">"
	}
	title := strings.Join(strings.Fields(m.Parts[0].Text("SUMMARY")), " ")
	boundary := "=_" + hex.EncodeToString(id[:])
	line("From: ", fields.DisplayName(name), " <", from, ">")
	line("To: ", strings.Join(addresses, ",\r\n "))
	line("Subject: ", fields.Encode(w[0]+": "+title[:min(len(title), 200)]))
	line("Date: ", s.env.Clock.Now().UTC().Format(fields.DateFormat))
	line("Message-ID: <", id.String(), "@", s.opt.Hostname, ">")
	line("MIME-Version: 1.0")
	line("Content-Type: multipart/alternative; boundary=\"", boundary, "\"")
	text := w[1] + "\r\n\r\n" + title + "\r\n" + m.When() + "\r\n" + m.Parts[0].Text("LOCATION") + "\r\n"
	for _, part := range [2][2]string{{"text/plain; charset=utf-8", text},
		{"text/calendar; charset=utf-8; method=" + m.Method, string(m.Text())}} {
		line()
		line("--", boundary)
		line("Content-Type: ", part[0])
		line("Content-Transfer-Encoding: base64")
		line()
		b = mime.AppendBase64Lines(b, []byte(strings.ToValidUTF8(part[1], "\ufffd")), 76, true)
	}
	line("--", boundary, "--")
	return b
}
