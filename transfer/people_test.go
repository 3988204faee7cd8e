package transfer

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/ldap"
	"doublet/directory"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store/layout"
)

const ldifText = `version: 1

# the base
dn: dc=example,dc=com
objectClass: dcObject
dc: example

dn: uid=ada,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Ada Lovelace
sn: Lovelace
uid: ada
mail: ada@example.com
mail: countess@example.com
mailAlternateAddress: first.programmer@example.com
userPassword: {SSHA}nvWYwSFKhC902Q0YkG7rSrw0RuMvKCsF

dn: uid=bo,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn:: QsO4IEJqw7hybg==
sn: B
uid: bo
mail: bo@example.com
userPassword: {NTLM}0123456789

dn: uid=cy,ou=People,dc=example,dc=com
objectClass: user
displayName: Cy Young
sAMAccountName: cy
proxyAddresses: SMTP:cy@example.com
proxyAddresses: smtp:c.young@example.com
proxyAddresses: X400:nonsense
userPassword: {PLAIN}secret

dn: cn=all,ou=Groups,dc=example,dc=com
objectClass: groupOfNames
cn: all
mail: all@example.com
member: cn=math,ou=Groups,dc=example,dc=com
member: uid=cy,ou=People,dc=example,dc=com
member: uid=gone,ou=People,dc=example,dc=com

dn: cn=math,ou=Groups,dc=example,dc=com
objectClass: groupOfUniqueNames
cn: math
uniqueMember: uid=ada,ou=People,dc=example,dc=com
uniqueMember: uid=bo,
 ou=People,dc=example,dc=com

dn: cn=info,ou=Aliases,dc=example,dc=com
objectClass: nisMailAlias
cn: info
rfc822MailMember: ada

dn: uid=evil,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Evil
uid: evil
description:< file:///etc/passwd
`

func TestImportLDIF(t *testing.T) {
	t.Parallel()
	s := newService(t)
	writeFile(t, s, "people.ldif", ldifText)
	dry := must[ImportedPeople](t)(s.job().People(context.Background(),
		&Table{File: "people.ldif", Format: "ldif", Check: true}))
	if dry.People != 3 || dry.Groups != 2 || dry.Failed != 1 {
		t.Errorf("check: %+v", dry)
	}
	if _, err := s.directory.Names.PersonNamed(context.Background(), "ada"); !errors.Is(err, directory.ErrNotFound) {
		t.Errorf("--check added somebody: %v", err)
	}
	got := must[ImportedPeople](t)(s.job().People(context.Background(), &Table{File: "people.ldif", Format: "ldif"}))
	if got.People != 3 || got.Groups != 2 || got.Aliases != 1 || got.Failed != 1 || len(got.Notes) != 2 ||
		!strings.Contains(got.Errors[0], "name a file") || !strings.Contains(got.Notes[0], "unknown scheme {NTLM}") ||
		!strings.Contains(got.Notes[1], "uid=gone") {
		t.Errorf("%+v", got)
	}
	ada := named(t, s, "ada")
	aliases := []string{"countess@example.com", "first.programmer@example.com", "info@example.com"}
	if ada.Name() != "Ada Lovelace" || !slices.Equal(ada.MailAddress, aliases) || !ada.HasPassword {
		t.Errorf("%+v", ada)
	}
	if bo := named(t, s, "bo"); bo.Name() != "Bø Bjørn" || bo.HasPassword {
		t.Errorf("%+v", bo)
	}
	ctx := context.Background()
	if _, _, err := s.directory.SignIns.Authenticate(ctx, "ada", "Grüße demo", "test"); err != nil {
		t.Error(err)
	}
	// After the first sign-in the person has a hash of ours, and can sign in with it again.
	if _, _, err := s.directory.SignIns.Authenticate(ctx, "ada@example.com", "Grüße demo", "test"); err != nil {
		t.Error(err)
	}
	if _, _, err := s.directory.SignIns.Authenticate(ctx, "cy", "secret", "test"); err != nil {
		t.Error(err)
	}
	g := must[directory.Group](t)(s.directory.Groups.Named(ctx, "all"))
	if len(g.Members) != 2 {
		t.Errorf("%+v", g)
	}
	again := must[ImportedPeople](t)(s.job().People(context.Background(), &Table{File: "people.ldif", Format: "ldif"}))
	if again.People != 0 || again.Groups != 0 || again.Aliases != 0 || again.Present != 6 {
		t.Errorf("again: %+v", again)
	}
}

func TestLDIFBounds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"dn: x\nuid", "dn: x\nchangetype: modify\nadd: mail\nmail: x\n-\n",
		"dn: x\nuid:: !!!\n", "uid: x\n"} {
		var failed error
		if err := readLDIF(strings.NewReader(text), func(_ int, _ ldap.Entry,
			err error) error {
			failed = err
			return nil
		}); err != nil || failed == nil {
			t.Errorf("%q: %v, %v", text, failed, err)
		}
	}
	if err := readLDIF(strings.NewReader("dn: "+strings.Repeat("x", maxLDIFRecord+10)),
		func(int, ldap.Entry, error) error { return nil }); err == nil {
		t.Error("a record without end is taken")
	}
}

func FuzzLDIF(f *testing.F) {
	f.Add(ldifText)
	f.Add("dn: x\nuid:< file:///etc/passwd\n")
	f.Add("dn: x\nuid:\n < file:///etc/passwd\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = readLDIF(strings.NewReader(text), func(_ int, e ldap.Entry, err error) error {
			if err == nil && strings.Contains(fmt.Sprint(e.Attributes), "root:x:0:0") &&
				!strings.Contains(text, "root:x:0:0") {
				t.Errorf("%q read a file", text)
			}
			return nil
		})
	})
}

func TestImportPostfix(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, name := range []string{"Ada", "Bo"} {
		add(t, s, name, strings.ToLower(name))
	}
	writeFile(t, s, "aliases", `# aliases(5)
postmaster: ada
root:	ada, bo
"the boss": bo
list: :include:/etc/list
prog: "|/bin/true", bo
outside: someone@elsewhere.example
team: ada,
	bo,
	outside@elsewhere.example
example.com anything
webmaster@example.com ada@example.com
@example.com ada
loop: loop
broken
`)
	got := must[ImportedPeople](t)(s.job().People(context.Background(),
		&Table{File: "aliases", Format: "postfix-aliases"}))
	if got.Aliases != 3 || got.Groups != 3 || got.Failed != 5 {
		t.Errorf("%+v", got)
	}
	if ada := named(t, s, "ada"); !slices.Equal(ada.MailAddress,
		[]string{"postmaster@example.com", "webmaster@example.com"}) {
		t.Errorf("%+v", ada)
	}
	for address, n := range map[string]int{"root@example.com": 2, "outside@example.com": 1, "team@example.com": 3} {
		if g := must[directory.Group](t)(s.directory.Groups.Named(context.Background(), address)); len(g.Members) != n {
			t.Errorf("%s: %+v", address, g)
		}
	}
	again := must[ImportedPeople](t)(s.job().People(context.Background(),
		&Table{File: "aliases", Format: "postfix-aliases"}))
	if again.Aliases+again.Groups != 0 || again.Present != 6 {
		t.Errorf("again: %+v", again)
	}
}

func TestImportPasswd(t *testing.T) {
	t.Parallel()
	s := newService(t)
	writeFile(t, s, "passwd",
		"root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:Ada Lovelace,,,:/home/ada:/bin/sh\n"+
			"bo:x:1001:1001::/home/bo:/bin/sh\ncy:x:1002:1002:Cy:/h:/bin/sh\ndee:x:1003:1003:Dee:/h:/bin/sh\n"+
			"eve:x:1004:1004:Eve:/h:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"+
			"dot@example.com:{SSHA}nvWYwSFKhC902Q0YkG7rSrw0RuMvKCsF::::::\n")
	writeFile(t, s, "shadow",
		"root:*:1::::::\nada:$6$mg1xiQsT6dQE7IvI$7Y9Ev7lfOgWPnRePNZg/2ThCiAQ/CTVlmSUbKdZgCqkUgkOBtAjyNLkFdn63wZ0"+
			"Ew0j3bQnsdy6xyAa1wXGk30:1::::::\nbo:!:1::::::\ncy:$y$jFT$abcdefgh$kh8xQrLw4WEFH5TNkA/dNLLMhYcmL4YIQ"+
			"THU9yfFRf6:1::::::\ndee:ab01FAX.bQRSU:1::::::\neve:$y$j9T$abcdefgh$Q0cQnY8eg88ePrqylAAXilmdsmliwZWt"+
			"M5aab0R38EB:1::::::\n")
	got := must[ImportedPeople](t)(s.job().People(context.Background(),
		&Table{File: "passwd", Format: "passwd", Shadow: "shadow"}))
	if got.People != 6 || got.Failed != 0 || len(got.Notes) != 3 || !strings.Contains(got.Notes[0], "locked") ||
		!strings.Contains(got.Notes[1], "yescrypt") || !strings.Contains(got.Notes[2], "DES crypt") {
		t.Errorf("%+v", got)
	}
	for _, user := range []string{"ada", "eve", "dot@example.com"} {
		if _, _, err := s.directory.SignIns.Authenticate(context.Background(), user, "Grüße demo", "test"); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	for _, user := range []string{"bo", "cy", "dee"} {
		for _, word := range []string{"", "ab01FAX.bQRSU"} {
			if _, _, err := s.directory.SignIns.Authenticate(context.Background(), user, word, "test"); !errors.Is(err,
				directory.ErrAuthentication) {
				t.Errorf("%s: %v", user, err)
			}
		}
	}
}

// contents returns the content of a person's mail file, by folder.
func contents(t *testing.T, s *Service, user string) map[string][]string {
	t.Helper()
	ctx := context.Background()
	p, err := s.directory.Names.PersonNamed(ctx, user)
	if err != nil {
		t.Fatal(err)
	}
	who, err := s.directory.Names.WhoOf(ctx, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	file := s.mailbox.File(who, p.MailDatabase)
	folders, err := file.Folders(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, f := range folders {
		key := fmt.Sprintf("%s|%s|%v", f.Name, f.SpecialUse, f.Subscribed)
		out[key] = []string{}
		v, _, err := file.Open(ctx, f.Name, true)
		if err != nil {
			t.Fatal(err)
		}
		err = v.Fetch(ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
			func(m *mailbox.Message) (bool, error) {
				body, err := m.Body()
				if err != nil {
					return false, err
				}
				raw, err := body.AppendRange(nil, 0, body.Size())
				out[key] = append(out[key], fmt.Sprintf("%s|%s|%q", m.Flags().AppendIMAP(nil),
					m.Date().Format(time.RFC3339), raw))
				return false, err
			}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestExportPerson exports a person and imports them on another server: everything is the same, in both formats. A
// second import adds nothing.
func TestExportPerson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, path string }{{"maildir", "out"}, {"mbox", "out"}, {"maildir", "deep/out.zip"},
		{"mbox", "out.ZIP"}} {
		format, path := c.format, c.path
		s, other := newService(t), newService(t)
		p := add(t, s, "Ada Lovelace", "ada", "countess@example.com")
		ctx := context.Background()
		p, err := s.directory.People.Set(ctx, note.System, p.ID,
			func(f *directory.PersonFields) error { f.Quota = 1 << 30; return nil })
		if err != nil {
			t.Fatal(err)
		}
		who, err := s.directory.Names.WhoOf(ctx, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		file := s.mailbox.File(who, p.MailDatabase)
		for _, name := range []string{"Projekte/Größe & Maß", "a.b/c", ".hidden", "empty"} {
			if _, err := file.Create(ctx, name, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Subscribe(ctx, "empty", false); err != nil {
			t.Fatal(err)
		}
		messages := []string{"Subject: one\r\n\r\nFrom here\r\n>From there\r\n",
			"Subject: two\r\n\r\n\xff\xfe\r\n", "x\r\n"}
		if format == "maildir" { // content that mbox lines cannot represent
			messages = append(messages, "", "no end", "bare\nends\rhere\n",
				"Subject: big\r\n\r\n"+strings.Repeat("0123456789abcdef", 10_000))
		}
		many := mailbox.Flags{Seen: true}
		for i := range 40 {
			many.Keywords = append(many.Keywords, fmt.Sprintf("keyword-%02d", i))
		}
		for i, m := range messages {
			for _, folder := range []string{"INBOX", "Sent", "Projekte/Größe & Maß", "a.b/c", ".hidden"} {
				fl := []mailbox.Flags{{}, {Seen: true, Keywords: []string{"$flagged", "work"}}, many,
					{Deleted: true}}[i%4]
				if _, _, err := file.Append(ctx, folder, []byte(m), fl,
					time.Unix(int64(1_000_000_000+i*86_400), 0)); err != nil {
					t.Fatal(err)
				}
			}
		}
		must[Result](t)(s.job().ExportPerson(ctx, &PersonExport{User: "ada", Path: path, Format: format}))
		copyTree(t, s, other, strings.Split(path, "/")[0])
		done := must[Result](t)(other.job().ImportPerson(ctx, &PersonImport{Path: path}))
		if done.Messages != uint64(5*len(messages)) || done.Failed > 0 {
			t.Errorf("%s: %+v", format, done)
		}
		want, got := contents(t, s, "ada"), contents(t, other, "ada")
		for k := range want {
			if !slices.Equal(want[k], got[k]) {
				t.Errorf("%s: folder %s differs:\n%.600v\n%.600v", format, k, want[k], got[k])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d folders, want %d", format, len(got), len(want))
		}
		u := named(t, other, "countess@example.com")
		info := must[layout.Info](t)(other.store.Info(u.MailDatabase))
		if u.Name() != "Ada Lovelace" || u.ShortName != "ada" || u.Quota != 1<<30 || info.Quota != 1<<30 ||
			u.HasPassword {
			t.Errorf("%s: %+v", format, u)
		}
		if again := must[Result](t)(other.job().ImportPerson(ctx, &PersonImport{Path: path})); again.Messages != 0 ||
			again.Present != done.Messages {
			t.Errorf("%s: again: %+v", format, again)
		}
		if isArchive(path) {
			zipped(t, other, path, format == "maildir")
			if _, err := s.job().ExportPerson(ctx, &PersonExport{User: "ada", Path: path,
				Format: format}); !errors.Is(err, fs.ErrExist) {
				t.Errorf("an export over another: %v", err)
			}
			continue
		}
		if raw := readFile(t, other, "out/person.json"); strings.Contains(raw, "argon2") ||
			strings.Contains(raw, "secret") {
			t.Errorf("person.json tells a secret: %s", raw)
		}
	}
}

// zipped checks a zip export with another reader: it unpacks to the same tree, and there is no other file beside it.
func zipped(t *testing.T, s *Service, path string, maildirs bool) {
	t.Helper()
	raw := readFile(t, s, path)
	z, err := zip.NewReader(strings.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range z.File {
		if names[f.Name] || !filepath.IsLocal(f.Name) {
			t.Errorf("entry %q", f.Name)
		}
		names[f.Name] = true
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil { // verifies the checksum
			t.Errorf("%s: %v", f.Name, err)
		}
		_ = r.Close()
	}
	if !names["person.json"] || !names["1.messages.jsonl"] || names["new/"] != maildirs ||
		names["INBOX.mbox"] == maildirs {
		t.Errorf("%v", names)
	}
	if _, err := s.env.FS.Stat(path + partSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}

// TestExportBreaksOff checks that after a disk failure, neither the file nor its temporary part exists. A file that is
// not an export is rejected.
func TestExportBreaksOff(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := add(t, s, "Ada Lovelace", "ada")
	ctx := context.Background()
	faults := s.env.FS.(*env.Faults)
	for _, op := range []env.Op{env.OpCreate, env.OpWrite, env.OpRename} {
		faults.FailFiles(op, func(name string) bool { return strings.HasPrefix(name, "ada.zip") }, env.ErrNoSpace)
		if _, err := s.job().ExportPerson(ctx, &PersonExport{User: p.ShortName, Path: "ada.zip",
			Format: "maildir"}); !env.IsNoSpace(err) {
			t.Errorf("%s fails: %v", op, err)
		}
		faults.Heal()
		for _, name := range []string{"ada.zip", "ada.zip" + partSuffix} {
			if _, err := faults.Stat(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s fails, and %s is there: %v", op, name, err)
			}
		}
	}
	must[Result](t)(s.job().ExportPerson(ctx, &PersonExport{User: p.ShortName, Path: "ada.zip", Format: "maildir"}))
	raw := readFile(t, s, "ada.zip")
	writeFile(t, s, "cut.zip", raw[:len(raw)-10])
	writeFile(t, s, "text.zip", "no archive")
	for _, name := range []string{"cut.zip", "text.zip"} {
		if _, err := s.job().ImportPerson(ctx, &PersonImport{Path: name}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var empty bytes.Buffer
	if err := zip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s, "empty.zip", empty.String())
	if _, err := s.job().ImportPerson(ctx, &PersonImport{Path: "empty.zip"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an archive of something else: %v", err)
	}
}

func TestIMAPFolderNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, delimiter, want string }{
		{"a.b", ".", "a/b"}, {"a/b", ".", "a_b"}, {"a//b", "/", "a/_/b"}, {"a\x01b", "/", "a_b"}, {"..", "/", "_"},
		{"a.", ".", "a"}, {"Größe", "", "Größe"},
	} {
		delimiter := c.delimiter
		if delimiter == "" {
			delimiter = "/"
		}
		if got := localName(c.name, delimiter); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestIMAPPeopleFile(t *testing.T) {
	t.Parallel()
	got, err := readImapPeople(strings.NewReader("\ufefflogin, user ,password\nx@far,ada,\"a,b\"\n,bo,\n"), "common")
	if err != nil || len(got) != 2 || got[0] != (imapPerson{"ada", "x@far", "a,b"}) ||
		got[1] != (imapPerson{"bo", "", "common"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "login\nx\n", "user,shoe\nx,y\n", "user,login\nx\n"} {
		if got, err := readImapPeople(strings.NewReader(text), ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func readFile(t *testing.T, s *Service, path string) string {
	t.Helper()
	f, err := s.env.FS.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// copyTree copies a folder from one machine to another.
func copyTree(t *testing.T, from, to *Service, path string) {
	t.Helper()
	info, err := from.env.FS.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		writeFile(t, to, path, readFile(t, from, path))
		return
	}
	if err := to.env.FS.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := from.env.FS.List(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		copyTree(t, from, to, from.env.FS.PathJoin(path, name))
	}
}

// TestImportKeepsNUL checks that only imports accept mail with NUL characters.
func TestImportKeepsNUL(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	const raw = "Subject: nul\r\n\r\na\x00b\r\n"
	for _, sub := range []string{"cur", "new", "tmp"} {
		if err := s.env.FS.MkdirAll("M/"+sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, s, "M/cur/1000000000.M1.host:2,S", raw)
	if done := must[Result](t)(s.job().Maildir(context.Background(),
		&Maildir{Path: "M", User: "ada"})); done.Messages != 1 || done.Failed != 0 {
		t.Errorf("%+v", done)
	}
	if got := contents(t, s, "ada")["INBOX||true"]; len(got) != 1 ||
		!strings.HasSuffix(got[0], fmt.Sprintf("%q", raw)) {
		t.Errorf("%q", got)
	}
	p, err := s.directory.Names.PersonNamed(context.Background(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	who, err := s.directory.Names.WhoOf(context.Background(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.mailbox.File(who, p.MailDatabase).Append(context.Background(), "INBOX", []byte(raw),
		mailbox.Flags{}, time.Now()); !errors.Is(err, mailbox.ErrBadMessage) {
		t.Errorf("APPEND takes a NUL: %v", err)
	}
}
