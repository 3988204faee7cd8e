package websession

import (
	"errors"
	"net/http"
	"time"

	"doublet/directory"
	"doublet/serve/signin"
)

// The paths of passkeys. They accept and return JSON only.
const (
	pathPasskey       = "/auth/passkey"
	pathPasskeys      = "/auth/passkeys"
	pathPasskeyBegin  = "/auth/passkeys/begin"
	pathPasskeyAdd    = "/auth/passkeys/add"
	pathPasskeyRemove = "/auth/passkeys/remove"
)

// passkeyDoor is the part of a Service that serves these paths.
type passkeyDoor struct{ *Service }

// passkeyInfo is a passkey as its user sees it.
type passkeyInfo struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"`
}

var errPasskeysOff = &clientError{http.StatusNotFound, "off", "passkeysOff"}

// allowed returns an action that fails if passkeys are off.
func (x passkeyDoor) allowed(fn action) action {
	return func(w http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
		if x.opt.Passkeys == nil {
			return result{}, errPasskeysOff
		}
		return fn(w, r, id, in)
	}
}

// signIn starts a session with a passkey. It is always a new one, and the browser's old one ends.
func (x passkeyDoor) signIn(w http.ResponseWriter, r *http.Request) {
	in, err := readInput(w, r)
	var id *Identity
	if err == nil {
		id, err = x.enter(w, r, in)
	}
	if err != nil {
		x.fail(w, r, &input{JSON: true}, nil, err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", x.sessionOf(r.Context(), id))
}

func (x passkeyDoor) enter(w http.ResponseWriter, r *http.Request, in *input) (*Identity, error) {
	if x.opt.Passkeys == nil {
		return nil, errPasskeysOff
	}
	if err := x.mayBegin(r); err != nil {
		return nil, err
	}
	old, err := x.replaced(r, in.Again)
	if err != nil {
		return nil, err
	}
	proved, err := x.opt.Passkeys.SignIn(r.Context(), signin.OfRequest(r), in.Credential)
	if err != nil {
		return nil, err
	}
	id, err := x.replace(w, r, &proved, in.Keep, old)
	if err == nil {
		x.env.Log.Info("signed in at the web door", "person", proved.Name, "remote", signin.Remote(r).String(),
			"passkey", proved.Passkey, "again", in.Again)
	}
	return id, err
}

func (x passkeyDoor) list(_ http.ResponseWriter, r *http.Request, id *Identity, _ *input) (result, error) {
	list, err := x.opt.Passkeys.List(r.Context(), &id.Person)
	out := []passkeyInfo{}
	for i := range list {
		out = append(out, passkeyInfo{list[i].ID, list[i].Name, list[i].Created, list[i].Used})
	}
	return result{value: out}, err
}

// options responds with the options with which a browser creates a passkey.
func (x passkeyDoor) options(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	if err := x.again(r, id, in); err != nil {
		return result{}, err
	}
	if len(id.Person.Passkeys) >= directory.MaxPasskeys {
		return result{}, bad("passkeysMany")
	}
	options, err := x.opt.Passkeys.Creation(&id.Person, id.Session.ID)
	return result{value: options}, err
}

// add adds the passkey that a browser has created. Its challenge shows that the user has entered the password.
func (x passkeyDoor) add(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	k, err := x.opt.Passkeys.Add(r.Context(), id.Who, &id.Person, id.Session.ID, in.Name, in.Credential)
	switch {
	case errors.Is(err, directory.ErrInvalid):
		return result{}, bad("passkeyName")
	case errors.Is(err, signin.ErrPasskey):
		x.env.Log.Info("passkey not added", "person", id.Name, "error", err)
		return result{}, bad("passkeyWrong")
	case err != nil:
		return result{}, err
	}
	x.env.Log.Info("person added a passkey", "person", id.Name, "passkey", k.ID, "remote", signin.Remote(r).String())
	return result{value: passkeyInfo{ID: k.ID, Name: k.Name, Created: k.Created}}, nil
}

// remove removes a passkey. Sessions that began with it end.
func (x passkeyDoor) remove(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	if err := x.again(r, id, in); err != nil {
		return result{}, err
	}
	err := x.opt.Passkeys.Remove(r.Context(), id.Who, id.Who.Person, in.ID)
	if errors.Is(err, directory.ErrNotFound) {
		return result{}, &clientError{http.StatusNotFound, "not found", "passkeyNone"}
	}
	if err != nil {
		return result{}, err
	}
	x.env.Log.Info("person removed a passkey", "person", id.Name, "passkey", in.ID, "remote",
		signin.Remote(r).String())
	return result{value: done{"the passkey is removed"}}, nil
}
