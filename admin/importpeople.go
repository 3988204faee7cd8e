package admin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"doublet/client/ldap"
	"doublet/directory"

	"github.com/go-ldap/ldif"
)

// ImportPeople are the arguments of import people.
type ImportPeople struct {
	File   string   `json:"file" arg:"required" file:"true" help:"file with the people, groups or aliases"`
	Format string   `json:"format" required:"true" help:"csv, ldif, postfix-aliases (aliases(5) or virtual(5), as text) or passwd (passwd(5), or Dovecot's passwd-file)"`
	Shadow string   `json:"shadow" file:"true" help:"with passwd: shadow(5) file with the passwords"`
	MinUID int      `json:"min_uid" help:"with passwd: accounts below are left out (1000)"`
	Map    []string `json:"map" help:"with ldif: field=attribute,attribute in place of those that are usual; may be repeated. Fields: fullname, shortname, address, aliases, password, groupname, groupaddress, members"`
	SCRAM  *bool    `json:"scram" help:"keep credentials for SCRAM-SHA-256 of passwords that come in the clear; without it the setting directory.scram decides"`
	Check  bool     `json:"check" help:"show what would come, and import nothing"`
}

// ImportLDAP are the arguments of import ldap.
type ImportLDAP struct {
	URL          string   `json:"url" arg:"required" help:"ldap://host/base, or ldap://host/base??sub?(filter)"`
	User         string   `json:"user" help:"DN to sign in as"`
	Password     string   `json:"password" secret:"unasked" help:"its password"`
	PasswordFile string   `json:"password_file" file:"true" help:"file whose first line is the password"`
	StartTLS     bool     `json:"starttls" help:"protect an ldap:// connection"`
	Insecure     bool     `json:"insecure" help:"take any certificate"`
	Map          []string `json:"map" help:"field=attribute,attribute, as with import people"`
	SCRAM        *bool    `json:"scram" help:"keep credentials for SCRAM-SHA-256 of passwords that come in the clear; without it the setting directory.scram decides"`
	Check        bool     `json:"check" help:"show what would come, and import nothing"`
}

const importPeopleLong = `Who is there already stays as they are, so that an import can be repeated. Passwords come as hashes (crypt(3) with $1$, $2y$, $5$, $6$,
{SSHA} and its kin, {PBKDF2}, {ARGON2ID}, Dovecot's schemes) and are hashed anew at the first sign-in; who has one of another kind comes
without a password, and is told of. Of CSV, see user import. From LDIF come people (inetOrgPerson, posixAccount, user), groups
(groupOfNames, groupOfUniqueNames, posixGroup, group, nisMailAlias) and their members. An alias of one person becomes an address of
theirs, one of several, or of somebody elsewhere, a mail group.`

func importPeople(ctx context.Context, c *Call, a *ImportPeople) (ImportedPeople, error) {
	in, err := c.newIntake(ctx, a.Check, a.SCRAM)
	if err != nil {
		return ImportedPeople{}, err
	}
	f, err := c.Env.FS.Open(a.File)
	if err != nil {
		return ImportedPeople{}, err
	}
	defer f.Close()
	switch a.Format {
	case "csv":
		err = directory.ReadPeople(f, func(line int, spec directory.PersonSpec, err error) error {
			where := "line " + strconv.Itoa(line)
			if err != nil {
				in.fail(where, err)
				return nil
			}
			return in.person(ctx, where, spec)
		})
	case "ldif":
		var m attributeMap
		if m, err = readMap(a.Map); err == nil {
			err = readLDIF(f, func(line int, e ldap.Entry, err error) error {
				where := "line " + strconv.Itoa(line)
				if err != nil {
					in.fail(where, err)
					return nil
				}
				return in.entry(ctx, e, m)
			})
		}
	case "postfix-aliases":
		err = in.postfix(ctx, f)
	case "passwd":
		err = in.passwd(ctx, a, f)
	default:
		return ImportedPeople{}, fmt.Errorf("%w: format %q is none of csv, ldif, postfix-aliases, passwd", ErrUsage, a.Format)
	}
	out, bad := in.finish(ctx) // rows before an error are imported
	return out, errors.Join(err, bad)
}

func importLDAP(ctx context.Context, c *Call, a *ImportLDAP) (ImportedPeople, error) {
	u, err := ldap.ParseURL(a.URL)
	if err != nil {
		return ImportedPeople{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	m, err := readMap(a.Map)
	if err != nil {
		return ImportedPeople{}, err
	}
	if a.PasswordFile != "" {
		if a.Password, err = c.firstLine(a.PasswordFile); err != nil {
			return ImportedPeople{}, err
		}
	}
	in, err := c.newIntake(ctx, a.Check, a.SCRAM)
	if err != nil {
		return ImportedPeople{}, err
	}
	o := ldap.Options{StartTLS: a.StartTLS, User: a.User, Password: a.Password}
	if a.Insecure {
		o.TLS = insecureTLS()
	}
	err = ldap.Search(ctx, c.Env, u, o, m.attributes(), func(e ldap.Entry) error { return in.entry(ctx, e, m) })
	out, bad := in.finish(ctx)
	return out, errors.Join(err, bad)
}

// attributeMap holds the attributes, in lower case, of each field.
type attributeMap map[string][]string

func defaultMap() attributeMap {
	return attributeMap{
		"fullname": {"cn", "displayname"}, "shortname": {"uid", "samaccountname"}, "address": {"mail"},
		"aliases":      {"mailalternateaddress", "maillocaladdress", "mailalias", "gosamailalternateaddress", "zimbramailalias", "proxyaddresses"},
		"password":     {"userpassword"},
		"groupname":    {"cn"},
		"groupaddress": {"mail"},
		"members":      {"member", "uniquemember", "memberuid", "rfc822mailmember", "zimbramailforwardingaddress"},
	}
}

func readMap(list []string) (attributeMap, error) {
	m := defaultMap()
	for _, s := range list {
		field, attributes, ok := strings.Cut(s, "=")
		if _, known := m[field]; !ok || !known {
			return nil, fmt.Errorf("%w: --map %q is not field=attribute with a field that is known", ErrUsage, s)
		}
		m[field] = strings.Split(strings.ToLower(attributes), ",")
	}
	return m, nil
}

func (m attributeMap) attributes() []string {
	out := []string{"objectclass"}
	for _, list := range m {
		out = append(out, list...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// values returns the non-empty values of a field, in order.
func (m attributeMap) values(e *ldap.Entry, field string) (out []string) {
	for _, a := range m[field] {
		for _, v := range e.Attributes[a] {
			if v = strings.TrimSpace(v); v != "" {
				out = append(out, v)
			}
		}
	}
	return out
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func hasClass(e *ldap.Entry, classes ...string) bool {
	for _, have := range e.Attributes["objectclass"] {
		for _, c := range classes {
			if strings.EqualFold(have, c) {
				return true
			}
		}
	}
	return false
}

// entry imports one entry of a directory server. It skips entries that are neither person nor group.
//
// Implements: RFC 2798 inetOrgPerson
func (in *intake) entry(ctx context.Context, e ldap.Entry, m attributeMap) error {
	where := e.DN
	switch {
	case hasClass(&e, "groupOfNames", "groupOfUniqueNames", "posixGroup", "group", "groupOfMembers", "zimbraDistributionList"):
		name := first(m.values(&e, "groupname"))
		g := incomingGroup{where: where, members: m.values(&e, "members"), fields: directory.GroupFields{Name: cmp.Or(name, first(m.values(&e, "groupaddress"))),
			InternetAddress: first(m.values(&e, "groupaddress")), Description: first(e.Attributes["description"])}}
		in.named[strings.ToLower(e.DN)] = g.fields.Name
		return in.group(g)
	case hasClass(&e, "nisMailAlias"):
		return in.alias(incomingAlias{where: where, address: first(m.values(&e, "groupname")), targets: m.values(&e, "members")})
	case hasClass(&e, "inetOrgPerson", "organizationalPerson", "person", "posixAccount", "user", "account") && !hasClass(&e, "computer"):
	default:
		return nil
	}
	full := m.values(&e, "fullname")
	mail := m.values(&e, "address")
	spec := directory.PersonSpec{PersonFields: directory.PersonFields{
		ShortName: first(m.values(&e, "shortname")), InternetAddress: first(mail),
	}}
	if len(full) > 0 {
		spec.FullName = full[:1]
	}
	addresses := slices.Clone(mail[min(1, len(mail)):])
	for _, v := range m.values(&e, "aliases") {
		if kind, rest, ok := strings.Cut(v, ":"); ok { // proxyAddresses of Active Directory
			if !strings.EqualFold(kind, "smtp") {
				continue
			}
			v = rest
		}
		addresses = append(addresses, v)
	}
	for _, v := range addresses {
		if !slices.ContainsFunc(append([]string{spec.InternetAddress}, spec.MailAddress...), func(s string) bool { return strings.EqualFold(s, v) }) {
			spec.MailAddress = append(spec.MailAddress, v)
		}
	}
	in.secret(where, &spec, first(m.values(&e, "password")))
	return in.person(ctx, where, spec, e.DN, spec.ShortName, spec.InternetAddress)
}

// maxLDIFRecord is the maximum size of one LDIF record, in bytes.
const maxLDIFRecord = 4 << 20

// readLDIF calls fn for each entry of LDIF, with the number of its first line. A record that changes an entry, or has a
// value that names a file to read, is an error of that record.
//
// Implements: RFC 2849 LDIF, entries
func readLDIF(r io.Reader, fn func(line int, e ldap.Entry, err error) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLDIFRecord)
	var record strings.Builder
	begin, n := 1, 0
	flush := func() error {
		text := record.String()
		record.Reset()
		if strings.TrimSpace(text) == "" {
			return nil
		}
		e, ok, err := parseLDIF(text)
		if err == nil && !ok {
			return nil
		}
		return fn(begin, e, err)
	}
	for s.Scan() {
		n++
		line := strings.TrimSuffix(s.Text(), "\r")
		if line == "" {
			if err := flush(); err != nil {
				return err
			}
			begin = n + 1
			continue
		}
		if record.Len()+len(line) > maxLDIFRecord {
			return fmt.Errorf("%w: line %d: a record of more than %d bytes", ErrUsage, begin, maxLDIFRecord)
		}
		record.WriteString(line)
		record.WriteByte('\n')
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrUsage, n+1, err)
	}
	return flush()
}

// parseLDIF parses one record. ok is false if it has no entry, but only a version or comments.
func parseLDIF(text string) (e ldap.Entry, ok bool, err error) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n ", ""), "\n") {
		if i := strings.IndexByte(line, ':'); i >= 0 && strings.HasPrefix(line[i:], ":<") && !strings.HasPrefix(line, "#") {
			return e, false, errors.New("a value that names a file is not read")
		}
	}
	l, err := ldif.Parse(text)
	if err != nil {
		return e, false, err
	}
	if len(l.Entries) == 0 {
		return e, false, nil
	}
	if l.Entries[0].Entry == nil {
		return e, false, errors.New("a record that changes an entry is not taken: export the entries themselves")
	}
	return ldap.MakeEntry(l.Entries[0].Entry), true, nil
}
