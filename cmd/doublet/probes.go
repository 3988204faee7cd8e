package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/cmd/doublet/config"
	"doublet/mail"
	"doublet/mail/fields"
	"doublet/note"
	"doublet/probe"
	"doublet/probe/check"
	"doublet/task"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// startProbes starts the monitor (Domino's task Event) and what notifies people of events.
func startProbes(h *server, tasks *task.Supervisor) error {
	plan, err := probePlan(&h.cfg)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("settings of [probes]: %w", err)}
	}
	r := newReadings(h)
	events := h.system.Events
	monitor := probe.NewMonitor(events, plan, h.cfg.Probes.Keep.Duration, r.probes())
	h.running.Probes = monitor.Status
	if err := (notices{h}).attach(); err != nil {
		return err
	}
	tasks.Start(task.Task{Name: "Event", Run: task.Plain(monitor.Run)})
	tasks.Start(task.Task{Name: "Notify", Run: task.Plain(events.Notify)})
	h.settings.take(func(next *config.Config) (func(), error) {
		plan, err := probePlan(next)
		return func() { monitor.Replan(plan, next.Probes.Keep.Duration) }, err
	}, "probes.run", "probes.every", "probes.limits", "probes.keep")
	return nil
}

func probePlan(cfg *config.Config) (*probe.Plan, error) {
	c := &cfg.Probes
	return probe.ParsePlan(check.Kinds(), probe.Settings{Run: c.Run, Every: c.Every, Limits: c.Limits})
}

// notices notifies people of events.
type notices struct{ *server }

// attach attaches the channels of the settings.
func (h notices) attach() error {
	c, events := &h.cfg.Probes, h.system.Events
	if c.Mail != "" {
		least, err := probe.ParseSeverity(c.MailLeast)
		if err != nil {
			return err
		}
		events.Attach(probe.Channel{Name: "mail", Least: least, Every: c.MailEvery.Duration, Batch: 50,
			Send: h.digest})
	}
	if c.Webhook != "" {
		least, err := probe.ParseSeverity(c.HookLeast)
		if err != nil {
			return err
		}
		hook, err := probe.Webhook(h.env, probe.WebhookOptions{Server: h.cfg.Server.Name, URL: c.Webhook,
			Secret: c.HookSecret, Least: least, Reach: h.reach})
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("setting probes.webhook: %w", err)}
		}
		events.Attach(hook)
	}
	return nil
}

// digest mails a digest to the administrators. While test mail to a mail file here does not arrive, or the disk is
// full, events wait: a digest would not arrive, and would add to the queue.
func (h notices) digest(ctx context.Context, list []probe.Event, more int) error {
	if h.stuck() {
		return probe.ErrLater
	}
	subject, text := probe.Digest(h.cfg.Server.Name, list, more)
	return h.mail(ctx, note.UNID{}, h.cfg.Probes.Mail, subject, text)
}

// stuck reports whether a mail to a mail file here does not arrive now.
func (h notices) stuck() bool {
	q := probe.Query{Probe: check.TestMail.Kind.Name, Target: h.cfg.Probes.TestMail, State: probe.StateOpen,
		Severity: probe.Failure, Limit: 1}
	return len(h.system.Events.List(q)) > 0 || !h.system.Store.HasSpace()
}

// mail sends a message of the server to an address. Nobody is told if it cannot be delivered.
func (h notices) mail(ctx context.Context, id note.UNID, address, subject, text string) error {
	s := h.system
	if !strings.Contains(address, "@") {
		domains, err := s.Directory.Domains.List(ctx)
		if err != nil || len(domains) == 0 {
			return errors.Join(probe.ErrLater, err) // no domain is set up yet
		}
		address += "@" + domains[0]
	}
	to, err := smtp.ParsePath(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if id == (note.UNID{}) {
		h.env.Fill(id[:])
	}
	raw := []byte("From: Doublet <postmaster@" + to.Domain + ">\r\nTo: <" + to.String() + ">\r\nSubject: " +
		fields.Encode(subject) + "\r\nDate: " +
		"" + h.env.Clock.Now().UTC().Format(fields.DateFormat) + "\r\nMessage-ID: <" +
		id.String() + "@" + h.cfg.Server.Name + ">\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	raw = mime.AppendBase64Lines(raw, []byte(text), 76, true)
	r, err := s.Mail.Deposits.Accept(ctx, to, smtp.RcptParams{Notify: smtp.NotifyNever}, uint64(len(raw)))
	if err != nil {
		return fmt.Errorf("mail to %s: %w", address, err)
	}
	sub := mail.Submission{ID: id, Params: smtp.MailParams{Size: -1}, Message: raw, Answer: mail.AnswerNone,
		Recipients: []mail.Recipient{r}}
	if _, err := s.Mail.Deposits.Deposit(ctx, &sub, nil); err != nil {
		return fmt.Errorf("mail to %s: %w", address, err)
	}
	return nil
}
