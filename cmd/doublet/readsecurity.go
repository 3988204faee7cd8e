package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/probe/check"
	"doublet/serve/smtpd"
	"doublet/wire/smtp"
)

// strangersRelay reports whether the door smtp takes a recipient in another domain from a client that is not signed in.
func (r *readings) strangersRelay(ctx context.Context, to smtp.Path) (bool, error) {
	door := smtpd.NewBackend(r.signIn, r.system.Directory, r.system.Mail, r.env)
	err := door.Recipient(ctx, &smtpd.Envelope{Session: &smtpd.Session{Kind: smtpd.SMTP}}, &smtpd.Recipient{To: to})
	return err == nil, err
}

// signIns returns the failed sign-ins since the last reading.
func (r *readings) signIns() check.SignIns {
	return check.SignIns{Failed: uint64(r.since("SignInRate", r.value("SignIn.Failures"))), Bans: len(r.signIn.Bans())}
}

const (
	// attackLeast is the number of failures from which an account or address is looked at, attackRows the number of
	// accounts and of addresses that one reading looks at: those that were tried last.
	attackLeast = 5
	attackRows  = 1000
)

func (r *readings) attacks() (out []check.Attack) {
	for _, a := range r.signIn.Attacks(attackLeast, attackRows) {
		out = append(out, check.Attack{Account: a.Account, Address: a.Address, Failed: a.Failures})
	}
	return out
}

// certificates returns the certificates of the doors and that of the cluster.
func (r *readings) certificates() (out []check.Cert) {
	now := r.env.Clock.Now()
	for _, c := range r.certs.Show() {
		x := check.Cert{Name: strings.Join(c.Names, ", "), Error: c.Error}
		if !c.Until.IsZero() {
			x.Left = c.Until.Sub(now)
		}
		out = append(out, x)
	}
	if f, err := r.member.Folder(); err == nil && f != nil {
		out = append(out, check.Cert{Name: "the cluster " + f.Cluster(), Left: f.Identity().Until.Sub(now)})
	}
	return out
}

// signingKeys returns the age of the DKIM key of each local domain.
func (r *readings) signingKeys(ctx context.Context) (out []check.DKIM, err error) {
	if !r.cfg.Sign.DKIM {
		return nil, nil
	}
	domains, err := r.system.Directory.Domains.List(ctx)
	for i := 0; err == nil && i < len(domains); i++ {
		var keys []directory.DKIMKey
		keys, err = r.system.Directory.DKIMKeys.Of(ctx, note.System, domains[i])
		x := check.DKIM{Domain: domains[i], Missing: true}
		for k := range keys {
			if keys[k].State == directory.KeyActive { // the oldest first
				x.Missing, x.Age = false, r.env.Clock.Now().Sub(keys[k].Created)
			}
		}
		out = append(out, x)
	}
	return out, err
}

// blocklists looks up the addresses of this server.
func (r *readings) blocklists(ctx context.Context) (out []check.Listed, err error) {
	for _, word := range strings.Fields(r.cfg.Probes.Addresses) {
		ip, err := netip.ParseAddr(word)
		if err != nil {
			return nil, fmt.Errorf("probes.addresses: %w", err)
		}
		for _, zone := range strings.Fields(r.cfg.Probes.Blocklists) {
			reason, listed, err := verify.ListedIn(ctx, r.system.DNS, ip, zone)
			if err != nil {
				return nil, fmt.Errorf("block list %s: %w", zone, err)
			}
			if listed {
				out = append(out, check.Listed{Address: word, List: zone, Text: reason})
			}
		}
	}
	return out, nil
}

// weakSettings returns the settings that weaken the server.
func (r *readings) weakSettings() (out []check.Weak) {
	c := &r.cfg
	for _, w := range []struct {
		weak bool
		check.Weak
	}{
		{c.Limits.SignInFailures == 0, check.Weak{Setting: "limits.sign_in_failures",
			Cause: "no address is ever banned, whatever the number of passwords that it tries", Remedy: "set it to " +
				"10"}},
		{everybody(c.Web.Monitors), check.Weak{Setting: "web.monitors",
			Cause: "everyone may read the status page and the statistics", Remedy: "name the addresses of your " +
				"monitors"}},
		{everybody(c.Server.Proxies) || everybody(c.Web.Proxies), check.Weak{Setting: "server.proxies, web.proxies",
			Cause: "every client may claim to be another one", Remedy: "name the addresses of your proxies"}},
		{everybody(c.Web.AdminReach), check.Weak{Setting: "web.admin_reach",
			Cause:  "who administers the server reaches every host of its network through it",
			Remedy: "name the networks that are needed"}},
		{c.Router.SmarthostUser != "" && (c.Router.SmarthostTLS == "none" || c.Router.SmarthostTLS == "may"),
			check.Weak{Setting: "router.smarthost_tls", Cause: "the password for the smarthost may travel without TLS",
				Remedy: "set it to verify"}},
		{c.Verify.DMARC == "off" && c.Verify.SPF == "off", check.Weak{Setting: "verify.dmarc, verify.spf",
			Cause: "mail with a forged sender is not told from other mail", Remedy: "set verify.dmarc to mark or " +
				"reject"}},
	} {
		if w.weak {
			out = append(out, w.Weak)
		}
	}
	return out
}

// everybody reports whether a list of networks holds all addresses.
func everybody(networks string) bool {
	return slices.ContainsFunc(strings.Fields(networks), func(s string) bool { return strings.HasSuffix(s, "/0") })
}

// clusterTroubles returns what this server's node sees, nothing without a cluster.
func (r *readings) clusterTroubles() (out []check.Trouble) {
	n := r.member.Node()
	if n == nil {
		return nil
	}
	for _, e := range n.Events() {
		out = append(out, check.Trouble{Kind: string(e.Kind), Server: e.Server, Cause: e.Cause})
	}
	return out
}

// connections returns the connection documents that this server runs.
func (r *readings) connections(ctx context.Context) (out []check.Link, err error) {
	list, err := r.system.Directory.Connections.List(ctx, note.System)
	for i := range list {
		c := &list[i]
		s := r.running.Replicator.Status(c)
		if s.State != "waiting" || s.Runs == 0 || c.Until != c.From {
			continue
		}
		out = append(out, check.Link{Name: c.Name, Error: s.Error, Age: r.env.Clock.Now().Sub(s.LastRun),
			Every: c.Every})
	}
	return out, err
}

// assistance returns the other directories that cannot be used now.
func (r *readings) assistance(ctx context.Context) (out []check.Unreachable, err error) {
	list, err := r.system.Directory.Assistance.Away(ctx)
	for i := range list {
		out = append(out, check.Unreachable{Name: list[i].Name, Error: list[i].Err.Error()})
	}
	return out, err
}

// dirPage is the number of documents that one read of the directory holds,
// dirMost the number of groups and of names that
// a probe looks at.
const (
	dirPage = 500
	dirMost = 100_000
)

// members returns the groups with members that do not exist.
func (r *readings) members(ctx context.Context) (out []check.Missing, err error) {
	d := r.system.Directory
	for after, n := "", 0; n < dirMost; n += dirPage {
		list, next, err := d.Groups.List(ctx, "", dirPage, after)
		if err != nil {
			return nil, err
		}
		for i := range list {
			g := &list[i]
			var missing []string
			for _, m := range g.Members {
				id, err := note.ParseUNID(m)
				if err != nil {
					continue // an address elsewhere
				}
				if _, err := d.Names.TargetOf(ctx, id); errors.Is(err, directory.ErrNotFound) {
					missing = append(missing, m)
				}
			}
			if len(missing) > 0 && g.Removed.IsZero() {
				out = append(out, check.Missing{Group: g.Name, Members: missing})
			}
		}
		if after = next; next == "" {
			break
		}
	}
	return out, nil
}

// namesTwice returns the names that several people have. The list of people is sorted by name.
func (r *readings) namesTwice(ctx context.Context) (out []check.Twice, err error) {
	last, ids := "", []string{}
	end := func() {
		if len(ids) > 1 {
			out = append(out, check.Twice{Name: last, Of: ids})
		}
	}
	for after, n := "", 0; n < dirMost; n += dirPage {
		list, next, err := r.system.Directory.People.List(ctx, "", dirPage, after)
		if err != nil {
			return nil, err
		}
		for i := range list {
			p := &list[i]
			if !p.Removed.IsZero() {
				continue
			}
			if name := strings.ToLower(p.Name()); name != last {
				end()
				last, ids = name, nil
			}
			ids = append(ids, p.ID.String())
		}
		if after = next; next == "" {
			break
		}
	}
	end()
	return out, nil
}
