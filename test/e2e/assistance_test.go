package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

const assistEntries = `dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=People,dc=example,dc=com
objectClass: organizationalUnit
ou: People

dn: uid=nora,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Nora New
sn: New
uid: nora
mail: nora@example.com
userPassword: secret-nora

dn: uid=olaf,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Olaf (Operations*)
sn: Operations
uid: olaf
mail: olaf@example.com
userPassword: secret-olaf

dn: cn=Crew,dc=example,dc=com
objectClass: groupOfNames
objectClass: extensibleObject
cn: Crew
mail: crew@example.com
member: uid=nora,ou=People,dc=example,dc=com
member: uid=olaf,ou=People,dc=example,dc=com

dn: ou=Far,dc=example,dc=com
objectClass: referral
objectClass: extensibleObject
ou: Far
ref: ldap://elsewhere.example/ou=Far,dc=example,dc=com

`

// TestAssistance signs people in over IMAP and at the web doors with the password that OpenLDAP keeps: a person who is
// added here before, and one whom the first sign-in adds. A directory that is away is a temporary error, and sign-ins
// work again when it is back.
func TestAssistance(t *testing.T) {
	external.Need(t, "curl", "slapd", "swaks")
	other := newSlapd(t, assistEntries)
	t.Setenv("DOUBLET_PROBES_EVERY", "Assistance=5s")
	s := demo(t)
	s.Doublet("assistance", "add", "corp", "--url", "ldap://127.0.0.1:"+other.port, "--base", "dc=example,dc=com",
		"--bind-dn", "cn=chief,dc=example,dc=com", "--password", "chief", "--use", "signin", "--use", "lookup",
		"--use", "groups", "--cache", "-1s", "--timeout", "3s")
	program.Want(t, s.Doublet("assistance", "test", "corp", "--user", "nora"), "people", "2 match", "Nora New",
		"cn=chief")
	if out, err := s.Try("assistance", "test", "corp", "--user", "nobody"); err == nil {
		t.Errorf("nobody was found: %s", out)
	}
	s.Doublet("user", "add", "Nora New", "--short", "nora", "--assistance", "corp", "--password", "")
	program.Want(t, s.Doublet("user", "show", "nora"), "corp")

	imap := func(user, secret string) string {
		out, _ := program.Command("curl", "-sv", "--max-time", "60", s.imapURL("INBOX"), "-u", user+":"+secret, "-X",
			"NOOP", "--login-options", "AUTH=PLAIN")
		return out
	}
	web := func(user, secret string) int {
		return s.browser().get("POST", "/auth/sign-in", `{"user":"`+user+`","password":"`+secret+`"}`, nil)
	}
	ok := "OK NOOP"
	program.Want(t, imap("nora", "secret-nora"), ok)
	if code := web("nora", "secret-nora"); code != 200 {
		t.Errorf("web: %d", code)
	}
	program.Want(t, imap("nora", "wrong"), "NO [AUTHENTICATIONFAILED]")
	if code := web("nora", "wrong"); code != 401 {
		t.Errorf("web, wrong password: %d", code)
	}
	// Some servers answer a name with an empty password with success (RFC 4513 section 5.1.2).
	if out := imap("nora", ""); strings.Contains(out, ok) {
		t.Errorf("an empty password signs in: %s", out)
	}
	if code := web("nora", ""); code != 400 {
		t.Errorf("web, empty password: %d", code)
	}
	// The name is a value, not a filter.
	for _, name := range []string{"*", "nora)(uid=*", "no*", `nora\`} {
		program.Want(t, imap(name, "secret-nora"), "NO [AUTHENTICATIONFAILED]")
	}

	// Olaf is not here until he signs in.
	program.Want(t, imap("olaf", "secret-olaf"), "NO [AUTHENTICATIONFAILED]")
	s.Doublet("assistance", "set", "corp", "--enroll")
	program.Want(t, imap("olaf", "wrong"), "NO [AUTHENTICATIONFAILED]")
	program.Want(t, imap("olaf@example.com", "secret-olaf"), ok)
	program.Want(t, s.Doublet("user", "show", "olaf"), "Olaf (Operations*)", "olaf@example.com", "corp")
	program.Want(t, imap("olaf", "secret-olaf"), ok)
	if out, err := s.Try("user", "password", "olaf", "--password", "another"); err == nil ||
		!strings.Contains(out, "another directory keeps the password") {
		t.Errorf("a password is set here: %v %s", err, out)
	}
	// Mail to the group there goes to its members here.
	program.Want(t, program.Run(t, "", nil, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from",
		"stranger@elsewhere.example", "--to", "crew@example.com", "--header", "Subject: to the crew"), "250 2.0.0")
	for _, user := range []string{"nora", "olaf"} {
		program.Want(t, program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX;MAILINDEX=1"), "-u",
			user+":secret-"+user, "--login-options", "AUTH=PLAIN"), "Subject: to the crew")
	}
	// The group there has access here, by a group of this directory.
	crew := s.Doublet("group", "add", "Crew here", "--assistance", "corp", "--entry", "cn=Crew,dc=example,dc=com")
	program.Want(t, crew, "Nora New", "Olaf (Operations*)")
	// What another server has is named, and not asked for.
	program.Want(t, s.Doublet("assistance", "test", "corp"), "2 match", "ldap://elsewhere.example/ou=Far")
	s.Doublet("assistance", "add", "far", "--url", "ldap://127.0.0.1:"+other.port, "--base", "dc=example,dc=org")
	if out, err := s.Try("assistance", "test", "far"); err == nil ||
		!strings.Contains(out, "referrals are not followed") || !strings.Contains(out, "ldap://elsewhere.example") {
		t.Errorf("a referral: %v %s", err, out)
	}
	s.Doublet("assistance", "remove", "far")
	app := lastWord(s.Doublet("user", "app-password", "add", "nora", "phone"))

	other.stop()
	program.Want(t, imap("nora", "secret-nora"), "NO [UNAVAILABLE]")
	program.Want(t, imap("nora", "wrong"), "NO [UNAVAILABLE]")
	if code := web("olaf", "secret-olaf"); code != 503 {
		t.Errorf("web, while the directory is away: %d", code)
	}
	program.Want(t, runFails(t, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from",
		"stranger@elsewhere.example", "--to", "staff@example.com"), "451 4.4.3")
	program.Want(t, imap("nora", app), ok)
	program.Want(t, imap("alice", "demo"), ok)
	if out, err := s.Try("assistance", "test", "corp"); err == nil || !strings.Contains(out, "connect") {
		t.Errorf("test, while the directory is away: %v %s", err, out)
	}
	events := func() string { return s.Doublet("show", "events", "--probe", "Assistance") }
	until(t, "the event opens", func() bool { return strings.Contains(events(), "corp") })

	other.start()
	until(t, "sign-in works again", func() bool {
		out := imap("nora", "secret-nora")
		if !strings.Contains(out, ok) && !strings.Contains(out, "NO [UNAVAILABLE]") {
			t.Fatalf("after the return of the directory: %s", out)
		}
		return strings.Contains(out, ok)
	})
	until(t, "the event closes", func() bool { return !strings.Contains(events(), "corp") })
	if code := web("olaf", "secret-olaf"); code != 200 {
		t.Errorf("web: %d", code)
	}
	program.Want(t, s.Doublet("show", "stat", "Directory.Assistance"), "Directory.Assistance.Succeeded",
		"Directory.Assistance.Away")
}

// openLDAP is a slapd that can be stopped and started again. The password of its root is "chief".
type openLDAP struct {
	t                *testing.T
	path, file, port string
	cmd              *exec.Cmd
}

// newSlapd starts an OpenLDAP with some entries.
func newSlapd(t *testing.T, ldif string) *openLDAP {
	t.Helper()
	dir := t.TempDir()
	o := &openLDAP{t: t, path: external.Need(t, "slapd")[0], file: filepath.Join(dir, "slapd.conf"),
		port: program.FreePorts(t, 1)[0]}
	entries := filepath.Join(dir, "entries.ldif")
	for name, text := range map[string]string{o.file: strings.ReplaceAll(slapdConf, "DIR", dir), entries: ldif} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program.Run(t, "", nil, o.path, "-Ta", "-f", o.file, "-l", entries) // slapadd
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *openLDAP) start() {
	o.t.Helper()
	out := &program.Output{}
	o.cmd = exec.Command(o.path, "-f", o.file, "-h", "ldap://127.0.0.1:"+o.port, "-d", "0")
	o.cmd.Stdout, o.cmd.Stderr = out, out
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+o.port, time.Second)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("slapd does not answer: %s", out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (o *openLDAP) stop() {
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	_ = o.cmd.Wait()
}

const slapdConf = `
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile DIR/pid
modulepath /usr/lib/ldap
moduleload back_mdb
sizelimit 10
referral ldap://elsewhere.example
database mdb
suffix "dc=example,dc=com"
rootdn "cn=chief,dc=example,dc=com"
rootpw chief
directory DIR
limits * size.soft=10 size.hard=10 size.pr=10 size.prtotal=unlimited
access to attrs=userPassword by anonymous auth by * none
access to * by * read
`
