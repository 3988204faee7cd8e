package jmap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	wire "doublet/wire/jmap"
)

// Changed tells the new states of types, by account (RFC 8620 section 7.1).
type Changed map[string]map[string]string

// maxStates bounds what a StateChange may tell.
const maxStates = 10_000

// readChanged reads a StateChange into c, which others before it may be in.
func readChanged(v *wire.Value, c Changed) error {
	list := v.Get("changed")
	if list.Kind() != wire.Object {
		return fmt.Errorf("%w: no StateChange", ErrProtocol)
	}
	n := 0
	for _, m := range c {
		n += len(m)
	}
	for i := range list.Len() {
		types := list.At(i)
		if types.Kind() != wire.Object {
			return fmt.Errorf("%w: no StateChange", ErrProtocol)
		}
		m := c[list.Name(i)]
		if m == nil {
			m = make(map[string]string, types.Len())
			c[list.Name(i)] = m
		}
		for k := range types.Len() {
			if m[types.Name(k)], _ = types.At(k).Text(); n+k > maxStates {
				return ErrTooLarge
			}
		}
		n += types.Len()
	}
	return nil
}

// EventOptions are what an event stream is asked for.
type EventOptions struct {
	Types []string // none: all
	// Ping is how often the server is to say that it is there, in whole seconds (0: never). A server that promised it
	// and is silent for three times as long is given up.
	Ping time.Duration
	// Once ends the stream with the first change.
	Once bool
	// After is the ID of the last event that the caller has seen of an earlier stream.
	After string
}

// Events is an event stream. It is used by one goroutine.
type Events struct {
	c    *Client
	w    *watchdog
	body io.ReadCloser
	in   *bufio.Reader
	id   string
}

// silence is how long a stream without pings may be silent: for ever, nearly.
const silence = 365 * 24 * time.Hour

// maxEvent bounds an event in octets, and a line of it.
const maxEvent = 1 << 20

// Events opens an event stream. ctx is for all of it: when it ends, Next fails.
//
// Implements: RFC 8620 §7.3 Event source, as a client
func (c *Client) Events(ctx context.Context, o EventOptions) (*Events, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	types, after := "*", "no"
	if len(o.Types) > 0 {
		types = strings.Join(o.Types, ",")
	}
	if o.Once {
		after = "state"
	}
	// To begin with there is an answer to wait for.
	w := c.watch(ctx, c.opt.Timeout)
	r, err := c.request(w, http.MethodGet, expand(s.events, "types", types, "closeafter", after, "ping", strconv.Itoa(int(o.Ping/time.Second))), nil)
	if err != nil {
		w.end()
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Cache-Control", "no-store")
	if o.After != "" {
		r.Header.Set("Last-Event-ID", o.After)
	}
	out, err := c.http.Do(r)
	if err != nil {
		err = fmt.Errorf("jmap: events: %w", w.why(err))
		w.end()
		return nil, err
	}
	kind, _, _ := strings.Cut(out.Header.Get("Content-Type"), ";")
	switch {
	case out.StatusCode != http.StatusOK:
		var text string
		if text, err = c.read(out); err == nil {
			err = problem(out, text)
		}
	case strings.TrimSpace(kind) != "text/event-stream":
		err = fmt.Errorf("%w: an event stream of %.100q", ErrProtocol, kind)
	}
	if err != nil {
		_ = out.Body.Close()
		w.end()
		return nil, err
	}
	d := silence
	if o.Ping > 0 {
		d = max(3*o.Ping, c.opt.Timeout)
	}
	w.patience(d)
	return &Events{c: c, w: w, body: out.Body, in: bufio.NewReaderSize(progressing{out.Body, w}, 4096)}, nil
}

// ID stands for the state of all that the stream has told, for EventOptions.After.
func (e *Events) ID() string { return e.id }

// Close ends the stream. A Next that waits fails.
func (e *Events) Close() error {
	e.w.end()
	return e.body.Close()
}

// Next waits for the next change. io.EOF says that the server has ended the stream in order.
func (e *Events) Next() (Changed, error) {
	name, id := "", ""
	var data []byte
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if id != "" {
				e.id = id
			}
			if name == "state" && len(data) > 0 {
				v, err := e.c.parse(string(data))
				if err != nil {
					return nil, err
				}
				c := Changed{}
				return c, readChanged(v, c)
			}
			name, id, data = "", "", data[:0]
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "id":
			id = string(value)
		case "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			if data = append(data, value...); len(data) > maxEvent {
				return nil, ErrTooLarge
			}
		}
	}
}

// line reads a line without its end, valid until the next.
func (e *Events) line() ([]byte, error) {
	var long []byte
	for {
		piece, err := e.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, piece...); len(long) > maxEvent {
				return nil, ErrTooLarge
			}
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) && e.w.Err() == nil {
				return nil, io.EOF
			}
			return nil, e.w.why(fmt.Errorf("jmap: events: %w", err))
		}
		if long != nil {
			piece = append(long, piece...)
		}
		return bytes.TrimRight(piece, "\r\n"), nil
	}
}
