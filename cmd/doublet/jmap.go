package main

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/note"
	"doublet/serve/forward"
	"doublet/serve/jmapd"
	"doublet/serve/jmapd/push"
	"doublet/serve/signin"
	"doublet/serve/websession"
	"doublet/wire/webpush"
)

// openJMAP opens the JMAP door and its pushes. The function that it returns stops the pushes.
func (h *front) openJMAP() (func(context.Context) error, error) {
	s, cfg, x := h.system, &h.cfg, h.sessions
	o := jmapd.Options{Authenticate: callers(x), Memory: h.messages, Stats: s.Stats, Observe: h.observe,
		Lists: h.lists, Logos: h.logos, Hostname: cfg.Server.Name,
		Feeds: s.Feeds, Sources: s.Sources,
		Limits: jmapd.Limits{
			Upload: int64(cfg.Limits.MessageSize), Request: int64(cfg.JMAP.Request), Calls: cfg.JMAP.Calls,
			ObjectsInGet: cfg.JMAP.ObjectsInGet, ObjectsInSet: cfg.JMAP.ObjectsInSet,
			ConcurrentRequests: cfg.JMAP.ConcurrentRequests, ConcurrentUploads: cfg.JMAP.ConcurrentUploads,
			Uploads: int64(cfg.JMAP.Uploads),
		}}
	door := jmapd.New(h.env, o, jmapd.NewBackend(h.signIn, s.Directory, s.Mailbox, s.Mail, s.Groupware,
		s.Scheduling, cfg.Limits.Recipients))
	h.web.Handle(jmapd.PathWellKnown, door)
	h.web.Handle("/jmap/", h.forwarded.Web(forward.DoorWeb, caller(x), door))
	h.closes("forwarded requests", func(context.Context) error { return h.forwarded.Close() })
	return h.openPush(door)
}

// callers returns a function that identifies the caller of a JMAP request.
func callers(x *websession.Service) jmapd.Authenticate {
	who := caller(x)
	return func(w http.ResponseWriter, r *http.Request) *jmapd.Caller {
		c, ok := forward.CallerOf(r)
		if !ok {
			if c, ok = who(w, r); !ok {
				return nil
			}
		}
		return &jmapd.Caller{Account: c.Account, Session: c.Credential}
	}
}

// caller returns a function that identifies the sender of a request, and refuses a request without valid credentials.
func caller(x *websession.Service) func(http.ResponseWriter, *http.Request) (forward.Caller, bool) {
	return func(w http.ResponseWriter, r *http.Request) (forward.Caller, bool) {
		id, err := x.Identify(r)
		if err != nil {
			x.Refuse(w, r, err)
			return forward.Caller{}, false
		}
		return forward.Caller{Account: id.Account, Credential: id.Credential}, true
	}
}

// openPush makes the JMAP door push changes. Pushes stop when a person signs out or may not sign in any more.
func (h *front) openPush(door *jmapd.Server) (func(context.Context) error, error) {
	s, cfg, x := h.system, &h.cfg, h.sessions
	o := push.Options{PerPerson: cfg.Push.PerPerson, Good: func(ctx context.Context, person note.UNID,
		credential string) error {
		good := x.Good
		if inner, ok := strings.CutPrefix(credential, forward.Forwarded); ok {
			good, credential = x.GoodElsewhere, inner
		}
		err := good(ctx, person, credential)
		if errors.Is(err, websession.ErrNobody) {
			return push.ErrGone
		}
		return err
	}}
	if cfg.Push.Web {
		var err error
		if o.Web, err = h.webPush(); err != nil {
			return nil, err
		}
	}
	p := door.OpenPush(o)
	h.push = p
	x.OnEnd(p.End)
	x.OnChange(p.Recheck)
	stop, err := s.Store.Watch(directory.ID, p.Recheck)
	if err != nil {
		return nil, err
	}
	s.Store.WatchInfos(func(note.DatabaseID) { p.Recheck() })
	return func(ctx context.Context) error { stop(); return p.Close(ctx) }, p.Start(context.Background())
}

// pushes reports whether this server sends the pushes for a mail file.
func (h *front) pushes(mailFile note.DatabaseID) bool {
	n := h.member.Node()
	if n == nil || mailFile == 0 || !n.Opens.Known(mailFile) || !h.system.Sessions.Shared() {
		return true // no other server does
	}
	return h.system.Store.Leads(mailFile)
}

// webPush returns the options of pushes through push services (Web Push).
func (h *front) webPush() (push.WebOptions, error) {
	s, cfg := h.system, &h.cfg
	private, err := config.Networks(cfg.Push.Private)
	o := push.WebOptions{
		Subscriptions: s.Sessions, Leads: h.pushes, DNS: s.DNS, Private: private, Life: cfg.Push.Life.Duration,
		Contact: strings.TrimSpace(cfg.Push.Contact),
		Account: func(ctx context.Context, person note.UNID) (signin.Account, error) {
			a, _, err := h.people.Known(ctx, person)
			return a, err
		},
	}
	if o.Contact == "" && cfg.Server.Domain != "" {
		o.Contact = "mailto:postmaster@" + cfg.Server.Domain
	}
	// A few secrets yield no valid key; then the next one is tried.
	for use, ok := "vapid", false; !ok; use += "+" {
		o.Key, ok = webpush.KeyFrom(s.Directory.Secret.Key(use))
	}
	return o, err
}
