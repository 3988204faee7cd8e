package webd

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/serve/signin"
	"doublet/serve/speech"
	"doublet/web"
)

//go:embed account.html
var accountText string

var accountTemplate, accountPolicy = web.Page(accountText, "'self'")

const (
	// LeastPassword is the minimum length of a new password in characters.
	LeastPassword = 8
	// maxAccountForm bounds a form, in bytes.
	maxAccountForm = 16 << 10
)

// SignIn authenticates a user. Type signin.Web implements it.
type SignIn interface {
	Person(ctx context.Context, a signin.Attempt, user, secret, code string) (signin.Proved, error)
}

// accountPage is the data of the page.
type accountPage struct {
	*speech.Speech
	Server, User string
	Said         string
	Bad, Closed  bool
	Secret       string
	Least        int
	Listed       bool
	Name         string
	AppPasswords []directory.AppPassword
}

// Account enables the page on which users change their password and create and delete app passwords. It is only
// available over TLS or from this machine. There is no session: each form includes the password, so another site, which
// does not know it, cannot forge a form. Cross-origin requests are rejected before that.
func (w *Server) Account(in SignIn) {
	guard := http.NewCrossOriginProtection()
	form := func(fn func(ctx context.Context, r *http.Request, a signin.Account, p *accountPage) error) http.Handler {
		return guard.Handler(http.HandlerFunc(func(out http.ResponseWriter,
			r *http.Request) {
			w.accountForm(out, r, in, fn)
		}))
	}
	show := func(out http.ResponseWriter, r *http.Request) {
		p := accountPage{Speech: speech.Of(r, w.env.Clock.Now())}
		status := http.StatusOK
		if !signin.Protected(r) {
			p.Closed, p.Bad, p.Said = true, true, p.T("tlsOnly")
			status = http.StatusForbidden
		}
		w.accountPage(out, status, p)
	}
	w.mux.Handle("GET /account", w.people(show))
	w.mux.Handle("GET /account/password", w.people(show))
	w.mux.Handle("POST /account/password", form(w.changePassword))
	w.mux.Handle("POST /account/app-passwords", form(w.appPasswords))
}

func (w *Server) accountPage(out http.ResponseWriter, status int, p accountPage) {
	p.Server, p.Least = w.system.Name, LeastPassword
	var b bytes.Buffer
	if err := accountTemplate.Execute(&b, p); err != nil {
		w.env.Log.Error("page failed", "error", err)
		http.Error(out, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	h := out.Header()
	h.Set("Content-Security-Policy", accountPolicy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	out.WriteHeader(status)
	_, _ = out.Write(b.Bytes())
}

// refusal is an error for the user: a key of the texts, and its value.
type refusal struct {
	status      int
	text, value string
}

func (e *refusal) Error() string { return speech.English(e.text, e.value) }

// accountForm signs in with the credentials in a form and calls fn.
func (w *Server) accountForm(out http.ResponseWriter, r *http.Request, in SignIn,
	fn func(context.Context, *http.Request, signin.Account, *accountPage) error) {
	p := accountPage{Speech: speech.Of(r, w.env.Clock.Now())}
	err := w.accountDo(out, r, in, fn, &p)
	status := http.StatusOK
	if err != nil {
		p.Bad = true
		p.Secret = ""
		var no *refusal
		switch {
		case errors.As(err, &no):
			status, p.Said = no.status, p.T(no.text, no.value)
		case errors.Is(err, directory.ErrInvalid), errors.Is(err, directory.ErrNotFound):
			status, p.Said = http.StatusBadRequest, p.T("cannotBeDone", err.Error())
		default:
			w.env.Log.Error("account page failed", "error", err)
			status, p.Said = http.StatusServiceUnavailable, p.T("tryLater")
		}
	}
	w.accountPage(out, status, p)
}

func (w *Server) accountDo(out http.ResponseWriter, r *http.Request, in SignIn,
	fn func(context.Context, *http.Request, signin.Account, *accountPage) error, p *accountPage) error {
	if !signin.Protected(r) {
		p.Closed = true
		return &refusal{http.StatusForbidden, "tlsOnly", ""}
	}
	r.Body = http.MaxBytesReader(out, r.Body, maxAccountForm)
	if err := r.ParseForm(); err != nil {
		return &refusal{http.StatusBadRequest, "formUnread", ""}
	}
	user, secret := strings.TrimSpace(r.PostForm.Get("user")), r.PostForm.Get("password")
	p.User = user
	if user == "" || secret == "" {
		return &refusal{http.StatusBadRequest, "namePassword", ""}
	}
	if password.IsToken(secret) {
		return &refusal{http.StatusForbidden, "appPasswordNot", ""}
	}
	proved, err := in.Person(r.Context(), signin.OfRequest(r), user, secret, r.PostForm.Get("code"))
	var elsewhere *directory.ElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		return &refusal{http.StatusForbidden, "elsewhere", elsewhere.Server()}
	case errors.Is(err, signin.ErrCode):
		return &refusal{http.StatusForbidden, "factorCode", ""}
	case errors.Is(err, signin.ErrWrongCode):
		return &refusal{http.StatusForbidden, "factorWrong", ""}
	case errors.Is(err, signin.ErrCredentials):
		return &refusal{http.StatusForbidden, "credentials", ""}
	case errors.Is(err, signin.ErrDisabled):
		return &refusal{http.StatusForbidden, "disabled", ""}
	case errors.Is(err, signin.ErrBanned), errors.Is(err, signin.ErrBusy):
		return &refusal{http.StatusTooManyRequests, "busy", ""}
	case err != nil:
		return err
	}
	return fn(r.Context(), r, proved.Account, p)
}

// changePassword sets a user's new password.
func (w *Server) changePassword(ctx context.Context, r *http.Request, a signin.Account, p *accountPage) error {
	pw := r.PostForm.Get("new")
	switch {
	case pw != r.PostForm.Get("again"):
		return &refusal{http.StatusBadRequest, "passwordNotTwice", ""}
	case utf8.RuneCountInString(pw) < LeastPassword || !utf8.ValidString(pw):
		return &refusal{http.StatusBadRequest, "passwordShort", ""}
	case len(pw) > password.MaxLength:
		return &refusal{http.StatusBadRequest, "passwordLong", ""}
	case pw == r.PostForm.Get("password"):
		return &refusal{http.StatusBadRequest, "passwordSame", ""}
	case password.IsToken(pw):
		return &refusal{http.StatusBadRequest, "passwordLooksApp", ""}
	}
	person, err := w.system.Directory.Names.Person(ctx, a.Who.Person)
	if err != nil {
		return err
	}
	if err := w.system.Directory.Passwords.Set(ctx, a.Who, a.Who.Person, pw, person.HasScram ||
		w.system.SCRAM); err != nil {
		return err
	}
	w.env.Log.Info("person changed their password", "person", a.Name, "remote", signin.Remote(r).String())
	p.Said = p.T("passwordChanged")
	return nil
}

// appPasswords lists a user's app passwords, after creating or deleting one if requested.
func (w *Server) appPasswords(ctx context.Context, r *http.Request, a signin.Account, p *accountPage) error {
	label, remove := strings.TrimSpace(r.PostForm.Get("label")), strings.TrimSpace(r.PostForm.Get("remove"))
	p.Said = p.T("appPasswordsYours")
	switch {
	case label != "" && remove != "":
		return &refusal{http.StatusBadRequest, "appPasswordBoth", ""}
	case label != "":
		_, secret, err := w.system.Directory.Passwords.AddApp(ctx, a.Who, a.Who.Person, label)
		if err != nil {
			return err
		}
		p.Said, p.Secret = p.T("appPasswordMade"), secret
	case remove != "":
		if err := w.system.Directory.Passwords.RemoveApp(ctx, a.Who, a.Who.Person, remove); err != nil {
			return err
		}
		p.Said = p.T("appPasswordEnded")
	}
	person, err := w.system.Directory.Names.Person(ctx, a.Who.Person)
	if err != nil {
		return err
	}
	p.Listed, p.Name, p.AppPasswords = true, person.Name(), person.AppPasswords
	return nil
}
