// Package jmapd implements the JMAP server: JMAP Core (RFC 8620), Mail, Submission and vacation responses (RFC 8621),
// quotas (RFC 9425), blobs (RFC 9404), read receipts (RFC 9007) and the directory (RFC 9670). This package implements
// the protocol, its order and its limits. Package mailbox implements mail files, and package mail sends messages. The
// function Authenticate identifies the user of a request.
//
// Responses are appended to one buffer, straight from the data in the store: rows and summaries for lists, and the
// message itself if a property needs it.
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

	logos "doublet/client/bimi"
	"doublet/client/oneclick"
	"doublet/directory"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/smtp"
)

// The paths that clients use. The server adds the paths of push with Handle.
const (
	PathWellKnown = "/.well-known/jmap"
	PathSession   = "/jmap/session"
	PathAPI       = "/jmap/api"
	PathUpload    = "/jmap/upload/{accountId}/"
	PathDownload  = "/jmap/download/{accountId}/{blobId}/{name}"
	PathEvents    = "/jmap/eventsource/"
	PathWebSocket = "/jmap/ws"
)

// Caller identifies the user and the session of a request.
type Caller struct {
	signin.Account
	// Session identifies the unit to which the limits apply: a web session, or a client by its app password. "" stands
	// for all other sessions of the person together.
	Session string
}

// Authenticate identifies the user of a request. If it fails, it responds to the request itself (401 with a challenge,
// 403 or 429) and returns nil.
type Authenticate func(w http.ResponseWriter, r *http.Request) *Caller

// Limits bounds the requests of a client. The session object announces most of them (RFC 8620 section 2). Zero fields
// take the defaults, which are in parentheses.
type Limits struct {
	Upload             int64 // octets of an uploaded blob (50 MB)
	ConcurrentUploads  int   // of a session (4)
	Request            int64 // octets of a request (10 MB)
	ConcurrentRequests int   // of a session (8)
	Calls              int   // method calls per request (64)
	ObjectsInGet       int   // (1,000)
	ObjectsInSet       int   // (1,000)
	// Response bounds a response in octets. A method call that would exceed it fails with requestTooLarge (64 MB).
	Response int
	// BodyValues bounds the text of one body value in octets, even if a client asks for more (4 MB).
	BodyValues int
	// Uploads bounds the total octets of an account's uploads that no message uses (200 MB). The oldest are dropped to
	// stay below it. They are kept for at most UploadAge (24 h).
	Uploads   int64
	UploadAge time.Duration
	// Delay is the longest time for which a submission may be held back (30 days).
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
	setDefault(&l.Delay, submission.MaxDelay)
}

func setDefault[N int | int64 | time.Duration](v *N, def N) {
	if *v <= 0 {
		*v = def
	}
}

// Backend is the interface of jmapd to the rest of the server.
type Backend interface {
	Mail() *mailbox.Service
	// Groupware returns the calendars and address books of mail files.
	Groupware() *groupware.Service
	// Scheduling invites the people of events.
	Scheduling() *scheduling.Service
	// Directory returns the directory in which users look up recipients.
	Directory() *directory.Directory
	// Refresh updates an account from the directory. It returns signin.ErrDisabled if the account was disabled.
	Refresh(ctx context.Context, a *signin.Account) error
	// Name returns the display name or address of a person or group.
	Name(ctx context.Context, id note.UNID) (string, error)
	// Sender returns a person's name and the addresses that they may send from, the usual one first.
	Sender(ctx context.Context, person note.UNID) (name string, addresses []string, err error)
	// SendRight returns the right of a person to send from an address.
	SendRight(ctx context.Context, who note.Who, address string) (directory.SendRight, error)
	// Submit accepts a message for sending, as the submission server does: it checks sender and recipients, applies the
	// limits and signs. It returns the queue id. If the message is rejected, the error is a *smtp.Reply. If only some
	// recipients are rejected, s.To holds the reasons.
	Submit(ctx context.Context, a *signin.Account, s *Submission) (note.UNID, error)
	// Recall withdraws a message whose release time has not come yet. It returns false if the message was already sent.
	// Until that time it may be repeated.
	Recall(ctx context.Context, id note.UNID) (bool, error)
	// Progress returns the delivery state of a message for each of the recipients, in the order given.
	Progress(ctx context.Context, id note.UNID, recipients []string) ([]Progress, error)
	// Vacation returns a person's vacation response. SetVacation changes that of the person who asks.
	Vacation(ctx context.Context, person note.UNID) (Vacation, error)
	SetVacation(ctx context.Context, who note.Who, v *Vacation) error
	// TryScript runs a Sieve script over messages of a folder, and changes nothing.
	TryScript(ctx context.Context, t *mail.ScriptTrial) ([]mail.Tried, error)
	// MaxRecipients returns the limit of recipients per message.
	MaxRecipients() int
}

// Submission is a message to send.
type Submission struct {
	From    smtp.Path
	Params  smtp.MailParams
	To      []mail.Addressee
	Message []byte
	// Release is the earliest time at which the message is sent. The zero Time means at once.
	Release time.Time
}

// Progress is the delivery state of a message for one recipient.
type Progress struct {
	Reply     string // last SMTP reply, "" if there is none yet
	Delivered Delivered
}

// Delivered is a value of the property delivered (RFC 8621 section 7).
type Delivered string

// The values of Delivered.
const (
	DeliveryQueued  Delivered = "queued"
	DeliveryYes     Delivered = "yes"
	DeliveryNo      Delivered = "no"
	DeliveryUnknown Delivered = "unknown"
)

// Vacation is a vacation response (RFC 8621 section 8).
type Vacation struct {
	Enabled     bool
	From, Until time.Time // zero: unbounded
	Subject     string    // "": derived from the subject of the message answered
	Text        string
}

// Options holds the server's settings.
type Options struct {
	// Authenticate identifies the user of a request.
	Authenticate Authenticate
	// Base returns the URL under which a client reaches the paths, without a trailing slash. If nil, it is derived from
	// the request.
	Base   func(r *http.Request) string
	Limits Limits
	// Memory bounds the requests, uploads and messages in flight (default: a budget of 256 MB for this server).
	Memory *listen.Budget
	// Extend adds capabilities to the session object, such as those of push. It appends members of a JSON object, each
	// with a comma before it.
	Extend func(dst []byte, base string) []byte
	Stats  *stat.Tree
	// Feeds publishes calendars, Sources shows the feeds of other servers as calendars; nil disables CalendarFeed.
	Feeds   *feed.Publisher
	Sources *feed.Subscriber
	// Lists leaves mailing lists; nil disables Email/unsubscribe. Hostname is the authserv-id of the
	// Authentication-Results fields that this server adds.
	Lists    *oneclick.Client
	Hostname string
	// Logos looks up the logos of senders; nil disables them.
	Logos *logos.Cache
	// Observe, if set, is called after each method with its name and its duration.
	Observe func(method string, took time.Duration)
}

// Server is the HTTP handler of JMAP.
type Server struct {
	env     *env.Env
	opt     Options
	backend Backend
	mux     *http.ServeMux
	methods map[string]boundMethod
	stats   statistics

	mu     sync.Mutex
	active map[string]*activity // by session
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

// New returns a Server.
func New(e *env.Env, o Options, b Backend) *Server {
	o.Limits.fill()
	if o.Memory == nil {
		o.Memory = listen.NewBudget(256 << 20)
	}
	s := &Server{env: e, opt: o, backend: b, mux: http.NewServeMux(),
		methods: make(map[string]boundMethod, len(methods)), active: make(map[string]*activity)}
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
	s.Handle("GET "+PathZip, s.zip)
	s.Handle("GET "+PathExport, s.export)
	if o.Logos != nil {
		s.Handle("GET "+PathLogo, logo(s))
	}
	return s
}

// bound adds a counter of calls to a method.
func (s *Server) bound(name string, m method) boundMethod {
	return boundMethod{m, s.opt.Stats.Counter("JMAP.Calls."+strings.ReplaceAll(name, "/", "."),
		"JMAP method calls "+name)}
}

// Handle registers fn for another path. fn is called only for authenticated requests.
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

// ServeHTTP implements http.Handler. It serves the paths below /jmap/, and PathWellKnown.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }
