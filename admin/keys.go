package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/client/dns"
	"doublet/directory"
	"doublet/mail/sign"
	"doublet/note"
	"doublet/wire/dkim"
)

// Key is a key that signs mail of a domain.
type Key struct {
	Domain    string    `json:"domain"`
	Selector  string    `json:"selector"`
	Algorithm string    `json:"algorithm"`
	State     string    `json:"state"`
	Created   time.Time `json:"created"`
	Changed   time.Time `json:"changed"`
	// Record is the TXT record to publish at Name.
	Name   string `json:"name"`
	Record string `json:"record"`
}

// KeyAdd are the arguments of domain key add.
type KeyAdd struct {
	Domain    string `json:"domain" arg:"required" help:"local domain"`
	Algorithm string `json:"algorithm" help:"rsa or ed25519" default:"rsa"`
	Selector  string `json:"selector" help:"name of the key in DNS; without one it is made of the day"`
	Active    bool   `json:"active" help:"sign with it at once, though its record may not be published yet"`
}

// KeyList are the arguments of domain key list.
type KeyList struct {
	Domain string `json:"domain" arg:"optional" help:"local domain; all without it"`
}

// KeyRotate are the arguments of domain key rotate.
type KeyRotate struct {
	Domain string `json:"domain" arg:"required" help:"local domain"`
	Force  bool   `json:"force" help:"switch to the new keys even if their records are not seen in DNS"`
}

// KeyRemove are the arguments of domain key remove.
type KeyRemove struct {
	Domain   string `json:"domain" arg:"required" help:"local domain"`
	Selector string `json:"selector" arg:"required" help:"selector of the key"`
}

// Rotated is the state of a rotation.
type Rotated struct {
	Done string `json:"done"`
	Keys []Key  `json:"keys"`
}

const longRotate = `Rotation takes two runs. The first creates new keys, which do not sign yet, and shows the DNS
records to publish. The second, after DNS has those records, signs with the new keys and retires the old ones. Retired
keys stay published for mail in transit; the first rotation 30 days later removes them.`

func domainKeys() []*Verb {
	return []*Verb{
		define("domain key add", "give a domain one more DKIM key", keyAdd, changes),
		define("domain key list", "list DKIM keys with their records",
			func(ctx context.Context, c *Call, a *KeyList) ([]Key, error) {
				return c.keys(ctx, a.Domain)
			}),
		define("domain key rotate", "replace a domain's DKIM keys, in two runs", keyRotate, changes, long(longRotate)),
		define("domain key remove", "destroy a DKIM key; mail that it signed cannot be checked any more",
			keyRemove, changes),
	}
}

// localDomains returns the domains of a verb: the named one, or all.
func (c *Call) localDomains(ctx context.Context, name string) ([]string, error) {
	if name == "" {
		return c.Directory.Domains.List(ctx)
	}
	d, err := c.domain(ctx, name)
	return []string{d.Name}, err
}

func (c *Call) keys(ctx context.Context, domain string) ([]Key, error) {
	domains, err := c.localDomains(ctx, domain)
	if err != nil {
		return nil, err
	}
	out := []Key{}
	for _, d := range domains {
		// Read the keys as the server, and return only their public parts.
		list, err := c.Directory.DKIMKeys.Of(ctx, note.System, d)
		if err != nil {
			return nil, err
		}
		for i := range list {
			k, err := keyOf(&list[i])
			if err != nil {
				return nil, err
			}
			out = append(out, k)
		}
	}
	return out, nil
}

func keyOf(k *directory.DKIMKey) (Key, error) {
	name, text, err := sign.Record(k)
	return Key{
		Domain: k.Domain, Selector: k.Selector, Algorithm: k.Algorithm, State: string(k.State), Created: k.Created,
		Changed: k.Changed,
		Name:    name, Record: text,
	}, err
}

func keyAdd(ctx context.Context, c *Call, a *KeyAdd) (Key, error) {
	d, err := c.domain(ctx, a.Domain)
	if err != nil {
		return Key{}, err
	}
	state := directory.KeyNext
	if a.Active {
		state = directory.KeyActive
	}
	now := c.Env.Clock.Now()
	made, err := sign.Add(ctx, c.Directory, c.Who, d.Name, a.Algorithm, strings.ToLower(a.Selector), state, now)
	if err != nil {
		return Key{}, err
	}
	made.Created, made.Changed = now.UTC().Truncate(time.Second), now.UTC().Truncate(time.Second)
	return keyOf(&made)
}

func keyRotate(ctx context.Context, c *Call, a *KeyRotate) (Rotated, error) {
	d, err := c.domain(ctx, a.Domain)
	if err != nil {
		return Rotated{}, err
	}
	have, err := c.keys(ctx, d.Name)
	if err != nil {
		return Rotated{}, err
	}
	var out Rotated
	if !slices.ContainsFunc(have, func(k Key) bool { return k.State == string(directory.KeyNext) }) {
		if err := sign.Prepare(ctx, c.Directory, c.Who, d.Name, c.Env.Clock.Now()); err != nil {
			return out, err
		}
		out.Done = "made new keys: publish the records of those that are next, then run this again"
	} else {
		var next []string
		for _, k := range have {
			if k.State != string(directory.KeyNext) {
				continue
			}
			if next = append(next, k.Selector); a.Force {
				continue
			}
			if seen, err := c.published(ctx, &k); err != nil {
				return out, fmt.Errorf("look up %s: %w; --force switches all the same", k.Name, err)
			} else if !seen {
				return out,
					fmt.Errorf("record of %s is not in DNS yet: publish it (doublet dns show %s), wait, retry; or "+
						"add --force", k.Name, d.Name)
			}
		}
		if err := sign.Switch(ctx, c.Directory, c.Who, d.Name, next); err != nil {
			return out, err
		}
		out.Done = "the new keys sign; leave the records of those that are retired for 30 days"
	}
	out.Keys, err = c.keys(ctx, d.Name)
	return out, err
}

// published reports whether a key's record is in DNS.
func (c *Call) published(ctx context.Context, k *Key) (bool, error) {
	texts, _, err := c.DNS.TXT(ctx, k.Name)
	if errors.Is(err, dns.ErrNotFound) {
		return false, nil
	}
	// A second record beside it, or a mistake in it, makes the key unusable.
	if _, bad := dkim.ParseKey(texts); err != nil || bad != nil {
		return false, err
	}
	return sameKey(texts[0], k.Record), nil
}

// sameKey reports whether two key records contain the same key. White space may differ.
func sameKey(a, b string) bool {
	key := func(s string) string {
		for part := range strings.SplitSeq(s, ";") {
			name, value, _ := strings.Cut(part, "=")
			if strings.TrimSpace(name) == "p" {
				return strings.Join(strings.Fields(value), "")
			}
		}
		return ""
	}
	return key(a) != "" && key(a) == key(b)
}

func keyRemove(ctx context.Context, c *Call, a *KeyRemove) (Done, error) {
	d, err := c.domain(ctx, a.Domain)
	if err != nil {
		return Done{}, err
	}
	found := false
	err = c.Directory.DKIMKeys.Edit(ctx, c.Who, d.Name, func(have []directory.DKIMKey) ([]directory.DKIMKey, error) {
		rest := slices.DeleteFunc(slices.Clone(have),
			func(k directory.DKIMKey) bool { return k.Selector == a.Selector })
		found = len(rest) < len(have)
		return rest, nil
	})
	if err == nil && !found {
		err = fmt.Errorf("key %q of %s: %w", a.Selector, d.Name, directory.ErrNotFound)
	}
	return Done{"removed the key " + a.Selector + " of " + d.Name}, err
}

// EnsureKeys creates DKIM keys for a domain if mail is to be signed and it has none.
func (s *System) EnsureKeys(ctx context.Context, who note.Who, domain string) error {
	if !s.Publish.DKIM {
		return nil
	}
	_, err := sign.Ensure(ctx, s.Directory, who, domain, s.Env.Clock.Now())
	return err
}
