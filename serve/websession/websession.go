// Package websession says who a request to a web door is from. Programs show a name and a password (Basic), or
// a token (Bearer), in each request; a browser signs in once and shows a cookie, whose session stands in
// directory/session. Nothing of all that is taken in the clear, but on this machine.
//
// A cookie proves who the browser belongs to, and not that its person wanted the request: a request that
// changes something, or opens a WebSocket, must also come from a page of this server, by what the browser says
// of it (Sec-Fetch-Site, Origin) and by a token that only such a page can know.
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

// Why a request is from nobody, beside what package signin says.
var (
	// ErrNobody: it shows neither a password nor a token nor the cookie of a session.
	ErrNobody = errors.New("websession: nobody is signed in")
	// ErrClear: it came in the clear from elsewhere.
	ErrClear = errors.New("websession: passwords and cookies travel under TLS only")
	// ErrForeign: a page of another site made the browser send it, or it lacks the session's token.
	ErrForeign = errors.New("websession: the request is not from a page of this server")
	// ErrMalformed: its field Authorization breaks the grammar, or is of a scheme that is not known here.
	ErrMalformed = errors.New("websession: Authorization cannot be read")
)

// Options are the settings of a Service.
type Options struct {
	// Server is the server's name, for people and their devices.
	Server string
	// Cluster tells the name that it has in its cluster ("": it is in none), and the servers that serve there beside it, for
	// browsers to go on at; nil: it stands alone.
	Cluster func(ctx context.Context) (name string, mates []Mate, err error)
	// Key is secret, and the same at every server of the domain.
	Key   []byte
	Stats *stat.Tree
}

// Mate is another server where the same people are served.
type Mate struct {
	Name string `json:"name"`
	// URL is where its web door is, "" where its server document names no host.
	URL string `json:"url,omitempty"`
}

// Service tells who is there. Its methods may be called from any goroutine.
type Service struct {
	env      *env.Env
	in       *signin.Web
	factors  *directory.SecondFactors
	sessions *session.Service
	opt      Options
	pages    *template.Template

	foreign, over, programs *stat.Counter
}

// New makes a Service.
func New(e *env.Env, in *signin.Web, d *directory.SecondFactors, s *session.Service, o Options) *Service {
	x := &Service{env: e, in: in, factors: d, sessions: s, opt: o, pages: pages}
	x.foreign = o.Stats.Counter("HTTP.SignIn.Foreign", "requests with a cookie or password that a page of another site sent, or that lack the session's token")
	x.over = o.Stats.Counter("HTTP.SignIn.Over", "requests with the cookie of a session that is over")
	x.programs = o.Stats.Counter("HTTP.SignIn.Programs", "requests of programs that showed a password or token")
	return x
}

// Identity is who a request is from.
type Identity struct {
	signin.Account
	// Credential names what proves it; see Good.
	Credential string
	// Session is that of the browser; its ID is zero for programs.
	Session session.Session
	// Person is as the directory has them; only of a session that is known here.
	Person directory.Person

	token string
	csrf  string // where there is no token
}

// credentialSession is the credential of a session, with its id.
const credentialSession = "session:"

// The cookie's name says that it came over TLS, for every path, from this host alone, and browsers hold to it.
// On this machine, in the clear, browsers would not take it.
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

// CSRFField is the header field that carries the session's token.
const CSRFField = "X-CSRF-Token"

// Identify says who a request is from. Errors: those of this package and of package signin.
//
// Implements: RFC 7235 §2 Access authentication framework
func (x *Service) Identify(r *http.Request) (*Identity, error) {
	return x.identify(r, r.Header.Get(CSRFField))
}

// IdentifyForm is Identify for the form of a page made here, with the token that stood in it: only a browser with a session
// is somebody.
func (x *Service) IdentifyForm(r *http.Request, csrf string) (*Identity, error) {
	id, err := x.identify(r, csrf)
	if err == nil && id.Session.ID.IsZero() {
		err = ErrNobody
	}
	return id, err
}

// CSRF is the token of a session, for the forms of its pages.
func (x *Service) CSRF(id *Identity) string {
	if id.csrf != "" {
		return id.csrf
	}
	return x.sessions.CSRF(id.token)
}

// Browser says whose session the cookie of a request shows, without the token of a form: whoever serves the request asks for
// that. Errors as Identify; ErrNobody for what programs show.
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

// Proved is a request from somebody whose session was looked up before: here, or by a mate that has forwarded it, which tells
// the session's credential and what its forms must show. Identify believes it.
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

// cookie finds the session of a request that comes from a page of ours.
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

// browser finds the session of a cookie. What was begun with an old password, or without the second factor
// that the person has now, is over.
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
	if stale(&s, &p) {
		x.over.Inc()
		return nil, ErrNobody
	}
	return &Identity{Account: account, Credential: credentialSession + s.ID.String(), Session: s, Person: p, token: token}, nil
}

func stale(s *session.Session, p *directory.Person) bool {
	return s.PasswordID != p.PasswordID || !p.HasPassword || p.HasTOTP() && !s.Second
}

// Good says whether a credential still signs its person in. Errors: ErrNobody, and those of package signin.
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
	if err == nil && stale(&s, &p) {
		err = ErrNobody
	}
	return err
}

// GoodElsewhere is Good for the credential of a request that a mate has forwarded. That mate may know a session of which word
// has not come here: of one that is not known to be over only the person is looked at.
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

// OnChange has fn called after every change of a session. fn must not block and must not call the store.
func (x *Service) OnChange(fn func()) { x.sessions.OnChange(fn) }

// OnEnd has fn called with the credentials of sessions that were ended here, at once.
func (x *Service) OnEnd(fn func(credentials ...string)) {
	x.sessions.OnEnd(func(ids []note.UNID) {
		list := make([]string, 0, len(ids))
		for _, id := range ids {
			list = append(list, credentialSession+id.String())
		}
		fn(list...)
	})
}

// program signs in a program with what it shows.
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
		// Browsers send a password that they were asked for by themselves, to whatever page asks for it.
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

// asks says whether a request may change something.
func asks(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return upgrade(r)
	}
	return true
}

// ours says whether a request comes from a page of this server, or from no page at all, by what the browser
// says. A link that a person follows is from anywhere, but only reads.
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
	// A browser says nothing of where it stands for a WebSocket, but the origin always.
	origin := h.Get("Origin")
	if origin == "" {
		return !upgrade(r) || h.Get("Cookie") == ""
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https") == (r.TLS != nil)
}

// setCookie gives the browser a token; keep has it stay when the browser is closed.
func (x *Service) setCookie(w http.ResponseWriter, r *http.Request, token string, keep bool) {
	c := &http.Cookie{Name: nameOf(r), Value: token, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
	if keep {
		c.MaxAge = max(1, int(x.sessions.Life()/time.Second))
	}
	http.SetCookie(w, c)
}

// dropCookie has the browser forget it.
func (x *Service) dropCookie(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: nameOf(r), Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: -1})
}
