package jmapd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/directory"
	"doublet/groupware"
	"doublet/mail"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/signin"
	"doublet/wire/jmap"
)

// NewBackend returns a Backend that uses in for accounts, d for names and addresses, f and m for mail, g for
// calendars and address books, and s for the people of events. maxRecipients bounds the recipients of a message.
func NewBackend(in *signin.Service, d *directory.Directory, f *mailbox.Service, m *mail.Service,
	g *groupware.Service, s *scheduling.Service, maxRecipients int) Backend {
	return &backend{in, d, f, m, g, s, maxRecipients}
}

type backend struct {
	in         *signin.Service
	dir        *directory.Directory
	files      *mailbox.Service
	mail       *mail.Service
	groupware  *groupware.Service
	scheduling *scheduling.Service
	recipients int
}

// Mail implements Backend.
func (b *backend) Mail() *mailbox.Service { return b.files }

// Scheduling implements Backend.
func (b *backend) Scheduling() *scheduling.Service { return b.scheduling }

// Groupware implements Backend.
func (b *backend) Groupware() *groupware.Service { return b.groupware }

// Directory implements Backend.
func (b *backend) Directory() *directory.Directory { return b.dir }

// MaxRecipients implements Backend.
func (b *backend) MaxRecipients() int { return b.recipients }

// Refresh implements Backend.
func (b *backend) Refresh(ctx context.Context, a *signin.Account) error {
	_, err := b.in.Refresh(ctx, a)
	return err
}

// TryScript implements Backend.
func (b *backend) TryScript(ctx context.Context, t *mail.ScriptTrial) ([]mail.Tried, error) {
	return b.mail.Deposits.TryScript(ctx, t)
}

// Name implements Backend.
func (b *backend) Name(ctx context.Context, id note.UNID) (string, error) {
	p, err := b.dir.Names.Person(ctx, id)
	switch {
	case err == nil && p.Removed.IsZero():
		if all := p.Addresses(); len(all) > 0 {
			return all[0], nil
		}
		return p.Name(), nil
	case err != nil && !errors.Is(err, directory.ErrNotFound):
		return "", err
	}
	return b.dir.Names.NameOf(ctx, id)
}

// Sender implements Backend.
func (b *backend) Sender(ctx context.Context, person note.UNID) (string, []string, error) {
	p, err := b.dir.Names.Person(ctx, person)
	if err != nil {
		return "", nil, fmt.Errorf("directory: %w", err)
	}
	return p.Name(), p.Addresses(), nil
}

// SendRight implements Backend.
func (b *backend) SendRight(ctx context.Context, who note.Who, address string) (directory.SendRight, error) {
	r, err := b.dir.Names.SendRight(ctx, who, address)
	if err != nil {
		return r, fmt.Errorf("directory: %w", err)
	}
	return r, nil
}

// Submit implements Backend.
//
// Implements: RFC 8621 §7 the message is handed to the mail transfer system
func (b *backend) Submit(ctx context.Context, a *signin.Account, s *Submission) (note.UNID, error) {
	sub := mail.Submission{
		From: s.From, Params: s.Params, Message: s.Message, Received: &mail.Received{Protocol: "HTTP"},
		Submitter: &mail.Submitter{Who: a.Who, Address: a.Address},
	}
	return b.mail.Send(ctx, &sub, s.To, s.Release)
}

// Recall implements Backend.
func (b *backend) Recall(ctx context.Context, id note.UNID) (bool, error) {
	back, err := b.mail.Scheduled.Recall(ctx, id)
	if errors.Is(err, queue.ErrHomeElsewhere) {
		return false, &jmap.Error{Type: "serverUnavailable",
			Description: "Who sends the message is not reached now. Try again in a moment."}
	}
	return back, err
}

// Progress implements Backend.
func (b *backend) Progress(ctx context.Context, id note.UNID, recipients []string) ([]Progress, error) {
	out := make([]Progress, len(recipients))
	if b.mail.Scheduled.Waits(ctx, id) {
		for i := range out {
			out[i].Delivered = DeliveryQueued
		}
		return out, nil
	}
	queued, _, err := b.mail.Show(ctx, id)
	if err != nil && !errors.Is(err, queue.ErrNotQueued) {
		return nil, err
	}
	b.mail.Router.Known(ctx, &queued)
	hops, err := b.mail.Trace.Hops(ctx, id)
	if err != nil {
		return nil, err
	}
	for i, to := range recipients {
		if out[i], err = b.progress(ctx, id, to, &queued, hops); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *backend) progress(ctx context.Context, id note.UNID, to string, queued *queue.Entry,
	hops []trace.Hop) (Progress, error) {
	for i := range queued.Recipients {
		q := &queued.Recipients[i]
		if !strings.EqualFold(q.Address, to) {
			continue
		}
		switch q.State {
		case queue.Failed:
			return Progress{q.Reply, DeliveryNo}, nil
		case queue.Delivered:
			return Progress{q.Reply, DeliveryYes}, nil
		case queue.Relayed:
			return Progress{q.Reply, DeliveryUnknown}, nil
		}
		return Progress{q.Reply, DeliveryQueued}, nil
	}
	for i := len(hops) - 1; i >= 0; i-- {
		h := &hops[i]
		if h.ID != id || !strings.EqualFold(h.To, to) {
			continue
		}
		switch h.Event {
		case trace.HopDelivered:
			return Progress{h.Reply, DeliveryYes}, nil
		case trace.HopSent, trace.HopRelayed:
			return Progress{h.Reply, DeliveryUnknown}, nil
		case trace.HopBounced, trace.HopDropped:
			return Progress{h.Reply, DeliveryNo}, nil
		}
	}
	_, found, err := b.mail.Trace.Delivered(ctx, id, to)
	if err != nil && !errors.Is(err, directory.ErrNotLocal) && !errors.Is(err, directory.ErrNoSuchRecipient) {
		return Progress{}, err
	}
	if found {
		return Progress{"250 2.1.5 Delivered", DeliveryYes}, nil
	}
	return Progress{Delivered: DeliveryUnknown}, nil
}

// Vacation implements Backend.
func (b *backend) Vacation(ctx context.Context, person note.UNID) (Vacation, error) {
	p, err := b.dir.Names.Person(ctx, person)
	if err != nil {
		return Vacation{}, fmt.Errorf("directory: %w", err)
	}
	v := &p.Vacation
	return Vacation{Enabled: v.On, From: v.From, Until: v.Until, Subject: v.Subject, Text: v.Text}, nil
}

// SetVacation implements Backend. Only the person can change the vacation response.
func (b *backend) SetVacation(ctx context.Context, who note.Who, v *Vacation) error {
	err := b.dir.People.SetVacation(ctx, who, func(n *directory.Vacation) error {
		n.On, n.From, n.Until, n.Subject, n.Text = v.Enabled, v.From, v.Until, v.Subject, v.Text
		return nil
	})
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	return nil
}
