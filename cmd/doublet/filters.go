package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"doublet/client/milter"
	"doublet/client/rspamd"
	"doublet/cmd/doublet/config"
	"doublet/mail/inbound"
	"doublet/mail/verify"
)

// openFilters creates the checks of incoming mail from the settings of [verify] and [filter].
func (h *front) openFilters(cfg *config.Config) (*inbound.Service, error) {
	checks, err := verifyOptions(cfg, h.system.Stats)
	if err != nil {
		return nil, fmt.Errorf("settings of verify: %w", err)
	}
	c := &cfg.Filter
	o := inbound.Options{Quiet: !h.cfg.Log.Messages,
		Hostname: cfg.Server.Name, Verify: verify.New(h.env, h.system.DNS, checks), Submissions: c.Submissions,
		Stats:        h.system.Stats,
		Observer:     h.reports.desk,
		MilterAccept: c.MilterFail == "accept", RspamdAccept: c.RspamdFail == "accept",
	}
	for _, a := range strings.Fields(c.Milters) {
		network, address, err := milter.ParseAddress(a)
		if err != nil {
			return nil, fmt.Errorf("settings of filter: %w", err)
		}
		o.Milters = append(o.Milters, milter.New(h.env, milter.Options{
			Network: network, Address: address, Connect: c.MilterTimeout.Duration, Command: c.MilterTimeout.Duration,
			Message: 10 * c.MilterTimeout.Duration, MaxBody: int(cfg.Limits.MessageSize),
		}))
	}
	if c.Rspamd != "" {
		if u, err := url.Parse(c.Rspamd); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("settings of filter: rspamd %q is no URL such as http://127.0.0.1:11333", c.Rspamd)
		}
		o.Rspamd = rspamd.New(h.env, rspamd.Options{URL: c.Rspamd, Password: c.RspamdPassword,
			Timeout: c.RspamdTimeout.Duration})
		h.closes("rspamd", func(context.Context) error { o.Rspamd.Close(); return nil })
	}
	return inbound.New(h.env, o), nil
}
