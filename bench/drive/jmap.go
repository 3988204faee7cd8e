package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
	client "doublet/client/jmap"
	"doublet/env"
	wire "doublet/wire/jmap"
)

// mailAccount is a mail account: its mailboxes, and the identity of its user.
type mailAccount struct {
	u *User
	c *client.Client

	account, inbox, archive, drafts, sent, trash, identity string
}

// jmapSession is a user over JMAP who authenticates each request on a persistent connection. Its knowledge of the INBOX
// comes from its own listings and from Email/changes.
type jmapSession struct {
	mailAccount
	w *World
	n *counted

	submits bool // the server has JMAP Submission

	open   bool
	state  string   // of Emails, as of the last listing or Email/changes
	exists int      // number of Emails in the INBOX at that state
	at     int      // number of them that are listed
	known  []string // ids, newest last
	unread []string
	names  map[string]string // left parts of the Message-IDs of known ones, for a ledger; nil without one
	last   email             // the last message read
	asked  invitations
	plan   *planner
}

// email holds what a reply needs to know of the message that it answers.
type email struct {
	id   string
	name string // left part of its Message-ID
}

// counted counts the bytes on a session's connections.
type counted struct{ sent, received atomic.Uint64 }

func (n *counted) traffic() Traffic {
	return Traffic{Sent: n.sent.Swap(0), Received: n.received.Swap(0)}
}

type countedConn struct {
	net.Conn
	n *counted
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.received.Add(uint64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.sent.Add(uint64(n))
	return n, err
}

// counting returns a copy of the environment whose connections count bytes.
func counting(e *env.Env, n *counted) *env.Env {
	out := *e
	out.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := e.Dial(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return countedConn{conn, n}, nil
	}
	return &out
}

// newJMAP returns the session of a user who has not signed in yet.
func newJMAP(w *World, u *User) (*jmapSession, error) {
	address, scheme := w.Target.Doors["jmaps"], "https://"
	if address == "" {
		address, scheme = w.Target.Doors["jmap"], "http://"
	}
	if address == "" {
		return nil, errors.New("drive: the target has no door jmap")
	}
	s := &jmapSession{mailAccount: mailAccount{u: u}, w: w, n: &counted{}}
	o := client.Options{URL: scheme + address, User: u.Name, Password: u.Password, Timeout: w.timeout()}
	if scheme == "https://" {
		o.TLS = w.Target.tlsFor(address)
	}
	var err error
	s.c, err = client.New(counting(w.Env, s.n), o)
	return s, err
}

// openJMAP signs in: it fetches the session object, the mailboxes and the identity for sending.
func (w *World) openJMAP(ctx context.Context, u *User) (Session, Traffic, error) {
	s, err := newJMAP(w, u)
	if err != nil {
		return nil, Traffic{}, err
	}
	ctx, end := w.until(ctx)
	defer end()
	if err := s.login(ctx); err != nil {
		s.c.Close()
		return nil, s.n.traffic(), jmapError(err)
	}
	return s, s.n.traffic(), nil
}

// until returns a context that ends a while after ctx, as guard does for a connection.
func (w *World) until(ctx context.Context) (context.Context, func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-w.Env.Clock.After(grace):
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}

// jmapError turns a refusal by the server into a *Refusal, and leaves other errors, which mean a broken connection.
func jmapError(err error) error {
	var p *wire.Problem
	var e *client.CallError
	switch {
	case errors.As(err, &e):
		return &Refusal{strings.TrimPrefix(e.Err.Error(), "jmap: ")}
	case errors.As(err, &p):
		return &Refusal{fmt.Sprintf("%d %s", p.Status, strings.TrimPrefix(p.Error(), "jmap: "))}
	case errors.Is(err, client.ErrAbsent):
		return &Refusal{strings.TrimPrefix(err.Error(), "jmap: ")}
	case errors.Is(err, client.ErrProtocol), errors.Is(err, client.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

func (s *jmapSession) login(ctx context.Context) error {
	session, err := s.c.Refresh(ctx)
	if err != nil {
		return err
	}
	if s.account, err = session.MailAccount(); err != nil {
		return err
	}
	s.plan = newPlanner(s.w, s.u, s.c, session)
	s.submits = session.Capabilities.Get(wire.SubmissionURN) != nil
	using := []string{wire.Mail}
	if s.submits {
		using = append(using, wire.SubmissionURN)
	}
	r := client.NewRequest(using...)
	boxes := r.Get("Mailbox", s.account, nil, "id", "role", "name")
	var identities client.Handle
	if s.submits {
		identities = r.Get("Identity", s.account, nil, "id", "email")
	}
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	v, err := out.Get(boxes)
	if err != nil {
		return err
	}
	if err := s.mailboxes(v); err != nil || !s.submits {
		return err
	}
	if v, err = out.Get(identities); err != nil {
		return err
	}
	s.identities(v)
	return nil
}

// mailboxes reads the mailboxes from a Mailbox/get.
func (s *mailAccount) mailboxes(v *wire.Value) error {
	list := v.Get("list")
	for i := range list.Len() {
		m := list.At(i)
		id, _ := m.Get("id").Text()
		role, _ := m.Get("role").Text()
		name, _ := m.Get("name").Text()
		id = strings.Clone(id)
		switch {
		case role == "inbox":
			s.inbox = id
		case role == "drafts":
			s.drafts = id
		case role == "sent":
			s.sent = id
		case role == "trash":
			s.trash = id
		case role == "archive", name == "Archive" && s.archive == "":
			s.archive = id
		}
	}
	if s.inbox == "" {
		return fmt.Errorf("%w: no mailbox is the inbox", client.ErrProtocol)
	}
	return nil
}

// identities reads the identity from an Identity/get.
func (s *mailAccount) identities(v *wire.Value) {
	list := v.Get("list")
	for i := range list.Len() {
		id, _ := list.At(i).Get("id").Text()
		if of, _ := list.At(i).Get("email").Text(); s.identity == "" || strings.EqualFold(of, s.u.Address) {
			s.identity = strings.Clone(id)
		}
	}
}

// folders creates the mailboxes for filed messages and drafts if they are missing.
func (s *mailAccount) folders(ctx context.Context) error {
	for _, f := range []struct {
		id         *string
		name, role string
	}{{&s.archive, "Archive", "archive"}, {&s.drafts, "Drafts", "drafts"}} {
		if *f.id != "" {
			continue
		}
		o, err := s.set(ctx, "Mailbox",
			&client.Set{Create: map[string]func(*wire.Writer){"f": func(w *wire.Writer) {
				w.Text("name", f.name)
				w.Text("role", f.role)
			}}})
		if err != nil {
			return err
		}
		if *f.id, err = o.Created("f"); err != nil {
			return err
		}
	}
	return nil
}

// Do implements Session.
func (s *jmapSession) Do(ctx context.Context, p *workload.Planned) (Traffic, error) {
	within, end := s.w.until(ctx)
	defer end()
	var held time.Duration
	var err error
	if p.Do == workload.Idle {
		held, err = s.idle(ctx, within, p)
	} else {
		err = s.do(within, p)
	}
	t := s.n.traffic()
	t.Held = held
	return t, jmapError(err)
}

func (s *jmapSession) do(ctx context.Context, p *workload.Planned) error {
	switch p.Do {
	case workload.Open:
		return s.openInbox(ctx)
	case workload.Scroll:
		return s.scroll(ctx)
	case workload.Read:
		return s.read(ctx, p.Pick)
	case workload.Retrieve:
		return s.retrieve(ctx)
	case workload.Update:
		name, err := s.update(ctx, p.Pick, false, func(w *wire.Writer) { w.Bool("keywords/$flagged", true) })
		s.w.Ledger.Flagged(s.u.Address, name, err)
		return err
	case workload.Move:
		if s.archive == "" {
			if err := s.folders(ctx); err != nil {
				return err
			}
		}
		name, err := s.update(ctx, p.Pick, true, func(w *wire.Writer) { in(w, s.archive) })
		s.w.Ledger.Moved(s.u.Address, name, err)
		return err
	case workload.Delete:
		return s.delete(ctx, p.Pick)
	case workload.Add:
		m := s.w.compose(s.u, p)
		m.To = []string{s.u.Address}
		return s.add(ctx, &m, false, time.Time{})
	case workload.Poll:
		return s.poll(ctx)
	case workload.Send, workload.Reply:
		return s.send(ctx, p)
	case workload.Calendar, workload.Appointment, workload.Invite, workload.RSVP:
		if s.plan.account != "" {
			return s.plan.do(ctx, p)
		}
		return s.mailed(ctx, p)
	case workload.Login:
		return s.login(ctx)
	}
	return fmt.Errorf("drive: JMAP does not carry %s", p.Do)
}

// ofInbox writes the filter for the Emails of the INBOX.
func (s *jmapSession) ofInbox(w *wire.Writer) { w.Text("inMailbox", s.inbox) }

// in writes the member that puts an Email into one mailbox only.
func in(w *wire.Writer, mailbox string) {
	w.Object("mailboxIds", func(m *wire.Writer) {
		m.Key(mailbox)
		m.B = wire.AppendBool(m.B, true)
	})
}

// listed are the properties of a list.
var listed = []string{"id", "threadId", "mailboxIds", "keywords", "from", "to", "subject", "receivedAt", "size",
	"hasAttachment", "preview"}

// named returns properties, with the Message-ID if a ledger is kept: it knows messages by that alone.
func (s *jmapSession) named(properties ...string) []string {
	if s.w.Ledger == nil {
		return properties
	}
	return append(slices.Clone(properties), "messageId")
}

// openInbox lists the newest page of the INBOX.
func (s *jmapSession) openInbox(ctx context.Context) error {
	s.known, s.unread, s.exists, s.at = s.known[:0], s.unread[:0], 0, 0
	s.open = true
	return s.scroll(ctx)
}

// scroll lists the page after the last listed one.
func (s *jmapSession) scroll(ctx context.Context) error {
	if !s.open {
		return s.openInbox(ctx)
	}
	if s.at >= s.exists {
		s.at = 0
	}
	r := client.NewRequest(wire.Mail)
	q := r.Query("Email", s.account, &client.Query{Filter: s.ofInbox, Sort: "receivedAt", Position: s.at, Limit: page,
		Total: true})
	g := r.GetReferred("Email", s.account, q.At("/ids"), s.named(listed...)...)
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	found, err := out.Get(q)
	if err != nil {
		return err
	}
	got, err := out.Get(g)
	if err != nil {
		return err
	}
	list, err := inOrder(found.Get("ids"), got.Get("list"))
	if err != nil {
		return err
	}
	if n, ok := found.Get("total").Int(); ok {
		s.exists = int(n)
	}
	if s.at == 0 {
		s.state, _ = got.Get("state").Text()
	}
	s.at += len(list)
	for _, m := range slices.Backward(list) { // newest last, since it is read first
		s.learn(m)
	}
	return nil
}

// inOrder returns the objects of a list in the order of their ids, all of which the list must have.
func inOrder(ids, list *wire.Value) ([]*wire.Value, error) {
	out := make([]*wire.Value, ids.Len())
	for i := range out {
		if out[i] = withID(list, ids.At(i), i); out[i] == nil {
			return nil, &Refusal{"a list without all of its messages"}
		}
	}
	return out, nil
}

// withID returns the object of a list with an id, or nil. Servers may list objects in another order than their ids
// (RFC 8620 section 5.1); guess is the position where it is first looked for.
func withID(list, id *wire.Value, guess int) *wire.Value {
	want, _ := id.Text()
	is := func(i int) bool {
		got, _ := list.At(i).Get("id").Text()
		return got == want
	}
	if guess < list.Len() && is(guess) {
		return list.At(guess)
	}
	for i := range list.Len() {
		if is(i) {
			return list.At(i)
		}
	}
	return nil
}

// learn remembers an Email of a list, that it is unread, and its invitation.
func (s *jmapSession) learn(m *wire.Value) {
	id, ok := m.Get("id").Text()
	if !ok {
		return
	}
	s.forget(id)
	if s.known = append(s.known, id); len(s.known) > maxKnown {
		delete(s.names, s.known[0])
		s.known = slices.Delete(s.known, 0, 1)
	}
	if name := ledger.Bare(messageID(m)); name != "" && s.w.Ledger != nil {
		if s.names == nil {
			s.names = make(map[string]string)
		}
		s.names[id] = name
	}
	if seen, _ := m.Get("keywords").Get("$seen").Bool(); !seen {
		if s.unread = append(s.unread, id); len(s.unread) > maxKnown {
			s.unread = slices.Delete(s.unread, 0, 1)
		}
	}
	if subject, _ := m.Get("subject").Text(); strings.Contains(subject, subjectInvitation) {
		s.asked.learn(subject+"\n", id)
	}
}

// messageID returns the Message-ID of an Email without brackets, "" if it has none.
func messageID(m *wire.Value) string {
	ids := m.Get("messageId")
	if ids.Kind() != wire.Array || ids.Len() == 0 {
		return ""
	}
	id, _ := ids.At(0).Text()
	return id
}

func (s *jmapSession) forget(id string) {
	delete(s.names, id)
	drop := func(list []string) []string {
		return slices.DeleteFunc(list, func(x string) bool { return x == id })
	}
	s.known, s.unread = drop(s.known), drop(s.unread)
}

// choose selects a message that the user has seen in a list.
func (s *jmapSession) choose(ctx context.Context, pick uint64) (string, error) {
	if !s.open {
		if err := s.openInbox(ctx); err != nil {
			return "", err
		}
	}
	if len(s.known) == 0 {
		return "", ErrNothing
	}
	return s.known[pick%uint64(len(s.known))], nil
}

// readProperties are the properties of a message that is shown.
var readProperties = []string{"id", "messageId", "references", "from", "to", "cc", "subject", "sentAt", "keywords",
	"bodyStructure", "textBody", "htmlBody", "attachments", "bodyValues"}

// read shows the newest unread message, or any message if all are read. It does not fetch attachments, which JMAP
// clients load on demand.
func (s *jmapSession) read(ctx context.Context, pick uint64) error {
	id, err := s.choose(ctx, pick)
	if err != nil {
		return err
	}
	if n := len(s.unread); n > 0 {
		id, s.unread = s.unread[n-1], s.unread[:n-1]
	}
	return s.show(ctx, id)
}

// show fetches the text of a message, and marks it as read.
func (s *jmapSession) show(ctx context.Context, id string) error {
	r := client.NewRequest(wire.Mail)
	g := r.Call("Email/get", func(w *wire.Writer) {
		w.Text("accountId", s.account)
		w.Strings("ids", id)
		w.Strings("properties", readProperties...)
		w.Bool("fetchTextBodyValues", true)
		w.Bool("fetchHTMLBodyValues", true)
	})
	marked := r.Set("Email", s.account,
		&client.Set{Update: map[string]func(*wire.Writer){id: func(w *wire.Writer) { w.Bool("keywords/$seen", true) }}})
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	v, err := out.Get(g)
	if err != nil {
		return err
	}
	list := v.Get("list")
	if list.Len() == 0 {
		// The server listed the message but does not return it, so it was not read.
		s.forget(id)
		return &Refusal{"a listed message is not found"}
	}
	if values := list.At(0).Get("bodyValues"); values.Len() == 0 {
		return &Refusal{"a message without its text"}
	}
	s.last = email{id: id}
	s.last.name, _, _ = strings.Cut(messageID(list.At(0)), "@")
	o, err := out.OutcomeOf(marked)
	if err != nil {
		return err
	}
	return o.Updated(id)
}

// poll asks for changes.
func (s *jmapSession) poll(ctx context.Context) error {
	_, err := s.changes(ctx, false)
	return err
}

// changes asks for changes, and with whole also for the full new Emails. If the server cannot calculate the changes,
// changes lists the INBOX again, as mail programs do.
func (s *jmapSession) changes(ctx context.Context, whole bool) (*wire.Value, error) {
	if !s.open {
		return nil, s.openInbox(ctx)
	}
	r := client.NewRequest(wire.Mail)
	c := r.Changes("Email", s.account, s.state, 500)
	var g client.Handle
	if whole {
		g = r.GetReferred("Email", s.account, c.At("/created"),
			s.named("id", "blobId", "mailboxIds", "keywords", "subject")...)
	}
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	v, err := out.Get(c)
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Type == "cannotCalculateChanges" {
		return nil, s.openInbox(ctx)
	}
	if err != nil {
		return nil, err
	}
	state, ok := v.Get("newState").Text()
	if !ok {
		return nil, fmt.Errorf("%w: changes without a state", client.ErrProtocol)
	}
	s.state = state
	if !whole {
		return nil, nil
	}
	return out.Get(g)
}

// retrieve fetches all Emails in full that are new in the INBOX since the last time.
func (s *jmapSession) retrieve(ctx context.Context) error {
	got, err := s.changes(ctx, true)
	if err != nil || got == nil {
		return err
	}
	list := got.Get("list")
	for i := range list.Len() {
		m := list.At(i)
		if here, _ := m.Get("mailboxIds").Get(s.inbox).Bool(); !here {
			continue
		}
		s.learn(m)
		blob, _ := m.Get("blobId").Text()
		n, err := s.c.Download(ctx, s.account, blob, "message.eml", "message/rfc822", 0, io.Discard)
		if err != nil {
			return err
		}
		if n == 0 {
			return &Refusal{"an empty message"}
		}
	}
	return nil
}

// set performs one Foo/set.
func (s *mailAccount) set(ctx context.Context, kind string, x *client.Set) (o client.Outcome, err error) {
	r := client.NewRequest(wire.Mail)
	h := r.Set(kind, s.account, x)
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return o, err
	}
	return out.OutcomeOf(h)
}

// update changes a message, which leaves the INBOX if it is gone then. It returns the message's name for the ledger.
func (s *jmapSession) update(ctx context.Context, pick uint64, gone bool, patch func(*wire.Writer)) (string, error) {
	id, err := s.choose(ctx, pick)
	if err != nil {
		return "", err
	}
	name := s.names[id]
	if gone {
		s.forget(id)
	}
	o, err := s.set(ctx, "Email", &client.Set{Update: map[string]func(*wire.Writer){id: patch}})
	if err != nil {
		return name, err
	}
	return name, o.Updated(id)
}

func (s *jmapSession) delete(ctx context.Context, pick uint64) error {
	id, err := s.choose(ctx, pick)
	if err != nil {
		return err
	}
	name := s.names[id]
	s.forget(id)
	s.asked.forget(id)
	if s.last.id == id {
		s.last.id = "" // a reply to it must not mark a message any more
	}
	o, err := s.set(ctx, "Email", &client.Set{Destroy: []string{id}})
	if err == nil {
		err = o.Destroyed(id)
	}
	s.w.Ledger.Deleted(s.u.Address, name, err)
	return err
}

// add puts a message into the INBOX.
func (s *jmapSession) add(ctx context.Context, m *content.Message, seen bool, date time.Time) error {
	buf := s.w.memory.takeMessage()
	defer s.w.memory.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	err := s.importMessage(ctx, *buf, seen, date)
	s.w.Ledger.Added(s.u.Address, m.ID, err)
	return err
}

// events opens the event stream for the types that a mail program shows.
func (s *jmapSession) events(ctx context.Context) (*client.Events, error) {
	return s.c.Events(ctx, client.EventOptions{Types: []string{"Email", "EmailDelivery", "Mailbox"},
		Ping: 5 * time.Minute})
}

// idle listens to the event stream, at most until ctx ends. At a server without one it asks for it, and waits in vain.
// The held time is the user's, not the server's.
func (s *jmapSession) idle(ctx, within context.Context, p *workload.Planned) (time.Duration, error) {
	e, err := s.events(within)
	if errors.Is(err, client.ErrAbsent) {
		return s.w.idle(ctx, p), nil
	}
	if err != nil {
		return 0, err
	}
	defer e.Close()
	hold := s.w.hold(p)
	begun := s.w.Env.Clock.Now()
	stop := context.AfterFunc(ctx, func() { _ = e.Close() })
	defer stop()
	end := s.w.Env.Clock.AfterFunc(hold, func() { _ = e.Close() })
	defer end()
	for {
		if _, err = e.Next(); err != nil {
			break
		}
	}
	held := s.w.Env.Clock.Now().Sub(begun)
	if held < hold && ctx.Err() == nil {
		return held, err
	}
	return held, nil
}

// mailed does an action of the calendar by mail (iMIP), at a server without calendars.
func (s *jmapSession) mailed(ctx context.Context, p *workload.Planned) error {
	switch p.Do {
	case workload.Invite:
		m := s.w.invitation(s.u, p)
		return s.submit(ctx, &m, "")
	case workload.RSVP:
		v, ok := s.asked.next()
		if !ok {
			return ErrNothing
		}
		if err := s.show(ctx, v.message); err != nil {
			return err
		}
		m := s.w.accepted(s.u, v, p)
		return s.submit(ctx, &m, "")
	}
	return ErrNothing
}

// Close implements Session.
func (s *jmapSession) Close() error {
	s.c.Close()
	return nil
}
