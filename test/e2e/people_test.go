package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// slapd starts an OpenLDAP with some entries; the password of its root is "chief".
func slapd(t *testing.T, ldif string) (port string) {
	t.Helper()
	return newSlapd(t, ldif).port
}

const ldapEntries = `dn: dc=example,dc=com
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
mail: n.new@example.com
userPassword: {SSHA}nvWYwSFKhC902Q0YkG7rSrw0RuMvKCsF

dn: cn=readers,dc=example,dc=com
objectClass: groupOfNames
cn: readers
member: uid=nora,ou=People,dc=example,dc=com
member: uid=reader07,ou=People,dc=example,dc=com

`

// TestImportLDAP imports people and groups from OpenLDAP, more than one response can hold, with passwords that work.
func TestImportLDAP(t *testing.T) {
	external.Need(t, "curl")
	entries := ldapEntries
	for i := range 30 {
		n := string(rune('0'+i/10)) + string(rune('0'+i%10))
		entries += strings.ReplaceAll("dn: uid=readerNN,ou=People,dc=example,dc=com\nobjectClass: inetOrgPerson\n"+
			"cn: Reader NN\nsn: NN\nuid: readerNN\nmail: readerNN@example.com\n\n", "NN", n)
	}
	port := slapd(t, entries)
	s := demo(t)
	url := "ldap://127.0.0.1:" + port + "/dc=example,dc=com"
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("chief\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "ldap", url, "--user", "cn=chief,dc=example,dc=com", "--password-file", secret}
	program.Want(t, s.Doublet(append(args, "--check", "--json")...), `"people":31`, `"groups":1`)
	program.Want(t, s.Doublet(append(args, "--json")...), `"people":31`, `"groups":1`, `"failed":0`)
	program.Want(t, s.Doublet("user", "show", "nora", "--json"), "n.new@example.com", `"password":true`)
	program.Want(t, s.Doublet("group", "show", "readers"), "Nora New", "Reader 07")
	for range 2 { // with the imported hash, then with ours
		program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX"), "-u", "nora:Grüße demo", "--login-options",
			"AUTH=PLAIN")
	}
	program.Want(t, s.Doublet(append(args, "--json")...), `"people":0`, `"present":32`)
	// A filter selects people; a wrong password is reported as such.
	program.Want(t, s.Doublet("import", "ldap", url+"??sub?(uid=nora)", "--json"), `"present":1`)
	if err := os.WriteFile(secret, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := program.Command(mustBinary(t), append(args, "--data", s.Data)...)
	if err == nil || !strings.Contains(text, "bind as cn=chief") {
		t.Error(text, err)
	}
}

// TestAccountPage checks that a person can change the password in a browser without scripts.
func TestAccountPage(t *testing.T) {
	external.Need(t, "curl")
	s := demo(t)
	page := "http://127.0.0.1:" + s.Port["http"] + "/account/password"
	program.Want(t, program.Run(t, "", nil, "curl", "-sf", page), "Change it")
	program.Want(t, program.Run(t, "", nil, "curl", "-s", page, "-d", "user=bob", "-d", "password=wrong", "-d",
		"new=a new secret", "-d", "again=a new secret"), "Wrong name or password")
	program.Want(t, program.Run(t, "", nil, "curl", "-sf", page, "-d", "user=bob", "-d", "password=demo", "-d",
		"new=a new secret", "-d", "again=a new secret"), "The password is changed")
	program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX"), "-u", "bob:a new secret")
	if out, err := program.Command("curl", "-s", s.imapURL("INBOX"), "-u", "bob:demo"); err == nil {
		t.Errorf("the old password still works: %s", out)
	}
}

// TestExportPerson moves a person from one server to another on the command line.
func TestExportPerson(t *testing.T) {
	external.Need(t, "/usr/bin/python3")
	s, other := demo(t), demo(t)
	dir := filepath.Join(t.TempDir(), "alice")
	s.Doublet("export", "person", "alice", dir)
	if b, err := os.ReadFile(filepath.Join(dir, "person.json")); err != nil || strings.Contains(string(b), "argon2") {
		t.Errorf("%s %v", b, err)
	}
	other.Doublet("user", "add", "Alice Two", "--short", "alice2", "--password", "two")
	other.Doublet("import", "person", dir, "--user", "alice2")
	near, far := imapClient(t, other.Port["imap"], "alice2", "two"), imapClient(t, s.Port["imap"], "alice", "demo")
	sameFolders(t, far, near, map[string]string{"INBOX": "INBOX", "Sent": "Sent", "Archive": "Archive"})
	// The same in one archive, which other programs can unpack.
	file := filepath.Join(t.TempDir(), "alice.zip")
	s.Doublet("export", "person", "alice", file)
	program.Want(t, program.Run(t, "", nil, "/usr/bin/python3", "-m", "zipfile", "-t", file), "Done testing")
	other.Doublet("user", "add", "Alice Three", "--short", "alice3", "--password", "three")
	other.Doublet("import", "person", file, "--user", "alice3")
	sameFolders(t, far, imapClient(t, other.Port["imap"], "alice3", "three"),
		map[string]string{"INBOX": "INBOX", "Sent": "Sent", "Archive": "Archive"})
	program.Want(t, other.Doublet("check", "--deep"), "")
}
