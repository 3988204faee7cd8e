package transfer

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
	"doublet/env"

	"github.com/go-ldap/ldif"
)

// Table selects a file of people, groups or aliases to import.
type Table struct {
	File string
	// Format is csv, ldif, postfix-aliases or passwd.
	Format string
	// Shadow is a shadow(5) file and MinUID the lowest account to import (0 means 1000), both for passwd.
	Shadow string
	MinUID int
	// Map replaces the attributes of fields for LDIF: field=attribute,attribute.
	Map []string
	// SCRAM stores SCRAM-SHA-256 credentials for passwords in plain text.
	SCRAM bool
	// Check reports what would be imported, and imports nothing.
	Check bool
}

// LDAP selects entries of a directory server to import.
type LDAP struct {
	// URL is ldap://host/base, or ldap://host/base??sub?(filter).
	URL string
	// User is the DN to sign in as. PasswordFile, if not "", is the file whose first line is the password.
	User, Password, PasswordFile string
	StartTLS                     bool
	Insecure                     bool // accept any certificate
	// Map, SCRAM and Check are those of Table.
	Map          []string
	SCRAM, Check bool
}

// People imports people, groups and aliases from a file of another system.
func (j *Job) People(ctx context.Context, a *Table) (ImportedPeople, error) {
	in, err := j.newIntake(ctx, a.Check, a.SCRAM)
	if err != nil {
		return ImportedPeople{}, err
	}
	f, _, err := env.OpenRegular(j.env.FS, a.File)
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
		return ImportedPeople{}, fmt.Errorf("%w: format %q is not csv, ldif, postfix-aliases or passwd",
			ErrInvalid, a.Format)
	}
	out, bad := in.finish(ctx) // rows before an error are imported
	return out, errors.Join(err, bad)
}

// LDAP imports people and groups from a directory server.
func (j *Job) LDAP(ctx context.Context, a *LDAP) (ImportedPeople, error) {
	u, err := ldap.ParseURL(a.URL)
	if err != nil {
		return ImportedPeople{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m, err := readMap(a.Map)
	if err != nil {
		return ImportedPeople{}, err
	}
	if a.PasswordFile != "" {
		if a.Password, err = j.firstLine(a.PasswordFile); err != nil {
			return ImportedPeople{}, err
		}
	}
	in, err := j.newIntake(ctx, a.Check, a.SCRAM)
	if err != nil {
		return ImportedPeople{}, err
	}
	o := ldap.Options{StartTLS: a.StartTLS, User: a.User, Password: a.Password}
	if a.Insecure {
		o.TLS = insecureTLS()
	}
	err = ldap.Search(ctx, j.env, u, o, m.attributes(), func(e ldap.Entry) error { return in.entry(ctx, e, m) })
	out, bad := in.finish(ctx)
	return out, errors.Join(err, bad)
}

// attributeMap holds the attributes, in lower case, of each field.
type attributeMap map[string][]string

func defaultMap() attributeMap {
	return attributeMap{
		"fullname": {"cn", "displayname"}, "shortname": {"uid", "samaccountname"}, "address": {"mail"},
		"aliases": {"mailalternateaddress", "maillocaladdress", "mailalias", "gosamailalternateaddress",
			"zimbramailalias", "proxyaddresses"},
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
			return nil, fmt.Errorf("%w: --map %q is not field=attribute with a field that is known", ErrInvalid, s)
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
	case hasClass(&e, "groupOfNames", "groupOfUniqueNames", "posixGroup", "group", "groupOfMembers",
		"zimbraDistributionList"):
		name := first(m.values(&e, "groupname"))
		g := incomingGroup{where: where, members: m.values(&e, "members"),
			fields: directory.GroupFields{Name: cmp.Or(name, first(m.values(&e, "groupaddress"))),
				InternetAddress: first(m.values(&e, "groupaddress")), Description: first(e.Attributes["description"])}}
		in.named[strings.ToLower(e.DN)] = g.fields.Name
		return in.group(g)
	case hasClass(&e, "nisMailAlias"):
		return in.alias(incomingAlias{where: where, address: first(m.values(&e, "groupname")),
			targets: m.values(&e, "members")})
	case hasClass(&e, "inetOrgPerson", "organizationalPerson", "person", "posixAccount", "user", "account") &&
		!hasClass(&e, "computer"):
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
		if !slices.ContainsFunc(append([]string{spec.InternetAddress}, spec.MailAddress...),
			func(s string) bool { return strings.EqualFold(s, v) }) {
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
			return fmt.Errorf("%w: line %d: a record of more than %d bytes", ErrInvalid, begin, maxLDIFRecord)
		}
		record.WriteString(line)
		record.WriteByte('\n')
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrInvalid, n+1, err)
	}
	return flush()
}

// parseLDIF parses one record. ok is false if it has no entry, but only a version or comments.
func parseLDIF(text string) (e ldap.Entry, ok bool, err error) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n ", ""), "\n") {
		if i := strings.IndexByte(line, ':'); i >= 0 && strings.HasPrefix(line[i:], ":<") &&
			!strings.HasPrefix(line, "#") {
			return e, false, errors.New("values that name a file are not supported")
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
		return e, false, errors.New("change records are not supported: export the entries themselves")
	}
	return ldap.MakeEntry(l.Entries[0].Entry), true, nil
}
