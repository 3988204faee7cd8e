package e2e

import (
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

// TestLDAP drives the doors ldap and ldaps with OpenLDAP's tools: binds over StartTLS and TLS, searches with pages and
// sorting, compare, Who am I, password modify, and what is refused.
func TestLDAP(t *testing.T) {
	external.Need(t, "ldapsearch", "ldapcompare", "ldapwhoami", "ldappasswd", "ldapdelete")
	s := demo(t)
	s.Doublet("user", "add", "Lena Lind", "--short", "lena", "--alias", "l.lind@example.com", "--password",
		"secret-lena")
	s.Doublet("user", "add", "Max Muster", "--short", "max", "--password", "secret-max")
	s.Doublet("group", "add", "Crew", "lena", "max", "--address", "crew@example.com")
	env := []string{"LDAPTLS_REQCERT=never"}
	url := "ldap://127.0.0.1:" + s.Port["ldap"]
	lena := []string{"-x", "-H", url, "-D", "uid=lena,ou=people,dc=example,dc=com", "-w", "secret-lena"}
	run := func(name string, args ...string) string { return program.Run(t, "", env, name, args...) }
	search := func(args ...string) string {
		return run("ldapsearch", append(append([]string{"-LLL", "-o", "ldif-wrap=no"}, lena...), args...)...)
	}
	fails := func(part, name string, args ...string) {
		t.Helper()
		out, err := program.Command(name, args...)
		if err == nil || !strings.Contains(out, part) {
			t.Errorf("%s %q: %v, %s", name, args, err, out)
		}
	}
	program.Want(t, run("ldapsearch", "-x", "-LLL", "-H", url, "-s", "base", "-b", "", "+"),
		"namingContexts: dc=example,dc=com", "supportedExtension: 1.3.6.1.4.1.1466.20037")
	fails("authentication required", "ldapsearch", "-x", "-H", url, "-b", "dc=example,dc=com", "(uid=max)")
	program.Want(t, search("-ZZ", "-b", "dc=example,dc=com", "(uid=max)"), "dn: uid=max,ou=people,dc=example,dc=com",
		"mail: max@example.com", "sn: Muster", "givenName: Max")
	program.Want(t, search("-b", "dc=example,dc=com", "(mailLocalAddress=L.LIND@example.com)", "memberOf"),
		"memberOf: cn=Crew,ou=groups,dc=example,dc=com")
	ldaps := append([]string{}, lena...)
	ldaps[2] = "ldaps://127.0.0.1:" + s.Port["ldaps"]
	program.Want(t, run("ldapwhoami", ldaps...), "dn:uid=lena,ou=people,dc=example,dc=com")
	out := search("-E", "pr=1/noprompt", "-S", "", "-E", "!sss=-cn", "-b", "ou=people,dc=example,dc=com",
		"(|(uid=lena)(uid=max))", "1.1")
	if i, j := strings.Index(out, "uid=max"), strings.Index(out, "uid=lena"); i < 0 || j < i {
		t.Errorf("sorted pages: %s", out)
	}
	fails("FALSE", "ldapcompare", append(append([]string{}, lena...), "uid=max,ou=people,dc=example,dc=com",
		"cn:lena")...)
	fails("TRUE", "ldapcompare", append(append([]string{}, lena...), "uid=max,ou=people,dc=example,dc=com",
		"cn:max muster")...)
	fails("Server is unwilling to perform", "ldapdelete", append(append([]string{}, lena...),
		"uid=max,ou=people,dc=example,dc=com")...)
	program.Want(t, search("-E", "!sync=ro", "-b", "ou=people,dc=example,dc=com", "(uid=max)", "mail"),
		"max@example.com")
	deep := strings.Repeat("(!", 1000) + "(cn=x)" + strings.Repeat(")", 1000)
	fails("filter too large", "ldapsearch", append(append([]string{}, lena...), "-b", "dc=example,dc=com", deep)...)
	run("ldappasswd", append(append([]string{}, lena...), "-a", "secret-lena", "-s", "another-secret")...)
	fails("Invalid credentials", "ldapwhoami", lena...)
	lena[len(lena)-1] = "another-secret"
	program.Want(t, run("ldapwhoami", lena...), "uid=lena")
	program.Want(t, s.Doublet("show", "stat", "LDAP"), "LDAP.Operations.Search", "LDAP.Passwords")
	program.Want(t, s.Doublet("show", "server"), "ldaps")
	t.Run("postmap", func(t *testing.T) { postmapLDAP(t, s, url) })
	t.Run("dovecot", func(t *testing.T) { dovecotLDAP(t, url) })
}

// postmapLDAP looks addresses up with Postfix's own LDAP client.
func postmapLDAP(t *testing.T, s *server, url string) {
	external.Need(t, "postmap")
	if _, err := os.Stat("/usr/lib/postfix/postfix-ldap.so"); err != nil {
		external.Missing(t, "the Debian package postfix-ldap", err.Error())
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.cf": "compatibility_level = 3.6\n",
		"people":  "result_attribute = uid\nquery_filter = (mailLocalAddress=%s)\n",
		"alias":   "query_filter = (&(objectClass=inetOrgPerson)(mailLocalAddress=%s))\nresult_attribute = mail\n",
		"group": "query_filter = (&(objectClass=groupOfNames)(mail=%s))\nleaf_result_attribute = mail\n" +
			"special_result_attribute = member\n",
	} {
		if name != "main.cf" {
			text += "server_host = " + url + "\nversion = 3\nbind = yes\nstart_tls = no\n" +
				"search_base = dc=example,dc=com\nbind_dn = uid=max,ou=people,dc=example,dc=com\nbind_pw = secret-max\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	look := func(key, table string) (string, error) {
		return program.Command("postmap", "-c", dir, "-q", key, "ldap:"+filepath.Join(dir, table))
	}
	for _, x := range []struct{ key, table, want string }{
		{"l.lind@example.com", "people", "lena"}, {"l.lind@example.com", "alias", "lena@example.com"},
	} {
		if out, err := look(x.key, x.table); err != nil || strings.TrimSpace(out) != x.want {
			t.Errorf("%s in %s: %q, %v", x.key, x.table, out, err)
		}
	}
	if out, err := look("nobody@example.com", "people"); err == nil {
		t.Errorf("nobody: %q", out)
	}
	s.Doublet("user", "set", "max", "--role", "Admin")
	if out, err := look("crew@example.com", "group"); err != nil || strings.TrimSpace(out) !=
		"lena@example.com,max@example.com" {
		t.Errorf("group: %q, %v", out, err)
	}
}

// dovecotLDAP lets Dovecot check passwords by binding, and look people up.
func dovecotLDAP(t *testing.T, url string) {
	external.Need(t, "dovecot", "doveadm")
	if os.Getuid() != 0 {
		external.Missing(t, "dovecot", "it starts as root only")
	}
	if _, err := os.Stat("/usr/lib/dovecot/modules/auth/libauthdb_ldap.so"); err != nil {
		external.Missing(t, "the Debian package dovecot-ldap", err.Error())
	}
	dir, err := os.MkdirTemp("", "dovecot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	conf := filepath.Join(dir, "dovecot.conf")
	for name, text := range map[string]string{
		conf: `protocols =
base_dir = DIR/run
state_dir = DIR/state
log_path = DIR/log
ssl = no
first_valid_uid = 1
passdb {
  driver = ldap
  args = DIR/ldap
}
userdb {
  driver = ldap
  args = DIR/ldap
  default_fields = uid=nobody gid=nogroup home=/nonexistent
}
`,
		filepath.Join(dir, "ldap"): "uris = " + url + `
ldap_version = 3
auth_bind = yes
dn = uid=max,ou=people,dc=example,dc=com
dnpass = secret-max
base = ou=people,dc=example,dc=com
user_attrs = uid=user, mail=mail_address
user_filter = (&(objectClass=inetOrgPerson)(|(uid=%u)(mailLocalAddress=%u)))
pass_attrs = uid=user
pass_filter = (&(objectClass=inetOrgPerson)(|(uid=%u)(mailLocalAddress=%u)))
`,
	} {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := &program.Output{}
	cmd := exec.Command("dovecot", "-F", "-c", conf)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "run/auth-client")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("dovecot does not start: %s", out)
		}
	}
	adm := func(args ...string) (string, error) {
		return program.Command("doveadm", append([]string{"-c", conf}, args...)...)
	}
	for _, user := range []string{"lena", "l.lind@example.com"} {
		if out, err := adm("auth", "test", user, "another-secret"); err != nil || !strings.Contains(out, "user=lena") {
			t.Errorf("sign-in of %s: %v %s", user, err, out)
		}
	}
	if out, err := adm("auth", "test", "lena", "wrong"); err == nil {
		t.Errorf("a wrong password signs in: %s", out)
	}
	if out, err := adm("user", "l.lind@example.com"); err != nil || !strings.Contains(out, "lena@example.com") {
		t.Errorf("user: %v %s", err, out)
	}
}
