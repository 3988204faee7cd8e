package https

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"doublet/bus"
	"doublet/catalog"
	"doublet/collect"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/keep"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/note"
	"doublet/probe"
	"doublet/replica"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// Identity is the authenticated sender of a request.
type Identity struct {
	Who note.Who
	// Name, Address, Aliases, Short and Mail are the person's data that a copy needs.
	Name, Address, Short string
	Aliases              []string
	Mail                 note.DatabaseID
	// Server is the server of this domain that sent the request, identified by its key; zero for people. The directory
	// is replicated only with such a server.
	Server note.UNID
}

// Options holds the settings of a Handler. Zero limits take the defaults.
type Options struct {
	// Identify authenticates a request. Refuse answers a request that it rejected.
	Identify func(*http.Request) (Identity, error)
	Refuse   func(http.ResponseWriter, *http.Request, error)
	// Server and Version are the name and the program version of this server.
	Server, Version string
	// Requests is the maximum number of concurrent requests (64), not counting those that wait for changes. Of these
	// there are at most Waiting (1,000). PerPerson is the maximum of either kind for one person or server (8): those
	// that wait do not block replication.
	Requests, PerPerson, Waiting int
	// Memory is the total size of request bodies being read, in bytes (128 MB; at least two of the largest requests).
	// One person or server may use half of it.
	Memory int64
	// Idle is the maximum time without data within a stream (1 min).
	Idle time.Duration
	// Admit adds a server with this key and a valid token to the domain; nil: no server may join.
	Admit func(ctx context.Context, key bus.Key, question []byte) ([]byte, error)
	// Busy answers questions about free time, for servers of the domain; nil: they are refused.
	Busy func(ctx context.Context, question []byte) ([]byte, error)
	// Audit receives each use of more than a person's own rights and each rejected request. It may be nil.
	Audit func(Act)
	// Stopping ends when the server shuts down. Requests that wait for changes are then answered with none. nil: never.
	Stopping context.Context
	// InClear accepts requests without TLS from any address, not only from this machine. It is for a listener behind a
	// proxy that terminates TLS.
	InClear bool
	Stats   *stat.Tree
}

func (o *Options) fill() {
	def := func(to *int, n int) {
		if *to == 0 {
			*to = n
		}
	}
	def(&o.Requests, 64)
	def(&o.PerPerson, 8)
	def(&o.Waiting, 1000)
	if o.Memory == 0 {
		o.Memory = 128 << 20
	}
	o.Memory = max(o.Memory, 2*(maxBody+1))
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
}

// maxBody is the maximum size of a request: a note may have MaxNote bytes, and a page is slightly larger.
const maxBody = replica.MaxNote + 1<<20

// maxHead is the maximum size of the request that opens a stream.
const maxHead = 4 << 10

// Handler serves replication over HTTP.
type Handler struct {
	svc *replica.Service
	s   *store.Store
	env *env.Env
	opt Options
	mux *http.ServeMux

	joining joiners
	audit   audit

	requests, refused *stat.Counter
	bytesIn, bytesOut *stat.Counter

	running, waiting slots
	memory           memory
}

// New returns the handler. It must be mounted at Path.
func New(svc *replica.Service, s *store.Store, e *env.Env, o Options) *Handler {
	o.fill()
	h := &Handler{
		svc: svc, s: s, env: e, opt: o, mux: http.NewServeMux(),
		running:  slots{max: o.Requests, each: o.PerPerson},
		waiting:  slots{max: o.Waiting, each: o.PerPerson},
		memory:   memory{max: o.Memory},
		audit:    audit{env: e, tell: o.Audit},
		requests: o.Stats.Counter("Replica.HTTP.Requests", "requests for replication over HTTP"),
		refused: o.Stats.Counter("Replica.HTTP.Refused",
			"requests for replication over HTTP that were refused: too many at a time"),
		bytesIn:  o.Stats.Counter("Replica.HTTP.ReceivedBytes", "bytes of requests for replication over HTTP"),
		bytesOut: o.Stats.Counter("Replica.HTTP.SentBytes", "bytes of answers for replication over HTTP"),
	}
	o.Stats.GaugeFunc("Replica.HTTP.Running", "requests for replication over HTTP that are worked on", func() float64 {
		return float64(h.running.count())
	})
	for path, fn := range map[string]func(*call) error{
		"GET " + Path + "{$}":             h.account,
		"POST " + Path + pathCall + "{v}": h.call,
		"POST " + Path + pathGet + "{v}":  h.get,
		"POST " + Path + pathPut + "{v}":  h.put,
		"POST " + Path + pathWait:         h.wait,
		"POST " + Path + pathBusy:         h.freeTime,
	} {
		h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, fn) })
	}
	h.mux.HandleFunc("POST "+Path+pathAdmit, h.admit)
	return h
}

// call is one request.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	id   Identity
	who  note.Who
	by   note.UNID // the person or server that sent the request
	held int64     // memory reserved for the body, in bytes
	// db is the database of the request, 0 while unknown.
	db note.DatabaseID
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, fn func(*call) error) {
	h.requests.Inc()
	w.Header().Set("Cache-Control", "no-store")
	if r.TLS == nil && !h.opt.InClear && !local(r) {
		http.Error(w, "replication travels under TLS only: use https", http.StatusForbidden)
		return
	}
	id, err := h.opt.Identify(r)
	if err != nil {
		h.audit.stranger(r, err)
		h.opt.Refuse(w, r, err)
		return
	}
	c := &call{w: w, r: r, id: id, who: id.Who, by: id.Who.Person}
	if !id.Server.IsZero() {
		c.by = id.Server
	}
	to := &h.running
	if r.URL.Path == Path+pathWait {
		to = &h.waiting
	}
	if to.enter(c.by) {
		defer to.leave(c.by)
		defer func() { h.memory.give(c.by, c.held) }()
		err = fn(c)
	} else {
		err = h.busy()
	}
	if err != nil {
		h.audit.failed(c, err)
		h.fail(w, r, err)
	}
}

// busy counts a request that is above a limit, and returns its error.
func (h *Handler) busy() error {
	h.refused.Inc()
	return replica.ErrBusy
}

// local reports whether a request comes from this machine.
func local(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr == "" || r.RemoteAddr == "@" // a Unix socket
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// from returns the client's address without the port.
func from(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// network returns the address by which a client is counted. For IPv6 it is the /64 prefix, because one client usually
// controls a whole /64.
func network(r *http.Request) string { return networkOf(from(r)) }

// networkOf is network for the address of a client.
func networkOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// fail sends an error response.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	kind, code := replica.ErrorKind(err), status(err)
	if code == http.StatusInternalServerError {
		h.env.Log.Error("replication over HTTP failed", "path", r.URL.Path, "error", err)
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set(headerKind, kind)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, err.Error())
}

// Published reports whether a database may be replicated by people and by servers outside the cluster. Queues and the
// server's own databases may not. The directory may be replicated only within a domain, because directories that were
// created separately cannot be merged.
func Published(i *layout.Info) bool {
	return !i.Queue && i.State == layout.InService && PublishedKind(i.Kind)
}

// PublishedKind reports whether databases of a kind may be replicated in this way.
func PublishedKind(kind string) bool {
	switch kind {
	case replica.Kind, directory.Kind, session.Kind, queue.Kind, trace.TraceKind, queue.OutboxKind, queue.DeferredKind,
		keep.Kind, journal.Kind, junk.Kind, catalog.Kind, collect.Kind, probe.DatabaseKind, clusterKind, repairKind:
		return false
	}
	return true
}

// Kinds of databases of packages that are not imported here: the Cluster Database Directory, and the working database
// of a repair.
const (
	clusterKind = "cldbdir"
	repairKind  = "repair"
)

// account sends the caller's account and databases.
func (h *Handler) account(c *call) error {
	out := Account{
		Server: h.opt.Server, Version: h.opt.Version, Name: c.id.Name, Address: c.id.Address, Aliases: c.id.Aliases,
		Short: c.id.Short,
		Admin: c.who.System, Databases: []Database{},
	}
	if !c.id.Who.Person.IsZero() {
		out.Person = c.id.Who.Person.String()
	}
	if c.id.Mail != 0 {
		out.Mail = c.id.Mail.String()
	}
	side := h.svc.As(c.who)
	if c.who.System {
		h.audit.did(c, "replica list", "")
	}
	var candidates []layout.Info
	err := h.s.Infos(func(i *layout.Info) {
		if h.published(c, i) && (c.who.System || i.ACL.Rights(&c.who) != 0 || names(i, &c.who)) {
			candidates = append(candidates, *i)
		}
	})
	if err != nil {
		return err
	}
	for _, i := range candidates {
		g, err := side.Hello(c.r.Context(), i.ID, replica.Peer{})
		if err != nil || g.May == 0 {
			continue // a database that cannot be opened must not hide the others
		}
		d := Database{
			ID: i.ID.String(), Title: i.Title, Kind: i.Kind, Pull: g.May&replica.MayPull != 0,
			Push: g.May&replica.MayPush != 0, Quota: i.Quota,
		}
		if !i.Owner.IsZero() {
			d.Owner = i.Owner.String()
		}
		if i.ACL.Rights(&c.who)&note.Administer != 0 {
			d.Access = note.AppendACL(nil, &i.ACL)
		}
		out.Databases = append(out.Databases, d)
	}
	return writeJSON(c.w, out)
}

// names reports whether the access list of a database marks a person, or a group of the person, as an entry of some
// folder's list.
func names(i *layout.Info, who *note.Who) bool {
	for _, e := range i.ACL.Entries {
		if e.Plus&note.Below == 0 {
			continue
		}
		if e.ID == who.Person {
			return true
		}
		for _, g := range who.Groups {
			if e.ID == g {
				return true
			}
		}
	}
	return false
}

func writeJSON(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
	return nil
}

// served returns a Carrier to the Side of the caller.
func (h *Handler) served(c *call) replica.Served {
	return replica.Served{Side: h.svc.As(c.who), Allow: func(db note.DatabaseID) error { return h.allow(c, db) }}
}

// allow returns ErrLocalOnly for a database that the caller may not replicate in this way.
func (h *Handler) allow(c *call, db note.DatabaseID) error {
	c.db = db
	info, err := h.s.Info(db)
	if err == nil && !h.published(c, &info) {
		err = replica.ErrLocalOnly
	}
	if err == nil && c.who.System {
		h.audit.did(c, "replica open", info.Title)
	}
	return err
}

// published reports whether the caller may replicate a database in this way.
func (h *Handler) published(c *call, i *layout.Info) bool {
	return Published(i) || !c.id.Server.IsZero() && i.ID == directory.ID
}

// call answers a request.
func (h *Handler) call(c *call) error {
	body, err := h.read(c, maxBody)
	if err != nil {
		return err
	}
	out, err := h.served(c).Call(c.r.Context(), c.r.PathValue("v"), body)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	h.bytesOut.Add(uint64(len(out)))
	_, _ = (&slow{w: c.w, h: h}).Write(out)
	return nil
}

// maxBusyQuestion is the maximum size of a question about free time, in bytes.
const maxBusyQuestion = 64 << 10

// freeTime answers a question about free time. Only servers of the domain may name the person who asks.
func (h *Handler) freeTime(c *call) error {
	if c.id.Server.IsZero() || h.opt.Busy == nil {
		return store.ErrDenied
	}
	body, err := h.read(c, maxBusyQuestion)
	if err != nil {
		return err
	}
	out, err := h.opt.Busy(c.r.Context(), body)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(out)
	return nil
}

// read reads a request's body. It reserves memory as data arrives.
func (h *Handler) read(c *call, most int) ([]byte, error) {
	if c.r.ContentLength > int64(most) {
		return nil, replica.ErrTooLarge
	}
	r := &slow{r: io.LimitReader(c.r.Body, int64(most)+1), w: c.w, h: h}
	var body []byte
	for {
		if len(body) == cap(body) {
			room := max(4<<10, 2*len(body))
			if c.r.ContentLength >= 0 {
				room = min(room, int(c.r.ContentLength)+1)
			}
			room = max(room, len(body)+1)
			more := int64(room - cap(body))
			if !h.memory.take(c.by, more) {
				return nil, h.busy()
			}
			c.held += more
			body = append(make([]byte, 0, room), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > most:
			return nil, replica.ErrTooLarge
		case errors.Is(err, io.EOF):
			h.bytesIn.Add(uint64(len(body)))
			return body, nil
		case err != nil:
			return nil, context.Canceled // the client has disconnected
		}
	}
}

// get answers with a stream.
func (h *Handler) get(c *call) error {
	head, err := h.read(c, maxHead)
	if err != nil {
		return err
	}
	in, err := h.served(c).Get(c.r.Context(), c.r.PathValue("v"), head)
	if err != nil {
		return err
	}
	defer in.Close()
	c.w.Header().Set("Content-Type", contentType)
	n, err := io.CopyBuffer(&slow{w: c.w, h: h}, in, make([]byte, 64<<10))
	h.bytesOut.Add(uint64(n))
	if err != nil {
		// The success status has been sent. Abort the connection so that the client detects the truncation.
		h.env.Log.Info("replication over HTTP: stream interrupted", "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// put receives a stream.
func (h *Handler) put(c *call) error {
	text := c.r.URL.Query().Get("head")
	if len(text) > maxHead {
		return replica.ErrTooLarge
	}
	head, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return replica.ErrFormat
	}
	body := &counted{r: &slow{r: c.r.Body, w: c.w, h: h}}
	err = h.served(c).Put(c.r.Context(), c.r.PathValue("v"), head, body)
	h.bytesIn.Add(uint64(body.n))
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// slow extends the deadline with each read and write: a stream may take hours, but not pause for longer than Idle.
type slow struct {
	r io.Reader
	w http.ResponseWriter
	h *Handler
}

func (s *slow) Read(p []byte) (int, error) {
	_ = http.NewResponseController(s.w).SetReadDeadline(s.h.env.Clock.Now().Add(s.h.opt.Idle))
	return s.r.Read(p)
}

func (s *slow) Write(p []byte) (int, error) {
	_ = http.NewResponseController(s.w).SetWriteDeadline(s.h.env.Clock.Now().Add(s.h.opt.Idle))
	return s.w.Write(p)
}

// Limits of a request that waits for changes.
const (
	maxPlaces = 1000
	longest   = 50 * time.Second
)

// wait answers when one of the databases has changed, or with none after the time longest.
func (h *Handler) wait(c *call) error {
	body, err := h.read(c, 1<<20)
	if err != nil {
		return err
	}
	var places []Place
	if err := json.Unmarshal(body, &places); err != nil || len(places) == 0 || len(places) > maxPlaces {
		return replica.ErrFormat
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(h.env.Clock.Now().Add(longest + h.opt.Idle))
	_ = http.NewResponseController(c.w).SetWriteDeadline(h.env.Clock.Now().Add(longest + h.opt.Idle))
	woken := make(chan struct{}, 1)
	side := h.svc.As(c.who)
	for _, p := range places {
		id, err := note.ParseDatabaseID(p.ID)
		if err != nil {
			return replica.ErrFormat
		}
		if err := h.allow(c, id); err != nil {
			return err
		}
		if _, err := side.Hello(c.r.Context(), id, replica.Peer{}); err != nil {
			return err
		}
		stop, err := h.s.Watch(id, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
		if err != nil {
			return err
		}
		defer stop()
	}
	end := h.env.Clock.After(longest)
	for {
		out := Waited{Changed: []string{}}
		for _, p := range places {
			id, _ := note.ParseDatabaseID(p.ID)
			g, err := side.Hello(c.r.Context(), id, replica.Peer{})
			if err != nil {
				return err
			}
			if g.Seq != p.Seq {
				out.Changed = append(out.Changed, p.ID)
			}
		}
		if len(out.Changed) > 0 {
			return writeJSON(c.w, out)
		}
		select {
		case <-woken:
		case <-end:
			return writeJSON(c.w, out)
		case <-h.opt.Stopping.Done():
			return writeJSON(c.w, out)
		case <-c.r.Context().Done():
			return context.Canceled
		}
	}
}
