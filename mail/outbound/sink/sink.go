// Package sink implements a mail server that stores nothing permanently. Tests and benchmarks of outgoing mail script
// it to accept, reject, stall or disconnect.
package sink

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"doublet/env"
	"doublet/wire/scram"
)

// Cut, as a reply, closes the connection without a reply.
const Cut = "cut"

// Message is a message that the server received.
type Message struct {
	Session int // the number of the connection, from 1
	TLS     bool
	User    string // user name and password of the client, as "name:password"
	From    string // the argument of MAIL, with parameters
	To      []string
	Data    string
}

// Options control the behavior of a server.
type Options struct {
	// Name is the server's name in its greeting and its reply to EHLO.
	Name string
	// Extensions are lines of its reply to EHLO.
	Extensions []string
	// TLS enables STARTTLS. With Implicit, TLS starts with the first byte.
	TLS      *tls.Config
	Implicit bool
	// Password is every user's password for SCRAM-SHA-256. PLAIN and LOGIN accept any password.
	Password string
	// Reply overrides the reply to a command line (without its line end). "" selects the server's own reply, and Cut
	// closes the connection. The line "." is the end of a message's data and "greeting" the greeting. "data" is the
	// first line of the data; there the only effective reply is Cut.
	Reply func(session int, line string) string
	// Taken is called for each message before the reply; it may be nil.
	Taken func(Message)
	// Discard drops the messages instead of keeping them in memory.
	Discard bool
}

// Server is a listening server.
type Server struct {
	env      *env.Env
	listener net.Listener
	opt      atomic.Pointer[Options]
	sessions atomic.Int64
	count    atomic.Int64

	mu   sync.Mutex
	got  []Message
	open map[net.Conn]bool
	wg   sync.WaitGroup
}

// New starts a server at an address, such as 127.0.0.1:0.
func New(e *env.Env, address string, o Options) (*Server, error) {
	l, err := e.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{env: e, listener: l, open: make(map[net.Conn]bool)}
	s.Behave(o)
	s.wg.Add(1)
	e.Go("sink", s.accept)
	return s, nil
}

// Behave changes the behavior of the server, from the next connection on.
func (s *Server) Behave(o Options) {
	if o.Name == "" {
		o.Name = "sink.example"
	}
	if o.Extensions == nil {
		o.Extensions = []string{"PIPELINING", "SIZE 10000000", "8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES"}
	}
	s.opt.Store(&o)
}

// Port returns the TCP port of the listener.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Sessions returns the number of connections so far.
func (s *Server) Sessions() int { return int(s.sessions.Load()) }

// Count returns the number of accepted messages.
func (s *Server) Count() int { return int(s.count.Load()) }

// Messages returns the accepted messages.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.got...)
}

// Close closes all connections and waits until their sessions have ended.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = true
		s.mu.Unlock()
		s.wg.Add(1)
		number := int(s.sessions.Add(1))
		s.env.Go("sink session", func() {
			defer s.wg.Done()
			x := &session{s: s, o: s.opt.Load(), conn: c, number: number}
			x.run()
			_ = x.conn.Close()
			s.mu.Lock()
			delete(s.open, c)
			s.mu.Unlock()
		})
	}
}

type session struct {
	s      *Server
	o      *Options
	conn   net.Conn
	number int
	r      *bufio.Reader
	w      *bufio.Writer
	tls    bool
	msg    Message
	user   string
}

func (x *session) start() {
	x.r, x.w = bufio.NewReaderSize(x.conn, 64<<10), bufio.NewWriterSize(x.conn, 4<<10)
}

// say sends a reply, and reports whether the session goes on. Replies to pipelined commands are sent together.
func (x *session) say(reply string) bool {
	if reply == Cut {
		return false
	}
	_, _ = x.w.WriteString(reply)
	_, _ = x.w.WriteString("\r\n")
	if strings.HasPrefix(reply, "421") {
		return false // run flushes
	}
	if x.r.Buffered() > 0 {
		return true
	}
	return x.w.Flush() == nil
}

// asked returns the scripted reply to a line, or otherwise.
func (x *session) asked(line, otherwise string) string {
	if x.o.Reply != nil {
		if r := x.o.Reply(x.number, line); r != "" {
			return r
		}
	}
	return otherwise
}

func (x *session) upgrade() bool {
	t := tls.Server(x.conn, x.o.TLS)
	if t.Handshake() != nil {
		return false
	}
	x.conn, x.tls = t, true
	x.start()
	return true
}

func (x *session) run() {
	x.start()
	if x.o.Implicit && !x.upgrade() {
		return
	}
	if !x.say(x.asked("greeting", "220 "+x.o.Name+" ESMTP")) {
		return
	}
	for {
		line, err := x.line()
		if err != nil || !x.command(line) {
			_ = x.w.Flush()
			return
		}
	}
}

func (x *session) line() (string, error) {
	b, err := x.r.ReadSlice('\n')
	return string(bytes.TrimRight(b, "\r\n")), err
}

func (x *session) command(line string) bool {
	verb, rest, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	scripted := x.asked(line, "")
	if scripted != "" && verb != "DATA" {
		return x.scripted(verb, rest, scripted)
	}
	switch verb {
	case "EHLO":
		return x.hello()
	case "HELO":
		return x.say("250 " + x.o.Name)
	case "MAIL":
		x.msg = Message{Session: x.number, TLS: x.tls, User: x.user, From: strings.TrimPrefix(rest, "FROM:")}
		return x.say("250 2.1.0 ok")
	case "RCPT":
		x.msg.To = append(x.msg.To, strings.TrimPrefix(rest, "TO:"))
		return x.say("250 2.1.5 ok")
	case "DATA":
		return x.data(scripted)
	case "RSET", "NOOP":
		return x.say("250 2.0.0 ok")
	case "STARTTLS":
		return x.say("220 2.0.0 go") && x.upgrade()
	case "AUTH":
		return x.auth(rest)
	case "QUIT":
		x.say("221 2.0.0 bye")
		return false
	}
	return x.say("500 5.5.1 what")
}

func (x *session) hello() bool {
	lines := append([]string{x.o.Name + " greets you"}, x.o.Extensions...)
	if x.o.TLS != nil && !x.tls {
		lines = append(lines, "STARTTLS")
	}
	for i, l := range lines {
		sep := "-"
		if i == len(lines)-1 {
			sep = " "
		}
		if i < len(lines)-1 {
			_, _ = x.w.WriteString("250" + sep + l + "\r\n")
			continue
		}
		return x.say("250" + sep + l)
	}
	return true
}

func (x *session) auth(rest string) bool {
	mechanism, first, _ := strings.Cut(rest, " ")
	decode := func(s string) string {
		b, _ := base64.StdEncoding.DecodeString(s)
		return string(b)
	}
	switch mechanism {
	case "PLAIN":
		if f := strings.Split(decode(first), "\x00"); len(f) == 3 {
			x.user = f[1] + ":" + f[2]
		}
	case "LOGIN":
		var got []string
		for _, ask := range []string{"VXNlcm5hbWU6", "UGFzc3dvcmQ6"} {
			if !x.say("334 " + ask) {
				return false
			}
			l, err := x.line()
			if err != nil {
				return false
			}
			got = append(got, decode(l))
		}
		x.user = strings.Join(got, ":")
	case "SCRAM-SHA-256":
		return x.scram(decode(first))
	default:
		return x.say("504 5.5.4 no")
	}
	return x.say("235 2.7.0 welcome")
}

func (x *session) scram(first string) bool {
	e := scram.NewServer(func(string) ([]scram.Credentials, error) {
		return []scram.Credentials{scram.Derive(x.o.Password, []byte("salt of the sink"), scram.MinIterations)}, nil
	}, "nonce-of-the-sink-0123456789", scram.Channel{})
	in := []byte(first)
	for {
		out, done, err := e.Next(in)
		if err != nil {
			return x.say("535 5.7.8 no")
		}
		if !x.say("334 " + base64.StdEncoding.EncodeToString(out)) {
			return false
		}
		l, err := x.line()
		if err != nil {
			return false
		}
		if done {
			x.user = e.Username() + ":" + x.o.Password
			return x.say("235 2.7.0 welcome")
		}
		in, _ = base64.StdEncoding.DecodeString(l)
	}
}

// scripted sends a reply of the script.
func (x *session) scripted(verb, rest, reply string) bool {
	if reply[0] == '2' && verb == "RCPT" {
		x.msg.To = append(x.msg.To, rest)
	}
	return x.say(reply)
}

// body reads a message up to the line with a dot alone. It returns false if the connection ends before.
func (x *session) body() (data string, ok bool) {
	var b bytes.Buffer
	first := true
	for {
		l, err := x.r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return "", false
		}
		if first && x.asked("data", "") == Cut {
			return "", false
		}
		first = false
		if len(l) == 3 && l[0] == '.' {
			return b.String(), true
		}
		if !x.o.Discard {
			b.Write(bytes.TrimPrefix(l, []byte{'.'}))
		}
	}
}

func (x *session) data(scripted string) bool {
	if scripted != "" {
		return x.say(scripted)
	}
	if len(x.msg.To) == 0 {
		return x.say("554 5.5.1 nobody")
	}
	if !x.say("354 go") {
		return false
	}
	var ok bool
	if x.msg.Data, ok = x.body(); !ok {
		return false
	}
	if x.o.Taken != nil {
		x.o.Taken(x.msg)
	}
	reply := x.asked(".", "250 2.0.0 taken")
	if reply[0] == '2' {
		x.s.count.Add(1)
		if !x.o.Discard {
			x.s.mu.Lock()
			x.s.got = append(x.s.got, x.msg)
			x.s.mu.Unlock()
		}
	}
	x.msg = Message{}
	return x.say(reply)
}
