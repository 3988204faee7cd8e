package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/mail"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/note"
)

// Queued is a message in mail.box.
type Queued struct {
	ID         string            `json:"id"`
	Server     string            `json:"server,omitempty"`
	From       string            `json:"from"`
	Created    time.Time         `json:"created"`
	Size       Size              `json:"size"`
	State      string            `json:"state,omitempty"`
	Urgency    string            `json:"urgency,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	To         []string          `json:"to"`
	Recipients []QueuedRecipient `json:"recipients,omitempty"`
	Header     string            `json:"header,omitempty"`
}

// QueuedRecipient is a recipient of a message in mail.box.
type QueuedRecipient struct {
	Address  string    `json:"address"`
	Name     string    `json:"name,omitempty"`
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	Next     time.Time `json:"next,omitzero"`
	Reply    string    `json:"reply,omitempty"`
	Host     string    `json:"host,omitempty"`
}

// QueueList are the arguments of queue list.
type QueueList struct {
	Limit  int    `json:"limit" help:"at most so many (1,000 where none is given)"`
	From   string `json:"from" help:"of senders that hold this text"`
	To     string `json:"to" help:"for recipients that hold this text"`
	Domain string `json:"domain" help:"for recipients of this domain"`
	State  string `json:"state" help:"held, dead, pending, waiting, failed, delivered or relayed"`
}

// QueueShow are the arguments of show queue.
type QueueShow struct {
	Limit         int    `json:"limit" help:"at most so many (1,000 where none is given)"`
	From          string `json:"from" help:"of senders that hold this text"`
	To            string `json:"to" help:"for recipients that hold this text"`
	Domain        string `json:"domain" help:"for recipients of this domain"`
	State         string `json:"state" help:"held, dead, pending, waiting, failed, delivered or relayed"`
	ByDestination bool   `json:"by_destination" help:"count what waits for each destination instead"`
}

// QueueView is the result of show queue.
type QueueView struct {
	Messages     []Queued           `json:"messages,omitempty"`
	Destinations []QueueDestination `json:"destinations,omitempty"`
}

// QueueDestination is the queued mail for one destination.
type QueueDestination struct {
	Destination string    `json:"destination"`
	Due         int       `json:"due" show:"always"`
	Waiting     int       `json:"waiting" show:"always"`
	Sending     int       `json:"sending" show:"always"`
	Connections int       `json:"connections"`
	Failures    int       `json:"failures"`
	Until       time.Time `json:"retry,omitzero"`
	Host        string    `json:"host,omitempty"`
	Reply       string    `json:"reply,omitempty"`
}

// QueueID are the arguments of verbs on one message in mail.box.
type QueueID struct {
	ID string `json:"id" arg:"required" help:"queue id, as the reply to the sender named it"`
}

func queues() []*Verb {
	act := func(word string, fn func(*mail.Service, context.Context, note.UNID) error) func(context.Context, *Call,
		*QueueID) (Done, error) {
		return func(ctx context.Context, c *Call, a *QueueID) (Done, error) {
			id, err := queueID(a.ID)
			if err != nil {
				return Done{}, err
			}
			return Done{word + " " + a.ID}, fn(c.Mail, ctx, id)
		}
	}
	return []*Verb{
		define("queue list", "list what waits in mail.box", queueList),
		define("trace", "where a message is: what happened to it on its way, hop by hop", traceMail,
			long("Messages that passed mail.box (mail to other domains, and what could not be delivered at once) "+
				"are remembered for router.keep_trace. What was delivered at once is found by queue id and "+
				"--recipient.")),
		define("queue show", "show a message in mail.box: recipients, attempts, header", queueShow),
		define("queue retry", "try a message again now", act("due now:", (*mail.Service).Retry), changes),
		define("queue route", "try the mail that waits for a destination now, or all that waits", queueRoute, changes),
		define("queue hold", "keep a message in mail.box until it is released",
			act("held:", (*mail.Service).Hold), changes),
		define("queue release", "let a held message go on", act("released:", (*mail.Service).Release), changes),
		define("queue drop", "remove a message from mail.box; nobody is told",
			act("dropped:", (*mail.Service).Drop), changes),
	}
}

// QueueRoute are the arguments of queue route.
type QueueRoute struct {
	Destination string `json:"destination" arg:"optional" help:"domain of recipients; all of them without one"`
}

// routePage is the number of messages that queueRoute reads at a time.
const routePage = 1000

// queueRoute makes the messages due that have waiting recipients in a domain. Held and dead ones stay as they are.
func queueRoute(ctx context.Context, c *Call, a *QueueRoute) (Done, error) {
	q := QueueList{Domain: a.Destination}
	n, after := 0, ""
	for {
		list, next, err := c.Mail.Queue.List(ctx, routePage, after)
		if err != nil {
			return Done{}, err
		}
		for i := range list {
			e := &list[i]
			if e.Held || e.Dead || !q.fits(e) {
				continue
			}
			if err := c.Mail.Retry(ctx, e.ID); err != nil && !errors.Is(err, queue.ErrNotQueued) &&
				!errors.Is(err, queue.ErrHomeElsewhere) {
				return Done{}, err
			}
			n++
		}
		if after = next; next == "" {
			return Done{fmt.Sprintf("%d messages are due now", n)}, nil
		}
	}
}

func queueID(text string) (note.UNID, error) {
	id, err := note.ParseUNID(text)
	if err != nil {
		return id, fmt.Errorf("%w: a queue id is 32 hex digits, not %q", ErrUsage, text)
	}
	return id, nil
}

// queuedOf converts a message. In a cluster, the result also contains the server whose mail.box holds it.
func (c *Call) queuedOf(ctx context.Context, e queue.Entry) Queued {
	q := Queued{ID: e.ID.String(), From: e.From.String(), Created: e.Created, Size: Size(e.Size), Reason: e.Reason}
	if owner := c.Mail.Queue.Boxes.OwnerOf(&e); !owner.IsZero() {
		q.Server = c.nameOf(ctx, owner)
	}
	if e.Urgency != queue.Normal {
		q.Urgency = e.Urgency.String()
	}
	states := map[string]bool{}
	var words []string
	for _, r := range e.Recipients {
		q.To = append(q.To, r.Address)
		if w := string(r.State); !states[w] {
			states[w] = true
			words = append(words, w)
		}
	}
	q.State = strings.Join(words, ", ")
	switch {
	case e.Held:
		q.State = "held"
	case e.Dead:
		q.State = "dead"
	}
	return q
}

func queueList(ctx context.Context, c *Call, a *QueueList) ([]Queued, error) {
	read := func(_ int, after string) ([]queue.Entry, string, error) { return c.Mail.Queue.List(ctx, 1000, after) }
	return listed(atMost(a.Limit, 1000), "", read, a.fits,
		func(e queue.Entry) Queued { return c.queuedOf(ctx, e) })
}

// fits reports whether a message matches the query.
func (a *QueueList) fits(e *queue.Entry) bool {
	if a.From != "" && !holds(e.From.String(), a.From) {
		return false
	}
	state := a.State // of a recipient
	if state == "held" || state == "dead" {
		if state == "held" != e.Held || state == "dead" != e.Dead {
			return false
		}
		state = ""
	}
	if a.To == "" && a.Domain == "" && state == "" {
		return true
	}
	return slices.ContainsFunc(e.Recipients, func(r queue.Recipient) bool {
		return a.fitsAddress(r.Address) && (state == "" || state == string(r.State))
	})
}

func (a *QueueList) fitsAddress(address string) bool {
	_, domain, _ := strings.Cut(address, "@")
	return (a.To == "" || holds(address, a.To)) && (a.Domain == "" || strings.EqualFold(domain, a.Domain))
}

func showQueue(ctx context.Context, c *Call, a *QueueShow) (QueueView, error) {
	if !a.ByDestination {
		list, err := queueList(ctx, c, &QueueList{a.Limit, a.From, a.To, a.Domain, a.State})
		return QueueView{Messages: list}, err
	}
	out := QueueView{Destinations: []QueueDestination{}}
	for _, d := range c.Mail.Router.Destinations() {
		out.Destinations = append(out.Destinations, QueueDestination{
			Destination: d.Destination, Due: d.Due, Waiting: d.Waiting, Sending: d.Sending, Connections: d.Connections,
			Failures: d.Failures, Until: d.Until, Host: d.Host, Reply: d.Reply,
		})
	}
	return out, nil
}

// TraceOf are the arguments of trace.
type TraceOf struct {
	What      string `json:"what" arg:"required" help:"queue id, Message-ID or address"`
	Recipient string `json:"recipient" help:"with a queue id: a recipient here, to see what was delivered at once"`
}

// TraceStep is one event in the history of a message.
type TraceStep struct {
	Time     time.Time `json:"time"`
	Event    string    `json:"event"`
	From     string    `json:"from,omitempty"`
	To       string    `json:"to"`
	Host     string    `json:"host,omitempty"`
	Secure   string    `json:"secure,omitempty"`
	Reply    string    `json:"reply,omitempty"`
	Accepted time.Time `json:"accepted,omitzero"`
	ID       string    `json:"id"`
	Message  string    `json:"message_id,omitempty"`
}

func traceMail(ctx context.Context, c *Call, a *TraceOf) ([]TraceStep, error) {
	hops, err := c.Mail.Trace.Find(ctx, a.What)
	if err != nil {
		return nil, err
	}
	out := []TraceStep{}
	for i := range hops {
		h := &hops[i]
		out = append(out, TraceStep{h.Time, string(h.Event), h.From, h.To, h.Host, h.Secure, h.Reply, h.Accepted,
			h.ID.String(), h.MessageID})
	}
	if a.Recipient == "" {
		return out, nil
	}
	id, err := queueID(a.What)
	if err != nil {
		return nil, err
	}
	at, found, err := c.Mail.Trace.Delivered(ctx, id, a.Recipient)
	if err == nil && found {
		step := TraceStep{Time: at, Event: string(trace.HopDelivered), To: a.Recipient, ID: id.String()}
		if at.IsZero() {
			step.Reply = "and removed since"
		}
		out = append(out, step)
	}
	return out, err
}

func queueShow(ctx context.Context, c *Call, a *QueueID) (Queued, error) {
	id, err := queueID(a.ID)
	if err != nil {
		return Queued{}, err
	}
	e, header, err := c.Mail.Show(ctx, id)
	if err != nil {
		return Queued{}, err
	}
	c.Mail.Router.Known(ctx, &e)
	q := c.queuedOf(ctx, e)
	q.Header = strings.ReplaceAll(string(header), "\r\n", "\n")
	for _, r := range e.Recipients {
		q.Recipients = append(q.Recipients, QueuedRecipient{r.Address, r.Name, string(r.State), r.Attempts, r.Next,
			r.Reply, r.Remote})
	}
	return q, nil
}
