package check

import (
	"fmt"
	"strings"
	"time"

	"doublet/probe"
)

// SignIns are the failed sign-ins since the last reading, and the addresses that are banned now.
type SignIns struct {
	Failed uint64
	Bans   int
}

// SignInRate reports many failed sign-ins.
var SignInRate = probe.Check[SignIns]{
	Kind: probe.Kind{Type: probe.Security, Name: "SignInRate",
		What:  "failed sign-ins at all doors in 10 minutes",
		Cause: "Somebody guesses passwords from many addresses, or a program has an old password.",
		Remedy: "Look at the log and at `ban list`. Close doors that nobody needs from outside; ask people to use a " +
			"second factor.",
		Every: 10 * time.Minute, Clear: 20 * time.Minute,
		Limits: []probe.Limit{low(300, probe.Number), high(3000, probe.Number)}},
	Find: func(v SignIns, l probe.Limits) []probe.Finding {
		s, bad := l.Above(float64(v.Failed))
		return one(s, bad, "", fmt.Sprintf("%d sign-ins failed in 10 minutes; %s banned", v.Failed,
			plural(v.Bans, "address")))
	},
}

// Attack is an account or an address with many failed sign-ins.
type Attack struct {
	// Account is the name that was tried, or Address the address that tried.
	Account, Address string
	Failed           int
}

// SignInAttack reports one account that many fail to sign in to, and one address from which many sign-ins fail.
var SignInAttack = probe.Check[[]Attack]{
	Kind: probe.Kind{Type: probe.Security, Name: "SignInAttack",
		What:  "failed sign-ins of one account, or from one address, within limits.sign_in_window",
		Cause: "Somebody guesses the password of one account, or from one address.",
		Remedy: "Ask the person; set a new password if in doubt. An address is banned by itself after " +
			"limits.sign_in_failures.",
		Every: time.Minute, Clear: 30 * time.Minute,
		Limits: []probe.Limit{low(50, probe.Number), high(500, probe.Number)}},
	Find: func(list []Attack, l probe.Limits) (out []probe.Finding) {
		for _, a := range list {
			target, text := "account "+a.Account, "%d sign-ins to the account "+
				strings.ReplaceAll(a.Account, "%", "%%")+" failed"
			if a.Account == "" {
				target, text = "address "+a.Address, "%d sign-ins from "+a.Address+" failed"
			}
			s, bad := l.Above(float64(a.Failed))
			out = append(out, one(s, bad, target, fmt.Sprintf(text, a.Failed))...)
		}
		return out
	},
}

// Cert is a certificate of the server.
type Cert struct {
	// Name holds its host names, or names its cluster.
	Name  string
	Left  time.Duration
	Error string
}

// Certificate reports certificates that expire or cannot be renewed.
var Certificate = probe.Check[[]Cert]{
	Kind: probe.Kind{Type: probe.Security, Name: "Certificate",
		What: "time until a certificate ends: those of the doors and that of the cluster; failure when it has ended",
		Cause: "The certificate was not renewed: the file was not replaced, or the ACME authority cannot reach the " +
			"server.",
		Remedy: "`certificate show` says why. Replace the file, or open port 80 and `certificate renew`.",
		Every:  time.Hour, Clear: time.Minute,
		Limits: []probe.Limit{low((14 * day).Seconds(), probe.Time), high((5 * day).Seconds(), probe.Time)}},
	Find: func(list []Cert, l probe.Limits) (out []probe.Finding) {
		for _, c := range list {
			s, bad := l.Below(c.Left.Seconds())
			text := "the certificate of " + c.Name + " ends in " + age(c.Left)
			switch {
			case c.Error != "" && c.Left == 0:
				s, bad, text = probe.WarningHigh, true, "there is no certificate of "+c.Name
			case c.Left <= 0:
				s, bad, text = probe.Failure, true, "the certificate of "+c.Name+" has ended"
			}
			if c.Error != "" {
				text += ": " + c.Error
			}
			out = append(out, one(s, bad, c.Name, text)...)
		}
		return out
	},
}

// DKIM is the signing key of a domain.
type DKIM struct {
	Domain string
	// Missing means that no key signs. Age is the age of the youngest key that signs.
	Missing bool
	Age     time.Duration
}

// SigningKey reports domains whose mail is not signed, or with an old key.
var SigningKey = probe.Check[[]DKIM]{
	Kind: probe.Kind{Type: probe.Security, Name: "SigningKey",
		What:  "DKIM keys: a domain without an active key, or with an old one; off if sign.dkim is off",
		Cause: "No key was made for the domain, or it was never rotated.",
		Remedy: "`domain key add DOMAIN`, publish the record that it prints, `domain key activate`. See " +
			"doc/operate.md.",
		Every: 6 * time.Hour, Hold: day, Clear: time.Minute,
		Limits: []probe.Limit{low((2 * 365 * day).Seconds(), probe.Time)}},
	Find: func(list []DKIM, l probe.Limits) (out []probe.Finding) {
		for _, k := range list {
			s, bad := l.Older(k.Age)
			text := "the DKIM key of " + k.Domain + " is " + age(k.Age) + " old"
			if k.Missing {
				s, bad, text = probe.WarningLow, true, "no DKIM key signs the mail of "+k.Domain
			}
			out = append(out, one(s, bad, k.Domain, text)...)
		}
		return out
	},
}

// Relay holds the verdict of a door on a stranger who sends to an address elsewhere.
type Relay struct {
	Door    string
	Address string
	Takes   bool
}

// OpenRelay reports doors at which strangers may send to other domains.
var OpenRelay = probe.Check[[]Relay]{
	Kind: probe.Kind{Type: probe.Security, Name: "OpenRelay",
		What:   "the rule of the door smtp for a stranger's mail to another domain, asked without any traffic",
		Cause:  "The server forwards mail of strangers to anybody: it will soon be in every block list.",
		Remedy: "Close the door smtp, and report the error: no setting allows this.",
		Every:  time.Hour, Clear: time.Minute},
	Find: func(list []Relay, _ probe.Limits) (out []probe.Finding) {
		for _, r := range list {
			out = append(out, one(probe.Fatal, r.Takes, r.Door, "the door "+r.Door+" takes mail of strangers for "+
				r.Address)...)
		}
		return out
	},
}

// Listed is an address of this server and a block list that lists it.
type Listed struct{ Address, List, Text string }

// BlockList reports block lists that list this server.
var BlockList = probe.Check[[]Listed]{
	Kind: probe.Kind{Type: probe.Security, Name: "BlockList",
		What:   "DNS block lists (probes.blocklists) that list this server (probes.addresses); off without them",
		Cause:  "Junk was sent from this server, or the network has a bad reputation.",
		Remedy: "Find the sender (`show queue`, the log), then ask the list to remove the address.",
		Every:  time.Hour, Clear: time.Minute},
	Find: func(list []Listed, _ probe.Limits) (out []probe.Finding) {
		for _, x := range list {
			out = append(out, one(probe.Failure, true, x.Address+" in "+x.List,
				strings.TrimSpace(x.Address+" is listed in "+x.List+" "+x.Text))...)
		}
		return out
	},
}

// Weak is a setting that weakens the server.
type Weak struct{ Setting, Cause, Remedy string }

// WeakSetting reports settings that weaken the server.
var WeakSetting = probe.Check[[]Weak]{
	Kind: probe.Kind{Type: probe.Security, Name: "WeakSetting",
		What: "settings that weaken the server: passwords that may be guessed without an end, statistics for " +
			"everyone, relays without TLS",
		Cause:  "The setting was changed from its default.",
		Remedy: "Set it back, or close the event permanently if it is meant so.",
		Every:  time.Hour, Clear: time.Minute},
	Find: func(list []Weak, _ probe.Limits) (out []probe.Finding) {
		for _, w := range list {
			out = append(out, probe.Finding{Target: w.Setting, Severity: probe.WarningLow, Cause: w.Cause,
				Remedy: w.Remedy})
		}
		return out
	},
}
