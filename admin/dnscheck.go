package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"doublet/client/dns"
	"doublet/directory"
	"doublet/mail/verify"
)

// DNSCheck is the result of checking one record.
type DNSCheck struct {
	// State is ok, missing, wrong, optional (missing, but mail delivery does not need it) or unknown (the name servers
	// failed).
	State string `json:"state"`
	Name  string `json:"name"`
	Type  string `json:"type"`
	Found string `json:"found,omitempty"`
	// Do is the advice to the administrator.
	Do string `json:"do,omitempty"`
}

// DNSChecks are the results of dns check.
type DNSChecks []DNSCheck

// Bad reports whether a record is missing, wrong or unknown.
func (d DNSChecks) Bad() bool {
	return slices.ContainsFunc(d,
		func(c DNSCheck) bool { return c.State == "missing" || c.State == "wrong" || c.State == "unknown" })
}

func dnsCheck(ctx context.Context, c *Call, a *DNSDomain) (DNSChecks, error) {
	records, err := c.dnsRecords(ctx, a.Domain)
	if err != nil {
		return nil, err
	}
	ctx = dns.Fresh(ctx)
	k := &checker{c: c, host: asciiName(c.Name)}
	k.addresses, _, k.failed = c.DNS.Addresses(ctx, k.host)
	out := DNSChecks{}
	for i := range records {
		c.Progress(Progress{Stage: "dns", Done: uint64(i), Text: records[i].Name})
		out = append(out, k.check(ctx, &records[i])...)
	}
	return out, nil
}

// checker holds the data that many checks need.
type checker struct {
	c         *Call
	host      string
	addresses []netip.Addr
	failed    error // why addresses is empty
}

func (k *checker) check(ctx context.Context, r *DNSRecord) []DNSCheck {
	out := DNSCheck{State: "ok", Name: r.Name, Type: r.Type}
	publish := "publish: " + r.Name + ". IN " + r.Type + " " + r.Data
	switch r.kind {
	case kindHost:
		return k.server(ctx)
	case kindNoKey:
		return []DNSCheck{{State: "missing", Name: "_domainkey." + asciiName(r.Domain), Type: r.Type,
			Do: "mail is not signed: doublet domain key add " + r.Domain +
				" --active, then publish the record that it shows"}}
	case kindDKIM:
		if r.key.State == string(directory.KeyNext) {
			publish += "; then: doublet domain key rotate " + r.Domain
		}
	case kindTLSA:
		publish = "in a zone that is signed with DNSSEC, " + publish
	}
	ok, err := k.compare(ctx, r, &out)
	switch {
	case errors.Is(err, dns.ErrNotFound) && r.Optional:
		out.State, out.Do = "optional", publish
	case errors.Is(err, dns.ErrNotFound):
		out.State, out.Do = "missing", publish
	case err != nil:
		out.State, out.Do = "unknown", "name servers failed, look again later: "+err.Error()
	case !ok:
		out.State, out.Do = "wrong", cmp.Or(out.Do, publish)
	}
	return []DNSCheck{out}
}

// compare compares the published records of one kind with r. ok is false if they differ; out then says how.
func (k *checker) compare(ctx context.Context, r *DNSRecord, out *DNSCheck) (ok bool, err error) {
	switch r.kind {
	case kindMX:
		return k.mx(ctx, r, out)
	case kindSPF, kindHeloSPF:
		return k.spf(ctx, r, out)
	case kindDKIM:
		return k.texts(ctx, r, out, "p=", func(t string) bool { return sameKey(t, r.key.Record) })
	case kindDMARC:
		return k.dmarc(ctx, r, out)
	case kindSTS:
		return k.texts(ctx, r, out, "v=STSv1", func(t string) bool { return strings.Contains(t, "id=") })
	case kindReport:
		return k.texts(ctx, r, out, "v=TLSRPTv1", func(t string) bool { return strings.Contains(t, "rua=") })
	case kindTLSA:
		return k.tlsa(ctx, r, out)
	case kindSRV:
		return k.srv(ctx, r, out)
	case kindAlias:
		return k.alias(ctx, r, out)
	case kindCAA:
		return k.caa(ctx, r, out)
	}
	return false, nil
}

// server checks the addresses of the server's name, and the reverse names of these addresses.
func (k *checker) server(ctx context.Context) []DNSCheck {
	if k.failed != nil {
		state, do := "unknown", "name servers failed, look again later: "+k.failed.Error()
		if errors.Is(k.failed, dns.ErrNotFound) {
			state, do = "missing", "give "+k.host+
				" its public addresses (A, AAAA), or set server.name to a name that has some"
		}
		return []DNSCheck{{State: state, Name: k.host, Type: "A", Do: do}}
	}
	out := []DNSCheck{}
	for _, a := range k.addresses {
		typ := "AAAA"
		if a.Is4() {
			typ = "A"
		}
		one := DNSCheck{State: "ok", Name: k.host, Type: typ, Found: a.String()}
		if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() {
			one.State, one.Do = "wrong", "this is no public address: others cannot send mail there"
		}
		out = append(out, one)
		names, _, err := k.c.DNS.PTR(ctx, a)
		back := DNSCheck{State: "ok", Name: a.String(), Type: "PTR", Found: strings.Join(names, " ")}
		const ask = "ask whoever gave you the address to make its reverse name "
		switch {
		case errors.Is(err, dns.ErrNotFound):
			back.State, back.Do = "missing", ask+k.host
		case err != nil:
			back.State, back.Do = "unknown", "name servers failed, look again later: "+err.Error()
		case !slices.Contains(names, k.host):
			back.State, back.Do = "wrong", ask+k.host
		}
		out = append(out, back)
	}
	return out
}

func (k *checker) mx(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	list, _, err := k.c.DNS.MX(ctx, r.Name)
	ours := false
	for _, mx := range list {
		out.Found = strings.TrimSpace(fmt.Sprintf("%s %d %s", out.Found, mx.Pref, mx.Host))
		ours = ours || mx.Host == k.host
	}
	return ours, err
}

// texts checks the TXT record that contains mark. There must be exactly one.
func (k *checker) texts(ctx context.Context, r *DNSRecord, out *DNSCheck, mark string,
	good func(string) bool) (bool, error) {
	list, _, err := k.c.DNS.TXT(ctx, r.Name)
	if err != nil {
		return false, err
	}
	found := 0
	for _, t := range list {
		if strings.Contains(t, mark) {
			out.Found = t
			found++
		}
	}
	if found == 0 {
		return false, dns.ErrNotFound
	}
	if found > 1 {
		out.Do = "leave one of them: several are none"
		return false, nil
	}
	return good(out.Found), nil
}

func (k *checker) spf(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	ok, err := k.texts(ctx, r, out, "v=spf1", verify.ValidSPF)
	if err != nil || !ok {
		return ok, err
	}
	for _, a := range k.addresses {
		switch result := verify.CheckSPF(ctx, k.c.DNS, a, k.host, "postmaster@"+r.Name); result {
		case verify.Pass:
		case verify.TempError:
			return false, fmt.Errorf("SPF of %s: %w", r.Name, dns.ErrTemporary)
		default:
			out.Do = fmt.Sprintf("it does not let %s send (%s): add mx, or ip4: and ip6: of the server", a, result)
			return false, nil
		}
	}
	return true, nil
}

func (k *checker) dmarc(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	ok, err := k.texts(ctx, r, out, "v=DMARC1", func(t string) bool { _, is := verify.ParseRecord(t); return is })
	if policy, is := verify.ParseRecord(out.Found); ok && is && policy.Policy == "none" {
		out.Do = "p=none asks nobody to act: raise it to quarantine or reject when all your senders pass"
	}
	return ok, err
}

func (k *checker) tlsa(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	list, secure, err := k.c.DNS.TLSA(ctx, r.Name)
	if err != nil {
		return false, err
	}
	if !secure {
		// The record does no harm there.
		out.Found, out.Do = "not signed with DNSSEC, or the resolver is not trusted to say so",
			"sign the zone (or see dns.trusted): without that nobody looks at the record"
		return true, nil
	}
	if k.c.running == nil {
		out.Found = "there; the certificate is known while the server runs"
		return true, nil
	}
	leaf := k.c.leaf(k.host)
	for _, t := range list {
		out.Found = fmt.Sprintf("%d %d %d %x", t.Usage, t.Selector, t.Matching, t.Data)
		if leaf == nil || t.Usage == 2 || t.Usage == 0 { // the certificate of an authority
			return true, nil
		}
		data := leaf.Raw
		if t.Selector == 1 {
			data = leaf.RawSubjectPublicKeyInfo
		}
		sum := sha256.Sum256(data)
		if t.Matching == 1 && string(t.Data) == string(sum[:]) || t.Matching == 0 && string(t.Data) == string(data) {
			return true, nil
		}
	}
	out.Do = "no record fits the certificate: servers that look at DANE deliver nothing. Publish: " + r.Name +
		". IN TLSA " + r.Data
	return false, nil
}

func (k *checker) srv(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	list, _, err := k.c.DNS.SRV(ctx, r.Name)
	ok := false
	for _, s := range list {
		data := fmt.Sprintf("%d %d %d %s.", s.Priority, s.Weight, s.Port, s.Target)
		out.Found = strings.TrimSpace(out.Found + " " + data)
		ok = ok || strings.HasSuffix(r.Data, fmt.Sprintf(" %d %s.", s.Port, s.Target))
	}
	return ok, err
}

// alias checks that a name resolves to the server's addresses, directly or by CNAME.
func (k *checker) alias(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	list, _, err := k.c.DNS.Addresses(ctx, r.Name)
	ours := false
	for _, a := range list {
		out.Found = strings.TrimSpace(out.Found + " " + a.String())
		ours = ours || slices.Contains(k.addresses, a)
	}
	return ours, err
}

func (k *checker) caa(ctx context.Context, r *DNSRecord, out *DNSCheck) (bool, error) {
	list, _, err := k.c.DNS.CAA(ctx, r.Name)
	ok := false
	for _, a := range list {
		data := fmt.Sprintf("%d %s %s", a.Flag, a.Tag, quote(a.Value))
		out.Found = strings.TrimSpace(out.Found + " " + data)
		ok = ok || a.Tag == "issue" && data == r.Data || r.Comment
	}
	return ok, err
}
