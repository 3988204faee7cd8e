package jmap

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	wire "doublet/wire/jmap"
)

// Session holds the session object: the server's capabilities and the user's accounts (RFC 8620 section 2).
type Session struct {
	Username, State string
	// Capabilities is an object with the server's capabilities as members.
	Capabilities *wire.Value
	Accounts     map[string]Account
	// Primary maps a capability to the id of the user's primary account for it.
	Primary map[string]string
	Limits  Limits

	api, upload, download, events string
}

// Account is an account that the user can access.
type Account struct {
	Name               string
	Personal, ReadOnly bool
	Capabilities       *wire.Value // an object with capabilities as members
}

// Limits holds the limits of the server (RFC 8620 section 2). A limit that it does not announce is the RFC's suggested
// minimum.
type Limits struct {
	Upload, ConcurrentUploads, Request, ConcurrentRequests, Calls, ObjectsInGet, ObjectsInSet int64
}

// MailAccount returns the id of the user's primary account for mail, or of any account with mail.
func (s *Session) MailAccount() (string, error) {
	if id := s.Primary[wire.Mail]; id != "" {
		return id, nil
	}
	for id, a := range s.Accounts {
		if a.Capabilities.Get(wire.Mail) != nil {
			return id, nil
		}
	}
	return "", fmt.Errorf("%w: no account of mail", ErrAbsent)
}

// Session returns the session object. It requests it only once; see Refresh.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return c.Refresh(ctx)
}

// Refresh requests the session object again. Call it when a response has another SessionState.
//
// Implements: RFC 8620 §2.2 Service autodiscovery, as a client
func (c *Client) Refresh(ctx context.Context) (*Session, error) {
	w := c.watch(ctx, c.opt.Timeout)
	defer w.end()
	r, err := c.request(w, http.MethodGet, c.base.String(), nil)
	if err != nil {
		return nil, err
	}
	v, from, err := c.exchange(w, r)
	if err != nil {
		return nil, err
	}
	s, err := readSession(v, from)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	return s, nil
}

// readSession reads a session object. Its URLs may be relative to from.
func readSession(v *wire.Value, from *url.URL) (*Session, error) {
	s := &Session{Accounts: map[string]Account{}, Primary: map[string]string{}, Capabilities: v.Get("capabilities")}
	s.Username, _ = v.Get("username").Text()
	s.State, _ = v.Get("state").Text()
	for _, u := range [...]struct {
		name string
		to   *string
		need string // a variable that the template must have
	}{{"apiUrl", &s.api, ""}, {"uploadUrl", &s.upload, "{accountId}"}, {"downloadUrl", &s.download, "{blobId}"},
		{"eventSourceUrl", &s.events, ""}} {
		text, ok := v.Get(u.name).Text()
		if !ok || !strings.Contains(text, u.need) {
			return nil, fmt.Errorf("%w: the session object has no %s", ErrProtocol, u.name)
		}
		var err error
		if *u.to, err = absolute(from, text); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrProtocol, u.name, err)
		}
	}
	core := s.Capabilities.Get(wire.Core)
	if core.Kind() != wire.Object {
		return nil, fmt.Errorf("%w: the session object does not announce %s", ErrProtocol, wire.Core)
	}
	for _, l := range [...]struct {
		name  string
		to    *int64
		least int64
	}{
		{"maxSizeUpload", &s.Limits.Upload, 50e6}, {"maxConcurrentUpload", &s.Limits.ConcurrentUploads, 4},
		{"maxSizeRequest", &s.Limits.Request, 10e6},
		{"maxConcurrentRequests", &s.Limits.ConcurrentRequests, 4}, {"maxCallsInRequest", &s.Limits.Calls, 16},
		{"maxObjectsInGet", &s.Limits.ObjectsInGet, 500}, {"maxObjectsInSet", &s.Limits.ObjectsInSet, 500},
	} {
		if n, ok := core.Get(l.name).Int(); ok && n > 0 {
			*l.to = n
		} else {
			*l.to = l.least
		}
	}
	list := v.Get("accounts")
	for i := range list.Len() {
		a := list.At(i)
		x := Account{Capabilities: a.Get("accountCapabilities")}
		x.Name, _ = a.Get("name").Text()
		x.Personal, _ = a.Get("isPersonal").Bool()
		x.ReadOnly, _ = a.Get("isReadOnly").Bool()
		if list.Kind() == wire.Object {
			s.Accounts[list.Name(i)] = x
		}
	}
	primary := v.Get("primaryAccounts")
	for i := range primary.Len() {
		if id, ok := primary.At(i).Text(); ok && primary.Kind() == wire.Object {
			s.Primary[primary.Name(i)] = id
		}
	}
	return s, nil
}

// absolute returns a URL or URL template as an absolute one. Template variables stay unchanged.
func absolute(from *url.URL, text string) (string, error) {
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return text, nil
	}
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return "", fmt.Errorf("%.100q is no URL", text)
	}
	return from.Scheme + "://" + from.Host + text, nil
}

// expand expands a URI template of level 1 (RFC 6570). values are names and values in turn.
func expand(template string, values ...string) string {
	for i := 0; i+1 < len(values); i += 2 {
		template = strings.ReplaceAll(template, "{"+values[i]+"}",
			strings.ReplaceAll(url.QueryEscape(values[i+1]), "+", "%20"))
	}
	return template
}
