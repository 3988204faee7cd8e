// Package feedd is the door through which everyone with the link of a calendar reads it as an iCalendar feed. It asks
// for no name and no password: the link is the secret.
package feedd

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"doublet/env"
	"doublet/groupware/feed"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/store"
)

// maxAge is the time in which programs may use a feed again without asking, in seconds.
const maxAge = 300

// feedCost bounds the memory of making one feed, in bytes: its text, and the entries it is made of.
const feedCost = 48 << 20

// Options holds the door's settings.
type Options struct {
	// Memory bounds the feeds in flight (default: 256 MB). A request that finds none left is refused with 503.
	Memory *listen.Budget
	Stats  *stat.Tree
}

// Server is the HTTP handler of the feeds.
type Server struct {
	env             *env.Env
	publisher       *feed.Publisher
	memory          *listen.Budget
	served, refused *stat.Counter
}

// New returns a Server.
func New(e *env.Env, p *feed.Publisher, o Options) *Server {
	if o.Memory == nil {
		o.Memory = listen.NewBudget(256 << 20)
	}
	return &Server{env: e, publisher: p, memory: o.Memory,
		served:  o.Stats.Counter("Calendar.FeedsServed", "feeds of calendars that were read by their links"),
		refused: o.Stats.Counter("Calendar.FeedsRefused", "requests for feeds with links that lead to none")}
}

// ServeHTTP implements http.Handler. It serves the paths below feed.Path. All links that lead to no calendar get the
// same answer.
//
// Implements: RFC 9110 §13.1.2 If-None-Match
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "Only GET and HEAD are possible here.", http.StatusMethodNotAllowed)
		return
	}
	f, err := s.publisher.Open(r.Context(), strings.TrimPrefix(r.URL.Path, feed.Path))
	if err != nil {
		s.refuse(w, err)
		return
	}
	etag := f.ETag()
	h.Set("ETag", etag)
	h.Set("Cache-Control", "private, max-age="+strconv.Itoa(maxAge))
	if matches(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "text/calendar; charset=utf-8")
	h.Set("Content-Disposition", `inline; filename="calendar.ics"`)
	if r.Method == http.MethodHead {
		return
	}
	var text []byte
	share := s.memory.Of(f.ID())
	if !share.Take(feedCost) {
		err = listen.ErrMemory
	} else {
		defer share.Give(feedCost)
		text, err = f.Text(r.Context())
	}
	if err != nil {
		for _, name := range []string{"ETag", "Cache-Control", "Content-Disposition"} {
			h.Del(name)
		}
		s.refuse(w, err)
		return
	}
	s.served.Inc()
	h.Set("Content-Length", strconv.Itoa(len(text)))
	_ = listen.WritePaced(s.env, w, text)
}

// refuse answers a request that gets no feed.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, feed.ErrNoFeed) || errors.Is(err, store.ErrNotFound) {
		s.refused.Inc()
		http.Error(w, "There is no calendar at this address. Its owner may have revoked the link.", http.StatusNotFound)
		return
	}
	c, known := condition.Of(err)
	if !known {
		s.env.Log.Error("feed: cannot be made", "error", err)
	}
	w.Header().Set("Retry-After", "60")
	http.Error(w, "The calendar cannot be read now. Try again later.", max(c.HTTP, http.StatusInternalServerError))
}

// matches reports whether a field of entity tags has one of them.
func matches(field, etag string) bool {
	for tag := range strings.SplitSeq(field, ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
