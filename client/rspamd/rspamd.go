// Package rspamd queries an rspamd server about messages, over HTTP.
package rspamd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sort"
	"strings"
	"time"

	"doublet/env"
)

// Options configures a Client; zero values take the defaults.
type Options struct {
	// URL is the address of rspamd's worker, for example "http://127.0.0.1:11333". Password is the worker's password,
	// if it requires one.
	URL, Password string
	// Timeout is the timeout of a whole query (default 20 s).
	Timeout time.Duration
}

// ErrRspamd wraps all errors of a query.
var ErrRspamd = errors.New("rspamd")

// Client queries one rspamd server. Its connections are reused.
type Client struct {
	opt  Options
	http *http.Client
	env  *env.Env
}

// maxAnswer is the maximum number of bytes read from a response, maxHeaders the maximum number of added fields.
const (
	maxAnswer  = 1 << 20
	maxHeaders = 100
)

// New returns a Client.
func New(e *env.Env, o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	t := &http.Transport{
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return e.Dial(network, address, o.Timeout)
		},
		MaxIdleConnsPerHost: 32, MaxConnsPerHost: 256, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: o.Timeout,
	}
	return &Client{opt: o, http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the message and password must go only to the configured URL
	}}, env: e}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Mail describes a message and its sender.
type Mail struct {
	IP       netip.Addr
	Helo     string
	Hostname string // of the client, "" if unknown
	From     string
	Rcpt     []string
	User     string // authenticated user
	QueueID  string
	TLS      bool
	MTA      string // this server's name
}

// Action is the action that rspamd recommends.
type Action string

// The actions.
const (
	NoAction       Action = "no action"
	Greylist       Action = "greylist"
	AddHeader      Action = "add header"
	RewriteSubject Action = "rewrite subject"
	SoftReject     Action = "soft reject"
	Reject         Action = "reject"
	Discard        Action = "discard"
	Quarantine     Action = "quarantine"
)

// Header is a header field to add.
type Header struct{ Name, Value string }

// Answer is rspamd's response.
type Answer struct {
	Action          Action
	Score, Required float64
	// Subject is the new subject for RewriteSubject. Message is the text for a rejection.
	Subject, Message string
	Add              []Header
	Remove           []string // names of fields to remove
}

// answer is the JSON format of /checkv2.
type answer struct {
	Action   string            `json:"action"`
	Score    float64           `json:"score"`
	Required float64           `json:"required_score"`
	Subject  string            `json:"subject"`
	Messages map[string]string `json:"messages"`
	Milter   struct {
		Add    map[string]json.RawMessage `json:"add_headers"`
		Remove map[string]json.RawMessage `json:"remove_headers"`
	} `json:"milter"`
}

// Check queries rspamd about a message.
func (c *Client) Check(ctx context.Context, m *Mail, message []byte) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := c.env.Clock.AfterFunc(c.opt.Timeout, cancel)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.opt.URL+"/checkv2", bytes.NewReader(message))
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrRspamd, err)
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, oneLine(value))
		}
	}
	if m.IP.IsValid() {
		set("IP", m.IP.Unmap().WithZone("").String())
	}
	set("Helo", m.Helo)
	set("Hostname", m.Hostname)
	set("From", m.From)
	set("User", m.User)
	set("Queue-Id", m.QueueID)
	set("MTA-Name", m.MTA)
	set("Password", c.opt.Password)
	if m.TLS {
		set("TLS-Cipher", "yes")
	}
	for _, r := range m.Rcpt {
		req.Header.Add("Rcpt", oneLine(r))
	}
	res, err := c.http.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrRspamd, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrRspamd, err)
	case res.StatusCode != http.StatusOK:
		return Answer{}, fmt.Errorf("%w: status %d", ErrRspamd, res.StatusCode)
	case len(body) > maxAnswer:
		return Answer{}, fmt.Errorf("%w: an answer of more than %d bytes", ErrRspamd, maxAnswer)
	}
	return Parse(body)
}

// Parse parses the JSON of a response.
func Parse(body []byte) (Answer, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrRspamd, err)
	}
	out := Answer{Action: Action(a.Action), Score: a.Score, Required: a.Required, Subject: oneLine(a.Subject),
		Message: oneLine(a.Messages["smtp_message"])}
	switch out.Action {
	case NoAction, Greylist, AddHeader, RewriteSubject, SoftReject, Reject, Discard, Quarantine:
	default:
		return Answer{}, fmt.Errorf("%w: action %.40q", ErrRspamd, a.Action)
	}
	for name, raw := range a.Milter.Add {
		for _, v := range values(raw) {
			if fieldName(name) && len(out.Add) < maxHeaders {
				out.Add = append(out.Add, Header{name, oneLine(v)})
			}
		}
	}
	sort.SliceStable(out.Add, func(i, j int) bool { return out.Add[i].Name < out.Add[j].Name })
	for name := range a.Milter.Remove {
		if fieldName(name) && len(out.Remove) < maxHeaders {
			out.Remove = append(out.Remove, name)
		}
	}
	sort.Strings(out.Remove)
	return out, nil
}

// values parses the possible forms of a field to add: a string, an object with value and position, or a list of these.
func values(raw json.RawMessage) []string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []string{s}
	}
	var o struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(raw, &o) == nil {
		return []string{o.Value}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []string
	for _, r := range list[:min(len(list), maxHeaders)] {
		if json.Unmarshal(r, &s) == nil {
			out = append(out, s)
		} else if json.Unmarshal(r, &o) == nil {
			out = append(out, o.Value)
		}
	}
	return out
}

func fieldName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == ':' {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// oneLine removes line breaks and control characters from a value and limits its length.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r < ' ' && r != '\t', r == 0x7f:
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), 4000)]
}
