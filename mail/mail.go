// Package mail accepts messages and delivers them. Messages for local recipients go into their mail files in one
// commit. For all other recipients they go to mail.box, from which the router delivers, retries and reports. mail.box
// is an ordinary database; its notes share the stored message with the notes of recipients that already have it.
//
// The home of a database is its primary replica. A mate is another member of the cluster. A place is a site of the
// domain with its own servers.
package mail

import (
	"context"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/keep"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/smtp"
)

// Options are the settings. Zero values mean the defaults.
type Options struct {
	// Hostname is the server's name in trace fields and reports (default "localhost").
	Hostname string
	// MaxLocal is the maximum number of mail files in one commit (256), and MaxBatch its maximum size in bytes (4 MB).
	// A larger delivery is accepted into mail.box and delivered in parts.
	MaxLocal int
	MaxBatch int
	// RetryFirst and RetryMax are the first and the longest retry interval; the interval doubles (5 min, 4 h).
	RetryFirst, RetryMax time.Duration
	// KeepOverQuota is the retry time for a full mail file (1 day: only its owner can change that, and the sender
	// should know soon). KeepOther is the retry time for other failures (5 days, RFC 5321 section 4.5.4.1).
	KeepOverQuota, KeepOther time.Duration
	// ReturnFull is the maximum size in bytes of a message that a report returns completely if the sender did not
	// specify RET (64 KB). ReturnMax is the maximum if the sender asked for the full message (1 MB).
	ReturnFull, ReturnMax int
	// URL is the public address of the web server, "https://mail.example.com", for unsubscribe links of mailing lists.
	// Without it there are no links.
	URL string
	// Mailer connects to remote servers. If it is nil, remote mail waits in mail.box.
	Mailer Mailer
	// Mates deliver to mail files that are not here; nil means that all are here.
	Mates Mates
	// Calendars reads scheduling messages, which change the calendars of recipients; nil leaves them alone.
	Calendars Calendars
	// Signer signs outgoing mail; nil disables signing.
	Signer Signer
	// Sealer adds ARC seals to forwarded mail; nil disables sealing.
	Sealer Sealer
	// Smarthost is the route for all domains without a route in the directory, if it names a host.
	Smarthost directory.RouteFields
	// Boxes is the number of mail.box databases for new messages (1, at most queue.MaxBoxes).
	Boxes int
	// Connections is the maximum number of connections to remote servers (200), and PerDestination that to one
	// destination (20). PerConnection is the maximum number of messages over one connection (200). IdleTimeout is the
	// time for which an idle connection is kept (5 s).
	Connections, PerDestination, PerConnection int
	IdleTimeout                                time.Duration
	// DelayReport is the age of a waiting message at which its sender is notified of the delay (4 h); below 0: never.
	DelayReport time.Duration
	// KeepDead is the retention time of a message that can neither be delivered nor returned (30 days).
	KeepDead time.Duration
	// MessagesPerDay and RecipientsPerDay limit the mail of one person to other domains per day; 0 means no limit.
	// People with the role RoleBulk have no limit.
	MessagesPerDay, RecipientsPerDay int
	// Keep persists the daily counts across restarts; nil means that they are not persisted.
	Keep *keep.Table
	// KeepTrace is the retention time of the trace of messages (7 days); below 0: no trace.
	KeepTrace time.Duration
	// Quiet disables log lines about messages.
	Quiet bool
	// Journal records the messages that the server accepts, if it is on; nil is off.
	Journal *journal.Journal
	// Junk classifies mail from outside by what people filed; nil is off.
	Junk  *junk.Filter
	Stats *stat.Tree
}

func (o *Options) fill() {
	if o.Hostname == "" {
		o.Hostname = "localhost"
	}
	setDefault(&o.MaxLocal, 256)
	setDefault(&o.MaxBatch, 4<<20)
	setDefault(&o.RetryFirst, 5*time.Minute)
	setDefault(&o.RetryMax, 4*time.Hour)
	setDefault(&o.KeepOverQuota, 24*time.Hour)
	setDefault(&o.KeepOther, 5*24*time.Hour)
	setDefault(&o.ReturnFull, 64<<10)
	setDefault(&o.ReturnMax, 1<<20)
	setDefault(&o.Boxes, 1)
	setDefault(&o.Connections, 200)
	setDefault(&o.PerDestination, 20)
	setDefault(&o.PerConnection, 200)
	setDefault(&o.IdleTimeout, 5*time.Second)
	setDefault(&o.KeepDead, 30*24*time.Hour)
	if o.DelayReport == 0 {
		o.DelayReport = 4 * time.Hour
	}
	if o.KeepTrace == 0 {
		o.KeepTrace = 7 * 24 * time.Hour
	}
}

func setDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Service combines the parts of the package. Each part may be called from any goroutine.
type Service struct {
	// Queue is mail.box, Trace the record of the messages' paths.
	Queue *queue.Queue
	Trace *trace.Trace
	// Rules applies the domain's mail rules to the messages that Deposits accepts.
	Rules *MailRules
	// Deposits accepts messages, Lists processes mailing lists, and Moderation decides on held messages.
	Deposits   *Depositor
	Lists      *Lists
	Moderation *Moderation
	// Files delivers to mail files. SRS rewrites the senders of forwarded mail.
	Files *Files
	SRS   *SRS
	// Scheduled holds messages until the time that their senders chose.
	Scheduled *Scheduler
	// Router delivers, sends and reports the messages in mail.box.
	Router *Router
}

// Signer creates DKIM signatures. mail/sign implements it. Header returns complete header fields to put before the
// message, or nil if the author's domain has no keys.
type Signer interface {
	Header(ctx context.Context, fromDomain string, message []byte) ([]byte, error)
}

// Sealer creates ARC sets. mail/sign implements it. Seal returns complete header fields to put before fields and
// message, or nil if no set applies. host is queue.Entry.Checker.
type Sealer interface {
	Seal(ctx context.Context, domain, host string, fields, message []byte) ([]byte, error)
}

// Mailer connects to other mail servers. mail/outbound implements it.
type Mailer interface {
	Connect(ctx context.Context, t *outbound.Target) (*outbound.Session, *outbound.Failure)
}

// Open opens mail.box and the related databases, and creates them in a new store.
func Open(s *store.Store, e *env.Env, d *directory.Directory, m *mailbox.Service, o Options) (*Service, error) {
	o.fill()
	svc := &Service{}
	bells := newBells()
	var err error
	if svc.Queue, err = queue.Open(s, e, o.Stats, o.Boxes, bells.ring); err != nil {
		return nil, err
	}
	if svc.Trace, err = trace.Open(s, e, d, svc.Queue, o.KeepTrace, o.Quiet, o.Stats); err != nil {
		return nil, err
	}
	if svc.Deposits, err = newDepositor(s, e, d, m, svc.Queue, &o); err != nil {
		return nil, err
	}
	svc.Lists, svc.Files, svc.SRS = svc.Deposits.lists, svc.Deposits.files, svc.Deposits.srs
	svc.Rules = svc.Deposits.rules
	svc.Moderation = &Moderation{queue: svc.Queue, dir: d, mailbox: m, env: e, deposit: svc.Deposits}
	if svc.Scheduled, err = openScheduler(s, e, d, m, svc.Queue, svc.Deposits, &o); err != nil {
		return nil, err
	}
	svc.Router = newRouter(s, e, d, m, svc.Queue, svc.Trace, svc.Deposits, bells, &o)
	return svc, nil
}

// Vacate must be called before the home of a mail.box or an outbox is handed over to another server. When it returns,
// no work on the database is in progress here, and none begins until resume is called, whether the move succeeded or
// not. It does nothing for other databases. An error means that some work does not end before ctx; then the home must
// stay.
func (s *Service) Vacate(ctx context.Context, db note.DatabaseID) (resume func(), err error) {
	if resume, mine, err := s.Scheduled.outbox.vacate(ctx, db); mine {
		return resume, err
	}
	return s.Router.Vacate(ctx, db)
}

// Take delivers a message that a mate hands over. It returns when the message is durable here.
func (s *Service) Take(ctx context.Context, h *Handed, raw []byte) error {
	return s.Deposits.Take(ctx, h, raw)
}

// RecallHere recalls a message from an outbox of this server, for a mate.
func (s *Service) RecallHere(ctx context.Context, id note.UNID) (Recalled, error) {
	return s.Scheduled.RecallHere(ctx, id)
}

// DeliveredTo reports, for a mate, whether this server has delivered a message to a person.
func (s *Service) DeliveredTo(ctx context.Context, person note.UNID, message []byte) (bool, error) {
	return s.Deposits.DeliveredTo(ctx, person, message)
}

// Replies that reject recipients, in the session or in a report.
var (
	replyNoUser   = smtp.NewReply(550, 5, 1, 1, "No such user here")
	replyNoFile   = smtp.NewReply(550, 5, 2, 1, "The recipient has no mail file")
	replySize     = smtp.NewReply(552, 5, 2, 3, "Message is larger than this recipient takes")
	replyGroup    = smtp.NewReply(550, 5, 2, 4, "The group cannot be expanded")
	replyEmpty    = smtp.NewReply(550, 5, 2, 4, "The group has no members")
	replyQuota    = smtp.NewReply(452, 4, 2, 2, "The mail file is full")
	replyFull     = smtp.NewReply(552, 5, 2, 2, "The mail file is full")
	replyTrouble  = smtp.NewReply(451, 4, 2, 0, "The mail file is not in service now")
	replyExpired  = smtp.NewReply(554, 5, 4, 7, "The mail file was out of service for too long")
	replyFrom     = smtp.NewReply(550, 5, 7, 1, "The From address is not one of yours")
	replySender   = smtp.NewReply(550, 5, 7, 1, "The Sender address is not one of yours")
	replyNobody   = smtp.NewReply(554, 5, 5, 1, "No valid recipients")
	replyTooLong  = smtp.NewReply(554, 5, 4, 7, "The message could not be sent for too long")
	replyManySent = smtp.NewReply(450, 4, 7, 1, "You have sent as much mail to other domains today as you may")
	replyRound    = smtp.NewReply(554, 5, 4, 6, "The message goes round: it has passed this server too often")
	replyJunk     = smtp.NewReply(550, 5, 7, 1, "The message looks like junk, and is not sent on")
	replyManyHead = smtp.NewReply(550, 5, 6, 0, "The header is longer than this server takes")
)

// Join makes this server a cluster member with the given name, with its own mail.box and outbox databases.
func (s *Service) Join(server note.UNID, name string, known func(note.DatabaseID) bool) error {
	if err := s.Scheduled.joinOutbox(server, name, known); err != nil {
		return err
	}
	return s.Queue.Boxes.Join(server, name, known)
}
