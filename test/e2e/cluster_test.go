package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// member is a server of a cluster: a process with a data folder.
type member struct {
	*server
	addresses []string
	// program is the command that runs it; empty means the program under test.
	program []string
	env     []string // settings
}

// memberDoors are the doors that a member opens.
var memberDoors = []string{"smtp", "imap", "pop3", "http", "submission"}

func newMember(t *testing.T) *member {
	m := &member{server: &server{&program.Server{T: t, Data: filepath.Join(t.TempDir(), "data"),
		Port: map[string]string{}}}}
	ports := program.FreePorts(t, 7)
	for i, d := range append(slices.Clone(memberDoors), "direct", "routes") {
		m.Port[d] = ports[i]
	}
	m.addresses = []string{"--direct", "127.0.0.1:" + m.Port["direct"], "--routes", "127.0.0.1:" + m.Port["routes"],
		"--advertise", "127.0.0.1"}
	return m
}

func (m *member) serve() {
	m.T.Helper()
	if m.program == nil {
		path, err := program.Path()
		if err != nil {
			m.T.Fatal(err)
		}
		m.program = []string{path}
	}
	args := append(slices.Clone(m.program[1:]), "serve", "--data", m.Data)
	for _, d := range []string{"https", "submissions", "lmtp", "imaps", "pop3s"} {
		args = append(args, "--"+d, "off")
	}
	for _, d := range memberDoors {
		args = append(args, "--"+d, "127.0.0.1:"+m.Port[d])
	}
	m.Out = &program.Output{}
	m.Cmd = exec.Command(m.program[0], args...)
	// A variable, because past releases have no such flag.
	m.Cmd.Env = append(append(os.Environ(), "DOUBLET_DOORS_SIEVE=off"), m.env...)
	m.Cmd.Stdout, m.Cmd.Stderr = m.Out, m.Out
	if err := m.Cmd.Start(); err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { m.Stop(syscall.SIGKILL) })
	for _, d := range memberDoors { // they open one after another
		m.Await(d)
	}
}

func (m *member) deliver(subject string) { m.T.Helper(); m.deliverTo(subject, "anna@cluster.example") }

func (m *member) deliverTo(subject, to string) {
	m.T.Helper()
	file := filepath.Join(m.T.TempDir(), "message")
	text := "Subject: " + subject + "\r\nMessage-ID: <" + subject + "@elsewhere.example>\r\n\r\n" + subject + "\r\n"
	err := os.WriteFile(file, []byte(text), 0o600)
	if err == nil {
		_, err = program.Command("curl", "-s", "-m", "10", "--mail-from", "x@elsewhere.example", "--mail-rcpt", to,
			"-T", file, "smtp://127.0.0.1:"+m.Port["smtp"])
	}
	if err != nil {
		m.T.Fatalf("%s: %v\n%s", subject, err, m.Out)
	}
}

// sees waits until the INBOX holds exactly these messages, read over IMAP and then over POP3.
func (m *member) sees(curl string, subjects ...string) {
	m.T.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		got = ""
		for i := range len(subjects) + 1 {
			out, err := program.Command(curl, "-s", "-m", "10", "-u", "anna:secret",
				fmt.Sprintf("imap://127.0.0.1:%s/INBOX/;MAILINDEX=%d/;SECTION=HEADER.FIELDS%%20(Subject)",
					m.Port["imap"], i+1))
			if err != nil {
				break
			}
			got += strings.TrimSpace(strings.TrimPrefix(out, "Subject: ")) + " "
		}
		if strings.TrimSpace(got) == strings.Join(subjects, " ") {
			list, err := program.Command(curl, "-s", "-m", "10", "-u", "anna:secret",
				"pop3://127.0.0.1:"+m.Port["pop3"]+"/")
			if n := strings.Count(list, "\n"); err != nil || n != len(subjects) {
				m.T.Errorf("POP3 lists %d messages (%v): %s", n, err, list)
			}
			return
		}
	}
	m.T.Fatalf("INBOX holds %q, want %q\n%s", got, subjects, m.Out)
}

// asks checks the number of messages over JMAP.
func (m *member) asks(curl string, messages int) {
	m.T.Helper()
	url := "http://127.0.0.1:" + m.Port["http"] + "/jmap/"
	session, err := program.Command(curl, "-s", "-m", "10", "-u", "anna:secret", url+"session")
	_, account, ok := strings.Cut(session, `"accounts":{"`)
	if err != nil || !ok {
		m.T.Fatalf("the JMAP session: %v: %s\n%s", err, session, m.Out)
	}
	account, _, _ = strings.Cut(account, `"`)
	call := fmt.Sprintf(
		`{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail"],"methodCalls":[["Email/query",`+
			`{"accountId":%q,"calculateTotal":true},"a"]]}`, account)
	answer, err := program.Command(curl, "-s", "-m", "10", "-u", "anna:secret", "-H", "Content-Type: application/json",
		"-d", call, url+"api")
	if err != nil || !strings.Contains(answer, fmt.Sprintf(`"total":%d`, messages)) {
		m.T.Errorf("JMAP knows not of %d messages (%v): %s", messages, err, answer)
	}
}

// mailFile returns the ids of Anna's mail file in a list of databases; an id is the first word of a line.
func mailFile(list string) string {
	var ids []string
	for line := range strings.Lines(list) {
		if strings.Contains(line, "Anna") {
			ids = append(ids, strings.Fields(line)[0])
		}
	}
	return strings.Join(ids, " ")
}

// TestCluster: one machine founds a cluster, another joins and receives replicas. Mail that reaches either can be read
// at both. When the home of a mailbox (the server that leads it) dies, the other one serves it; after its return the
// first has the mail that came meanwhile. A third server without a replica of the mail file still serves its owner and
// accepts mail for it, also when the home dies.
func TestCluster(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := newMember(t), newMember(t), newMember(t)
	program.Run(t, "secret\n", nil, path, "init", "--data", one.Data, "--domain", "cluster.example")
	program.Run(t, "secret\n", nil, path, "user", "add", "Anna", "--short", "anna", "--address", "anna@cluster.example",
		"--data", one.Data)
	program.Run(t, "", nil, path, "config", "set", "cluster.direct", "127.0.0.1:"+one.Port["direct"],
		"cluster.routes", "127.0.0.1:"+one.Port["routes"], "cluster.advertise", "127.0.0.1", "--data", one.Data)
	one.serve()
	one.deliver("alone")
	file := mailFile(one.Doublet("db", "list"))
	one.Doublet("cluster", "init", "test")
	token := strings.Fields(one.Doublet("cluster", "token"))[1]
	program.Run(t, "", nil, path, append([]string{"cluster", "join", token, "--name", "two", "--data", two.Data},
		two.addresses...)...)
	two.serve()
	one.sees(curl, "alone")
	two.sees(curl, "alone")
	one.deliver("to-one")
	two.deliver("to-two")
	one.sees(curl, "alone", "to-one", "to-two")
	two.sees(curl, "alone", "to-one", "to-two")
	program.Want(t, two.Doublet("show", "cluster"), "test", "two", "active")

	one.Stop(syscall.SIGKILL)
	two.sees(curl, "alone", "to-one", "to-two")
	two.deliver("without-one")
	two.sees(curl, "alone", "to-one", "to-two", "without-one")
	one.serve()
	one.sees(curl, "alone", "to-one", "to-two", "without-one")
	one.deliver("again")
	two.sees(curl, "alone", "to-one", "to-two", "without-one", "again")

	token = strings.Fields(two.Doublet("cluster", "token"))[1]
	program.Run(t, "", nil, path, append([]string{"cluster", "join", token, "--name", "three", "--data", three.Data},
		three.addresses...)...)
	three.serve()
	three.deliver("by-three")
	three.sees(curl, "alone", "to-one", "to-two", "without-one", "again", "by-three")
	three.asks(curl, 6)
	one.asks(curl, 6)
	one.Stop(syscall.SIGKILL) // one has the mail file and came back last; it leads it if anyone opened it there
	three.deliver("last")
	two.sees(curl, "alone", "to-one", "to-two", "without-one", "again", "by-three", "last")
	three.sees(curl, "alone", "to-one", "to-two", "without-one", "again", "by-three", "last")
	// It has none, unless the cluster gave it one of two replicas meanwhile because it holds few.
	if list := three.Doublet("db", "list"); mailFile(list) != "" && mailFile(list) != file {
		t.Errorf("a server without a replica has made a mail file of its own:\n%s", list)
	}
	one.serve()
	one.sees(curl, "alone", "to-one", "to-two", "without-one", "again", "by-three", "last")
	for _, m := range []*member{one, two, three} {
		m.Stop(syscall.SIGTERM)
		if out, err := program.Command(path, "check", "--data", m.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
}
