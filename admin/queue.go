package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"doublet/mail"
	"doublet/note"
)

// Queued is a message in mail.box.
type Queued struct {
	ID         string            `json:"id"`
	From       string            `json:"from"`
	Created    time.Time         `json:"created"`
	Size       Size              `json:"size"`
	State      string            `json:"state,omitempty"`
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
}

// QueueList are the arguments of queue list.
type QueueList struct {
	Limit int `json:"limit" help:"at most so many (1,000 where none is given)"`
}

// QueueID are the arguments of verbs on one message in mail.box.
type QueueID struct {
	ID string `json:"id" arg:"required" help:"queue id, as the reply to the sender named it"`
}

func queues() []*Verb {
	act := func(word string, fn func(*mail.Service, context.Context, note.UNID) error) func(context.Context, *Call, *QueueID) (Done, error) {
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
		define("queue show", "show a message in mail.box: recipients, attempts, header", queueShow),
		define("queue retry", "try a message again now", act("due now:", (*mail.Service).Retry), changes),
		define("queue hold", "keep a message in mail.box until it is released", act("held:", (*mail.Service).Hold), changes),
		define("queue release", "let a held message go on", act("released:", (*mail.Service).Release), changes),
		define("queue drop", "remove a message from mail.box; nobody is told", act("dropped:", (*mail.Service).Drop), changes),
	}
}

func queueID(text string) (note.UNID, error) {
	id, err := note.ParseUNID(text)
	if err != nil {
		return id, fmt.Errorf("%w: a queue id is 32 hex digits, not %q", ErrUsage, text)
	}
	return id, nil
}

func queuedOf(e mail.Entry) Queued {
	q := Queued{ID: e.ID.String(), From: e.From.String(), Created: e.Created, Size: Size(e.Size)}
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
	limit := a.Limit
	if limit <= 0 {
		limit = 1000
	}
	out := []Queued{}
	for after := ""; len(out) < limit; {
		list, next, err := c.Mail.List(ctx, limit-len(out), after)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			out = append(out, queuedOf(e))
		}
		if next == "" {
			break
		}
		after = next
	}
	return out, nil
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
	q := queuedOf(e)
	q.Header = strings.ReplaceAll(string(header), "\r\n", "\n")
	for _, r := range e.Recipients {
		q.Recipients = append(q.Recipients, QueuedRecipient{r.Address, r.Name, string(r.State), r.Attempts, r.Next, r.Reply})
	}
	return q, nil
}
