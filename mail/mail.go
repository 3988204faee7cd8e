// Package mail takes messages in and brings them where they go: into the mail files of local
// recipients in one commit, or, for whoever could not be in it, into mail.box, from where the
// router delivers, retries and reports. mail.box is a database like any other; its notes share the
// message with the notes of those who have it already.
package mail

import (
	"context"
	"time"

	"doublet/directory"
	"doublet/env"
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

// Options are the settings of the room; zero values take the defaults.
type Options struct {
	// Hostname is the server's name in trace fields and reports (default "localhost").
	Hostname string
	// MaxLocal is how many mail files one commit writes to (256), MaxBatch its greatest size in
	// bytes (4 MB). What is more is acknowledged in mail.box and delivered in pieces.
	MaxLocal int
	MaxBatch int
	// RetryFirst and RetryMax bound the time between two attempts, which doubles (5 min, 4 h).
	RetryFirst, RetryMax time.Duration
	// KeepOverQuota is how long a full mail file is tried (1 day: it is full until its owner acts,
	// and the sender should know); KeepOther how long one that is out of service (5 days, RFC 5321
	// section 4.5.4.1).
	KeepOverQuota, KeepOther time.Duration
	// ReturnFull is up to which size in bytes a report returns the whole message if the sender did
	// not say how much (64 KB), ReturnMax if the sender asked for it (1 MB).
	ReturnFull, ReturnMax int
	// URL is where the server's web door is reached from everywhere, "https://mail.example.com": for
	// the links of mailing lists. Without it they have none.
	URL string
	// Mailer sends mail elsewhere. Without one it waits in mail.box.
	Mailer Mailer
	// Mates take deliveries into mail files that are not here; nil: all are here.
	Mates Mates
	// Signer signs what is sent; nil: nothing is signed.
	Signer Signer
	// Sealer seals mail of strangers that goes on; nil: nothing is sealed.
	Sealer Sealer
	// Smarthost takes the mail of all domains that have no route in the directory, if it names a
	// host.
	Smarthost directory.RouteFields
	// Boxes is how many mail.box databases new messages are spread over (1, at most MaxBoxes).
	Boxes int
	// Connections is how many servers are spoken to at once (200), PerDestination how many
	// connections go to one destination (20), PerConnection how many messages go over one (200),
	// IdleTimeout how long one is kept for more (5 s).
	Connections, PerDestination, PerConnection int
	IdleTimeout                                time.Duration
	// DelayReport is after how long a sender is told that a message is still under way (4 h);
	// below 0: never.
	DelayReport time.Duration
	// KeepDead is how long a message is kept that can neither be delivered nor returned (30 days).
	KeepDead time.Duration
	// MessagesPerDay and RecipientsPerDay bound what one person sends to other domains in a day; 0
	// is no bound. People with the role RoleBulk have none.
	MessagesPerDay, RecipientsPerDay int
	// Keep is where the counts of the day outlive a restart; nil: nowhere.
	Keep *keep.Table
	// KeepTrace is for how long it is remembered where messages went (7 days); below 0: not at all.
	KeepTrace time.Duration
	// Quiet leaves out of the log what becomes of messages.
	Quiet bool
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

// Service composes the parts of the room. Each may be called from any goroutine.
type Service struct {
	// Queue holds mail.box, Trace remembers where messages went.
	Queue *queue.Queue
	Trace *trace.Trace
	// Deposits takes messages in charge, Lists knows the mailing lists, Moderation decides on messages that are held.
	Deposits   *Depositor
	Lists      *Lists
	Moderation *Moderation
	// Files delivers into mail files, SRS reads and rewrites senders of forwarded mail.
	Files *Files
	SRS   *SRS
	// Scheduled keeps messages until the time that their senders gave them.
	Scheduled *Scheduler
	// Router delivers, sends and reports what waits in mail.box.
	Router *Router
}

// Signer makes signatures: mail/sign has one. Header returns header fields to go before the
// message, whole lines, or nothing where none are to be made for the author's domain.
type Signer interface {
	Header(ctx context.Context, fromDomain string, message []byte) ([]byte, error)
}

// Sealer makes ARC sets: mail/sign has one. Seal returns header fields to go before fields and message, whole lines,
// or nothing where no set is to be made. host is Entry.Checker.
type Sealer interface {
	Seal(ctx context.Context, domain, host string, fields, message []byte) ([]byte, error)
}

// Mailer makes connections to other mail servers: mail/outbound has one.
type Mailer interface {
	Connect(ctx context.Context, t *outbound.Target) (*outbound.Session, *outbound.Failure)
}

// Open opens mail.box and what belongs to it, and creates them in a store that has none.
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
	svc.Moderation = &Moderation{queue: svc.Queue, dir: d, mailbox: m, env: e, deposit: svc.Deposits}
	if svc.Scheduled, err = openScheduler(s, e, d, m, svc.Queue, svc.Deposits, &o); err != nil {
		return nil, err
	}
	svc.Router = newRouter(s, e, d, m, svc.Queue, svc.Trace, svc.Deposits, bells, &o)
	return svc, nil
}

// Vacate is called before the home of a mail.box, or of an outbox, is handed to another server. It returns when nothing
// of it is under way here any more, and nothing is begun until resume is called, however the move went. For other
// databases it does nothing. An error means that something takes longer than ctx lasts; then the home must stay.
func (s *Service) Vacate(ctx context.Context, db note.DatabaseID) (resume func(), err error) {
	if resume, mine, err := s.Scheduled.outbox.vacate(ctx, db); mine {
		return resume, err
	}
	return s.Router.Vacate(ctx, db)
}

// Take delivers what a mate hands on. It returns when the message is durable here.
func (s *Service) Take(ctx context.Context, h *Handed, raw []byte) error {
	return s.Deposits.Take(ctx, h, raw)
}

// RecallHere takes a message back that waits for its time in an outbox of this server, for a mate.
func (s *Service) RecallHere(ctx context.Context, id note.UNID) (Recalled, error) {
	return s.Scheduled.RecallHere(ctx, id)
}

// DeliveredTo reports, for a mate, that this server has delivered a message to a person.
func (s *Service) DeliveredTo(ctx context.Context, person note.UNID, message []byte) (bool, error) {
	return s.Deposits.DeliveredTo(ctx, person, message)
}

// The replies that recipients are refused with, at the door or in a report.
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

// Join has the server, as the member of a cluster with this name, keep what waits in databases of its own.
func (s *Service) Join(server note.UNID, name string, known func(note.DatabaseID) bool) error {
	if err := s.Scheduled.joinOutbox(server, name, known); err != nil {
		return err
	}
	return s.Queue.Join(server, name, known)
}
