// Package websession authenticates the requests of the web servers. Programs send a name and password (Basic) or a
// token (Bearer) with each request. A browser signs in once and then sends a cookie, whose session is stored by package
// directory/session. Credentials are only accepted over TLS or from this machine.
//
// A cookie identifies the browser, but does not prove that its user wanted the request. So a request that changes
// something or opens a WebSocket must also come from a page of this server. The fields Sec-Fetch-Site and Origin and
// the session's CSRF token, which only such a page knows, prove that.
package websession

import (
	"context"
	"crypto/hmac"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/stat"
)

// Errors of authentication, in addition to those of package signin.
var (
	// ErrNobody means that the request has no credentials, or its session has ended.
	ErrNobody = errors.New("websession: not signed in")
	// ErrClear means that credentials were sent without TLS from another machine.
	ErrClear = errors.New("websession: passwords and cookies travel under TLS only")
	// ErrForeign means that a page of another site caused the request, or that the CSRF token is missing or wrong.
	ErrForeign = errors.New("websession: the request is not from a page of this server")
	// ErrMalformed means that the field Authorization is malformed or has an unknown scheme.
	ErrMalformed = errors.New("websession: Authorization cannot be read")
)

// Options holds the settings of a Service.
type Options struct {
	// Server is the server's name, which users and their devices see.
	Server string
	// Cluster returns the server's name in its cluster ("" if it is in none), and the other members, at which browsers
	// can continue. If nil, there is no cluster.
	Cluster func(ctx context.Context) (name string, mates []Mate, err error)
	// Key is a secret key, the same on all servers of the domain.
	Key []byte
	// Passkeys is nil if nobody may sign in with passkeys.
	Passkeys *signin.Passkeys
	// OpenID is nil if nobody may sign in with an issuer.
	OpenID *OpenID
	Stats  *stat.Tree
}

// Mate is another member of the cluster, which serves the same users.
type Mate struct {
	Name string `json:"name"`
	// URL is the address of its web server, or "" if its server document names no host.
	URL string `json:"url,omitempty"`
}

// Service authenticates requests. Its methods are safe for concurrent use.
type Service struct {
	env      *env.Env
	in       *signin.Web
	factors  *directory.SecondFactors
	sessions *session.Service
	opt      Options
	pages    *template.Template

	foreign, over, programs *stat.Counter
}

// New returns a Service.
func New(e *env.Env, in *signin.Web, d *directory.SecondFactors, s *session.Service, o Options) *Service {
	x := &Service{env: e, in: in, factors: d, sessions: s, opt: o, pages: pages}
	x.foreign = o.Stats.Counter("HTTP.SignIn.Foreign",
		"requests with a cookie or password that a page of another site sent, or that lack the session's token")
	x.over = o.Stats.Counter("HTTP.SignIn.Over", "requests with the cookie of a session that is over")
	x.programs = o.Stats.Counter("HTTP.SignIn.Programs", "requests of programs that showed a password or token")
	return x
}

// Identity is the authenticated sender of a request.
type Identity struct {
	signin.Account
	// Credential identifies the credential; see Good.
	Credential string
	// Session is the browser's session. Its ID is zero for programs.
	Session session.Session
	// Person is the user's directory entry. It is only set for a session found here.
	Person directory.Person

	token string
	csrf  string // used if there is no token
}

// credentialSession is the prefix of the credential of a session. Its id follows.
const credentialSession = "session:"

// The prefix __Host- makes browsers accept the cookie only over TLS, for all paths, and for this host alone. Without
// TLS, on this machine, browsers would not accept that prefix.
const (
	cookieName  = "__Host-doublet"
	cookieClear = "doublet"
	maxCookie   = 128
)

func nameOf(r *http.Request) string {
	if r.TLS != nil {
		return cookieName
	}
	return cookieClear
}

// CSRFField is the header field that carries the session's CSRF token.
const CSRFField = "X-CSRF-Token"

// Identify authenticates a request. It returns the errors of this package and of package signin.
//
// Implements: RFC 7235 §2 Access authentication framework
func (x *Service) Identify(r *http.Request) (*Identity, error) {
	return x.identify(r, r.Header.Get(CSRFField))
}

// IdentifyForm is Identify for the form of a page of this server, with the token in it. It accepts only a browser with
// a session.
func (x *Service) IdentifyForm(r *http.Request, csrf string) (*Identity, error) {
	id, err := x.identify(r, csrf)
	if err == nil && id.Session.ID.IsZero() {
		err = ErrNobody
	}
	return id, err
}

// CSRF returns the token of a session for forms.
func (x *Service) CSRF(id *Identity) string {
	if id.csrf != "" {
		return id.csrf
	}
	return x.sessions.CSRF(id.token)
}

// Browser returns the session of a request's cookie without checking the CSRF token of a form; the caller must check
// that. It returns the errors of Identify, and ErrNobody for requests of programs.
func (x *Service) Browser(r *http.Request) (*Identity, error) {
	if id, ok := r.Context().Value(provedKey{}).(*Identity); ok {
		return id, nil
	}
	if len(r.Header.Values("Authorization")) > 0 {
		return nil, ErrNobody
	}
	return x.cookie(r)
}

type provedKey struct{}

// Proved returns a request whose session was already checked: here, or by another member of the cluster that forwarded
// it with the session's credential and CSRF token. Identify trusts it.
func Proved(r *http.Request, a *signin.Account, credential, csrf string) *http.Request {
	id := &Identity{Account: *a, Credential: credential, csrf: csrf}
	if text, ok := strings.CutPrefix(credential, credentialSession); ok {
		if u, err := note.ParseUNID(text); err == nil {
			id.Session = session.Session{ID: u, Person: a.Who.Person}
		}
	}
	return r.WithContext(context.WithValue(r.Context(), provedKey{}, id))
}

func (x *Service) identify(r *http.Request, csrf string) (*Identity, error) {
	if id, ok := r.Context().Value(provedKey{}).(*Identity); ok {
		if asks(r) && (id.csrf == "" || !hmac.Equal([]byte(id.csrf), []byte(csrf))) {
			x.foreign.Inc()
			return nil, ErrForeign
		}
		return id, nil
	}
	if fields := r.Header.Values("Authorization"); len(fields) > 0 {
		return x.program(r, fields)
	}
	id, err := x.cookie(r)
	if err == nil && asks(r) && !upgrade(r) && !x.sessions.CheckCSRF(id.token, csrf) {
		x.foreign.Inc()
		return nil, ErrForeign
	}
	return id, err
}

// cookie finds the session of a request, which must come from a page of this server.
func (x *Service) cookie(r *http.Request) (*Identity, error) {
	c, err := r.Cookie(nameOf(r))
	if err != nil || c.Value == "" || len(c.Value) > maxCookie {
		return nil, ErrNobody
	}
	if !signin.Protected(r) {
		return nil, ErrClear
	}
	id, err := x.browser(r, c.Value)
	if err != nil {
		return nil, err
	}
	if !ours(r) {
		x.foreign.Inc()
		return nil, ErrForeign
	}
	return id, nil
}

// browser finds the session of a cookie.
func (x *Service) browser(r *http.Request, token string) (*Identity, error) {
	s, err := x.sessions.Find(r.Context(), token, signin.Remote(r).String())
	if errors.Is(err, session.ErrNone) {
		x.over.Inc()
		return nil, ErrNobody
	}
	if err != nil {
		return nil, err
	}
	account, p, err := x.in.Known(r.Context(), s.Person)
	if err != nil {
		return nil, err
	}
	if x.stale(&s, &p) {
		x.over.Inc()
		return nil, ErrNobody
	}
	return &Identity{Account: account, Credential: credentialSession + s.ID.String(), Session: s, Person: p,
		token: token}, nil
}

// stale reports whether a session is invalid: the password has changed since, the passkey of its beginning was removed,
// the issuer that began it no longer signs people in here, or it began without the second factor that the user now has.
func (x *Service) stale(s *session.Session, p *directory.Person) bool {
	switch {
	case s.PasswordID != p.PasswordID:
		return true
	case s.Issuer != "":
		return x.opt.OpenID == nil || s.Issuer != x.opt.OpenID.Issuer()
	case s.Passkey != "":
		return !p.HasPasskey(s.Passkey)
	}
	return !p.HasPassword || p.HasTOTP() && !s.Second
}

// Good checks whether a credential is still valid. It returns nil, ErrNobody, or an error of package signin.
func (x *Service) Good(ctx context.Context, person note.UNID, credential string) error {
	text, ok := strings.CutPrefix(credential, credentialSession)
	if !ok {
		return x.in.Good(ctx, person, credential)
	}
	id, err := note.ParseUNID(text)
	if err != nil {
		return ErrNobody
	}
	s, err := x.sessions.Get(ctx, id)
	if errors.Is(err, session.ErrNone) || err == nil && s.Person != person {
		return ErrNobody
	}
	if err != nil {
		return err
	}
	_, p, err := x.in.Known(ctx, person)
	if err == nil && x.stale(&s, &p) {
		err = ErrNobody
	}
	return err
}

// GoodElsewhere is Good for the credential of a request that another member of the cluster has forwarded. That member
// may know a session that was not replicated here yet. For a session that is not known here, GoodElsewhere checks only
// the person.
func (x *Service) GoodElsewhere(ctx context.Context, person note.UNID, credential string) error {
	err := x.Good(ctx, person, credential)
	text, ok := strings.CutPrefix(credential, credentialSession)
	if !ok || !errors.Is(err, ErrNobody) {
		return err
	}
	id, err := note.ParseUNID(text)
	if err != nil {
		return ErrNobody
	}
	known, err := x.sessions.Known(ctx, id)
	if err != nil {
		return err
	}
	if known {
		return ErrNobody
	}
	_, _, err = x.in.Known(ctx, person)
	return err
}

// OnChange registers fn to be called after every change of a session. fn must not block and must not call the store.
func (x *Service) OnChange(fn func()) { x.sessions.OnChange(fn) }

// OnEnd registers fn to be called as soon as sessions are ended on this server, with their credentials.
func (x *Service) OnEnd(fn func(credentials ...string)) {
	x.sessions.OnEnd(func(ids []note.UNID) {
		list := make([]string, 0, len(ids))
		for _, id := range ids {
			list = append(list, credentialSession+id.String())
		}
		fn(list...)
	})
}

// program authenticates a program by its Authorization field.
func (x *Service) program(r *http.Request, fields []string) (*Identity, error) {
	if !signin.Protected(r) {
		return nil, ErrClear
	}
	a, ok := parseAuthorization(fields)
	if !ok {
		return nil, ErrMalformed
	}
	x.programs.Inc()
	var got signin.Proved
	var err error
	if a.basic {
		// A browser that once asked for a password sends it by itself, even with requests that other sites cause.
		if !ours(r) {
			x.foreign.Inc()
			return nil, ErrForeign
		}
		got, err = x.in.Program(r.Context(), signin.OfRequest(r), a.user, a.secret)
	} else {
		got, err = x.in.Bearer(r.Context(), signin.OfRequest(r), a.secret)
	}
	if err != nil {
		return nil, err
	}
	return &Identity{Account: got.Account, Credential: got.Credential}, nil
}

func upgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// asks reports whether a request may change something.
func asks(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return upgrade(r)
	}
	return true
}

// ours reports whether a request comes from a page of this server, or from no page, according to the browser. A link
// from another site may open a page with GET.
func ours(r *http.Request) bool {
	h := r.Header
	switch h.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		if !upgrade(r) {
			return true
		}
	case "cross-site", "same-site":
		return r.Method == http.MethodGet && h.Get("Sec-Fetch-Mode") == "navigate" && !upgrade(r)
	}
	// For a WebSocket, browsers do not all send Sec-Fetch-Site, but they always send Origin.
	origin := h.Get("Origin")
	if origin == "" {
		return !upgrade(r) || h.Get("Cookie") == ""
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https") == (r.TLS != nil)
}

// setCookie sets the session cookie. If keep is set, it persists when the browser is closed.
func (x *Service) setCookie(w http.ResponseWriter, r *http.Request, token string, keep bool) {
	c := &http.Cookie{Name: nameOf(r), Value: token, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode}
	if keep {
		c.MaxAge = max(1, int(x.sessions.Life()/time.Second))
	}
	http.SetCookie(w, c)
}

// dropCookie removes the session cookie.
func (x *Service) dropCookie(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: nameOf(r), Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode, MaxAge: -1})
}
