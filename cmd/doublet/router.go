package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"doublet/client/mtasts"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/mail"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/outbound"
	"doublet/mail/sign"
	"doublet/mailbox"
	"doublet/stat"
)

// routerOptions returns the settings of mail.box and of mail to other servers.
func routerOptions(h *house) (mail.Options, error) {
	s, c := h.system, &h.cfg.Router
	o := mail.Options{
		Hostname: h.cfg.Server.Name, Stats: s.Stats, URL: h.cfg.Web.URL,
		Boxes: c.Boxes, RetryFirst: c.RetryFirst.Duration, RetryMax: c.RetryMax.Duration, KeepOther: c.Expire.Duration,
		DelayReport: neverIfZero(c.DelayReport.Duration), KeepDead: c.KeepDead.Duration,
		KeepTrace:   neverIfZero(c.KeepTrace.Duration),
		Connections: c.Connections, PerDestination: c.PerDestination, PerConnection: c.PerConnection,
		IdleTimeout:    max(c.IdleTimeout.Duration, 1),
		MessagesPerDay: c.MessagesPerDay, RecipientsPerDay: c.RecipientsPerDay, Keep: h.memory.Table("sent today"),
		Mates: h.forward.Deliveries(), Quiet: !h.cfg.Log.Messages,
	}
	if c.Smarthost != "" {
		r := directory.RouteFields{Pattern: "*", Host: c.Smarthost, TLS: c.SmarthostTLS, User: c.SmarthostUser}
		if c.SmarthostSecret != "" {
			text, err := os.ReadFile(c.SmarthostSecret)
			if err != nil {
				return o, fmt.Errorf("smarthost_password_file: %w", err)
			}
			r.Password, _, _ = strings.Cut(strings.TrimRight(string(text), "\r\n"), "\n")
		}
		if err := directory.CheckRoute(&r); err != nil {
			return o, fmt.Errorf("smarthost: %w", err)
		}
		o.Smarthost = r
	}
	if !c.Send {
		return o, nil
	}
	mailer := outbound.Options{
		Hostname: h.cfg.Server.Name, Resolver: s.DNS, ConnectTimeout: c.ConnectTimeout.Duration,
		Timeout: c.Timeout.Duration, Own: h.member.Own, Stats: s.Stats,
	}
	if h.cfg.Reports.TLS && h.cfg.Sign.DKIM {
		mailer.Observer = h.reports.book
	}
	if c.MTASTS {
		mailer.Policies = mtasts.New(h.env, mtasts.Options{Resolver: s.DNS, Keep: h.memory.Table("MTA-STS"),
			Stats: s.Stats})
	}
	if h.cfg.Sign.DKIM {
		signer := sign.New(h.env, s.Directory, s.Stats)
		if o.Signer = signer; h.cfg.Sign.ARC {
			o.Sealer = signer.Sealer()
		}
	}
	o.Mailer = outbound.New(h.env, mailer)
	return o, nil
}

// journalOptions returns the settings of the mail journal.
func journalOptions(cfg *config.Config, stats *stat.Tree) journal.Options {
	c := &cfg.Journal
	rules, _ := journal.ParseRules(c.Rules) // checked when the settings were read
	o := journal.Options{On: c.Enabled, Rules: rules, Keys: c.Recipients, RollSize: uint64(c.RollSize),
		RollDays: c.RollDays, Keep: c.Keep.Duration, Deliver: c.OnFailure == "deliver", Stats: stats}
	for name := range strings.SplitSeq(c.Readers, ";") {
		if name = strings.TrimSpace(name); name != "" {
			o.Readers = append(o.Readers, name)
		}
	}
	return o
}

// junkOptions returns the settings of the junk filter.
func junkOptions(cfg *config.Config, stats *stat.Tree) junk.Options {
	c := &cfg.Junk
	return junk.Options{Threshold: float64(c.Threshold) / 100, Junk: c.Junk, Good: c.Good, Sharers: c.Shared,
		Memory: int64(c.Memory), Parts: mailbox.PartsOf, Stats: stats}
}

// neverIfZero returns -1 for 0: package mail reads 0 as its default and negative values as off.
func neverIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
