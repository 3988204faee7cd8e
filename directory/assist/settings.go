package assist

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"doublet/client/ldap"
)

// The kinds of directories. A kind sets the filters and attributes that Settings leaves empty.
const (
	KindLDAP            = "ldap" // inetOrgPerson and groupOfNames (RFC 2798, RFC 4519)
	KindActiveDirectory = "ad"
)

// The uses of a directory.
const (
	UseSignIn = "signin" // checks passwords
	UseLookup = "lookup" // completes names
	UseGroups = "groups" // expands groups that receive mail
)

// Uses lists all uses.
var Uses = []string{UseSignIn, UseLookup, UseGroups}

// The values of Settings.TLS, besides "".
const (
	TLSStart = "starttls"
	TLSNone  = "none" // passwords are readable on the network
)

// Settings describes another directory.
type Settings struct {
	// URLs lists servers with the same entries, ldap://host or ldaps://host. The first that answers is used.
	URLs []string
	// TLS applies to ldap://. Empty starts TLS, except on this machine.
	TLS string
	// CA holds certificates of authorities (PEM) in place of the system's.
	CA string
	// Base is the DN below which entries are searched.
	Base string
	// BindDN and Password authenticate searches. If empty, searches are anonymous.
	BindDN, Password string
	Kind             string
	// People finds a person who signs in, Lookup people by the beginning of a name, Groups a group by its address. %s
	// stands for the value, in the filters of RFC 4515. Empty filters are those of Kind.
	People, Lookup, Groups string
	// Short, Name, Mail and Member are attributes: of the short name, the full name, the address, and the DNs of a
	// group's members. Empty attributes are those of Kind.
	Short, Name, Mail, Member string
	// Uses lists what the directory serves. Empty is signin.
	Uses []string
	// Enroll adds people here when they sign in for the first time.
	Enroll bool
	// Domains lists the domains whose addresses the directory may answer for. Empty is every domain.
	Domains []string
	// Timeout is the time for one request. Cache is the time for which an answer, and a password that was right, are
	// used again; 0 is the default, negative none.
	Timeout, Cache time.Duration
}

// Defaults and bounds of Settings.
const (
	DefaultTimeout = 5 * time.Second
	DefaultCache   = time.Minute
	maxTimeout     = time.Minute
	maxCache       = time.Hour
	maxURLs        = 4
	maxDomains     = 100
	maxText        = 2000
	maxCA          = 64 << 10
)

// presets holds what a kind sets.
var presets = map[string]Settings{
	KindLDAP: {
		People: "(&(objectClass=inetOrgPerson)(|(uid=%s)(mail=%s)))",
		Lookup: "(&(objectClass=inetOrgPerson)(mail=*)(|(cn=%s*)(sn=%s*)(givenName=%s*)(uid=%s*)(mail=%s*)))",
		Groups: "(&(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames))(mail=%s))",
		Short:  "uid", Name: "cn", Mail: "mail", Member: "member",
	},
	// 1.2.840.113556.1.4.803 is a bitwise AND; bit 2 of userAccountControl marks disabled accounts.
	KindActiveDirectory: {
		People: "(&(objectCategory=person)(objectClass=user)(!(userAccountControl:1.2.840.113556.1.4.803:=2))" +
			"(|(sAMAccountName=%s)(userPrincipalName=%s)(mail=%s)))",
		Lookup: "(&(objectCategory=person)(objectClass=user)(mail=*)" +
			"(!(userAccountControl:1.2.840.113556.1.4.803:=2))(anr=%s))",
		Groups: "(&(objectClass=group)(|(mail=%s)(proxyAddresses=smtp:%s)))",
		Short:  "sAMAccountName", Name: "displayName", Mail: "mail", Member: "member",
	},
}

// filled returns the settings with those of the kind in place of empty ones.
func (s *Settings) filled() Settings {
	out, p := *s, presets[s.Kind]
	for _, x := range []struct {
		to   *string
		from string
	}{{&out.People, p.People}, {&out.Lookup, p.Lookup}, {&out.Groups, p.Groups}, {&out.Short, p.Short},
		{&out.Name, p.Name}, {&out.Mail, p.Mail}, {&out.Member, p.Member}} {
		if *x.to == "" {
			*x.to = x.from
		}
	}
	if out.Timeout == 0 {
		out.Timeout = DefaultTimeout
	}
	if out.Cache == 0 {
		out.Cache = DefaultCache
	}
	return out
}

// Serves reports whether the directory has a use.
func (s *Settings) Serves(use string) bool { return slices.Contains(s.Uses, use) }

// Trusts reports whether the directory may answer for a name: one without a domain, or an address of its domains.
func (s *Settings) Trusts(name string) bool {
	i := strings.LastIndexByte(name, '@')
	return i < 0 || len(s.Domains) == 0 ||
		slices.ContainsFunc(s.Domains, func(d string) bool { return strings.EqualFold(d, name[i+1:]) })
}

// Check normalizes settings, or returns an error if they are invalid.
func (s *Settings) Check() error {
	if s.Kind == "" {
		s.Kind = KindLDAP
	}
	if len(s.Uses) == 0 {
		s.Uses = []string{UseSignIn}
	}
	if _, ok := presets[s.Kind]; !ok {
		return fmt.Errorf("kind %q is not %s or %s", s.Kind, KindLDAP, KindActiveDirectory)
	}
	for _, u := range s.Uses {
		if !slices.Contains(Uses, u) {
			return fmt.Errorf("use %q is none of %s", u, strings.Join(Uses, ", "))
		}
	}
	if s.Enroll && !s.Serves(UseSignIn) {
		return errors.New("enroll needs the use signin")
	}
	if err := s.checkSizes(); err != nil {
		return err
	}
	if err := s.checkServers(); err != nil {
		return err
	}
	return s.checkFilters()
}

func (s *Settings) checkSizes() error {
	for _, t := range slices.Concat([]string{s.Base, s.BindDN, s.Password, s.Short, s.Name, s.Mail, s.Member},
		s.URLs, s.Domains) {
		if len(t) > maxText || strings.ContainsAny(t, "\x00\r\n") {
			return fmt.Errorf("%.40q is no text of one line with at most %d bytes", t, maxText)
		}
	}
	switch {
	case (s.BindDN == "") != (s.Password == ""):
		return errors.New("set both the bind DN and its password, or neither")
	case len(s.Domains) > maxDomains:
		return fmt.Errorf("at most %d domains", maxDomains)
	case s.Timeout < 0 || s.Timeout > maxTimeout:
		return fmt.Errorf("timeout is over %s", maxTimeout)
	case s.Cache > maxCache:
		return fmt.Errorf("cache time is over %s", maxCache)
	}
	return nil
}

func (s *Settings) checkServers() error {
	if !slices.Contains([]string{"", TLSStart, TLSNone}, s.TLS) {
		return fmt.Errorf("tls %q is not %s or %s", s.TLS, TLSStart, TLSNone)
	}
	if len(s.URLs) == 0 || len(s.URLs) > maxURLs {
		return fmt.Errorf("%d URLs, 1 to %d are allowed", len(s.URLs), maxURLs)
	}
	for _, text := range s.URLs {
		if _, err := parseURL(text); err != nil {
			return err
		}
	}
	_, err := s.tls()
	return err
}

func (s *Settings) checkFilters() error {
	f := s.filled()
	for _, filter := range []string{f.People, f.Lookup, f.Groups} {
		if len(filter) > maxText || !strings.Contains(filter, "%s") {
			return fmt.Errorf("filter %.100q has no %%s, which stands for the value, or more than %d bytes", filter,
				maxText)
		}
		if err := ldap.CheckFilter(fill(filter, "x")); err != nil {
			return err
		}
	}
	return nil
}

// fill puts a value into a filter.
func fill(filter, value string) string { return strings.ReplaceAll(filter, "%s", ldap.Escape(value)) }

// parseURL parses the URL of a server. The base and the filters are settings of their own.
func parseURL(text string) (ldap.URL, error) {
	u, err := ldap.ParseURL(text)
	if err == nil && u.Base != "" {
		err = fmt.Errorf("%w: %q: the base is a setting of its own", ldap.ErrURL, text)
	}
	return u, err
}

// startTLS reports whether TLS starts on a connection to ldap://.
func (s *Settings) startTLS(u *ldap.URL) bool {
	if s.TLS != "" {
		return s.TLS == TLSStart
	}
	ip := net.ParseIP(u.Host)
	return u.Host != "localhost" && (ip == nil || !ip.IsLoopback())
}

func (s *Settings) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA == "" {
		return c, nil
	}
	c.RootCAs = x509.NewCertPool()
	if len(s.CA) > maxCA || !c.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, fmt.Errorf("no certificate in PEM for the CA, or over %d bytes", maxCA)
	}
	return c, nil
}
