package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
	client "doublet/client/smtp"
	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

// sender is a session that only sends: one connection for each message, as mail programs do.
type sender struct {
	w    *World
	u    *User
	lmtp bool
}

// Do implements Session.
func (s *sender) Do(ctx context.Context, p *workload.Planned) (Traffic, error) {
	switch p.Do {
	case workload.Send:
		return s.w.send(ctx, s.u, p, s.lmtp)
	case workload.Invite:
		return s.w.invite(ctx, s.u, p)
	case workload.Login:
		c, err := s.w.submission(ctx, s.u, s.lmtp)
		if err != nil {
			return Traffic{}, err
		}
		return Traffic{}, c.Quit()
	}
	return Traffic{}, fmt.Errorf("drive: SMTP does not carry %s", p.Do)
}

// Close implements Session.
func (s *sender) Close() error { return nil }

// send performs the action send.
func (w *World) send(ctx context.Context, u *User, p *workload.Planned, lmtp bool) (Traffic, error) {
	m := w.outgoing(u, p)
	return w.submit(ctx, u, &m, lmtp)
}

// outgoing returns the message of the action send.
func (w *World) outgoing(u *User, p *workload.Planned) content.Message {
	m := w.compose(u, p)
	m.To = w.recipients(u, p)
	return m
}

// invite sends an invitation; recipients who list it answer it.
func (w *World) invite(ctx context.Context, u *User, p *workload.Planned) (Traffic, error) {
	m := w.invitation(u, p)
	return w.submit(ctx, u, &m, false)
}

func (w *World) invitation(u *User, p *workload.Planned) content.Message {
	m := w.outgoing(u, p)
	m.Subject = subjectInvitation + m.ID + " from " + u.Address
	m.Calendar = &content.Calendar{Method: "REQUEST", UID: m.ID, Organizer: u.Address, Attendees: m.To,
		Begin: m.Date.Add(24 * time.Hour).Truncate(time.Hour)}
	return m
}

// appointment returns the message with an event of the user's own.
func appointment(w *World, u *User, p *workload.Planned) content.Message {
	m := w.compose(u, p)
	m.To, m.Subject = []string{u.Address}, "Appointment "+m.ID
	m.Calendar = &content.Calendar{Method: "PUBLISH", UID: m.ID,
		Begin: m.Date.Add(24 * time.Hour).Truncate(time.Hour)}
	return m
}

// invitation is an invitation in the INBOX that waits for an answer. message names its mail: a UID, or an id of JMAP.
type invitation struct{ id, organizer, message string }

// invitations are those that listings have shown.
type invitations struct {
	waits []invitation
	seen  map[string]bool // those that were answered; nil before the first
}

// learn remembers the invitation in a line of a listing, if there is one.
func (x *invitations) learn(line, message string) {
	v, ok := parseInvitation(line)
	if !ok || x.seen[v.id] || len(x.waits) >= maxKnown ||
		slices.ContainsFunc(x.waits, func(o invitation) bool { return o.id == v.id }) {
		return
	}
	v.message = message
	x.waits = append(x.waits, v)
}

// next returns the invitation that was shown last, and forgets it.
func (x *invitations) next() (v invitation, ok bool) {
	n := len(x.waits)
	if n == 0 {
		return v, false
	}
	v, x.waits = x.waits[n-1], x.waits[:n-1]
	if x.seen == nil || len(x.seen) > maxKnown {
		x.seen = make(map[string]bool)
	}
	x.seen[v.id] = true
	return v, true
}

// forget drops the invitation of a message that the user has deleted.
func (x *invitations) forget(message string) {
	x.waits = slices.DeleteFunc(x.waits, func(v invitation) bool { return v.message == message })
}

// parseInvitation finds an invitation in a line of a listing, by the subject that invite writes.
func parseInvitation(line string) (v invitation, ok bool) {
	_, rest, ok := strings.Cut(line, subjectInvitation)
	if !ok {
		return v, false
	}
	id, rest, ok := strings.Cut(rest, " from ")
	end := strings.IndexAny(rest, "\"\r\n) ")
	if !ok || end < 0 || len(id) > 200 || strings.Contains(line, "Accepted: "+subjectInvitation) {
		return v, false
	}
	return invitation{id: id, organizer: rest[:end]}, true
}

func (w *World) accepted(u *User, v invitation, p *workload.Planned) content.Message {
	m := w.compose(u, p)
	m.To, m.Subject, m.InReplyTo = []string{v.organizer}, "Accepted: "+subjectInvitation+v.id+" from "+v.organizer, v.id
	m.Calendar = &content.Calendar{Method: "REPLY", UID: v.id, Organizer: v.organizer, Attendees: []string{u.Address}}
	return m
}

// kindOf returns the kind of a message for the ledger.
func kindOf(m *content.Message) ledger.Kind {
	switch {
	case m.Calendar == nil:
		return ledger.Mail
	case m.Calendar.Method == "REPLY":
		return ledger.Answer
	}
	return ledger.Invitation
}

// submit sends a message over its own connection.
func (w *World) submit(ctx context.Context, u *User, m *content.Message, lmtp bool) (t Traffic, err error) {
	buf := w.memory.takeMessage()
	defer w.memory.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	c, err := w.submission(ctx, u, lmtp)
	if err != nil {
		return t, err
	}
	defer w.guard(ctx, c)()
	out := client.Outgoing{Message: *buf, Params: smtp.MailParams{}}
	if out.From, err = smtp.ParsePath(u.Address); err != nil {
		_ = c.Close()
		return t, fmt.Errorf("drive: address of %s: %w", u.Name, err)
	}
	for _, to := range m.To {
		path, err := smtp.ParsePath(to)
		if err != nil {
			_ = c.Close()
			return t, fmt.Errorf("drive: address %q: %w", to, err)
		}
		out.To = append(out.To, path)
	}
	res, err := c.Deliver(&out)
	if err != nil {
		w.Ledger.Sent(kindOf(m), m.ID, m.To, nil)
		_ = c.Close()
		return t, fmt.Errorf("drive: send: %w", err)
	}
	w.Ledger.Sent(kindOf(m), m.ID, m.To, res.Accepted)
	t = Traffic{Sent: uint64(len(*buf)), Received: 200}
	for i := range out.To {
		if !res.Accepted(i) {
			_ = c.Quit()
			return t, &Refusal{refusedWith(&res, i)}
		}
	}
	// The server has accepted the message; no user waits for QUIT.
	begun := w.Env.Clock.Now()
	_ = c.Quit()
	t.Held = w.Env.Clock.Now().Sub(begun)
	return t, nil
}

// refusedWith returns the reply that explains why recipient i was refused.
func refusedWith(res *client.Result, i int) string {
	replies := []*smtp.Reply{res.Mail}
	if i < len(res.Rcpt) {
		replies = append(replies, res.Rcpt[i])
	}
	for _, r := range append(replies, res.Final...) {
		if r != nil && !r.Positive() {
			return r.Error()
		}
	}
	return "no reply"
}

// submission connects, and signs in if the server offers it. Mail goes to the submission doors, or to smtp if the
// target has none.
func (w *World) submission(ctx context.Context, u *User, lmtp bool) (*client.Client, error) {
	o := client.Options{LMTP: lmtp, Timeout: w.timeout()}
	door := "lmtp"
	if !lmtp {
		for _, door = range []string{"submissions", "submission", "smtp"} {
			if w.Target.Doors[door] != "" {
				break
			}
		}
	}
	address := w.Target.Doors[door]
	if door == "submissions" {
		o.TLS = w.Target.tlsFor(address)
	}
	if address == "" {
		return nil, errors.New("drive: the target has no door for sending")
	}
	c, err := client.Dial(w.Env, "tcp", address, o)
	if err != nil {
		return nil, smtpError(err)
	}
	defer w.guard(ctx, c)()
	if err := w.introduce(c, u, door); err != nil {
		_ = c.Close()
		return nil, smtpError(err)
	}
	return c, nil
}

func (w *World) introduce(c *client.Client, u *User, door string) error {
	if err := c.Hello("bench.example"); err != nil {
		return err
	}
	if _, ok := c.Ext("STARTTLS"); ok && w.Target.StartTLS && door != "submissions" {
		if err := c.StartTLS(w.Target.tlsFor(w.Target.Doors[door])); err != nil {
			return err
		}
		if err := c.Hello("bench.example"); err != nil {
			return err
		}
	}
	if _, ok := c.Ext("AUTH"); ok && strings.HasPrefix(door, "submission") {
		return c.Auth(sasl.NewPlainClient("", u.Name, u.Password))
	}
	return nil
}

// smtpError turns an SMTP reply into a *Refusal, and leaves other errors, which mean a broken connection.
func smtpError(err error) error {
	var r *smtp.Reply
	if errors.As(err, &r) {
		return &Refusal{r.Error()}
	}
	return err
}
