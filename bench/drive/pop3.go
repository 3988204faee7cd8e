package drive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"doublet/bench/workload"
	"doublet/client/pop3"
)

// pop3Session is a user over POP3.
type pop3Session struct {
	w     *World
	u     *User
	c     *pop3.Client
	known []uint32 // numbers of messages that are not deleted, ascending
	last  uint32
	// broken means that the connection is unusable.
	broken bool
}

func (w *World) openPOP3(ctx context.Context, u *User) (Session, Traffic, error) {
	conn, secure, err := w.dial("pop3", "pop3s")
	if err != nil {
		return nil, Traffic{}, err
	}
	defer w.guard(ctx, conn)()
	o := pop3.Options{Timeout: w.timeout()}
	if w.Target.StartTLS && !secure {
		o.Security, o.TLS = pop3.StartTLS, w.Target.tlsFor(w.Target.Doors["pop3"])
	}
	c, err := pop3.New(w.Env, conn, o)
	if err != nil {
		return nil, Traffic{}, pop3Error(err)
	}
	s := &pop3Session{w: w, u: u, c: c}
	if err := c.Login(u.Name, u.Password); err != nil {
		_ = c.Close()
		return nil, Traffic{}, pop3Error(err)
	}
	return s, Traffic{Sent: 40, Received: 80}, nil
}

func pop3Error(err error) error {
	var e *pop3.Error
	if errors.As(err, &e) {
		return &Refusal{e.Error()}
	}
	return err
}

// count counts the bytes that are written to it.
type count struct{ n uint64 }

func (c *count) Write(p []byte) (int, error) { c.n += uint64(len(p)); return len(p), nil }

// Do implements Session.
func (s *pop3Session) Do(ctx context.Context, p *workload.Planned) (t Traffic, err error) {
	defer s.w.guard(ctx, s.c)()
	switch p.Do {
	case workload.Open, workload.Poll:
		t.Received, err = s.list()
	case workload.Read:
		t.Received, err = s.read(p.Pick)
	case workload.Retrieve:
		t.Received, err = s.retrieve()
	case workload.Delete:
		err = s.delete(p.Pick)
	case workload.Close:
		err = s.c.Simple("NOOP") // deleted messages are removed at the end of the session
	case workload.Login:
		err = s.c.Simple("NOOP")
	case workload.Send, workload.Reply:
		return s.w.send(ctx, s.u, p, false)
	case workload.Invite:
		return s.w.invite(ctx, s.u, p)
	default:
		return t, fmt.Errorf("drive: POP3 does not carry %s", p.Do)
	}
	err = pop3Error(err)
	var refused *Refusal
	s.broken = s.broken || err != nil && !errors.As(err, &refused) && !errors.Is(err, ErrNothing)
	return t, err
}

func (s *pop3Session) list() (octets uint64, err error) {
	s.known = s.known[:0]
	err = s.c.List(func(n uint32, _ int64) {
		s.known = append(s.known, n)
		octets += 10
	})
	return octets, err
}

func (s *pop3Session) read(pick uint64) (uint64, error) {
	if len(s.known) == 0 {
		return 0, ErrNothing
	}
	var c count
	s.last = s.known[pick%uint64(len(s.known))]
	err := s.c.Retrieve(s.last, io.Writer(&c))
	return c.n, err
}

// retrieve fetches and deletes all messages, as the workload of the load tool does.
func (s *pop3Session) retrieve() (uint64, error) {
	var c count
	octets, err := s.list()
	if err != nil {
		return octets, err
	}
	for _, n := range s.known {
		if err := s.c.Retrieve(n, &c); err != nil {
			return octets + c.n, err
		}
		if err := s.c.Delete(n); err != nil {
			return octets + c.n, err
		}
	}
	s.known = s.known[:0]
	return octets + c.n, nil
}

func (s *pop3Session) delete(pick uint64) error {
	if len(s.known) == 0 {
		return ErrNothing
	}
	i := int(pick % uint64(len(s.known)))
	n := s.known[i]
	s.known = append(s.known[:i], s.known[i+1:]...)
	return s.c.Delete(n)
}

// Close implements Session: QUIT removes the deleted messages.
func (s *pop3Session) Close() error {
	if s.broken {
		return s.c.Close()
	}
	return s.c.Quit()
}
