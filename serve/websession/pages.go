package websession

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"

	"doublet/serve/speech"
	"doublet/web"
)

//go:embed page.html
var pageText string

var pages, policy = web.Page(pageText, "'self'")

// pageData is the data of the page.
type pageData struct {
	*speech.Speech
	Server, Said string
	said, value  string // key of the text in Said, and its value
	Bad          bool
	// SignIn shows the sign-in form. User is the name to fill in, and To the address to redirect to afterwards.
	SignIn   bool
	User, To string
	// OpenID is the issuer at which people may sign in, nil without one.
	OpenID *OpenID
	// Leads makes the page lead on to To: by itself, or with a link if it is Bad.
	Leads bool
	// The following fields show the account of the signed-in user.
	Name, CSRF string
	Sessions   []sessionInfo
	TOTP       *totpStatus
	Setup      *setup
	QR         template.HTML
	Codes      []string
}

func (x *Service) page(w http.ResponseWriter, r *http.Request, status int, p pageData) {
	p.OpenID = x.opt.OpenID
	p.Server, p.Speech = x.opt.Server, speech.Of(r, x.env.Clock.Now())
	if p.said != "" {
		p.Said = p.T(p.said, p.value)
	}
	var b bytes.Buffer
	if err := x.pages.Execute(&b, p); err != nil {
		x.env.Log.Error("page failed", "error", err)
		http.Error(w, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin") // without a referrer, browsers send forms with "Origin: null"
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// accountPage shows a user's sessions and second factor, and the result of an action.
func (x *Service) accountPage(w http.ResponseWriter, r *http.Request, status int, id *Identity, got result) {
	value, _ := got.value.(string)
	p := pageData{value: value, Name: id.Name, CSRF: x.sessions.CSRF(id.token), said: got.said,
		Bad: status != http.StatusOK, Codes: got.codes, Setup: got.setup}
	if got.setup != nil {
		p.QR = template.HTML(got.setup.QR) // safe: svg writes only markup and numbers
	}
	list, err := x.listSessions(w, r, id, nil)
	if err == nil {
		p.Sessions = list.value.([]sessionInfo)
		var now Identity
		if now.Account, now.Person, err = x.in.Known(r.Context(), id.Who.Person); err == nil {
			var s result
			if s, err = (totpDoor{x}).show(w, r, &now, nil); err == nil {
				t := s.value.(totpStatus)
				p.TOTP = &t
			}
		}
	}
	if err != nil {
		x.env.Log.Error("page failed", "error", err)
		p = pageData{said: "tryLater", Bad: true}
		status = http.StatusServiceUnavailable
	}
	x.page(w, r, status, p)
}
