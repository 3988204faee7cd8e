// Package jmapd is the door through which JMAP clients read, keep and send mail: JMAP Core (RFC 8620), Mail,
// Submission and vacation responses (RFC 8621), quotas (RFC 9425), blobs (RFC 9404), read receipts (RFC 9007)
// and look-ups in the directory (RFC 9670). It keeps the protocol, its order and its limits; what a mail file is, mailbox knows, what is
// sent, mail; who a request is from, an Authenticate that it is handed.
//
// What a client asks for is rendered by appending to one buffer from what stands in the store: rows and
// summaries for lists, the message itself where a property needs it.
//
// Implements: RFC 8620 The JSON Meta Application Protocol (JMAP)
// Implements: RFC 8621 JMAP for Mail
package jmapd

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/smtp"
)

// The paths of the door. Those of push are not this file's to serve: see Handle.
const (
	PathWellKnown = "/.well-known/jmap"
	PathSession   = "/jmap/session"
	PathAPI       = "/jmap/api"
	PathUpload    = "/jmap/upload/{accountId}/"
	PathDownload  = "/jmap/download/{accountId}/{blobId}/{name}"
	PathEvents    = "/jmap/eventsource/"
	PathWebSocket = "/jmap/ws"
)

// Caller is who a request is from.
type Caller struct {
	signin.Account
	// Session tells apart what is limited for each: a web session, a program by its app password. "" is the person
	// as a whole.
	Session string
}

// Authenticate says who a request is from. Where that is nobody it has answered the request itself (401 with a
// challenge, 403, 429) and returns nil.
type Authenticate func(w http.ResponseWriter, r *http.Request) *Caller

// Limits bound what a client may ask for; most are announced in the session object (RFC 8620 section 2). Zero
// fields take the defaults.
type Limits struct {
	Upload             int64 // octets of an uploaded blob (50 MB)
	ConcurrentUploads  int   // of a session (4)
	Request            int64 // octets of a request (10 MB)
	ConcurrentRequests int   // of a session (8)
	Calls              int   // method calls of a request (64)
	ObjectsInGet       int   // (1,000)
	ObjectsInSet       int   // (1,000)
	// Response bounds a response in octets: what would make it larger is answered requestTooLarge (64 MB).
	Response int
	// BodyValues bounds the text of one body value in octets, whatever a client asks for (4 MB).
	BodyValues int
	// Uploads bounds what the uploads of one account hold together that no message uses, in octets (200 MB); the oldest
	// are dropped beyond it. They are kept for UploadAge (24 h) at most.
	Uploads   int64
	UploadAge time.Duration
	// Delay is for how long a submission may be held back at most (30 days).
	Delay time.Duration
}

func (l *Limits) fill() {
	setDefault(&l.Upload, 50<<20)
	setDefault(&l.ConcurrentUploads, 4)
	setDefault(&l.Request, 10<<20)
	setDefault(&l.ConcurrentRequests, 8)
	setDefault(&l.Calls, 64)
	setDefault(&l.ObjectsInGet, 1000)
	setDefault(&l.ObjectsInSet, 1000)
	setDefault(&l.Response, 64<<20)
	setDefault(&l.BodyValues, 4<<20)
	setDefault(&l.Uploads, 200<<20)
	setDefault(&l.UploadAge, 24*time.Hour)
	setDefault(&l.Delay, 30*24*time.Hour)
}

func setDefault[N int | int64 | time.Duration](v *N, def N) {
	if *v <= 0 {
		*v = def
	}
}

// Backend is what jmapd needs of the server.
type Backend interface {
	Mail() *mailbox.Service
	// Directory is where people look up whom they write to.
	Directory() *directory.Directory
	// Refresh brings an account up to date with the directory; signin.ErrDisabled: it may do nothing more.
	Refresh(ctx context.Context, a *signin.Account) error
	// Name is the name by which people know a person or group.
	Name(ctx context.Context, id note.UNID) (string, error)
	// Sender tells a person's name and the addresses that they may send from, the usual one first.
	Sender(ctx context.Context, person note.UNID) (name string, addresses []string, err error)
	// SendRight says whether a person may write in the name of an address.
	SendRight(ctx context.Context, who note.Who, address string) (directory.SendRight, error)
	// Submit takes charge of a message as the submission door does: with its checks of senders and recipients, its
	// limits and its signature. It gives the queue id. An error is a *smtp.Reply where the message is refused;
	// recipients that are refused alone have the reason in To.
	Submit(ctx context.Context, a *signin.Account, s *Submission) (note.UNID, error)
	// Recall takes a message back that waits for its time; false: it has gone.
	Recall(ctx context.Context, id note.UNID) (bool, error)
	// Progress tells how far a message is, recipient by recipient in the order asked for.
	Progress(ctx context.Context, id note.UNID, recipients []string) ([]Progress, error)
	// Vacation is what senders are told while a person is away; SetVacation changes it for the person who asks.
	Vacation(ctx context.Context, person note.UNID) (Vacation, error)
	SetVacation(ctx context.Context, who note.Who, v *Vacation) error
	// MaxRecipients is how many recipients a message may have.
	MaxRecipients() int
}

// Submission is a message that is to be sent.
type Submission struct {
	From    smtp.Path
	Params  smtp.MailParams
	To      []mail.Addressee
	Message []byte
	// Release is the time before which nothing is sent; the zero Time is at once.
	Release time.Time
}

// Progress is how far a message is on its way to one recipient.
type Progress struct {
	Reply     string // the last SMTP reply, "" where there is none yet
	Delivered Delivered
}

// Delivered is what RFC 8621 section 7 calls the value of delivered.
type Delivered string

// The values.
const (
	DeliveryQueued  Delivered = "queued"
	DeliveryYes     Delivered = "yes"
	DeliveryNo      Delivered = "no"
	DeliveryUnknown Delivered = "unknown"
)

// Vacation is what senders are told while a person is away (RFC 8621 section 8).
type Vacation struct {
	Enabled     bool
	From, Until time.Time // zero: no bound
	Subject     string    // "": made of the message's own
	Text        string
}

// Options are the door's settings.
type Options struct {
	// Authenticate says who a request is from.
	Authenticate Authenticate
	// Base is the URL under which a client reaches the paths, without a slash at its end; nil: that of the request.
	Base   func(r *http.Request) string
	Limits Limits
	// Memory bounds the requests, uploads and messages in flight (default: one of 256 MB for this door).
	Memory *listen.Budget
	// Extend adds capabilities to the session object: what other files of the door announce (push). It appends
	// members of a JSON object, each with a comma before it.
	Extend func(dst []byte, base string) []byte
	Stats  *stat.Tree
	// Observe, where it is set, is told of each method how long the server has worked on it.
	Observe func(method string, took time.Duration)
}

// Server is the door's handler.
type Server struct {
	env     *env.Env
	opt     Options
	backend Backend
	mux     *http.ServeMux
	methods map[string]boundMethod
	stats   statistics

	mu     sync.Mutex
	active map[string]*activity // by session: what it has under way
}

type boundMethod struct {
	method
	count *stat.Counter
}

type statistics struct {
	requests, problems, errors, panics, uploads, downloads *stat.Counter
	trans                                                  *stat.Rate
	users                                                  *stat.Active
}

// New makes a Server.
func New(e *env.Env, o Options, b Backend) *Server {
	o.Limits.fill()
	if o.Memory == nil {
		o.Memory = listen.NewBudget(256 << 20)
	}
	s := &Server{env: e, opt: o, backend: b, mux: http.NewServeMux(), methods: make(map[string]boundMethod, len(methods)), active: make(map[string]*activity)}
	for name, m := range methods {
		s.methods[name] = s.bound(name, m)
	}
	s.stats = statistics{
		requests:  o.Stats.Counter("JMAP.Requests", "JMAP requests"),
		problems:  o.Stats.Counter("JMAP.Problems", "JMAP requests refused as a whole"),
		errors:    o.Stats.Counter("JMAP.Errors", "JMAP method calls answered with an error"),
		panics:    o.Stats.Counter("JMAP.Panics", "JMAP method calls that panicked: bugs"),
		uploads:   o.Stats.Counter("JMAP.Uploads", "blobs uploaded"),
		downloads: o.Stats.Counter("JMAP.Downloads", "blobs downloaded"),
		trans:     o.Stats.Rate("Server.Trans", "transactions"),
		users:     o.Stats.Active("Server.Users", "users"),
	}
	s.Handle("GET "+PathWellKnown, s.wellKnown)
	s.Handle("GET "+PathSession, s.session)
	s.Handle("POST "+PathAPI, s.api)
	s.Handle("POST "+PathUpload, s.upload)
	s.Handle("GET "+PathDownload, s.download)
	return s
}

// bound is a method that counts its calls.
func (s *Server) bound(name string, m method) boundMethod {
	return boundMethod{m, s.opt.Stats.Counter("JMAP.Calls."+strings.ReplaceAll(name, "/", "."), "JMAP method calls "+name)}
}

// Handle puts another path under the door's authentication: fn gets the requests of somebody.
func (s *Server) Handle(pattern string, fn func(w http.ResponseWriter, r *http.Request, c *Caller)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c := s.opt.Authenticate(w, r)
		if c == nil {
			return
		}
		s.stats.users.Touch(c.Who.Person)
		fn(w, r, c)
	})
}

// ServeHTTP implements http.Handler. It knows what begins with /jmap/, and PathWellKnown.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }
