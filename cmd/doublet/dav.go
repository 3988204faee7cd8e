package main

import (
	"net/http"

	"doublet/groupware/feed"
	"doublet/serve/davd"
	"doublet/serve/feedd"
	"doublet/serve/forward"
	"doublet/serve/signin"
)

// openDAV opens the doors of calendars and contacts. Requests of a person whose mail file another server leads are
// forwarded to that server.
func (h *front) openDAV() {
	s, who := h.system, caller(h.sessions)
	door := davd.New(h.env, davd.Options{Memory: h.messages, Stats: s.Stats,
		Authenticate: func(w http.ResponseWriter, r *http.Request) (signin.Account, bool) {
			c, ok := forward.CallerOf(r)
			if !ok {
				c, ok = who(w, r)
			}
			return c.Account, ok
		}}, s.Directory, s.Mailbox, s.Groupware, s.Scheduling)
	h.web.Handle(davd.Path, h.forwarded.Web(forward.DoorDAV, who, door))
	h.web.Handle(feed.Path, feedd.New(h.env, s.Feeds, feedd.Options{Memory: h.messages, Stats: s.Stats}))
	h.web.Handle(davd.PathWellKnown, http.HandlerFunc(door.WellKnown))
	h.web.Handle(davd.PathWellKnownCard, http.HandlerFunc(door.WellKnown))
}
