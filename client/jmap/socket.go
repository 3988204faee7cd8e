package jmap

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	wire "doublet/wire/jmap"
	"doublet/wire/websocket"
)

// Socket is a WebSocket for requests and push. It is not safe for concurrent use. After an error other than
// *wire.Problem or *CallError it cannot be used any more.
type Socket struct {
	c       *Client
	conn    io.ReadWriteCloser
	in      *bufio.Reader
	read    websocket.Reader
	buf     []byte
	n       int
	changed Changed // received while Do waited for a response
	// PushState is the last push state, to pass to Push of another Socket.
	PushState string
}

// Socket opens a WebSocket. ctx applies only to the opening.
//
// Implements: RFC 8887 §4.1 Handshake, as a client
func (c *Client) Socket(ctx context.Context) (*Socket, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	to, ok := s.Capabilities.Get(wire.WebSocket).Get("url").Text()
	rest, secure := strings.CutPrefix(to, "wss://")
	if !secure {
		rest, _ = strings.CutPrefix(to, "ws://")
	}
	if !ok || rest == to {
		return nil, fmt.Errorf("%w: WebSocket", ErrAbsent)
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	w := c.watch(ctx, c.opt.Timeout)
	// The request's context must outlive the opening. It is canceled when the body is closed.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(w, cancel)
	var key [16]byte
	c.env.Fill(key[:])
	sent := base64.StdEncoding.EncodeToString(key[:])
	out, err := c.upgraded(live, scheme+rest, sent)
	if !stop() || err != nil {
		err = errors.Join(err, context.Cause(w))
		if cause := context.Cause(w); cause != nil {
			err = cause
		}
		if out != nil {
			_ = out.Body.Close()
		}
		cancel()
		w.end()
		return nil, fmt.Errorf("jmap: websocket: %w", err)
	}
	w.end()
	conn, ok := out.Body.(io.ReadWriteCloser)
	if !ok {
		cancel()
		return nil, fmt.Errorf("%w: no WebSocket", ErrProtocol)
	}
	return &Socket{c: c, conn: closing{conn, cancel}, in: bufio.NewReaderSize(conn, 4096),
		read: websocket.Reader{Max: int(c.opt.Response)}}, nil
}

// closing cancels the context of a connection when it is closed.
type closing struct {
	io.ReadWriteCloser
	cancel func()
}

func (c closing) Close() error {
	defer c.cancel()
	return c.ReadWriteCloser.Close()
}

// upgraded requests a WebSocket, and checks the response.
func (c *Client) upgraded(ctx context.Context, to, key string) (*http.Response, error) {
	r, err := c.request(ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": "jmap"} {
		r.Header.Set(name, value)
	}
	c.authorize(r) // again, because Sign may treat a WebSocket handshake differently
	out, err := c.upgrade.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if out.StatusCode != http.StatusSwitchingProtocols {
		defer out.Body.Close()
		text, err := c.read(out)
		if err != nil {
			return nil, err
		}
		return nil, problem(out, text)
	}
	if out.Header.Get("Sec-Websocket-Accept") != websocket.Accept(key) ||
		out.Header.Get("Sec-Websocket-Protocol") != "jmap" {
		_ = out.Body.Close()
		return nil, fmt.Errorf("%w: it opens no WebSocket of JMAP", ErrProtocol)
	}
	return out, nil
}

// Close sends a Close frame and closes the connection.
func (s *Socket) Close() error {
	_ = s.write(websocket.Close, []byte{websocket.Normal >> 8, websocket.Normal & 0xff})
	return s.conn.Close()
}

func (s *Socket) write(op websocket.Opcode, payload []byte) error {
	var mask [4]byte
	s.c.env.Fill(mask[:])
	_, err := s.conn.Write(websocket.AppendMasked(nil, op, payload, mask))
	return err
}

// during runs fn. It closes the connection when ctx ends, or, unless forever is set, when the Timeout has passed.
func (s *Socket) during(ctx context.Context, forever bool, fn func() error) error {
	d := s.c.opt.Timeout
	if forever {
		d = silence
	}
	w := s.c.watch(ctx, d)
	defer w.end()
	stop := context.AfterFunc(w, func() { _ = s.conn.Close() })
	err := fn()
	if !stop() {
		return w.why(errors.New("jmap: closed"))
	}
	return err
}

// Do executes a request. Changes pushed meanwhile are kept for Next.
//
// Implements: RFC 8887 §4.3.2 Request object, as a client
func (s *Socket) Do(ctx context.Context, r *Request) (out *Response, err error) {
	s.n++
	id := "r" + strconv.Itoa(s.n)
	body := append(r.Append([]byte(`{"@type":"Request","id":"`+id+`",`)), '}')
	err = s.during(ctx, false, func() error {
		if err := s.write(websocket.Text, body); err != nil {
			return err
		}
		for {
			kind, v, err := s.object()
			if err != nil {
				return err
			}
			of, _ := v.Get("requestId").Text()
			switch {
			case kind == "RequestError" && (of == id || v.Get("requestId").IsNull()):
				return wire.ReadProblem(v, http.StatusBadRequest)
			case kind == "Response" && of == id:
				out, err = readResponse(v)
				return err
			case kind == "StateChange":
			default:
				return fmt.Errorf("%w: unexpected %.40q", ErrProtocol, kind)
			}
		}
	})
	return out, err
}

// Push makes the server push changes of types (none: all). after is the PushState of another Socket, or "".
//
// Implements: RFC 8887 §4.3.5.1 Enabling notifications, as a client
func (s *Socket) Push(types []string, after string) error {
	w := wire.NewWriter(nil)
	w.Text("@type", "WebSocketPushEnable")
	if len(types) > 0 {
		w.Strings("dataTypes", types...)
	} else {
		w.Raw("dataTypes", "null")
	}
	if after != "" {
		w.Text("pushState", after)
	}
	return s.write(websocket.Text, w.End())
}

// Next waits for a change until ctx ends.
//
// Implements: RFC 8887 §4.3.5 JMAP push notifications, as a client
func (s *Socket) Next(ctx context.Context) (Changed, error) {
	err := s.during(ctx, true, func() error {
		for len(s.changed) == 0 {
			kind, v, err := s.object()
			switch {
			case err != nil:
				return err
			case kind == "RequestError":
				return wire.ReadProblem(v, http.StatusBadRequest)
			case kind != "StateChange":
				return fmt.Errorf("%w: unexpected %.40q", ErrProtocol, kind)
			}
		}
		return nil
	})
	out := s.changed
	s.changed = nil
	return out, err
}

// object reads the next message. A StateChange is added to changed.
func (s *Socket) object() (kind string, v *wire.Value, err error) {
	for {
		op, text, err := s.read.Next(s.in, s.buf)
		if err != nil {
			return "", nil, fmt.Errorf("jmap: websocket: %w", err)
		}
		switch op {
		case websocket.Ping:
			if err := s.write(websocket.Pong, text); err != nil {
				return "", nil, err
			}
			continue
		case websocket.Pong:
			continue
		case websocket.Close:
			return "", nil, io.EOF
		case websocket.Text:
		default:
			return "", nil, fmt.Errorf("%w: a message that is no text", ErrProtocol)
		}
		if v, err = s.c.parse(string(text)); err != nil {
			return "", nil, err
		}
		if s.buf = text; cap(s.buf) > 64<<10 {
			s.buf = nil
		}
		kind, _ = v.Get("@type").Text()
		if kind == "StateChange" {
			if s.changed == nil {
				s.changed = Changed{}
			}
			if err := readChanged(v, s.changed); err != nil {
				return "", nil, err
			}
			if p, ok := v.Get("pushState").Text(); ok {
				s.PushState = p
			}
		}
		return kind, v, nil
	}
}
