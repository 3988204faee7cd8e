package ldapd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/go-ldap/ldap/v3"

	"doublet/directory"
	"doublet/note"
	"doublet/test/door"
	"doublet/wire/ldap"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

func (w *world) client(user, secret string) *client.Conn {
	w.t.Helper()
	c, err := client.DialURL("ldap://" + w.Addr.String())
	w.ok(err)
	w.t.Cleanup(func() { c.Close() })
	if user != "" {
		w.ok(c.Bind(user, secret))
	}
	return c
}

func (w *world) wants(err error, code uint16, text string) {
	w.t.Helper()
	if !client.IsErrorWithCode(err, code) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("%v, want code %d, %q", err, code, text)
	}
}

// TestAppPassword checks that an app password signs in but changes no password, unless the account's password comes
// with the request, and that a person with a second factor changes it elsewhere.
func TestAppPassword(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	alice, err := w.dir.Names.PersonNamed(bg, "alice")
	w.ok(err)
	_, token, err := w.dir.Passwords.AddApp(bg, note.System, alice.ID, "phone")
	w.ok(err)
	c := w.client("alice", token)
	_, err = c.PasswordModify(client.NewPasswordModifyRequest("", "", "another-secret"))
	w.wants(err, client.LDAPResultUnwillingToPerform, "not an app password")
	_, err = c.PasswordModify(client.NewPasswordModifyRequest("", token, "another-secret"))
	w.wants(err, client.LDAPResultUnwillingToPerform, "not an app password")
	_, err = c.PasswordModify(client.NewPasswordModifyRequest("", "secret-alice", token))
	w.wants(err, client.LDAPResultConstraintViolation, "app password")
	_, err = c.PasswordModify(client.NewPasswordModifyRequest("", "secret-alice", "another-secret"))
	w.ok(err)
	w.client("alice", "another-secret")
	w.client("alice", token)
	chief, err := w.dir.Names.PersonNamed(bg, "chief")
	w.ok(err)
	_, token, err = w.dir.Passwords.AddApp(bg, note.System, chief.ID, "script")
	w.ok(err)
	_, err = w.client("chief", token).PasswordModify(client.NewPasswordModifyRequest(
		"uid=bob,ou=people,dc=example,dc=org", "", "another-secret"))
	w.wants(err, client.LDAPResultUnwillingToPerform, "not an app password")
	w.client("bob", "secret-bob")
}

// TestAccountEnds checks that a session ends when its account is disabled or its password is changed.
func TestAccountEnds(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	for user, change := range map[string]func(id note.UNID) error{
		"alice": func(id note.UNID) error {
			_, err := w.dir.People.Set(bg, note.System, id, func(f *directory.PersonFields) error {
				f.Disabled = true
				return nil
			})
			return err
		},
		"bob": func(id note.UNID) error { return w.dir.Passwords.Set(bg, note.System, id, "another-secret", false) },
	} {
		c := w.client(user, "secret-"+user)
		p, err := w.dir.Names.PersonNamed(bg, user)
		w.ok(err)
		w.ok(change(p.ID))
		_, err = c.Search(client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, "(uid=chief)", nil, nil))
		if err == nil {
			t.Errorf("%s searches after the account has ended", user)
		}
	}
}

// TestReadersChange checks that membership in the group of readers counts at once, in open sessions too.
func TestReadersChange(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Config: Config{Readers: "Readers"}})
	c := w.client("postfix", "secret-postfix")
	sees := func(want int) {
		t.Helper()
		r, err := c.Search(client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, "(cn=Secret Circle)", nil,
			nil))
		if err != nil || len(r.Entries) != want {
			t.Errorf("%v, %v; want %d", r, err, want)
		}
	}
	sees(1)
	g, err := w.dir.Groups.Named(bg, "Readers")
	w.ok(err)
	_, err = w.dir.Groups.Set(bg, note.System, g.ID, func(f *directory.GroupFields) error {
		f.Members = nil
		return nil
	})
	w.ok(err)
	sees(0)
}

// TestSearchBounds checks the limits of time and of the records that a person's search looks at.
func TestSearchBounds(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Config: Config{SearchTime: time.Nanosecond}})
	specs := make([]directory.PersonSpec, 300)
	for i := range specs {
		specs[i].FullName, specs[i].ShortName = []string{fmt.Sprint("Person ", i)}, fmt.Sprint("p", i)
	}
	_, err := w.dir.People.Import(bg, note.System, specs, directory.ImportOptions{})
	w.ok(err)
	req := client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, "(cn=*nobody*)", nil, nil)
	_, err = w.client("chief", "secret-chief").Search(req)
	w.wants(err, client.LDAPResultTimeLimitExceeded, "too long")

	for examined, want := range map[int]ldap.Code{maxExamined - 2: ldap.Success, maxExamined: ldap.AdminLimitExceeded} {
		x := &search{view: &view{ctx: bg, level: levelPublic}, examined: examined}
		if _ = x.look(); x.result.Code != want {
			t.Errorf("after %d records: %d, want %d", examined+1, x.result.Code, want)
		}
	}
}

// saslBind binds with a mechanism.
func saslBind(t *testing.T, w *world, m sasl.Client) ldap.Code {
	t.Helper()
	c := w.dial()
	in, err := m.Initial()
	w.ok(err)
	for id := 1; ; id++ {
		body := []byte{2, 1, 3, 4, 0}
		cred := tlv(4, []byte(m.Mechanism()))
		if in != nil {
			cred = append(cred, tlv(4, in)...)
		}
		_, err := c.Write(ldap.AppendRequest(nil, id, ldap.OpBind, append(body, tlv(0xa3, cred)...)))
		w.ok(err)
		b := make([]byte, 4096)
		n, err := c.Read(b)
		w.ok(err)
		b = b[:n]
		code := ldap.Code(b[len(b)-len(after(b))])
		if code != ldap.SaslBindInProgress {
			return code
		}
		in, err = m.Next(challenge(b))
		w.ok(err)
	}
}

func tlv(tag byte, b []byte) []byte { return append([]byte{tag, byte(len(b))}, b...) }

// after returns a response from the byte of its result code on.
func after(b []byte) []byte {
	i := 2
	if b[1] >= 0x80 {
		i += int(b[1] & 0x7f)
	}
	i += 2 + int(b[i+1]) // the id
	i += 2
	if b[i-1] >= 0x80 {
		i += int(b[i-1] & 0x7f)
	}
	return b[i+2:]
}

// challenge returns the credentials of a bind response.
func challenge(b []byte) []byte {
	rest := after(b)[1:]
	for len(rest) > 2 {
		size, n := 2, int(rest[1])
		if n >= 0x80 {
			size, n = 3, int(rest[2])
		}
		if rest[0] == 0x87 {
			return rest[size : size+n]
		}
		rest = rest[size+n:]
	}
	return nil
}

// TestSASL binds with the mechanisms of the house's sign-in: PLAIN, and SCRAM in two steps.
func TestSASL(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	alice, err := w.dir.Names.PersonNamed(bg, "alice")
	w.ok(err)
	w.ok(w.dir.Passwords.Set(bg, note.System, alice.ID, "secret-alice", true))
	for _, x := range []struct {
		m    sasl.Client
		want ldap.Code
	}{
		{sasl.NewPlainClient("", "alice", "secret-alice"), ldap.Success},
		{sasl.NewPlainClient("", "alice", "wrong"), ldap.InvalidCredentials},
		{sasl.NewPlainClient("chief", "alice", "secret-alice"), ldap.InvalidCredentials},
		{scramAs("secret-alice"), ldap.Success},
		{scramAs("wrong"), ldap.InvalidCredentials},
		{external{}, ldap.AuthMethodNotSupported},
	} {
		if got := saslBind(t, w, x.m); got != x.want {
			t.Errorf("%s: %d, want %d", x.m.Mechanism(), got, x.want)
		}
	}
	far := open(t, settings{Options: door.Options{Far: true}})
	if got := saslBind(t, far, sasl.NewPlainClient("", "alice", "secret-alice")); got != ldap.ConfidentialityRequired {
		t.Errorf("PLAIN without TLS from another machine: %d", got)
	}
}

// scramClient adapts scram.Client to sasl.Client.
type scramClient struct{ *scram.Client }

func scramAs(secret string) sasl.Client {
	return scramClient{scram.NewClient("alice", secret, "nonce-of-the-test")}
}

func (scramClient) Mechanism() string { return scram.Mechanism }

func (c scramClient) Initial() ([]byte, error) { return c.Next(nil) }

func (c scramClient) Next(in []byte) ([]byte, error) {
	out, _, err := c.Client.Next(in)
	return out, err
}

// external is a mechanism that is not offered.
type external struct{}

func (external) Mechanism() string           { return "EXTERNAL" }
func (external) Initial() ([]byte, error)    { return []byte{}, nil }
func (external) Next([]byte) ([]byte, error) { return nil, nil }

// TestPageOfOtherSearch checks that a cookie belongs to one search of one client: another filter, another person, and a
// cookie that a client made up to get more entries than it may are refused.
func TestPageOfOtherSearch(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Config: Config{Entries: 2}})
	c := w.client("alice", "secret-alice")
	page := func(c *client.Conn, filter string, cookie []byte) ([]byte, error) {
		p := client.NewControlPaging(1)
		p.SetCookie(cookie)
		r, err := c.Search(client.NewSearchRequest("ou=people,dc=example,dc=org", client.ScopeSingleLevel, 0, 0, 0,
			false, filter, []string{"1.1"}, []client.Control{p}))
		if err != nil {
			return nil, err
		}
		return client.FindControl(r.Controls, client.ControlTypePaging).(*client.ControlPaging).Cookie, nil
	}
	first, err := page(c, "(cn=*)", nil)
	w.ok(err)
	if _, err = page(c, "(sn=*)", first); !client.IsErrorWithCode(err, client.LDAPResultUnwillingToPerform) {
		t.Errorf("another filter: %v", err)
	}
	if _, err = page(w.client("bob", "secret-bob"), "(cn=*)", first); !client.IsErrorWithCode(err,
		client.LDAPResultUnwillingToPerform) {
		t.Errorf("another person: %v", err)
	}
	for i := range first {
		forged := slices.Clone(first)
		forged[i]++
		if _, err = page(c, "(cn=*)", forged); !client.IsErrorWithCode(err, client.LDAPResultUnwillingToPerform) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	if _, err = page(c, "(cn=*)", first); !client.IsErrorWithCode(err, client.LDAPResultSizeLimitExceeded) {
		t.Errorf("beyond the limit of entries: %v", err)
	}
}

// TestNoReferral checks that a base outside of the tree is no entry here: the server knows no other servers.
func TestNoReferral(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	_, err := w.client("alice", "secret-alice").Search(client.NewSearchRequest("dc=else,dc=com", 2, 0, 0, 0, false,
		"(cn=*)", nil, nil))
	w.wants(err, client.LDAPResultNoSuchObject, "")
}
