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
func (h *server) openSignIn() (err error) {
	s, cfg := h.system, &h.cfg
	o := signin.Options{
		SCRAM: cfg.Directory.SCRAM, Failures: cfg.Limits.SignInFailures, Window: cfg.Limits.SignInWindow.Duration,
		Ban: cfg.Limits.SignInBan.Duration, Loopback: cfg.Limits.SignInLoopback, Keep: h.memory.Table("bans"),
		Stats: s.Stats,
		Guessed: func(ctx context.Context, p *directory.Person, from string, locked bool) error {
			return mail.TellOfGuesses(ctx, s.Mail.Deposits, p, mail.Guesses{From: from, Locked: locked})
		},
	}
	if o.Failures == 0 {
		o.Failures = -1
	}
	if cfg.OAuth.Issuer != "" {
		o.OAuth, err = oauth.New(h.env, oauth.Options{Issuer: cfg.OAuth.Issuer, Audience: cfg.OAuth.Audience,
			Claim: cfg.OAuth.Claim, Stats: s.Stats})
		if err != nil {
			return err
		}
	}
	h.signIn = signin.New(signin.PeopleOf(s.Directory), h.env, o)
	h.running.Bans = bans{h.signIn}
	return nil
}

// bans shows verbs the bans of a sign-in service.
type bans struct{ in *signin.Service }

// List implements admin.Bans.
func (b bans) List() []admin.Ban {
	list := []admin.Ban{}
	for _, x := range b.in.Bans() {
		list = append(list, admin.Ban{
			Address: x.Address.String(), Failures: x.Failures, Door: x.Door,
			Since: x.Since.UTC().Truncate(time.Second), Until: x.Until.UTC().Truncate(time.Second),
		})
	}
	return list
}

// Remove implements admin.Bans.
func (b bans) Remove(a netip.Addr) bool { return b.in.RemoveBan(a) }
