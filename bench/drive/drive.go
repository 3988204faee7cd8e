// Package drive performs the actions of simulated people over mail protocols. A session belongs to one user and one
// goroutine. It parses only what it needs to know and discards the rest, so that one driver can hold thousands of
// sessions.
package drive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
	"doublet/env"
	"doublet/wire/smtp"
)

// Target is the server under test.
type Target struct {
	// Doors are addresses, host:port, by protocol: imap, imaps, pop3, pop3s, smtp, submission, submissions, lmtp, jmap,
	// jmaps. A door whose name ends in s speaks TLS from the first byte.
	Doors map[string]string
	// TLS is for doors under TLS, and for STARTTLS if StartTLS is set.
	TLS      *tls.Config
	StartTLS bool
	// Timeout is the time after which an answer counts as failed (default 1 min).
	Timeout time.Duration
}

// User is one simulated person.
type User struct {
	Index                   int
	Name, Password, Address string
	// Known is the person's name in a directory, "" if unknown.
	Known string
	// Server is the number of the user's home, if there are several servers.
	Server int
}

// World is the state that all users of a driver share.
type World struct {
	Env      *env.Env
	Target   Target
	Workload *workload.Workload
	Seed     uint64
	// Speed is the factor by which waiting is shortened; 0 means 1.
	Speed float64
	// Users are all registered users. The active ones write to all of them.
	Users []User
	// Label makes the Message-IDs of this run unique.
	Label string
	// Abroad means that users write only to users of other servers.
	Abroad bool
	// Ledger records what was acknowledged over IMAP, SMTP and JMAP; it may be nil.
	Ledger *ledger.Ledger
	// FillOver is the protocol that fills mailboxes: workload.IMAP (""), JMAP or LMTP.
	FillOver string
	// Plans means that users work in calendars over JMAP, which Fill then empties.
	Plans bool
	// Cold makes every browser load all files of a client, as on a first visit.
	Cold bool

	kept    kept
	foreign foreign
	serial  atomic.Uint64
	memory  memory
}

// Session is a user's connection.
type Session interface {
	// Do performs one action and returns when the last byte of its answer has arrived. An error of the server is a
	// *Refusal; after any other error, except ErrNothing, the connection is unusable. When ctx ends, Do ends held
	// actions at once and abandons an unanswered one after a short grace.
	Do(ctx context.Context, p *workload.Planned) (Traffic, error)
	// Close ends the session cleanly.
	Close() error
}

// Traffic counts the bytes of an action. Held is the time for which the user kept it open on purpose, which is no
// latency.
type Traffic struct {
	Sent, Received uint64
	Held           time.Duration
}

func (t *Traffic) add(o Traffic) {
	t.Sent += o.Sent
	t.Received += o.Received
	t.Held += o.Held
}

// Refusal is the error of a server that did not perform an action.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return "refused: " + r.Text }

// ErrNothing means that the action had no object: no message to read, no invitation to answer. It is no failure of the
// server and does not count as an action.
var ErrNothing = errors.New("drive: nothing to do it with")

// maxKind is the length limit of a kind of error.
const maxKind = 60

// Kind returns a short text of an error, so that equal errors are counted together.
func Kind(err error) string {
	var r *Refusal
	var bye *Farewell
	switch {
	case err == nil:
		return ""
	case errors.As(err, &r):
		return short(r.Text)
	case errors.As(err, &bye):
		return short(bye.Text)
	case errors.Is(err, ErrProtocol), errors.Is(err, smtp.ErrMalformedReply):
		return "broken protocol"
	case isTimeout(err):
		return "time-out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "the driver ran out of ports"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the driver ran out of descriptors"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed by the server"
	}
	return "connection lost"
}

// short cuts a server's text and removes the times that some servers append, because they make every text different.
func short(text string) string {
	if i := strings.LastIndex(text, " ("); i > 0 && strings.Contains(text[i:], " secs)") {
		text = text[:i]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxKind {
		text = strings.ToValidUTF8(text[:maxKind], "")
	}
	if text == "" {
		return "refused without a word"
	}
	return text
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// Open signs a user in over a protocol.
func (w *World) Open(ctx context.Context, protocol string, u *User) (Session, Traffic, error) {
	switch protocol {
	case workload.IMAP:
		return w.openIMAP(ctx, u)
	case workload.POP3:
		return w.openPOP3(ctx, u)
	case workload.JMAP:
		return w.openJMAP(ctx, u)
	case workload.WebFull:
		return w.openWeb(ctx, u)
	case workload.WebLite:
		return w.openLite(ctx, u)
	case workload.SMTP, workload.LMTP:
		return &sender{w: w, u: u, lmtp: protocol == workload.LMTP}, Traffic{}, nil
	}
	return nil, Traffic{}, fmt.Errorf("drive: %s cannot be driven yet", protocol)
}

// Connections returns the number of connections that a user keeps open.
func Connections(protocol string) int {
	if protocol == workload.WebFull {
		return 3 // one for requests, and one for the pushes of each page: mail and calendar
	}
	return 1
}

// grace is the time that a server has to answer the current action after the end of a step.
const grace = 5 * time.Second

// guard closes a connection a while after ctx has ended, unless stop is called first. So a stalled server cannot delay
// the end of a run.
func (w *World) guard(ctx context.Context, conn io.Closer) (stop func()) {
	end := context.AfterFunc(ctx, func() {
		w.Env.Clock.Sleep(grace)
		_ = conn.Close()
	})
	return func() { end() }
}

// timeout returns the timeout of one answer.
func (w *World) timeout() time.Duration {
	if w.Target.Timeout > 0 {
		return w.Target.Timeout
	}
	return time.Minute
}

// idle does nothing for the time for which an action is held open. It returns the time that passed.
func (w *World) idle(ctx context.Context, p *workload.Planned) time.Duration {
	begun := w.Env.Clock.Now()
	select {
	case <-ctx.Done():
	case <-w.Env.Clock.After(w.hold(p)):
	}
	return w.Env.Clock.Now().Sub(begun)
}

// hold returns the time for which an action is held open.
func (w *World) hold(p *workload.Planned) time.Duration {
	if w.Speed > 0 {
		return time.Duration(float64(p.Hold) / w.Speed)
	}
	return time.Duration(p.Hold)
}

// bufferSize is the size of the buffer for one action; waiting sessions hold none.
const bufferSize = 16 << 10

// memory keeps buffers between actions.
type memory struct{ buffers, messages sync.Pool }

func (m *memory) takeBuffer() *[]byte {
	if b, ok := m.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, bufferSize)
	return &b
}

func (m *memory) giveBuffer(b *[]byte) { m.buffers.Put(b) }

// takeMessage and giveMessage reuse the memory of messages; the largest are left to the garbage collector.
func (m *memory) takeMessage() *[]byte {
	if b, ok := m.messages.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (m *memory) giveMessage(b *[]byte) {
	if cap(*b) <= 1<<20 {
		m.messages.Put(b)
	}
}

// The subjects by which a driver recognises its own invitations without reading messages.
const (
	subjectInvitation = "Invitation "
	subjectMail       = "Message "
)

// compose starts the message of an action from a user.
func (w *World) compose(u *User, p *workload.Planned) content.Message {
	size := workload.Size{Body: 1000}
	if profile := w.Workload.Sizes[p.Sizes]; len(profile) > 0 {
		size = workload.Pick(profile, p.Pick*0x9e3779b97f4a7c15)
	}
	n := w.serial.Add(1)
	return content.Message{
		From: u.Address, Date: w.Env.Clock.Now(), ID: fmt.Sprintf("%s.%d.%d", w.Label, u.Index, n),
		Subject: fmt.Sprintf("%s%d from %s", subjectMail, n, u.Name),
		Body:    int64(size.Body), Attachment: int64(size.Attachment),
		Seed: mix(p.Pick, n, w.nonce()),
	}
}

// nonce returns a number of its own for each run: two runs, and the steps of one, send other texts, lest a server that
// keeps equal content once has them already.
func (w *World) nonce() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(w.Label)) // never fails
	return h.Sum64()
}

// recipients selects the recipients of an action.
func (w *World) recipients(u *User, p *workload.Planned) []string {
	among, self := w.Users, u.Index
	if w.Abroad {
		if list := w.foreign.to(w.Users, u.Server); len(list) > 1 {
			among, self = list, -1
		}
	}
	var out []string
	for _, i := range w.Workload.Choose(self, len(among), max(1, p.To), p.Pick) {
		out = append(out, among[i].Address)
	}
	return out
}

// foreign caches, for each server, the users of all other servers.
type foreign struct {
	mu   sync.Mutex
	list map[int][]User
}

func (f *foreign) to(users []User, server int) []User {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, ok := f.list[server]
	if !ok {
		for _, u := range users {
			if u.Server != server {
				list = append(list, u)
			}
		}
		if f.list == nil {
			f.list = make(map[int][]User)
		}
		f.list[server] = list
	}
	return list
}
