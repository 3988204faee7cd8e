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

// Changed holds the new states of types, by account and type (RFC 8620 section 7.1).
type Changed map[string]map[string]string

// maxStates bounds the states in a StateChange.
const maxStates = 10_000

// readChanged adds the states of a StateChange to c.
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

// EventOptions holds the parameters of an event stream.
type EventOptions struct {
	Types []string // none: all
	// Ping is the interval at which the server must send pings, in whole seconds (0: never). If the stream is then
	// silent for three times as long, it fails.
	Ping time.Duration
	// Once ends the stream after the first change.
	Once bool
	// After is the ID of the last event of an earlier stream. The server then sends what the caller has missed.
	After string
}

// Events is an event stream. It is not safe for concurrent use.
type Events struct {
	c    *Client
	w    *watchdog
	body io.ReadCloser
	in   *bufio.Reader
	id   string
}

// silence is the timeout of a stream without pings: practically none.
const silence = 365 * 24 * time.Hour

// maxEvent bounds an event and each of its lines, in octets.
const maxEvent = 1 << 20

// Events opens an event stream. When ctx ends, Next fails.
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
	// The response itself has the timeout of a call.
	w := c.watch(ctx, c.opt.Timeout)
	r, err := c.request(w, http.MethodGet, expand(s.events, "types", types, "closeafter", after, "ping",
		strconv.Itoa(int(o.Ping/time.Second))), nil)
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
	case out.StatusCode == http.StatusNoContent: // the server has no events, and will have none
		err = fmt.Errorf("%w: an event stream", ErrAbsent)
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

// ID returns the id of the last event, for EventOptions.After.
func (e *Events) ID() string { return e.id }

// Close closes the stream. A blocked Next fails.
func (e *Events) Close() error {
	e.w.end()
	return e.body.Close()
}

// Next waits for the next change. It returns io.EOF if the server has closed the stream.
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

// line reads a line without its end. The slice is valid until the next call.
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
