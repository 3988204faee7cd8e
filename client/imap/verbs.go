package imap

import (
	"fmt"
	"io"
	"slices"
	"time"

	wire "doublet/wire/imap"
)

// Selected holds the server's responses to SELECT.
type Selected struct {
	Exists, Recent       uint32
	UIDValidity, UIDNext uint32
	HighestModSeq        uint64 // 0: none, NOMODSEQ
	Flags, Permanent     []wire.Flag
	MailboxID            string
	ReadOnly             bool
	// Vanished and Changed are set with QRESYNC.
	Vanished wire.Set
	Changed  []*wire.FetchData
}

// Select sends SELECT, or EXAMINE if readOnly is set.
func (c *Client) Select(s *wire.Select, readOnly bool) (*Selected, error) {
	name := "SELECT"
	if readOnly {
		name = "EXAMINE"
	}
	sel := &Selected{ReadOnly: readOnly}
	r, err := c.Do(&wire.Command{Name: name, Args: s}, func(r *wire.Response) error {
		sel.take(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.Code != nil && r.Code.Name == "READ-ONLY" {
		sel.ReadOnly = true
	}
	return sel, nil
}

func (s *Selected) take(r *wire.Response) {
	switch r.Name {
	case "EXISTS":
		s.Exists = r.Number
	case "RECENT":
		s.Recent = r.Number
	case "FLAGS":
		s.Flags, _ = r.Data.([]string)
	case "VANISHED":
		s.Vanished = append(s.Vanished, r.Data.(*wire.Vanished).UIDs...)
	case "FETCH":
		s.Changed = append(s.Changed, r.Data.(*wire.FetchData))
	}
	if r.Code == nil {
		return
	}
	switch r.Code.Name {
	case "CLOSED":
		*s = Selected{ReadOnly: s.ReadOnly} // earlier responses were about the previous mailbox
	case "UIDVALIDITY":
		s.UIDValidity = uint32(r.Code.Number)
	case "UIDNEXT":
		s.UIDNext = uint32(r.Code.Number)
	case "HIGHESTMODSEQ":
		s.HighestModSeq = r.Code.Number
	case "PERMANENTFLAGS":
		s.Permanent = r.Code.Words
	case "MAILBOXID":
		if len(r.Code.Words) == 1 {
			s.MailboxID = r.Code.Words[0]
		}
	}
}

// List sends LIST; for LSUB use Do. It calls on for each mailbox, and status for each STATUS response if requested.
func (c *Client) List(l *wire.List, on func(*wire.ListData), status func(*wire.StatusData)) error {
	_, err := c.Do(&wire.Command{Name: "LIST", Args: l}, func(r *wire.Response) error {
		switch d := r.Data.(type) {
		case *wire.ListData:
			on(d)
		case *wire.StatusData:
			if status != nil {
				status(d)
			}
		}
		return nil
	})
	return err
}

// Status sends STATUS.
func (c *Client) Status(mailbox string, items wire.StatusItem) (*wire.StatusData, error) {
	var got *wire.StatusData
	_, err := c.Do(&wire.Command{Name: "STATUS", Args: &wire.Status{Mailbox: mailbox, Items: items}},
		func(r *wire.Response) error {
			if d, ok := r.Data.(*wire.StatusData); ok {
				got = d
			}
			return nil
		})
	if err == nil && got == nil {
		err = fmt.Errorf("imap: STATUS: no answer for %q", mailbox)
	}
	return got, err
}

// Fetch sends FETCH, or UID FETCH if uid is set. It calls on for each message, and vanished for expunged messages
// (VANISHED).
func (c *Client) Fetch(f *wire.Fetch, uid bool, on func(*wire.FetchData) error, vanished func(wire.Set)) error {
	_, err := c.Do(&wire.Command{Name: "FETCH", UID: uid, Args: f}, func(r *wire.Response) error {
		switch d := r.Data.(type) {
		case *wire.FetchData:
			if on != nil {
				return on(d)
			}
		case *wire.Vanished:
			if vanished != nil && d.Earlier {
				vanished(d.UIDs)
			}
		}
		return nil
	})
	return err
}

// SetSink sends literals of body sections to a writer as they arrive: see ResponseReader.Sink of wire/imap. nil
// restores the behaviour set in Options.
func (c *Client) SetSink(sink func(text []byte, size int64) io.Writer) {
	if sink == nil && c.options.DiscardBodies {
		sink = discard
	}
	c.in.Sink = sink
}

// Store sends STORE. modified holds the messages that UNCHANGEDSINCE left unchanged.
func (c *Client) Store(s *wire.Store, uid bool, on func(*wire.FetchData) error) (modified wire.Set, err error) {
	r, err := c.Do(&wire.Command{Name: "STORE", UID: uid, Args: s}, func(r *wire.Response) error {
		if d, ok := r.Data.(*wire.FetchData); ok && on != nil {
			return on(d)
		}
		return nil
	})
	if r != nil && r.Code != nil && r.Code.Name == "MODIFIED" {
		modified = r.Code.Source
	}
	return modified, err
}

// Search sends SEARCH. The result of a SEARCH without RETURN has the form of a result with ALL and COUNT.
func (c *Client) Search(s *wire.Search, uid bool) (*wire.ESearch, error) {
	var got *wire.ESearch
	cmd := &wire.Command{Tag: c.nextTag(), Name: "SEARCH", UID: uid, Args: s}
	_, err := c.Do(cmd, func(r *wire.Response) error {
		switch d := r.Data.(type) {
		case *wire.ESearch:
			if d.Tag == "" || d.Tag == cmd.Tag {
				got = d
			}
		case *wire.SearchData:
			e := &wire.ESearch{UID: uid, Has: wire.ReturnAll | wire.ReturnCount, Count: uint32(len(d.Numbers)),
				ModSeq: d.ModSeq}
			for _, n := range d.Numbers {
				e.All = append(e.All, wire.Range{Start: n, Stop: n})
			}
			e.All = e.All.Normalize()
			got = e
		}
		return nil
	})
	if err == nil && got == nil {
		got = &wire.ESearch{UID: uid} // SAVE alone has no response
	}
	return got, err
}

// Copied holds the UIDs of a COPY, MOVE or APPEND: Source and Target in the same order. They are empty if the server
// does not report them.
type Copied struct {
	UIDValidity    uint32
	Source, Target wire.Set
}

func (k *Copied) take(code *wire.Code) {
	if code != nil && (code.Name == "COPYUID" || code.Name == "APPENDUID") {
		k.UIDValidity, k.Source, k.Target = uint32(code.Number), code.Source, code.Target
	}
}

// Copy sends COPY.
func (c *Client) Copy(t wire.Target, uid bool, mailbox string) (*Copied, error) {
	return c.copy("COPY", t, uid, mailbox)
}

// Move sends MOVE.
func (c *Client) Move(t wire.Target, uid bool, mailbox string) (*Copied, error) {
	return c.copy("MOVE", t, uid, mailbox)
}

func (c *Client) copy(name string, t wire.Target, uid bool, mailbox string) (*Copied, error) {
	k := &Copied{}
	r, err := c.Do(&wire.Command{Name: name, UID: uid, Args: &wire.Copy{Target: t, Mailbox: mailbox}},
		func(r *wire.Response) error {
			k.take(r.Code) // MOVE reports in an untagged OK
			return nil
		})
	if r != nil {
		k.take(r.Code)
	}
	return k, err
}

// Expunge sends EXPUNGE, or UID EXPUNGE if uids is set.
func (c *Client) Expunge(uids *wire.Target) error {
	cmd := &wire.Command{Name: "EXPUNGE"}
	if uids != nil {
		cmd.UID, cmd.Args = true, &wire.Expunge{Target: *uids}
	}
	_, err := c.Do(cmd, nil)
	return err
}

// Simple sends a verb without arguments: NOOP, CHECK, CLOSE, UNSELECT.
func (c *Client) Simple(name string) error {
	_, err := c.Do(&wire.Command{Name: name}, nil)
	return err
}

// Create sends CREATE.
func (c *Client) Create(mailbox string, use ...string) error {
	_, err := c.Do(&wire.Command{Name: "CREATE", Args: &wire.Create{Mailbox: mailbox, Use: use}}, nil)
	return err
}

// Mailbox sends DELETE, SUBSCRIBE or UNSUBSCRIBE.
func (c *Client) Mailbox(name, mailbox string) error {
	_, err := c.Do(&wire.Command{Name: name, Args: &wire.Mailbox{Name: mailbox}}, nil)
	return err
}

// Rename sends RENAME.
func (c *Client) Rename(from, to string) error {
	_, err := c.Do(&wire.Command{Name: "RENAME", Args: &wire.Rename{From: from, To: to}}, nil)
	return err
}

// Enable sends ENABLE and returns the enabled capabilities.
func (c *Client) Enable(capabilities ...string) (enabled []string, err error) {
	_, err = c.Do(&wire.Command{Name: "ENABLE", Args: &wire.Enable{Capabilities: capabilities}},
		func(r *wire.Response) error {
			if r.Name == "ENABLED" {
				enabled, _ = r.Data.([]string)
			}
			return nil
		})
	return enabled, err
}

// ID sends ID and returns the server's fields.
func (c *Client) ID(params []wire.IDParam) (server []wire.IDParam, err error) {
	_, err = c.Do(&wire.Command{Name: "ID", Args: &wire.ID{Params: params}}, func(r *wire.Response) error {
		if d, ok := r.Data.(*wire.ID); ok {
			server = d.Params
		}
		return nil
	})
	return server, err
}

// Namespace sends NAMESPACE.
func (c *Client) Namespace() (n *wire.Namespace, err error) {
	_, err = c.Do(&wire.Command{Name: "NAMESPACE"}, func(r *wire.Response) error {
		if d, ok := r.Data.(*wire.Namespace); ok {
			n = d
		}
		return nil
	})
	return n, err
}

// Logout sends LOGOUT and closes the connection.
func (c *Client) Logout() error {
	_, err := c.Do(&wire.Command{Name: "LOGOUT"}, nil)
	if e, ok := err.(*StatusError); ok && e.Status == wire.BYE {
		err = nil // some servers close without the tagged OK
	}
	if closing := c.conn.Close(); err == nil {
		err = closing
	}
	return err
}

// smallMessage is the maximum size of a message that is sent in one write with its command.
const smallMessage = 64 << 10

// Append sends APPEND with size bytes, which must be CRLF lines. A zero date is omitted. If the message cannot be read
// completely, Append closes the connection.
func (c *Client) Append(mailbox string, flags []wire.Flag, date time.Time, message io.Reader,
	size int64) (*Copied, error) {
	a := &wire.Append{Mailbox: mailbox, Flags: flags, Date: date, Size: size, NonSync: c.nonSync(size)}
	return c.deliver(&wire.Command{Name: "APPEND", Args: a}, a, message, nil)
}

// Message is one message of AppendAll.
type Message struct {
	Flags []wire.Flag
	Date  time.Time // zero: omitted
	Text  io.Reader
	Size  int64
}

// AppendAll appends several messages in one APPEND, all or none (RFC 3502). The server must support MULTIAPPEND.
func (c *Client) AppendAll(mailbox string, list []Message) (*Copied, error) {
	if len(list) == 0 {
		return &Copied{}, nil
	}
	m := &list[0]
	a := &wire.Append{Mailbox: mailbox, Flags: m.Flags, Date: m.Date, Size: m.Size, NonSync: c.nonSync(m.Size)}
	return c.deliver(&wire.Command{Name: "APPEND", Args: a}, a, m.Text, list[1:])
}

// Replace sends REPLACE, or UID REPLACE (RFC 8508), for message n, 0 for the last.
func (c *Client) Replace(n uint32, uid bool, mailbox string, m *Message) (*Copied, error) {
	a := &wire.Replace{Message: n, Append: wire.Append{Mailbox: mailbox, Flags: m.Flags, Date: m.Date, Size: m.Size,
		NonSync: c.nonSync(m.Size)}}
	return c.deliver(&wire.Command{Name: "REPLACE", UID: uid, Args: a}, &a.Append, m.Text, nil)
}

// deliver sends a command that ends with a message, and the messages after it.
func (c *Client) deliver(cmd *wire.Command, a *wire.Append, message io.Reader, more []Message) (*Copied, error) {
	cmd.Tag = c.nextTag()
	end := "\r\n"
	if len(more) > 0 {
		end = ""
	}
	err := c.sendAppend(cmd, a, message, end)
	for i := 0; i < len(more) && err == nil; i++ {
		m := &more[i]
		next := &wire.Append{Flags: m.Flags, Date: m.Date, Size: m.Size, NonSync: c.nonSync(m.Size)}
		if err = c.write(wire.AppendNextMessage(nil, a, next)); err == nil {
			a, err = next, c.sendMessage(cmd, next, m.Text)
		}
	}
	if err == nil && end == "" {
		err = c.write([]byte("\r\n"))
	}
	if err != nil {
		if r, ok := err.(*refused); ok {
			return nil, c.status(cmd, r.response)
		}
		c.conn.Close() // part of a message was sent: the server would take any further data for its rest
		return nil, fmt.Errorf("imap: %s: %w", cmd.Name, err)
	}
	k := &Copied{}
	r, err := c.await(cmd, func(r *wire.Response) error {
		k.take(r.Code) // REPLACE reports in an untagged OK
		return nil
	})
	if err != nil {
		return nil, err
	}
	k.take(r.Code)
	return k, nil
}

func (c *Client) sendAppend(cmd *wire.Command, a *wire.Append, message io.Reader, end string) error {
	if a.NonSync && a.Size <= smallMessage {
		text := wire.AppendCommand(make([]byte, 0, 256+int(a.Size)), cmd, c.utf8)
		head := len(text)
		text = slices.Grow(text, int(a.Size))[:head+int(a.Size)]
		if _, err := io.ReadFull(message, text[head:]); err != nil {
			return fmt.Errorf("message: %w", err)
		}
		return c.write(append(text, end...))
	}
	if err := c.send(cmd); err != nil {
		return err
	}
	if err := c.sendMessage(cmd, a, message); err != nil || end == "" {
		return err
	}
	return c.write([]byte(end))
}

// sendMessage sends a message that was announced.
func (c *Client) sendMessage(cmd *wire.Command, a *wire.Append, message io.Reader) error {
	if !a.NonSync {
		if err := c.invited(cmd.Tag); err != nil {
			return err
		}
	}
	return c.stream(message, a.Size)
}

// stream writes size bytes of the message. Each piece has its own timeout.
func (c *Client) stream(message io.Reader, size int64) error {
	buf := make([]byte, min(size, smallMessage))
	for size > 0 {
		n, err := io.ReadFull(message, buf[:min(size, int64(len(buf)))])
		if err != nil {
			return fmt.Errorf("message: %w", err)
		}
		if err := c.write(buf[:n]); err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
