package imapd

import (
	"errors"
	"io"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/imap"
)

// state is a set of the states of RFC 9051 section 3.
type state uint8

const (
	notAuthenticated state = 1 << iota
	authenticated
	selected

	signedIn = authenticated | selected
	anyState = notAuthenticated | signedIn
)

// session is the state of one client. It is small, because tens of thousands wait at the same time.
type session struct {
	srv     *Server
	c       *listen.Conn
	in      *imap.Reader
	account signin.Account
	file    *mailbox.File // nil before sign-in
	view    *mailbox.View // nil while no mailbox is selected
	home    *forward.Session
	move    moving
	saved   mailbox.Set // result for `$`, as UIDs
	// contexts holds the updated searches of the selected mailbox.
	contexts []*searchContext
	// notifier is nil before NOTIFY.
	notifier *notifier

	out     output
	scratch listen.Buffer
	held    int64    // bytes that room has reserved for out and scratch
	gone    []uint32 // UIDs for one VANISHED
	heard   heard
	rights  note.Rights // rights in the selected mailbox at the time of SELECT
	listed  []string    // keywords last reported in its FLAGS, besides those of listedAlways
	failed  error       // the connection failed

	started      time.Time
	rev2         bool // IMAP4rev2 is enabled
	utf8         bool // UTF8=ACCEPT is enabled
	condstore    bool // MODSEQ is sent
	qresync      bool
	uidOnly      bool
	over         bool
	bad          uint8 // bad commands in a row
	authFailures uint8
}

// errCut means that the output was aborted inside a literal.
var errCut = errors.New("imapd: output broken off")

// strangerLimits returns the limits for a client before authentication. Its longest valid command is ID with 30 fields
// of 30 bytes and values of 1,024 bytes (RFC 2971 section 3.3).
func strangerLimits() imap.Limits {
	return imap.Limits{
		Line: 40 << 10, Literal: 8 << 10, Total: 48 << 10, Discard: 64 << 10, Ranges: 10, Depth: 4, Items: 100,
	}
}

func newSession(srv *Server, c *listen.Conn) *session {
	s := &session{srv: srv, c: c, started: c.Now()}
	s.in = imap.NewReader((*input)(s), strangerLimits())
	s.in.Continue = s.invite
	return s
}

// input reads from the connection for the command reader. It sends the output before it waits.
type input session

func (i *input) Read(p []byte) (int, error) {
	s := (*session)(i)
	if len(s.c.Buffered()) == 0 {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if s.file == nil && s.c.Now().Sub(s.started) > s.srv.cfg.LoginTimeout {
		return 0, listen.ErrTimeout // single bytes do not extend the timeout
	}
	var n int
	err := s.home.Waits(s.c.Context(), func() (err error) {
		n, err = s.c.Read(p)
		return err
	})
	return n, err
}

// invite sends the continuation request for a synchronising literal.
func (s *session) invite() error {
	s.out.Take()
	s.out.B = append(s.out.B, "+ OK\r\n"...)
	return s.flush()
}

func (s *session) run() {
	s.begun()
	for !s.over && s.failed == nil {
		if s.in.Buffered() == 0 {
			if err := s.await(s.timeout()); err != nil {
				if s.notifier != nil && errors.Is(err, listen.ErrWoken) {
					s.unasked()
					continue
				}
				s.lost(err)
				continue
			}
		}
		s.command()
		if s.out.large() {
			_ = s.flush()
		}
	}
	_ = s.flush()
}

// begun greets the client, or continues a session that another server has forwarded. It is not part of run, because a
// session waits with the frame of run on its stack (see await).
//
//go:noinline
func (s *session) begun() {
	a, ok := forward.AccountOf(s.c)
	if !ok {
		s.greet()
		return
	}
	// The server that forwarded the session has answered the sign-in.
	if err := s.c.SignedIn(a.Who.Person); err != nil {
		s.out.Take()
		s.bye("UNAVAILABLE", "Too many sessions at once, try again later")
		return
	}
	s.home = forward.Taken(s.c)
	s.enter(a)
	forward.Resume(s.c, s.resume)
}

// unasked sends the events of NOTIFY between commands.
func (s *session) unasked() {
	if !s.home.Begin(s.c.Context()) {
		s.moveOn()
		return
	}
	defer s.home.Done()
	if s.out.Take(); s.refresh() {
		s.news(false)
	}
}

// end releases all resources of the session, also after a panic.
func (s *session) end() {
	s.dropNotify()
	s.forget()
	s.release()
	s.memory().Give(s.move.held)
	s.home.End()
	s.srv.stats.current.Add(-1)
}

// timeout returns the time for which the client may be silent now.
func (s *session) timeout() time.Duration {
	if s.file != nil {
		return s.account.Silence(s.srv.cfg.IdleTimeout, s.c.Now())
	}
	return max(s.srv.cfg.LoginTimeout-s.c.Now().Sub(s.started), time.Millisecond)
}

// await waits for input and holds no buffers meanwhile. Responses to pipelined commands are sent together.
//
// The stack of a waiting session must take less than 1,248 bytes. Then the garbage collector shrinks it to 4 KB
// instead of 8 KB: it halves a stack of which less than a quarter is in use, 800 bytes of reserve included. So the
// functions that wait, from run and idle down to listen.Conn.Await, keep large variables in functions of their own that
// return before the wait. TestStackOfIdle measures it.
func (s *session) await(timeout time.Duration) error {
	if len(s.c.Buffered()) == 0 {
		if err := s.flush(); err != nil {
			return err
		}
		s.release()
	}
	paused := s.home.Pause()
	err := s.c.Await(timeout)
	if paused {
		s.home.Resume(s.c.Context())
	}
	return err
}

// lost handles an error of Await or of a read. It ends the session, unless a watch has woken it.
func (s *session) lost(err error) {
	switch {
	case errors.Is(err, listen.ErrWoken):
	case errors.Is(err, listen.ErrClosing):
		s.bye("UNAVAILABLE", "Server is shutting down")
	case errors.Is(err, listen.ErrTimeout):
		s.srv.stats.timeouts.Inc()
		text := "Autologout; idle for too long"
		if s.file == nil {
			text = "Autologout; no sign-in"
		}
		s.bye("", text)
	case errors.Is(err, imap.ErrClose):
		s.bye("LIMIT", "Too much input to discard")
	default:
		s.over = true
		if s.failed == nil && !errors.Is(err, io.EOF) {
			s.failed = err
		}
	}
}

func (s *session) greet() {
	s.out.Take()
	b := append(s.out.B, "* OK [CAPABILITY"...)
	b = s.appendCapabilities(b)
	b = append(b, "] "...)
	b = append(b, s.srv.cfg.Hostname...)
	s.out.B = append(b, " Doublet ready\r\n"...)
}

// command reads one command and answers it.
func (s *session) command() {
	cmd, err := s.in.ReadCommand()
	s.out.Take()
	if err != nil {
		var e *imap.SyntaxError
		if errors.As(err, &e) {
			s.syntax(e)
			return
		}
		s.lost(err)
		return
	}
	v, ok := s.srv.verbs[cmd.Name]
	if !ok { // the parser knows it, this server does not
		s.badly(cmd, "Unknown command")
		return
	}
	v.count.Inc()
	s.srv.stats.trans.Inc()
	if v.states&s.state() == 0 {
		s.wrongState(cmd)
		return
	}
	s.carryOut(v.verb, cmd)
	if !s.move.due {
		s.move.idling = false
	}
	switch {
	case s.over:
	case s.move.away:
		s.carryAway()
	case s.move.due:
		s.moveOn()
	}
}

// carryOut executes a command, in the state that it requires.
func (s *session) carryOut(v verb, cmd *imap.Command) {
	if s.file != nil {
		if !s.begin(cmd) {
			return
		}
		defer s.home.Done()
		if cmd.Name != "LOGOUT" && !s.refresh() {
			return
		}
		s.srv.stats.users.Touch(s.account.Who.Person)
	}
	if s.uidOnly && !cmd.UID && byNumber(cmd.Name) {
		s.uidRequired(cmd)
		return
	}
	before := s.bad
	v.run(s, cmd)
	if s.bad == before {
		s.bad = 0
	}
}

// refresh looks up the account again. It returns false if the account is no longer valid; then the session has ended.
func (s *session) refresh() bool {
	changed, err := s.srv.backend.SignIn().Refresh(s.c.Context(), &s.account)
	switch {
	case errors.Is(err, signin.ErrDisabled):
		s.bye("", "The account may not be used any more")
		return false
	case err != nil:
		s.srv.env.Log.Error("imapd: looking up the account failed", "account", s.account.Name, "err", err)
		s.bye("UNAVAILABLE", "Temporary failure, sign in again later")
		return false
	case changed:
		s.file.Renew(s.account.Who)
		if s.view != nil {
			s.view.File().Renew(s.account.Who)
		}
	}
	return true
}

func (s *session) state() state {
	switch {
	case s.file == nil:
		return notAuthenticated
	case s.view == nil:
		return authenticated
	}
	return selected
}

func (s *session) wrongState(cmd *imap.Command) {
	switch {
	case s.file == nil:
		s.badly(cmd, "Sign in first")
	case cmd.Name == "LOGIN" || cmd.Name == "AUTHENTICATE" || cmd.Name == "STARTTLS":
		s.badly(cmd, "Already signed in")
	default:
		s.badly(cmd, "Select a mailbox first")
	}
}

// verb holds the states in which a command is allowed, and the method that executes it and sends the tagged response.
type verb struct {
	states state
	run    func(*session, *imap.Command)
}

var verbs = map[string]verb{
	"APPEND":       {signedIn, (*session).append},
	"AUTHENTICATE": {notAuthenticated, (*session).authenticate},
	"CANCELUPDATE": {selected, (*session).cancelUpdate},
	"CAPABILITY":   {anyState, (*session).capability},
	"CHECK":        {selected, (*session).noop},
	"CLOSE":        {selected, (*session).closeMailbox},
	"COMPRESS":     {signedIn, (*session).compress},
	"COPY":         {selected, (*session).copy},
	"CREATE":       {signedIn, (*session).create},
	"DELETE":       {signedIn, (*session).delete},
	"DELETEACL":    {signedIn, (*session).setACL},
	"ENABLE":       {signedIn, (*session).enable},
	"ESEARCH":      {signedIn, (*session).multiSearch},
	"EXAMINE":      {signedIn, (*session).selectMailbox},
	"EXPUNGE":      {selected, (*session).expunge},
	"FETCH":        {selected, (*session).fetch},
	"GENURLAUTH":   {signedIn, (*session).genURLAuth},
	"GETACL":       {signedIn, (*session).getACL},
	"GETMETADATA":  {signedIn, (*session).getMetadata},
	"GETQUOTA":     {signedIn, (*session).getQuota},
	"GETQUOTAROOT": {signedIn, (*session).getQuotaRoot},
	"ID":           {anyState, (*session).id},
	"IDLE":         {signedIn, (*session).idle},
	"LIST":         {signedIn, (*session).list},
	"LISTRIGHTS":   {signedIn, (*session).listRights},
	"LOGIN":        {notAuthenticated, (*session).login},
	"LOGOUT":       {anyState, (*session).logout},
	"LSUB":         {signedIn, (*session).lsub},
	"MOVE":         {selected, (*session).copy},
	"MYRIGHTS":     {signedIn, (*session).myRights},
	"NAMESPACE":    {signedIn, (*session).namespace},
	"NOOP":         {anyState, (*session).noop},
	"NOTIFY":       {signedIn, (*session).notify},
	"RENAME":       {signedIn, (*session).rename},
	"REPLACE":      {selected, (*session).replace},
	"RESETKEY":     {signedIn, (*session).resetKey},
	"SEARCH":       {selected, (*session).search},
	"SELECT":       {signedIn, (*session).selectMailbox},
	"SETACL":       {signedIn, (*session).setACL},
	"SETMETADATA":  {signedIn, (*session).setMetadata},
	"SETQUOTA":     {signedIn, (*session).setQuota},
	"SORT":         {selected, (*session).sort},
	"STARTTLS":     {notAuthenticated, (*session).startTLS},
	"STATUS":       {signedIn, (*session).status},
	"STORE":        {selected, (*session).store},
	"SUBSCRIBE":    {signedIn, (*session).subscribe},
	"THREAD":       {selected, (*session).thread},
	"UIDBATCHES":   {selected, (*session).uidBatches},
	"UNSELECT":     {selected, (*session).unselect},
	"UNSUBSCRIBE":  {signedIn, (*session).subscribe},
	"URLFETCH":     {signedIn, (*session).urlFetch},
}
