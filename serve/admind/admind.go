// Package admind is the door through which people with the role Admin run administrative verbs in a browser. It has
// no verb of its own: each request names one of admin's table, which checks the role, runs it, and leaves the line
// of who did what.
package admind

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/serve/websession"
	"doublet/stat"
)

// Path is the path prefix of the door. POST Path+"user/add" takes a JSON object of arguments and answers as
// admin.Handler does, with lines of JSON. GET Path lists the verbs that a browser may run.
const Path = "/admin/verbs/"

// KindSignIn is the kind of error of a verb that needs a more recent sign-in.
const KindSignIn = "sign in"

// Sessions authenticates requests. websession.Service implements it.
type Sessions interface {
	Identify(r *http.Request) (*websession.Identity, error)
	Refuse(w http.ResponseWriter, r *http.Request, err error)
}

// Options are the settings of a Door.
type Options struct {
	// From lists the networks that may use the door.
	From []netip.Prefix
	// Fresh is the maximum age of the proof of a session's person (session.Proved) for verbs that change something; 0
	// is no maximum.
	Fresh time.Duration
	Stats *stat.Tree
}

// Door serves the verbs.
type Door struct {
	env      *env.Env
	system   *admin.Running
	sessions Sessions
	opt      Options
	mux      *http.ServeMux

	calls, refused, old *stat.Counter
}

// New makes the door over a running system.
func New(e *env.Env, s *admin.Running, x Sessions, o Options) *Door {
	d := &Door{env: e, system: s, sessions: x, opt: o, mux: http.NewServeMux()}
	d.calls = o.Stats.Counter("HTTP.Admin.Calls", "administrative verbs that browsers asked for")
	d.refused = o.Stats.Counter("HTTP.Admin.Refused",
		"the same, of people without the role Admin, and of requests from nobody")
	d.old = o.Stats.Counter("HTTP.Admin.Stale", "the same, refused until their person signs in again (web.admin_fresh)")
	d.mux.HandleFunc("GET "+Path+"{$}", d.list)
	d.mux.HandleFunc("POST "+Path+"{verb...}", d.run)
	return d
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.near(r.RemoteAddr) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	d.mux.ServeHTTP(w, r)
}

// near reports whether an address may use the door.
func (d *Door) near(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	from := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(d.opt.From, func(p netip.Prefix) bool { return p.Contains(from) })
}

// somebody is the person of a browser's session; programs, whatever they show, have no key to this door.
func (d *Door) somebody(w http.ResponseWriter, r *http.Request) (*websession.Identity, bool) {
	id, err := d.sessions.Identify(r)
	if err == nil && id.Session.ID.IsZero() {
		err = websession.ErrNobody
	}
	if err != nil {
		d.refused.Inc()
		d.sessions.Refuse(w, r, err)
		return nil, false
	}
	return id, true
}

func (d *Door) list(w http.ResponseWriter, r *http.Request) {
	id, ok := d.somebody(w, r)
	if !ok {
		return
	}
	names := []string{}
	for _, v := range admin.Verbs() {
		if admin.MayRun(id.Who, v) == nil {
			names = append(names, v.Name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(names)
}

// signInAgain is the response to a person who must sign in again.
type signInAgain struct {
	Error string `json:"error"`
	Kind  string `json:"kind"`
	// Password reports that the person has a password here, Passkey that they have a passkey.
	Password bool `json:"password"`
	Passkey  bool `json:"passkey"`
}

func (d *Door) run(w http.ResponseWriter, r *http.Request) {
	d.calls.Inc()
	id, ok := d.somebody(w, r)
	if !ok {
		return
	}
	name := strings.ReplaceAll(r.PathValue("verb"), "/", " ")
	v, known := admin.Find(name)
	switch {
	case known && admin.MayRun(id.Who, v) != nil:
		d.refused.Inc()
	case known && v.Changes && d.opt.Fresh > 0 && d.env.Clock.Now().Sub(id.Session.Proved()) > d.opt.Fresh:
		d.old.Inc()
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(signInAgain{"You signed in too long ago to change something: sign in again.",
			KindSignIn, id.Person.HasPassword, len(id.Person.Passkeys) > 0})
		return
	}
	admin.Answer(d.system, id.Who, name, w, r)
}
