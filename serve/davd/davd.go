// Package davd implements the doors of calendars and contacts: CalDAV (RFC 4791) and CardDAV (RFC 6352), with
// sync-collection (RFC 6578). Package groupware keeps the entries.
//
// Implements: RFC 4791 Calendaring Extensions to WebDAV (CalDAV)
// Implements: RFC 6352 CardDAV: vCard Extensions to WebDAV
package davd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"doublet/directory"
	"doublet/env"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
)

// The paths of the door.
const (
	Path              = "/dav/"
	PathWellKnown     = "/.well-known/caldav"
	PathWellKnownCard = "/.well-known/carddav"
)

// maxRequest bounds an XML request in bytes; maxResponse a response of many parts.
const (
	maxRequest  = 2 << 20
	maxResponse = 64 << 20
)

// Options holds the door's settings.
type Options struct {
	// Authenticate identifies the user of a request. If it fails, it responds itself and returns false.
	Authenticate func(w http.ResponseWriter, r *http.Request) (signin.Account, bool)
	// Memory bounds the requests and responses in flight (default: 256 MB).
	Memory *listen.Budget
	Stats  *stat.Tree
}

// Server is the HTTP handler of CalDAV and CardDAV.
type Server struct {
	env                        *env.Env
	opt                        Options
	dir                        *directory.Directory
	files                      *mailbox.Service
	groupware                  *groupware.Service
	scheduling                 *scheduling.Service
	requests, refused, written *stat.Counter
}

// New returns a Server.
func New(e *env.Env, o Options, d *directory.Directory, files *mailbox.Service, g *groupware.Service,
	sched *scheduling.Service) *Server {
	if o.Memory == nil {
		o.Memory = listen.NewBudget(256 << 20)
	}
	return &Server{env: e, opt: o, dir: d, files: files, groupware: g, scheduling: sched,
		requests: o.Stats.Counter("DAV.Requests", "CalDAV and CardDAV requests"),
		refused:  o.Stats.Counter("DAV.Refused", "CalDAV and CardDAV requests that were refused"),
		written:  o.Stats.Counter("DAV.Written", "calendar entries and contacts written over CalDAV and CardDAV")}
}

// request is a request in progress.
type request struct {
	s      *Server
	ctx    context.Context
	w      http.ResponseWriter
	r      *http.Request
	caller signin.Account
	self   *owner
	owners map[string]*owner // people who were looked up; nil for those of whom nothing may be seen
	share  listen.Share
	taken  int64
}

// failure is an answer other than success, with the element of a precondition or none.
type failure struct {
	status int
	cond   string
	text   string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

func fail(status int, cond, text string) error { return &failure{status, cond, text} }

var errNotFound = fail(http.StatusNotFound, "", "not found")

// WellKnown redirects from the well-known addresses.
//
// Implements: RFC 6764 §5 Well-Known URI
func (s *Server) WellKnown(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, Path, http.StatusMovedPermanently)
}

// verbs are the methods of the door.
var verbs = map[string]func(*request, *resource) error{
	http.MethodGet: (*request).get, http.MethodHead: (*request).get, http.MethodPut: (*request).put,
	http.MethodDelete: (*request).remove, "PROPFIND": (*request).propfind, "PROPPATCH": (*request).proppatch,
	"MKCALENDAR": (*request).mkcol, "MKCOL": (*request).mkcol, "REPORT": (*request).report,
	"COPY": (*request).move, "MOVE": (*request).move, http.MethodPost: (*request).post,
}

const allow = "OPTIONS, GET, HEAD, PUT, POST, DELETE, PROPFIND, PROPPATCH, MKCALENDAR, MKCOL, REPORT, COPY, MOVE"

// ServeHTTP implements http.Handler. It serves the paths below Path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Inc()
	caller, ok := s.opt.Authenticate(w, r)
	if !ok {
		return
	}
	h := w.Header()
	h.Set("DAV", "1, 3, access-control, calendar-access, calendar-auto-schedule, calendar-managed-attachments, "+
		"addressbook, extended-mkcol")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodOptions {
		h.Set("Allow", allow)
		w.WriteHeader(http.StatusOK)
		return
	}
	q := &request{s: s, ctx: r.Context(), w: w, r: r, caller: caller, share: s.opt.Memory.Of(caller.Who.Person)}
	defer func() { q.share.Give(q.taken) }()
	if err := q.serve(); err != nil {
		q.refuse(err)
	}
}

func (q *request) serve() error {
	verb := verbs[q.r.Method]
	if verb == nil {
		q.w.Header().Set("Allow", allow)
		return fail(http.StatusMethodNotAllowed, "", "method not allowed")
	}
	q.self = &owner{name: nameOf(q.caller.Address, q.caller.Name), title: q.caller.Name, address: q.caller.Address,
		db: q.caller.Database, id: q.caller.Who.Person}
	if q.self.db != 0 {
		if err := q.file(q.self).Ensure(q.ctx, ""); err != nil && !errors.Is(err, store.ErrNotHome) {
			return err
		}
	}
	if rest, is := strings.CutPrefix(q.r.URL.Path, groupware.AttachmentPath); is {
		return download(q, rest)
	}
	x, err := q.find(q.r.URL.Path)
	if err != nil {
		return err
	}
	return verb(q, x)
}

func (q *request) file(o *owner) *groupware.File { return q.s.groupware.File(q.caller.Who, o.db) }

// refusals are the answers to errors of groupware and the store.
var refusals = []struct {
	err    error
	status int
	cond   string
}{
	{groupware.ErrNoCollection, 404, ""}, {groupware.ErrNoEntry, 404, ""}, {groupware.ErrExists, 405, ""},
	{groupware.ErrBadName, 403, ""}, {groupware.ErrChanged, 412, ""}, {groupware.ErrTooLarge, 507, ""},
	{groupware.ErrComponent, 403, "<C:supported-calendar-component/>"},
	{groupware.ErrFull, 507, "<D:quota-not-exceeded/>"}, {mailbox.ErrOverQuota, 507, "<D:quota-not-exceeded/>"},
	{groupware.ErrForgotten, 403, "<D:valid-sync-token/>"}, {errXML, 400, ""},
	{store.ErrDenied, 403, "<D:need-privileges/>"}, {store.ErrNotFound, 404, ""},
}

// refuse answers with an error.
//
// Implements: RFC 4918 §16 Precondition/Postcondition XML Elements
func (q *request) refuse(err error) {
	q.s.refused.Inc()
	status, cond, text := http.StatusInternalServerError, "", "internal error"
	var f *failure
	if errors.As(err, &f) {
		status, cond, text = f.status, f.cond, f.text
	} else {
		if c, known := condition.Of(err); known {
			status, text = c.HTTP, c.IMAPText
		}
		for _, x := range refusals {
			if errors.Is(err, x.err) {
				status, cond, text = x.status, x.cond, err.Error()
				break
			}
		}
	}
	if status == http.StatusInternalServerError && q.ctx.Err() == nil {
		q.s.env.Log.Error("dav: request failed", "method", q.r.Method, "path", q.r.URL.Path, "error", err)
	}
	if status == http.StatusServiceUnavailable {
		q.w.Header().Set("Retry-After", "2")
	}
	if cond != "" {
		q.answer(status, "application/xml; charset=utf-8", []byte(head("error")+cond+"</D:error>\n"))
		return
	}
	q.answer(status, "text/plain; charset=utf-8", []byte(text+"\n"))
}

func (q *request) answer(status int, kind string, body []byte) {
	h := q.w.Header()
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	q.w.WriteHeader(status)
	if q.r.Method != http.MethodHead {
		_ = listen.WritePaced(q.s.env, q.w, body)
	}
}

func (q *request) multi(m *multistatus, more string) error {
	q.answer(http.StatusMultiStatus, "application/xml; charset=utf-8", m.end(more))
	return nil
}

// take reserves memory for the request.
func (q *request) take(n int64) error {
	if !q.share.Take(n) {
		return fail(http.StatusServiceUnavailable, "", "server is out of memory for requests, try again")
	}
	q.taken += n
	return nil
}

// body reads the body of a request of at most most bytes; big is the answer to a larger one.
func (q *request) body(most int, big error) ([]byte, error) {
	if q.r.ContentLength > int64(most) {
		return nil, big
	}
	in := listen.Paced(q.s.env, q.w, q.r.Body)
	var out []byte
	piece := make([]byte, 16<<10)
	for {
		n, err := in.Read(piece)
		if len(out)+n > most {
			return nil, big
		}
		if err := q.take(2 * int64(n)); err != nil { // the buffer doubles as it grows
			return nil, err
		}
		out = append(out, piece[:n]...)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fail(http.StatusBadRequest, "", "body could not be read")
		}
	}
}

// xml reads an XML request; nil stands for an empty one.
func (q *request) xml() (*element, error) {
	body, err := q.body(maxRequest, fail(http.StatusRequestEntityTooLarge, "", "request is too large"))
	if err != nil {
		return nil, err
	}
	if err := q.take(4 * int64(len(body))); err != nil {
		return nil, err
	}
	return parseXML(body)
}

// pathOf returns the path of an address in a request: a path, or a URL of this server.
func (q *request) pathOf(address string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host != "" && !strings.EqualFold(u.Host, q.r.Host) {
		return "", fail(http.StatusBadGateway, "", "address is not on this server")
	}
	return u.Path, nil
}

func nameOf(address, name string) string {
	if address != "" {
		return address
	}
	return name
}

func statusText(status int) string {
	if t := http.StatusText(status); t != "" {
		return t
	}
	return "Status"
}

// owner is a person with calendars.
type owner struct {
	name, title, address string
	db                   note.DatabaseID
	id                   note.UNID
}

// principal returns the path of the person.
func (o *owner) principal() string { return Path + "principals/" + url.PathEscape(o.name) + "/" }

// home returns the path of the collections of a kind.
func (o *owner) home(kind groupware.Kind) string {
	return Path + segments[kind] + "/" + url.PathEscape(o.name) + "/"
}

// segments are the path segments of the kinds.
var segments = map[groupware.Kind]string{groupware.Calendar: "calendars", groupware.AddressBook: "addressbooks"}
