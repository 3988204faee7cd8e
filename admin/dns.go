package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/directory"

	"golang.org/x/net/idna"
)

// Publish holds the settings that concern public DNS.
type Publish struct {
	// DKIM reports that outgoing mail is signed.
	DKIM bool
	// MTASTS is the mode of the MTA-STS policy; "off" or empty means no policy. MTASTSAge is its max_age. MTASTSMX
	// lists its hosts; if empty, the server.
	MTASTS    string
	MTASTSAge time.Duration
	MTASTSMX  []string
	// Reports is the local part of the address for reports; empty means postmaster.
	Reports string
	// ACME reports that certificates come from an ACME authority. Authority is its URL; empty means Let's Encrypt.
	ACME      bool
	Authority string
}

// reports returns the address for reports of a domain.
func (p *Publish) reports(domain string) string {
	return cmp.Or(p.Reports, "postmaster") + "@" + domain
}

// DNSRecord is a record to publish.
type DNSRecord struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Data   string `json:"data"`
	// Optional marks a record that mail delivery does not need.
	Optional bool   `json:"optional,omitempty"`
	For      string `json:"for"`
	// Comment marks a record that is printed as a comment, because the administrator has to complete or check it first.
	Comment bool `json:"comment,omitempty"`

	kind recordKind
	key  Key // of a DKIM record
}

// recordKind selects how a record is checked.
type recordKind uint8

const (
	kindHost recordKind = iota
	kindMX
	kindSPF
	kindHeloSPF
	kindDKIM
	kindNoKey
	kindDMARC
	kindSTS
	kindReport
	kindTLSA
	kindSRV
	kindAlias
	kindCAA
)

// DNSRecords are the records of domains.
type DNSRecords []DNSRecord

// Text returns the records in zone file format.
func (r DNSRecords) Text() string {
	var b strings.Builder
	domain := ""
	for _, x := range r {
		if x.Domain != domain {
			domain = x.Domain
			fmt.Fprintf(&b, "; %s\n$TTL 3600\n", domain)
		}
		word := ""
		if x.Optional {
			word = " (optional)"
		}
		fmt.Fprintf(&b, "; %s%s\n", x.For, word)
		if x.Comment {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s. IN %s %s\n", x.Name, x.Type, x.Data)
	}
	return b.String()
}

// DNSDomain are the arguments of dns show and dns check.
type DNSDomain struct {
	Domain string `json:"domain" arg:"optional" help:"local domain; all without it"`
}

func dnsVerbs() []*Verb {
	return []*Verb{
		define("dns show", "print the DNS records to publish, as a zone file",
			func(ctx context.Context, c *Call, a *DNSDomain) (DNSRecords, error) {
				return c.dnsRecords(ctx, a.Domain)
			}, long("The ports of SRV records are those of the doors of the running server; of a stopped one, the "+
				"usual "+
				"ones.")),
		define("dns check", "look up the DNS records that should be there, and say what to do", dnsCheck,
			long("The exit code is 1 where something is missing that mail needs. Records that mail flows without "+
				"are optional.")),
	}
}

// asciiName returns a name as the DNS encodes it.
func asciiName(name string) string {
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		return strings.ToLower(strings.TrimSuffix(ascii, "."))
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

func (c *Call) dnsRecords(ctx context.Context, domain string) (DNSRecords, error) {
	domains, err := c.localDomains(ctx, domain)
	if err != nil {
		return nil, err
	}
	var out DNSRecords
	for i, d := range domains {
		keys, err := c.keys(ctx, d)
		if err != nil {
			return nil, err
		}
		// The records of the server itself are listed with its first domain.
		z := domainRecords{Call: c, domain: d, d: asciiName(d), host: asciiName(c.Name)}
		out = append(out, z.records(i == 0, keys)...)
	}
	return out, nil
}

// domainRecords collects the records of one domain. d and host are the domain and the server as the DNS encodes them.
type domainRecords struct {
	*Call
	domain, d, host string
	out             []DNSRecord
}

// add adds a record, and returns it for changes until the next one is added.
func (z *domainRecords) add(kind recordKind, optional bool, name, typ, data, why string) *DNSRecord {
	z.out = append(z.out, DNSRecord{Domain: z.domain, Name: name, Type: typ, Data: data, Optional: optional, For: why,
		kind: kind})
	return &z.out[len(z.out)-1]
}

// records returns the records of the domain. server adds those of the server itself.
func (z *domainRecords) records(server bool, keys []Key) []DNSRecord {
	d, host := z.d, z.host
	if server {
		why := "the server's public addresses, A and AAAA; the reverse (PTR) of each must be " + host
		if !strings.Contains(host, ".") {
			why = "FIRST set server.name in doublet.toml: " + host + " is not the full name of a host. " + why
		}
		z.add(kindHost, false, host, "A", "ADDRESS", why).Comment = true
		if host != d {
			z.add(kindHeloSPF, true, host, "TXT", quote("v=spf1 a -all"), "SPF of the name that the server greets with")
		}
	}
	z.add(kindMX, false, d, "MX", "10 "+host+".", "mail for the domain comes here")
	z.add(kindSPF, false, d, "TXT", quote("v=spf1 mx ~all"), "SPF: mail of the domain comes from here")
	for _, k := range keys {
		r := z.add(kindDKIM, k.State == string(directory.KeyRetired), k.Name, "TXT", quote(k.Record),
			"DKIM key "+k.Selector+", "+k.State)
		r.key = k
	}
	if len(keys) == 0 && z.Publish.DKIM {
		z.add(kindNoKey, false, "SELECTOR._domainkey."+d, "TXT", quote("v=DKIM1; p=KEY"),
			"DKIM: there is no key yet, make one: doublet domain key add "+z.domain+" --active").Comment = true
	}
	z.add(kindDMARC, false, "_dmarc."+d, "TXT", quote("v=DMARC1; p=quarantine; rua=mailto:"+z.Publish.reports(d)),
		"DMARC: what others do with mail that is not proven; begin with p=none to only watch")
	if z.Publish.MTASTS != "" && z.Publish.MTASTS != "off" {
		z.add(kindSTS, true, "_mta-sts."+d, "TXT", quote("v=STSv1; id="+z.Publish.policyID(host)),
			"MTA-STS: others send here under TLS; the id changes with the policy")
		z.add(kindAlias, true, "mta-sts."+d, "CNAME", host+".", "where the MTA-STS policy is")
	}
	z.add(kindReport, true, "_smtp._tls."+d, "TXT", quote("v=TLSRPTv1; rua=mailto:"+z.Publish.reports(d)),
		"reports of others about TLS on the way here: doublet report tls")
	if server {
		z.addTLSA()
	}
	z.addServices()
	for _, prefix := range []string{"autoconfig", "autodiscover"} {
		z.add(kindAlias, true, prefix+"."+d, "CNAME", host+".", "mail programs find their settings")
	}
	if z.Publish.ACME {
		authority := "letsencrypt.org"
		if !strings.Contains(z.Publish.Authority, authority) && z.Publish.Authority != "" {
			authority = "AUTHORITY"
		}
		z.add(kindCAA, true, d, "CAA", "0 issue "+quote(authority),
			"only this authority may issue certificates").Comment = authority == "AUTHORITY"
	}
	return z.out
}

// addTLSA adds the record of the certificate at port 25, as a comment.
func (z *domainRecords) addTLSA() {
	const why = "DANE: the certificate at port 25; only in a zone that is signed with DNSSEC, and changed before " +
		"the key is"
	data := ""
	if leaf := z.leaf(z.host); leaf != nil {
		sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
		data = "3 1 1 " + hex.EncodeToString(sum[:])
	}
	if data == "" {
		z.add(kindTLSA, true, "_25._tcp."+z.host, "TLSA", "3 1 1 HASH", why).Comment = true
		return
	}
	z.add(kindTLSA, true, "_25._tcp."+z.host, "TLSA", data, why).Comment = true
}

// addServices adds the SRV records with which mail programs find the doors.
//
// Implements: RFC 6186 §3 SRV records for mail services
// Implements: RFC 8314 §5.1 SRV records for implicit TLS
// Implements: RFC 6764 §3 CalDAV SRV Service Labels
func (z *domainRecords) addServices() {
	ports := map[string]int{}
	for _, d := range z.openDoors() {
		if _, port, err := net.SplitHostPort(d.Address); err == nil {
			ports[d.Name], _ = strconv.Atoi(port)
		}
	}
	if z.running == nil {
		ports = map[string]int{"imaps": 993, "imap": 143, "submissions": 465, "submission": 587, "sieve": 4190,
			"https": 443}
	}
	for _, s := range []struct {
		door, name string
		priority   int
	}{
		{"submissions", "_submissions", 0}, {"submission", "_submission", 10}, {"imaps", "_imaps", 0},
		{"imap", "_imap", 10},
		{"pop3s", "_pop3s", 20}, {"pop3", "_pop3", 30}, {"sieve", "_sieve", 0}, {"https", "_autodiscover", 0},
		{"ldaps", "_ldaps", 0}, {"ldap", "_ldap", 0},
		{"https", "_caldavs", 0}, {"https", "_carddavs", 0},
	} {
		if port := ports[s.door]; port != 0 {
			z.add(kindSRV, true, s.name+"._tcp."+z.d, "SRV", fmt.Sprintf("%d 1 %d %s.", s.priority, port, z.host),
				"programs find the door "+s.door)
		}
	}
}

// policyID returns an id of the MTA-STS policy that changes with the policy.
func (p *Publish) policyID(host string) string {
	mx := p.MTASTSMX
	if len(mx) == 0 {
		mx = []string{host}
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(p.MTASTS, p.MTASTSAge, slices.Sorted(slices.Values(mx)))))
	return hex.EncodeToString(sum[:8])
}

// quote formats a text as quoted strings of at most 255 bytes.
func quote(text string) string {
	var b strings.Builder
	for {
		part := text[:min(len(text), 255)]
		b.WriteString(`"` + part + `"`)
		if text = text[len(part):]; text == "" {
			return b.String()
		}
		b.WriteByte(' ')
	}
}
