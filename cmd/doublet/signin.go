package main

import (
	"context"
	"net/netip"
	"time"

	"doublet/admin"
	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/mail"
	"doublet/serve/signin"
)

// openSignIn creates the sign-in service of all doors.
func (h *house) openSignIn() (*signin.Service, error) {
	s, cfg := h.system, &h.cfg
	o := signin.Options{
		SCRAM: cfg.Directory.SCRAM, Failures: cfg.Limits.SignInFailures, Window: cfg.Limits.SignInWindow.Duration,
		Ban: cfg.Limits.SignInBan.Duration, Loopback: cfg.Limits.SignInLoopback, Keep: h.memory.Table("bans"), Stats: s.Stats,
		Guessed: func(ctx context.Context, p *directory.Person, from string, locked bool) error {
			return mail.TellOfGuesses(ctx, s.Mail.Deposits, p, mail.Guesses{From: from, Locked: locked})
		},
	}
	if o.Failures == 0 {
		o.Failures = -1
	}
	if cfg.OAuth.Issuer != "" {
		var err error
		o.OAuth, err = oauth.New(h.env, oauth.Options{Issuer: cfg.OAuth.Issuer, Audience: cfg.OAuth.Audience, Claim: cfg.OAuth.Claim, Stats: s.Stats})
		if err != nil {
			return nil, err
		}
	}
	in := signin.New(signin.PeopleOf(s.Directory), h.env, o)
	s.Bans = func() []admin.Ban {
		list := []admin.Ban{}
		for _, b := range in.Bans() {
			list = append(list, admin.Ban{Address: b.Address.String(), Failures: b.Failures, Door: b.Door, Since: b.Since.UTC().Truncate(time.Second), Until: b.Until.UTC().Truncate(time.Second)})
		}
		return list
	}
	s.RemoveBan = func(a netip.Addr) bool { return in.RemoveBan(a) }
	return in, nil
}
