package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/directory/passkey"
	"doublet/mail"
	"doublet/serve/signin"
	"doublet/serve/websession"
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
		h.issuer, err = oauth.New(h.env, oauth.Options{Issuer: cfg.OAuth.Issuer, Audience: cfg.OAuth.Audience,
			Claim: cfg.OAuth.Claim, Stats: s.Stats})
		if err != nil {
			return err
		}
		o.OAuth = h.issuer
	}
	h.signIn = signin.New(signin.PeopleOf(s.Directory), h.env, o)
	h.running.Bans = bans{h.signIn}
	return nil
}

// newPasskeys returns the service of passkeys, nil if the settings do not allow them or the web address is one at which
// browsers do not.
func newPasskeys(h *server, in *signin.Web) *signin.Passkeys {
	if !h.cfg.Web.Passkeys {
		return nil
	}
	party, err := passkey.New(webOrigin(&h.cfg), h.system.Name)
	if err != nil {
		h.env.Log.Info("passkeys are off: set web.url to the https address of the web pages", "error", err)
		return nil
	}
	return in.Passkeys(h.system.Directory.Passkeys, party, h.system.Directory.Secret.Key("passkeys"))
}

// newOpenID returns the sign-in at the issuer's pages, nil if the settings do not offer it.
func newOpenID(h *server, in *signin.Web) (*websession.OpenID, error) {
	c := &h.cfg.OAuth
	if !c.Web {
		return nil, nil //nolint:nilnil // off
	}
	if h.issuer == nil {
		return nil, &exitError{exitUsage, errors.New("settings of [oauth]: web needs an issuer")}
	}
	secret := ""
	if c.SecretFile != "" {
		text, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("settings of [oauth]: client_secret_file: %w", err)}
		}
		secret = strings.TrimSpace(string(text))
	}
	name := c.WebName
	if u, err := url.Parse(c.Issuer); err == nil && name == "" {
		name = u.Hostname()
	}
	client := h.issuer.Client(secret, webOrigin(&h.cfg)+websession.PathOpenIDBack)
	return &websession.OpenID{OpenID: in.OpenID(client, h.system.Directory.Secret.Key("openid")), Name: name}, nil
}

// webOrigin returns the address of the web pages, to which passkeys are bound: web.url without its path, or the https
// door at server.name. At localhost the http door counts, because browsers trust it and not the certificate there.
func webOrigin(cfg *config.Config) string {
	if u, err := url.Parse(cfg.Web.URL); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	scheme, door, usual := "https", cfg.Doors.HTTPS, "443"
	if cfg.Server.Name == "localhost" && cfg.Doors.HTTP != config.Off {
		scheme, door, usual = "http", cfg.Doors.HTTP, "80"
	}
	_, port, err := net.SplitHostPort(door)
	if err != nil || port == usual {
		return scheme + "://" + cfg.Server.Name
	}
	return scheme + "://" + net.JoinHostPort(cfg.Server.Name, port)
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
