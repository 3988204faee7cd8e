package websession

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"doublet/directory"
	"doublet/directory/passkey"
	"doublet/directory/session"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/serve/speech"
)

// The paths of the handler. Each accepts JSON and returns JSON, or accepts a form and returns a page.
const (
	PathAccount    = "/auth/"
	PathSignIn     = "/auth/sign-in"
	PathSignOut    = "/auth/sign-out"
	pathWays       = "/auth/ways"
	PathSession    = "/auth/session"
	PathSessions   = "/auth/sessions"
	pathEnd        = "/auth/sessions/end"
	PathTOTP       = "/auth/totp"
	pathTOTPBegin  = "/auth/totp/begin"
	pathTOTPGood   = "/auth/totp/confirm"
	pathTOTPOff    = "/auth/totp/off"
	pathTOTPBackup = "/auth/totp/recovery"
)

// maxInput bounds a request body, in bytes.
const maxInput = 16 << 10

// Handler returns the handler for the paths.
func (x *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathSignIn, x.signInPage)
	mux.HandleFunc("POST "+PathSignIn, x.signIn)
	mux.HandleFunc("POST "+PathSignOut, x.signOut)
	show := func(path string, fn action) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter,
			r *http.Request) {
			x.act(w, r, &input{JSON: true}, fn)
		})
	}
	do := func(path string, fn action) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			in, err := readInput(w, r)
			if err != nil {
				x.fail(w, r, in, nil, err)
				return
			}
			x.act(w, r, in, fn)
		})
	}
	mux.HandleFunc("GET "+PathAccount+"{$}", func(w http.ResponseWriter,
		r *http.Request) {
		x.act(w, r, &input{}, x.overview)
	})
	show(PathSession, x.showSession)
	show(PathSessions, x.listSessions)
	f := totpDoor{x}
	show(PathTOTP, f.show)
	do(pathEnd, x.endSessions)
	do(pathTOTPBegin, f.begin)
	do(pathTOTPGood, f.confirm)
	do(pathTOTPOff, f.end)
	do(pathTOTPBackup, f.recovery)
	p := passkeyDoor{x}
	mux.HandleFunc("GET "+pathWays, x.ways)
	mux.HandleFunc("POST "+pathPasskey, p.signIn)
	show(pathPasskeys, p.allowed(p.list))
	do(pathPasskeyBegin, p.allowed(p.options))
	do(pathPasskeyAdd, p.allowed(p.add))
	do(pathPasskeyRemove, p.allowed(p.remove))
	o := openIDDoor{x}
	mux.HandleFunc("GET "+PathOpenID, o.begin)
	mux.HandleFunc("GET "+PathOpenIDBack, o.back)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxInput)
		mux.ServeHTTP(w, r)
	})
}

// input holds the content of a request.
type input struct {
	JSON bool `json:"-"`

	User     string `json:"user"`
	Password string `json:"password"`
	Code     string `json:"code"`
	Keep     bool   `json:"keep"`
	// Again is set if the person of the browser's session proves themselves again.
	Again bool `json:"again"`
	// To is the address to redirect to after a form, a path of this server.
	To string `json:"to"`
	// CSRF is the session's token in a form. JSON requests send it in the field CSRFField.
	CSRF   string `json:"csrf"`
	ID     string `json:"id"`
	Others bool   `json:"others"`
	Ticket string `json:"ticket"`
	// Name is the name of a new passkey. Credential is a browser's response to a request for a passkey.
	Name       string          `json:"name"`
	Credential json.RawMessage `json:"credential"`
}

// clientError is an error in a request. text is a key of the texts for users.
type clientError struct {
	status int
	word   string
	text   string
}

func (e *clientError) Error() string { return speech.English(e.text) }

func bad(text string) error { return &clientError{http.StatusBadRequest, "bad request", text} }

// readInput reads a body: JSON or a form.
func readInput(_ http.ResponseWriter, r *http.Request) (*input, error) {
	in := &input{}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		in.JSON = true
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(in); err != nil || d.More() {
			return in, tooMuch(err, "jsonUnread")
		}
	case "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return in, tooMuch(err, "formUnread")
		}
		f := r.PostForm
		*in = input{
			User: f.Get("user"), Password: f.Get("password"), Code: f.Get("code"), Keep: f.Get("keep") != "",
			To:   f.Get("to"),
			CSRF: f.Get("csrf"), ID: f.Get("id"), Others: f.Get("others") != "", Ticket: f.Get("ticket"),
		}
	default:
		in.JSON = true
		return in, &clientError{http.StatusUnsupportedMediaType, "media type", "mediaType"}
	}
	in.User = strings.TrimSpace(in.User)
	for _, s := range []string{in.User, in.Password, in.Code, in.To, in.ID, in.Ticket, in.Name} {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return in, bad("notText")
		}
	}
	return in, nil
}

func tooMuch(err error, text string) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return &clientError{http.StatusRequestEntityTooLarge, "too large", "bodyLarge"}
	}
	return bad(text)
}

// action executes a request of a signed-in user. Its result holds the JSON of the response, or the content of the page.
type action func(w http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error)

// result is the result of an action. said is a key of the texts for users.
type result struct {
	value any
	said  string
	setup *setup
	codes []string
}

// act calls an action for the user of a session.
func (x *Service) act(w http.ResponseWriter, r *http.Request, in *input, fn action) {
	csrf := r.Header.Get(CSRFField)
	if csrf == "" {
		csrf = in.CSRF
	}
	id, err := x.identify(r, csrf)
	if err == nil && id.Session.ID.IsZero() {
		err = ErrNobody // credentials of programs give no access to the account
	}
	if err != nil {
		x.fail(w, r, in, nil, err)
		return
	}
	got, err := fn(w, r, id, in)
	switch {
	case err != nil:
		x.fail(w, r, in, id, err)
	case in.JSON:
		writeJSON(w, http.StatusOK, "application/json", got.value)
	default:
		x.accountPage(w, r, http.StatusOK, id, got)
	}
}

// fail responds with an error.
func (x *Service) fail(w http.ResponseWriter, r *http.Request, in *input, id *Identity, err error) {
	var told *clientError
	p := refusal(err)
	if errors.As(err, &told) {
		p = newProblem(told.status, told.word, told.text, "")
	}
	switch {
	case in.JSON && told == nil:
		x.Refuse(w, r, err)
	case in.JSON:
		writeJSON(w, p.Status, "application/problem+json", p)
	case id == nil && errors.Is(err, ErrNobody):
		http.Redirect(w, r, PathSignIn, http.StatusSeeOther)
	default:
		x.logTrouble(r, p, err)
		if id != nil {
			x.accountPage(w, r, p.Status, id, result{said: p.text, value: p.value})
			return
		}
		x.page(w, r, p.Status, pageData{SignIn: p.Error != "clear", said: p.text, value: p.value, Bad: true,
			User: in.User, To: localPath(in.To)})
	}
}

// ways lists the ways to sign in other than with a password, for a page.
type ways struct {
	// Passkey holds the options with which a browser shows a passkey.
	Passkey *passkey.Request `json:"passkey,omitempty"`
	OpenID  *openIDWay       `json:"openid,omitempty"`
}

type openIDWay struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// ways responds with the ways to sign in.
func (x *Service) ways(w http.ResponseWriter, r *http.Request) {
	var out ways
	err := x.mayBegin(r)
	if err == nil && x.opt.Passkeys != nil {
		var options passkey.Request
		options, err = x.opt.Passkeys.Request()
		out.Passkey = &options
	}
	if err != nil {
		x.fail(w, r, &input{JSON: true}, nil, err)
		return
	}
	if x.opt.OpenID != nil {
		out.OpenID = &openIDWay{x.opt.OpenID.Name, PathOpenID}
	}
	writeJSON(w, http.StatusOK, "application/json", out)
}

// mayBegin rejects requests that cannot begin a session.
func (x *Service) mayBegin(r *http.Request) error {
	switch {
	case !signin.Protected(r):
		return ErrClear
	case !ours(r):
		x.foreign.Inc()
		return ErrForeign
	}
	return nil
}

func (x *Service) signInPage(w http.ResponseWriter, r *http.Request) {
	if !signin.Protected(r) {
		x.fail(w, r, &input{}, nil, ErrClear)
		return
	}
	x.page(w, r, http.StatusOK, pageData{SignIn: true, To: localPath(r.URL.Query().Get("to"))})
}

// localPath returns to if it is a path of this server, or "".
func localPath(to string) string {
	if len(to) < 1 || len(to) > 2000 || to[0] != '/' || strings.HasPrefix(to, "//") ||
		strings.ContainsFunc(to, func(c rune) bool { return c == '\\' || control(c) }) {
		return ""
	}
	return to
}

// signIn starts a session. It is always a new one, and the browser's old one ends.
func (x *Service) signIn(w http.ResponseWriter, r *http.Request) {
	in, err := readInput(w, r)
	var id *Identity
	if err == nil {
		id, err = x.SignIn(w, r, Shown{in.User, in.Password, in.Code, in.Keep, in.Again})
	}
	if err != nil {
		x.fail(w, r, in, nil, err)
		return
	}
	if in.JSON {
		writeJSON(w, http.StatusOK, "application/json", x.sessionOf(r.Context(), id))
		return
	}
	to := localPath(in.To)
	if to == "" {
		to = PathAccount
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// Shown holds the credentials of a user who signs in.
type Shown struct {
	User, Password, Code string
	// Keep makes the session persist when the browser is closed.
	Keep bool
	// Again is set if the person of the browser's session proves themselves again. The new session persists as that one
	// does, whatever Keep is.
	Again bool
}

// SignIn starts a session for a page of this server. It is always a new one, and the browser's old one ends. SignIn
// sets the cookie on w. It returns the errors of this package and of package signin; see Why.
func (x *Service) SignIn(w http.ResponseWriter, r *http.Request, in Shown) (*Identity, error) {
	if err := x.mayBegin(r); err != nil {
		return nil, err
	}
	if in.User == "" || in.Password == "" {
		return nil, bad("namePassword")
	}
	old, err := x.replaced(r, in.Again)
	if err != nil {
		return nil, err
	}
	proved, err := x.in.Person(r.Context(), signin.OfRequest(r), in.User, in.Password, in.Code)
	if err != nil {
		return nil, err
	}
	id, err := x.replace(w, r, &proved, in.Keep, old)
	if err == nil {
		x.env.Log.Info("signed in at the web door", "person", proved.Name, "remote", signin.Remote(r).String(),
			"second factor", proved.Second, "again", in.Again)
	}
	return id, err
}

// SignOut ends the session of a request, if it has one, and removes the cookie.
func (x *Service) SignOut(w http.ResponseWriter, r *http.Request, csrf string) error {
	id, err := x.identify(r, csrf)
	if err == nil && !id.Session.ID.IsZero() {
		err = x.sessions.End(r.Context(), id.Who.Person, id.Session.ID)
	}
	if err != nil && !errors.Is(err, ErrNobody) && !errors.Is(err, session.ErrNone) {
		return err
	}
	x.dropCookie(w, r)
	return nil
}

// replaced returns the session of a person who proves themselves again, nil without again. It must be called before the
// proof is checked, because that may use it up. ErrNobody: the browser has no session. ErrForeign: the page lacks its
// token.
func (x *Service) replaced(r *http.Request, again bool) (*Identity, error) {
	if !again {
		return nil, nil
	}
	return x.IdentifyForm(r, r.Header.Get(CSRFField))
}

// replace starts a session as begin does. If old is not nil, the new session persists as that one does.
// signin.ErrOther: old is another person's. It goes on, because otherwise its page would act for the person who proved
// themselves.
func (x *Service) replace(w http.ResponseWriter, r *http.Request, p *signin.Proved, keep bool,
	old *Identity) (*Identity, error) {
	if old != nil {
		if old.Who.Person != p.Who.Person {
			return nil, signin.ErrOther
		}
		keep = old.Session.Keep
	}
	return x.begin(w, r, p, keep)
}

// begin starts a session and ends the one of the browser's cookie.
func (x *Service) begin(w http.ResponseWriter, r *http.Request, p *signin.Proved, keep bool) (*Identity, error) {
	if c, err := r.Cookie(nameOf(r)); err == nil && c.Value != "" {
		old, err := x.sessions.Find(r.Context(), c.Value, signin.Remote(r).String())
		if err == nil {
			err = x.sessions.End(r.Context(), old.Person, old.ID)
		}
		if err != nil && !errors.Is(err, session.ErrNone) {
			return nil, err
		}
	}
	address := ""
	if a := signin.Remote(r); a.IsValid() {
		address = a.String()
	}
	token, s, err := x.sessions.Begin(r.Context(), session.Session{
		Person: p.Who.Person, PasswordID: p.PasswordID, Passkey: p.Passkey, Issuer: p.Issuer,
		AuthTime: p.AuthTime, Second: p.Second, Keep: keep,
		Address: address, Agent: r.UserAgent(),
	})
	if err != nil {
		return nil, err
	}
	x.setCookie(w, r, token, keep)
	if p.Second {
		x.know(w, r, p.Who.Person)
	}
	return &Identity{Account: p.Account, Credential: credentialSession + s.ID.String(), Session: s, token: token}, nil
}

// know marks a browser as one in which the user has entered a valid code. Wrong codes from elsewhere then do not lock
// it out.
func (x *Service) know(w http.ResponseWriter, r *http.Request, person note.UNID) {
	token := x.sessions.KnowBrowser(signin.OfRequest(r).Browser, person)
	http.SetCookie(w, &http.Cookie{
		Name: signin.BrowserCookie(r), Value: token, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   int(x.sessions.BrowserLife() / time.Second),
	})
}

// signOut ends the session. Without a session it succeeds.
func (x *Service) signOut(w http.ResponseWriter, r *http.Request) {
	in, err := readInput(w, r)
	if err == nil {
		csrf := r.Header.Get(CSRFField)
		if csrf == "" {
			csrf = in.CSRF
		}
		err = x.SignOut(w, r, csrf)
	}
	if err != nil {
		x.fail(w, r, in, nil, err)
		return
	}
	if in.JSON {
		writeJSON(w, http.StatusOK, "application/json", done{"signed out"})
		return
	}
	http.Redirect(w, r, PathSignIn, http.StatusSeeOther)
}

// done is the response of an action without a result.
type done struct {
	Done string `json:"done"`
}

// sessionInfo is a session as its user sees it.
type sessionInfo struct {
	ID      string    `json:"id"`
	Current bool      `json:"current"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	Ends    time.Time `json:"ends"`
	Second  bool      `json:"second_factor"`
	Address string    `json:"address,omitempty"`
	Agent   string    `json:"user_agent,omitempty"`
}

// signedIn describes the signed-in user. It is only sent to the browser of the session, because it contains the CSRF
// token.
type signedIn struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	CSRF    string `json:"csrf"`
	// Admin is set if the user has the role Admin.
	Admin   bool        `json:"admin,omitempty"`
	Session sessionInfo `json:"session"`
	// Server is the name of this server. Mates are the servers that can replace it.
	Server string `json:"server"`
	Mates  []Mate `json:"mates,omitempty"`
}

func infoOf(s *session.Session, current note.UNID) sessionInfo {
	return sessionInfo{s.ID.String(), s.ID == current, s.Created, s.Used, s.Ends, s.Second, s.Address, s.Agent}
}

func (x *Service) sessionOf(ctx context.Context, id *Identity) signedIn {
	out := signedIn{
		Name: id.Name, Address: id.Address, CSRF: x.sessions.CSRF(id.token),
		Admin:   directory.RequireAdmin(id.Who) == nil,
		Session: infoOf(&id.Session, id.Session.ID), Server: x.opt.Server,
	}
	if x.opt.Cluster != nil {
		name, mates, err := x.opt.Cluster(ctx)
		if err != nil {
			x.env.Log.Warn("cannot notify the mates", "error", err) // respond without the other members
		}
		if out.Mates = mates; name != "" {
			out.Server = name
		}
	}
	return out
}

func (x *Service) showSession(_ http.ResponseWriter, r *http.Request, id *Identity, _ *input) (result, error) {
	return result{value: x.sessionOf(r.Context(), id)}, nil
}

// maxSessions bounds the sessions of a user that are listed.
const maxSessions = 1000

func (x *Service) listSessions(_ http.ResponseWriter, r *http.Request, id *Identity, _ *input) (result, error) {
	list, err := x.sessions.List(r.Context(), id.Who.Person, maxSessions)
	out := []sessionInfo{}
	for i := range list {
		if !x.stale(&list[i], &id.Person) {
			out = append(out, infoOf(&list[i], id.Session.ID))
		}
	}
	return result{value: out}, err
}

func (x *Service) overview(http.ResponseWriter, *http.Request, *Identity, *input) (result, error) {
	return result{}, nil
}

// endSessions ends one of a user's sessions, or all but the current one.
func (x *Service) endSessions(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	if in.Others == (in.ID != "") {
		return result{}, bad("whichSession")
	}
	if in.Others {
		if _, err := x.sessions.EndAll(r.Context(), id.Who.Person, id.Session.ID); err != nil {
			return result{}, err
		}
		return result{value: done{"the other sessions are ended"}, said: "othersEnded"}, nil
	}
	which, err := note.ParseUNID(in.ID)
	if err == nil {
		err = x.sessions.End(r.Context(), id.Who.Person, which)
	} else {
		err = session.ErrNone
	}
	if errors.Is(err, session.ErrNone) {
		return result{}, &clientError{http.StatusNotFound, "not found", "noSession"}
	}
	return result{value: done{"the session is ended"}, said: "sessionEnded"}, err
}
