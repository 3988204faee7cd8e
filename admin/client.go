package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"doublet/env"
	"doublet/note"
)

// Caller runs verbs: over the socket of a running server, or on an open store.
type Caller interface {
	Call(ctx context.Context, verb string, args json.RawMessage, progress func(Progress)) (json.RawMessage, error)
}

// RemoteError is an error returned by the server.
type RemoteError struct{ Kind, Text string }

func (e *RemoteError) Error() string { return e.Text }

// Client runs verbs on a running server.
type Client struct{ http *http.Client }

// Dial connects to a server's socket. It fails if no server listens there.
func Dial(e *env.Env, socket string) (*Client, error) {
	dial := func() (net.Conn, error) { return e.Dial("unix", socket, 5*time.Second) }
	first, err := dial()
	if err != nil {
		return nil, fmt.Errorf("admin: dial: %w", err)
	}
	ready := make(chan net.Conn, 1)
	ready <- first
	return &Client{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-ready:
				return c, nil
			default:
				return dial()
			}
		},
	}}}, nil
}

// Call implements Caller.
func (c *Client) Call(ctx context.Context, verb string, args json.RawMessage,
	progress func(Progress)) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	url := "http://doublet/admin/" + strings.ReplaceAll(verb, " ", "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(args))
	if err != nil {
		return nil, fmt.Errorf("admin: %s: %w", verb, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("admin: %s: %w", verb, err)
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); ; {
		var l line
		err := d.Decode(&l)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("admin: %s: the server went away before it was done", verb)
		case err != nil:
			return nil, fmt.Errorf("admin: %s: %w", verb, err)
		case l.Error != "":
			return nil, &RemoteError{l.Kind, l.Error}
		case l.Progress != nil:
			if progress != nil {
				progress(*l.Progress)
			}
		default:
			return l.Result, nil
		}
	}
}

// Runner runs verbs in this process: a *System, or a *Running.
type Runner interface {
	Run(ctx context.Context, who note.Who, verb string, args json.RawMessage,
		progress func(Progress)) (json.RawMessage, error)
}

// Direct is a Caller in this process.
type Direct struct{ Runner }

// Call implements Caller.
func (d Direct) Call(ctx context.Context, verb string, args json.RawMessage,
	progress func(Progress)) (json.RawMessage, error) {
	return d.Run(ctx, note.System, verb, args, progress)
}

// Do runs a verb with typed arguments and returns its typed result.
func Do[R any](ctx context.Context, c Caller, verb string, args any) (R, error) {
	var out R
	raw, err := json.Marshal(args)
	if err != nil {
		return out, fmt.Errorf("admin: %s: %w", verb, err)
	}
	answer, err := c.Call(ctx, verb, raw, nil)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("admin: %s: answer: %w", verb, err)
	}
	return out, nil
}
