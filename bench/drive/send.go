package drive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/bench/content"
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

// invitation is an invitation that waits for an answer.
type invitation struct{ id, organizer string }

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
	return invitation{id, rest[:end]}, true
}

// answer accepts an invitation.
func (w *World) answer(ctx context.Context, u *User, v invitation, p *workload.Planned) (Traffic, error) {
	m := w.accepted(u, v, p)
	return w.submit(ctx, u, &m, false)
}

func (w *World) accepted(u *User, v invitation, p *workload.Planned) content.Message {
	m := w.compose(u, p)
	m.To, m.Subject, m.InReplyTo = []string{v.organizer}, "Accepted: "+subjectInvitation+v.id+" from "+v.organizer, v.id
	m.Calendar = &content.Calendar{Method: "REPLY", UID: v.id, Organizer: v.organizer, Attendees: []string{u.Address},
		Begin: m.Date.Truncate(time.Hour)}
	return m
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
		w.Ledger.Sent(m.ID, m.To, nil)
		_ = c.Close()
		return t, fmt.Errorf("drive: send: %w", err)
	}
	w.Ledger.Sent(m.ID, m.To, res.Accepted)
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
