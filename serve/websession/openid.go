package websession

import (
	"context"
	"errors"
	"net/http"
	"time"

	"doublet/directory/session"
	"doublet/serve/signin"
)

// The paths of the sign-in with an OpenID Connect issuer. PathOpenIDBack is the address to which the issuer sends
// browsers back; it must be registered there.
const (
	PathOpenID     = "/auth/openid"
	PathOpenIDBack = "/auth/openid/back"
)

// openIDCookie holds the ticket of a sign-in in progress. Browsers send it with the request that the issuer causes,
// unlike the cookie of a session.
const openIDCookie = "doublet-openid"

// OpenID is the sign-in with an issuer, as people see it.
type OpenID struct {
	*signin.OpenID
	// Name is the issuer's name for people.
	Name string
}

// IssuerName returns the name of the issuer at which people may sign in, "" without one.
func (x *Service) IssuerName() string {
	if x.opt.OpenID == nil {
		return ""
	}
	return x.opt.OpenID.Name
}

// openIDDoor is the part of a Service that serves these paths.
type openIDDoor struct{ *Service }

var errOpenIDOff = &clientError{http.StatusNotFound, "off", "openIDOff"}

// admit rejects requests of people who cannot sign in at an issuer here.
func (x openIDDoor) admit(r *http.Request) error {
	switch {
	case x.opt.OpenID == nil:
		return errOpenIDOff
	case !signin.Protected(r):
		return ErrClear
	}
	return nil
}

// wish returns the wish of a person whose browser is to be sent to the issuer. With again, the person of the browser's
// session proves themselves again. The ticket must name that session: the browser does not send its cookie with the
// request that the issuer causes.
func (x openIDDoor) wish(r *http.Request) (signin.Wish, error) {
	q := r.URL.Query()
	wish := signin.Wish{Keep: q.Get("keep") != "", To: localPath(q.Get("to"))}
	if q.Get("again") == "" {
		return wish, nil
	}
	id, err := x.Browser(r)
	if err != nil {
		return wish, err
	}
	wish.Keep, wish.Again = id.Session.Keep, &signin.Again{Person: id.Who.Person, Session: id.Session.ID}
	return wish, nil
}

// begin sends a browser to the issuer.
func (x openIDDoor) begin(w http.ResponseWriter, r *http.Request) {
	err := x.admit(r)
	var wish signin.Wish
	if err == nil {
		wish, err = x.wish(r)
	}
	var address, ticket string
	if err == nil {
		address, ticket, err = x.opt.OpenID.Begin(r.Context(), wish)
	}
	if err != nil {
		x.fail(w, r, &input{}, nil, err)
		return
	}
	// The cookie outlives the ticket, so that a person who is late learns why the sign-in failed.
	x.setTicket(w, r, ticket, int(2*signin.OpenIDLife/time.Second))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, address, http.StatusSeeOther)
}

func (x openIDDoor) setTicket(w http.ResponseWriter, r *http.Request, ticket string, age int) {
	http.SetCookie(w, &http.Cookie{Name: openIDCookie, Value: ticket, Path: PathOpenID, MaxAge: age, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
}

// back starts the session of a person whom the issuer sent back, always a new one. It ends the session of a person who
// proved themselves again: a copy of its cookie in other hands must not get the rights of the new proof. The response
// is a page that leads on by itself: a browser sends the session's cookie only with requests that a page of this server
// causes, not with a redirect that began at the issuer.
func (x openIDDoor) back(w http.ResponseWriter, r *http.Request) {
	if err := x.admit(r); err != nil {
		x.fail(w, r, &input{}, nil, err)
		return
	}
	ticket := ""
	if c, err := r.Cookie(openIDCookie); err == nil {
		ticket = c.Value
	}
	x.setTicket(w, r, "", -1)
	q := r.URL.Query()
	proved, wish, err := x.opt.OpenID.Finish(r.Context(), signin.OfRequest(r), ticket, q.Get("state"), q.Get("code"))
	if wish.To == "" {
		wish.To = "/"
	}
	if err == nil && wish.Again != nil {
		err = x.end(r.Context(), wish.Again)
	}
	if err == nil {
		_, err = x.Service.begin(w, r, &proved, wish.Keep)
	}
	if err != nil {
		x.refuse(w, r, &wish, err)
		return
	}
	x.env.Log.Info("signed in at the web door", "person", proved.Name, "remote", signin.Remote(r).String(), "issuer",
		proved.Issuer, "again", wish.Again != nil)
	x.page(w, r, http.StatusOK, pageData{said: "openIDDone", value: x.opt.OpenID.Name, To: wish.To, Leads: true})
}

// end ends the session of a person who signed in again. ErrNobody: the session has ended meanwhile.
func (x openIDDoor) end(ctx context.Context, a *signin.Again) error {
	err := x.Good(ctx, a.Person, credentialSession+a.Session.String())
	if err == nil {
		err = x.sessions.End(ctx, a.Person, a.Session)
	}
	if errors.Is(err, session.ErrNone) {
		err = ErrNobody
	}
	return err
}

// refuse responds to a person whom the issuer sent back in vain. A person who did not sign in again has their session
// still, so the page leads back to where they were.
func (x openIDDoor) refuse(w http.ResponseWriter, r *http.Request, wish *signin.Wish, err error) {
	if wish.Again == nil || errors.Is(err, ErrNobody) {
		x.fail(w, r, &input{To: wish.To}, nil, err)
		return
	}
	p := refusal(err)
	x.logTrouble(r, p, err)
	x.page(w, r, p.Status, pageData{said: p.text, value: p.value, Bad: true, To: wish.To, Leads: true})
}
