package main

import (
	"net/http"
	"strings"

	"doublet/serve/forward"
	"doublet/serve/lite"
	"doublet/serve/websession"
)

// openLite opens the lite mode, the web client in pages without scripts. Requests of a person whose mail file another
// server leads are forwarded to that server. Requests without a session are served here.
func (h *front) openLite() {
	s, x := h.system, h.sessions
	var anywhere http.Handler
	door := lite.New(h.env, x, lite.Services{Directory: s.Directory, Mailbox: s.Mailbox, Mail: s.Mail,
		Groupware: s.Groupware, Scheduling: s.Scheduling}, lite.Options{
		Recipients: h.cfg.Limits.Recipients, Memory: h.messages, Stats: s.Stats, Feeds: s.Feeds, Sources: s.Sources,
		Lists: h.lists, Logos: h.logos, Hostname: h.cfg.Server.Name,
		Serve: func(w http.ResponseWriter, r *http.Request) { anywhere.ServeHTTP(w, r) },
	})
	who := func(_ http.ResponseWriter, r *http.Request) (forward.Caller, bool) {
		if lite.OfNobody(r.URL.Path) {
			return forward.Caller{}, true
		}
		id, err := x.Browser(r)
		if err != nil {
			return forward.Caller{}, true // the door detects the same and reports it
		}
		return forward.Caller{Account: id.Account, Credential: id.Credential, CSRF: x.CSRF(id)}, true
	}
	anywhere = h.forwarded.Web(forward.DoorLite, who, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := forward.CallerOf(r); ok {
			if credential, ok := strings.CutPrefix(c.Credential, forward.Forwarded); ok {
				r = websession.Proved(r, &c.Account, credential, c.CSRF)
			}
		}
		door.ServeHTTP(w, r)
	}))
	h.web.HandlePeople(lite.Path, anywhere)
}
