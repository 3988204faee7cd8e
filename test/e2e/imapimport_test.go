package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/client/imap"
	"doublet/test/external"
	"doublet/test/program"
	wire "doublet/wire/imap"
)

// dovecot starts a Dovecot with the password "far" for everyone.
func dovecot(t *testing.T) (port string) {
	t.Helper()
	port, _ = dovecotAt(t)
	return port
}

// dovecotAt does the work of dovecot; mail is the folder with all Maildirs.
func dovecotAt(t *testing.T) (port, mail string) {
	t.Helper()
	external.Need(t, "dovecot")
	if os.Getuid() != 0 {
		external.Missing(t, "root", "Dovecot starts as root only")
	}
	dir, err := os.MkdirTemp("", "dovecot") // not below a folder that only root may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, filepath.Join(dir, "mail")} {
		_ = os.Mkdir(d, 0o777)
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	port = program.FreePorts(t, 1)[0]
	conf := strings.NewReplacer("DIR", dir, "PORT", port).Replace(`
protocols = imap
listen = 127.0.0.1
base_dir = DIR/run
state_dir = DIR/state
log_path = DIR/log
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login scram-sha-256
auth_master_user_separator = *
mail_location = maildir:DIR/mail/%u
mail_uid = nobody
mail_gid = nogroup
first_valid_uid = 1
first_valid_gid = 1
passdb {
  driver = static
  master = yes
  args = password=chief allow_nets=127.0.0.1
  result_success = continue
}
passdb {
  driver = static
  args = password=far
}
userdb {
  driver = static
  args = uid=nobody gid=nogroup home=DIR/mail/%u
}
namespace inbox {
  inbox = yes
  separator = .
  prefix = INBOX.
  mailbox "Sent Items" {
    special_use = \Sent
    auto = create
  }
  mailbox All {
    special_use = \All
    auto = create
  }
}
service imap-login {
  inet_listener imap {
    port = PORT
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
service stats {
  chroot =
}
`)
	file := filepath.Join(dir, "dovecot.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &program.Output{}
	cmd := exec.Command("dovecot", "-F", "-c", file)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	s := &server{&program.Server{T: t, Port: map[string]string{"imap": port}, Out: out}}
	s.Await("imap")
	return port, filepath.Join(dir, "mail")
}

func imapClient(t *testing.T, port, user, password string) *imap.Client {
	t.Helper()
	c, err := imap.Dial(func(network, address string, timeout time.Duration) (net.Conn, error) {
		return net.DialTimeout(network, address, 10*time.Second)
	}, "127.0.0.1:"+port, imap.Options{})
	if err == nil {
		err = c.Login(user, password)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// message is a message as IMAP shows it.
type message struct {
	raw, flags string
	date       time.Time
}

// folderContent returns all messages of a folder, in order of UID.
func folderContent(t *testing.T, c *imap.Client, folder string) (out []message) {
	t.Helper()
	sel, err := c.Select(&wire.Select{Mailbox: folder}, true)
	if err != nil {
		t.Fatal(folder, err)
	}
	if sel.Exists == 0 {
		return nil
	}
	items := []wire.FetchItem{{Kind: wire.ItemUID}, {Kind: wire.ItemFlags}, {Kind: wire.ItemInternalDate},
		{Kind: wire.ItemBodySection, Peek: true}}
	err = c.Fetch(&wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 0}}}, Items: items}, true,
		func(d *wire.FetchData) error {
			if len(d.Sections) != 1 {
				return nil
			}
			flags := slices.DeleteFunc(slices.Clone(d.Flags),
				func(f string) bool { return strings.EqualFold(f, `\Recent`) })
			for i := range flags {
				flags[i] = strings.ToLower(flags[i])
			}
			slices.Sort(flags)
			out = append(out, message{d.Sections[0].Data, strings.Join(flags, " "), d.InternalDate.UTC()})
			return nil
		}, nil)
	if err != nil {
		t.Fatal(folder, err)
	}
	return out
}

func sameFolders(t *testing.T, far, near *imap.Client, names map[string]string) {
	t.Helper()
	for there, here := range names {
		a, b := folderContent(t, far, there), folderContent(t, near, here)
		if len(a) != len(b) {
			t.Errorf("%s has %d messages, %s %d", there, len(a), here, len(b))
			continue
		}
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("%s message %d differs: %d bytes, %q, %v; here %d bytes, %q, %v", there, i+1,
					len(a[i].raw), a[i].flags, a[i].date, len(b[i].raw), b[i].flags, b[i].date)
			}
		}
	}
}

// mimeCorpus returns messages that are difficult to carry, and real ones if they are beside the repository.
func mimeCorpus(t *testing.T) (out []string) {
	t.Helper()
	archive := "../../../shared/corpus/spamassassin-easy_ham-spam.tar.xz"
	if _, err := os.Stat(archive); err == nil {
		dir := t.TempDir()
		program.Run(t, "", nil, "tar", "xJf", archive, "-C", dir)
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || len(out) >= 600 {
				return err
			}
			b, err := os.ReadFile(path)
			if i := strings.IndexByte(string(b), '\n'); strings.HasPrefix(string(b), "From ") {
				b = b[i+1:]
			}
			text := strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n", "\r\n")
			if strings.IndexByte(text, 0) < 0 { // no literal can hold one
				out = append(out, text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	big := "Subject: big\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nGr\xfc\xdfe\r\n--b\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\n" +
		strings.Repeat(strings.Repeat("QUJD", 19)+"\r\n", 5000) + "--b--\r\n"
	return append([]string{big, "Subject: no body\r\n\r\n", "no header at all\r\n",
		"Subject: 8 bit \xe4\r\n\r\n\xff\r\n", "Subject: plain\r\n\r\nHello.\r\n"}, out...)
}

func fill(t *testing.T, c *imap.Client, folder string, messages []string) {
	t.Helper()
	if err := c.Create(folder); err != nil {
		var status *imap.StatusError
		if !errors.As(err, &status) {
			t.Fatal(err)
		}
	}
	sets := [][]wire.Flag{nil, {`\Seen`}, {`\Seen`, `\Answered`, `\Flagged`}, {`\Draft`, "$Forwarded", "Work"},
		{`\Deleted`}}
	for i, m := range messages {
		date := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC).Add(time.Duration(i) * 71 * time.Hour)
		if _, err := c.Append(folder, sets[i%len(sets)], date, strings.NewReader(m), int64(len(m))); err != nil {
			t.Fatal(folder, i, err)
		}
	}
}

// TestImportIMAP imports a person from Dovecot, in two runs with changes between. Dovecot has another separator, a
// prefix, special uses, and names in several scripts.
func TestImportIMAP(t *testing.T) {
	port := dovecot(t)
	s := demo(t)
	corpus := mimeCorpus(t)
	far := imapClient(t, port, "nora", "far")
	fill(t, far, "INBOX", corpus)
	fill(t, far, "INBOX.Sent Items", corpus[:3])
	fill(t, far, "INBOX.Sent Items.2024", corpus[:2])
	fill(t, far, "INBOX.Projekte.Größe & Maß.a", corpus[2:5])
	fill(t, far, "INBOX.All", corpus[:1])
	if err := far.Create("INBOX.leer"); err != nil {
		t.Fatal(err)
	}
	s.Doublet("user", "add", "Nora New", "--short", "nora", "--password", "near")
	args := []string{"import", "imap", "127.0.0.1:" + port, "--tls", "none", "--user", "nora", "--login", "nora",
		"--password", "far"}
	program.Want(t, s.Doublet(append(args, "--check")...), fmt.Sprintf("INBOX → INBOX: %d messages, %d new",
		len(corpus), len(corpus)), "INBOX.Sent Items → Sent: 3")
	out := s.Doublet(args...)
	program.Want(t, out, "left out: INBOX.All")
	names := map[string]string{
		"INBOX": "INBOX", "INBOX.Sent Items": "Sent", "INBOX.Sent Items.2024": "Sent/2024",
		"INBOX.Projekte.Größe & Maß.a": "Projekte/Größe & Maß/a", "INBOX.leer": "leer",
	}
	near := imapClient(t, s.Port["imap"], "nora", "near")
	sameFolders(t, far, near, names)

	// A second run imports no message twice. It imports new messages and changed flags.
	program.Want(t, s.Doublet(args...), ": 0 messages")
	sameFolders(t, far, near, names)
	if _, err := far.Select(&wire.Select{Mailbox: "INBOX"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Store(&wire.Store{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 2}}}, Op: wire.StoreReplace,
		Flags: []wire.Flag{`\Flagged`, "Late"}}, true, nil); err != nil {
		t.Fatal(err)
	}
	fill(t, far, "INBOX", corpus[:2])
	program.Want(t, s.Doublet(args...), ": 2 messages", "flags of 2 changed")
	sameFolders(t, far, near, names)

	// A master user imports several people.
	file := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(file, []byte("user,login\nnora,nora\nalice,otto\nghost,otto\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fill(t, imapClient(t, port, "otto", "far"), "INBOX", corpus[:4])
	text, err := program.Command(mustBinary(t), "import", "imap", "127.0.0.1:"+port, "--tls", "none", "--people", file,
		"--master", "root", "--master-password", "chief", "--data", s.Data)
	if err == nil {
		t.Error("a person who does not exist is no failure")
	}
	program.Want(t, text, "Nora New: 0 messages", ": 4 messages", "ghost: 0 messages", "ended early")

	// A wrong password is reported as such.
	text, err = program.Command(mustBinary(t), "import", "imap", "127.0.0.1:"+port, "--tls", "none", "--user", "nora",
		"--login", "nora", "--password", "wrong", "--data", s.Data)
	if err == nil || !strings.Contains(text, "sign in as nora") {
		t.Error(text, err)
	}
	program.Want(t, s.Doublet("check", "--deep"), "")
}

func mustBinary(t *testing.T) string {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImportKilled kills the server during an import. The next run continues, and every message is there once.
func TestImportKilled(t *testing.T) {
	port := dovecot(t)
	s := demo(t)
	far := imapClient(t, port, "nora", "far")
	messages := make([]string, 1500)
	for i := range messages {
		messages[i] = fmt.Sprintf("Subject: message %d\r\n\r\n%s\r\n", i, strings.Repeat("text ", i%500))
	}
	fill(t, far, "INBOX", messages)
	s.Doublet("user", "add", "Nora New", "--short", "nora", "--password", "near")
	args := []string{"import", "imap", "127.0.0.1:" + port, "--tls", "none", "--user", "nora", "--login", "nora",
		"--password", "far"}
	near := imapClient(t, s.Port["imap"], "nora", "near")
	ended := make(chan error, 1)
	go func() {
		_, err := program.Command(mustBinary(t), append(args, "--data", s.Data)...)
		ended <- err
	}()
	for n := uint32(0); n < 150; {
		st, err := near.Status("INBOX", wire.StatusMessages)
		if err != nil {
			t.Fatal(err)
		}
		n = st.Messages
	}
	s.Stop(syscall.SIGKILL)
	if err := <-ended; err == nil {
		t.Error("the import ended well although its server was killed")
	}
	s.Start()
	near = imapClient(t, s.Port["imap"], "nora", "near")
	st, err := near.Status("INBOX", wire.StatusMessages)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d messages were there after the kill", st.Messages, len(messages))
	if int(st.Messages) >= len(messages) {
		t.Error("the import was too fast to be killed")
	}
	s.Doublet(args...)
	sameFolders(t, far, near, map[string]string{"INBOX": "INBOX"})
}

// TestImportBadMessage checks that a message that the other server cannot read is reported, and that the others are
// imported.
func TestImportBadMessage(t *testing.T) {
	port, mail := dovecotAt(t)
	s := demo(t)
	far := imapClient(t, port, "nora", "far")
	fill(t, far, "INBOX", []string{"Subject: one\r\n\r\n", "Subject: two\r\n\r\n", "Subject: three\r\n\r\n",
		"Subject: four\r\n\r\n"})
	if err := far.Logout(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(mail, "nora", "cur", "*"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	if err := os.Chmod(files[1], 0); err != nil {
		t.Fatal(err)
	}
	s.Doublet("user", "add", "Nora New", "--short", "nora", "--password", "near")
	text, err := program.Command(mustBinary(t), "import", "imap", "127.0.0.1:"+port, "--tls", "none", "--user", "nora",
		"--login", "nora", "--password", "far", "--data", s.Data)
	if err == nil {
		t.Error("a message that did not come is no failure")
	}
	program.Want(t, text, ": 3 messages", "1 failed", "failed: INBOX UID ")
	if got := folderContent(t, imapClient(t, s.Port["imap"], "nora", "near"), "INBOX"); len(got) != 3 {
		t.Errorf("%d messages", len(got))
	}
}
