package ldapd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"doublet/directory"
	"doublet/note"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/ldap"
)

const (
	// sendAt is the number of bytes at which output is sent before the end of a response.
	sendAt = 48 << 10
	// maxMessage is the maximum size of a message of a client that is signed in, and maxFirst of the others, in bytes.
	// A message of maxFirst fits into the buffer of the connection.
	maxMessage = 256 << 10
	maxFirst   = listen.BufferSize
)

// session is the state of one client.
type session struct {
	srv *Server
	c   *listen.Conn
	// account is the person who is signed in; the zero Account before. dn is their distinguished name.
	account signin.Account
	// exchange is the SASL bind in progress, with the mechanism.
	exchange  signin.Exchange
	mechanism string

	out          listen.Buffer
	failed       error // the connection failed
	over         bool
	authFailures int
}

// operation is a request with the method that answers it.
type operation struct {
	name string
	run  func(*session, *ldap.Message)
}

var operations map[ldap.Op]operation

func init() {
	unwilling := (*session).unwilling
	operations = map[ldap.Op]operation{
		ldap.OpBind: {"Bind", (*session).bind}, ldap.OpUnbind: {"Unbind", (*session).unbind},
		ldap.OpSearch: {"Search", (*session).search}, ldap.OpCompare: {"Compare", (*session).compare},
		ldap.OpAbandon: {"Abandon", (*session).abandon}, ldap.OpExtended: {"Extended", (*session).extended},
		ldap.OpAdd: {"Add", unwilling}, ldap.OpDelete: {"Delete", unwilling}, ldap.OpModify: {"Modify", unwilling},
		ldap.OpModifyDN: {"ModifyDN", unwilling},
	}
}

func (s *session) run() {
	s.out.Take()
	for !s.over && s.failed == nil {
		if len(s.c.Buffered()) == 0 {
			if err := s.await(); err != nil {
				s.lost(err)
				continue
			}
		}
		s.message()
		if len(s.out.B) > sendAt {
			_ = s.flush()
		}
	}
	_ = s.flush()
}

// end releases all resources of the session, also after a panic.
func (s *session) end() {
	s.out.Release()
	s.srv.stats.current.Add(-1)
}

// signedIn reports whether a person is signed in.
func (s *session) signedIn() bool { return !s.account.Who.Person.IsZero() }

// await waits for a message and holds no buffer meanwhile. Responses to pipelined requests are sent together.
func (s *session) await() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.out.Release()
	d := s.srv.cfg.LoginTimeout
	if s.signedIn() {
		d = s.account.Silence(s.srv.cfg.IdleTimeout, s.c.Now())
	}
	return s.c.Await(d)
}

// lost ends the session after an error of Await or of a read.
func (s *session) lost(err error) {
	switch {
	case errors.Is(err, listen.ErrWoken):
		return
	case errors.Is(err, listen.ErrTimeout):
		s.srv.stats.timeouts.Inc()
		s.disconnect(ldap.Busy, "no request for too long")
	case errors.Is(err, listen.ErrClosing):
		s.disconnect(ldap.Unavailable, "server is shutting down")
	case errors.Is(err, io.EOF):
	default:
		s.failed = err
	}
	s.over = true
}

// disconnect ends the session with a notice that has the reason.
func (s *session) disconnect(code ldap.Code, text string) {
	s.out.Take()
	s.out.B = append(s.out.B, disconnection(code, text)...)
	s.over = true
}

// flush sends the output. An error is stored and ends the session.
func (s *session) flush() error {
	if s.failed == nil && len(s.out.B) > 0 {
		_, s.failed = s.c.Write(s.out.B)
	}
	s.out.B = s.out.B[:0]
	return s.failed
}

// read reads one message. free releases its memory.
func (s *session) read() (b []byte, free func(), err error) {
	limit := maxFirst
	if s.signedIn() {
		limit = maxMessage
	}
	for {
		b = s.c.Buffered()
		n, err := ldap.Frame(b, limit)
		switch {
		case err != nil:
			return nil, nil, err
		case n > 0 && len(b) >= n:
			s.c.Discard(n)
			return b[:n], func() {}, nil
		case n > listen.BufferSize:
			return s.readLarge(n)
		}
		if err := s.flush(); err != nil {
			return nil, nil, err
		}
		if err := s.c.Fill(s.srv.cfg.DataTimeout); err != nil {
			return nil, nil, err
		}
	}
}

// readLarge reads a message that does not fit into the buffer of the connection.
func (s *session) readLarge(n int) (b []byte, free func(), err error) {
	if !s.srv.cfg.Memory.Take(int64(n)) {
		return nil, nil, listen.ErrMemory
	}
	free = func() { s.srv.cfg.Memory.Give(int64(n)) }
	b = make([]byte, 0, n)
	for len(b) < n {
		in := s.c.Buffered()
		if len(in) == 0 {
			if err := s.c.Fill(s.srv.cfg.DataTimeout); err != nil {
				free()
				return nil, nil, err
			}
			continue
		}
		in = in[:min(len(in), n-len(b))]
		b = append(b, in...)
		s.c.Discard(len(in))
	}
	return b, free, nil
}

// message reads one message and answers it.
func (s *session) message() {
	b, free, err := s.read()
	s.out.Take()
	switch {
	case err == nil:
	case errors.Is(err, ldap.ErrSyntax), errors.Is(err, ldap.ErrTooLarge):
		s.malformed(err)
		return
	case errors.Is(err, listen.ErrMemory):
		s.disconnect(ldap.Busy, "too many large requests, try again later")
		return
	default:
		s.lost(err)
		return
	}
	defer free()
	m, err := ldap.Parse(b)
	if err != nil || m.ID == 0 {
		s.malformed(err)
		return
	}
	op, known := operations[m.Op]
	if !known {
		s.malformed(nil)
		return
	}
	s.srv.stats.trans.Inc()
	s.srv.stats.operations[m.Op].Inc()
	if m.Op != ldap.OpUnbind && m.Op != ldap.OpAbandon && !s.refresh(&m) {
		return
	}
	op.run(s, &m)
}

// malformed ends a session whose client does not speak LDAP.
//
// Implements: RFC 4511 §4.1.1 Response to a message that cannot be parsed
func (s *session) malformed(err error) {
	s.srv.stats.bad.Inc()
	text := "malformed message"
	if errors.Is(err, ldap.ErrTooLarge) {
		text = "message too large"
	}
	s.disconnect(ldap.ProtocolError, text)
}

// refused answers a request whose body is malformed. The session goes on: the message as a whole was understood.
func (s *session) refused(m *ldap.Message, err error) {
	s.srv.stats.bad.Inc()
	r := ldap.Result{Code: ldap.ProtocolError, Text: "malformed request"}
	if errors.Is(err, ldap.ErrFilter) {
		r = ldap.Result{Code: ldap.AdminLimitExceeded, Text: fmt.Sprintf(
			"filter too large: at most %d levels and %d parts are allowed", ldap.MaxFilterDepth, ldap.MaxFilterNodes)}
	}
	s.reply(m, r)
}

// refresh looks up the account again. It returns false if the account is no longer valid; then the session has ended.
func (s *session) refresh(m *ldap.Message) bool {
	if !s.signedIn() {
		s.srv.stats.anonymous.Inc()
		return true
	}
	_, err := s.srv.accounts.Refresh(s.c.Context(), &s.account)
	switch {
	case errors.Is(err, signin.ErrCredentials), errors.Is(err, signin.ErrDisabled):
		s.disconnect(ldap.StrongerAuthRequired, "the account or its password has changed, sign in again")
		return false
	case err != nil:
		s.trouble(m, err)
		return false
	}
	s.srv.stats.users.Touch(s.account.Who.Person)
	return true
}

// reply sends the result of an operation.
func (s *session) reply(m *ldap.Message, r ldap.Result) {
	if r.Op == 0 {
		if r.Op = m.Op.Response(); r.Op == 0 {
			return
		}
	}
	s.out.B = ldap.AppendResult(s.out.B, m.ID, &r)
}

// trouble answers an internal error. It logs errors that are not in the table of conditions.
func (s *session) trouble(m *ldap.Message, err error) {
	c, known := condition.Of(err)
	if !known || c == condition.Damaged {
		s.srv.env.Log.Error("ldapd: operation failed", "account", s.account.Name, "err", err)
	}
	code := ldap.Unavailable
	switch c {
	case condition.Busy, condition.NoMemory:
		code = ldap.Busy
	case condition.Damaged, condition.Trouble:
		code = ldap.Other
	}
	s.reply(m, ldap.Result{Code: code, Text: c.IMAPText})
}

// attempt describes the origin of a sign-in.
func (s *session) attempt() signin.Attempt { return signin.AttemptOf(s.c, "LDAP") }

// protected reports whether a password may be sent on this connection: over TLS, or from this machine.
func (s *session) protected() bool { return s.c.Secure() || s.c.Local() }

// readers is the id of the group whose members see everything, as of one version of the directory.
type readers struct {
	version uint64
	group   note.UNID
}

// view returns the directory as the client may see it now.
func (s *session) view() (*view, error) {
	v := &view{ctx: s.c.Context(), srv: s.srv, who: s.account.Who, mechanisms: s.mechanisms}
	var err error
	if v.tree, err = s.srv.tree(v.ctx); err != nil {
		return nil, err
	}
	switch {
	case !s.signedIn():
		if s.srv.cfg.Anonymous && s.c.Local() {
			v.level = levelPublic
		}
		return v, nil
	case directory.RequireAdmin(v.who) == nil:
		v.level = levelFull
		return v, nil
	}
	v.level = levelPublic
	id, err := s.srv.readerGroup(v.ctx)
	if err == nil && !id.IsZero() && slices.Contains(v.who.Groups, id) {
		v.level = levelFull
	}
	return v, err
}

// mechanisms returns the SASL mechanisms that are offered on this connection now.
func (s *session) mechanisms() []string {
	if !s.protected() {
		return nil
	}
	return s.srv.accounts.Mechanisms(s.attempt())
}

// readerGroup returns the id of the group of readers, zero if there is none.
func (srv *Server) readerGroup(ctx context.Context) (note.UNID, error) {
	if srv.cfg.Readers == "" {
		return note.UNID{}, nil
	}
	version := srv.dir.Version()
	if r := srv.readers.Load(); r != nil && r.version == version {
		return r.group, nil
	}
	t, err := srv.dir.Names.Lookup(ctx, srv.cfg.Readers)
	if err != nil && !errors.Is(err, directory.ErrNotFound) {
		return note.UNID{}, err
	}
	r := &readers{version: version}
	if err == nil && t.Kind == directory.TargetGroup {
		r.group = t.ID
	}
	srv.readers.Store(r)
	return r.group, nil
}

// unbind ends the session without a response.
//
// Implements: RFC 4511 §4.3 Unbind operation
func (s *session) unbind(*ldap.Message) { s.over = true }

// abandon does nothing: the session executes one operation after another, so the operation has ended.
func (s *session) abandon(*ldap.Message) {}

// critical reports whether a message has a critical control. Only searches have controls here.
func critical(m *ldap.Message) bool {
	return slices.ContainsFunc(m.Controls, func(c ldap.Control) bool { return c.Critical })
}

// unwilling answers an operation that would change the directory.
func (s *session) unwilling(m *ldap.Message) {
	s.reply(m, ldap.Result{Code: ldap.UnwillingToPerform, Text: "the directory is read-only over LDAP"})
}
