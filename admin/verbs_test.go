package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/bus/pki"
	"doublet/catalog"
	"doublet/client/reach"
	"doublet/client/webcal"
	"doublet/collect"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/probe"
	"doublet/probe/check"
	"doublet/replica"
	"doublet/replica/domain"
	"doublet/replica/schedule"
	"doublet/scheduling"
	"doublet/stat"
	"doublet/store"
	"doublet/transfer"
	"doublet/wire/smtp"
)

// standardDoors returns doors at the ports that the protocols have.
func standardDoors() []Door {
	return []Door{
		{Name: "imaps", Address: "[::]:993"}, {Name: "imap", Address: "[::]:143"},
		{Name: "submissions", Address: "[::]:465"},
		{Name: "submission", Address: "[::]:587"}, {Name: "https", Address: "[::]:443"},
	}
}

// noBans are the bans of a server that bans nobody.
type noBans struct{}

func (noBans) List() []Ban { return []Ban{} }

func (noBans) Remove(netip.Addr) bool { return false }

// deadMail opens one event of the probe DeadMail, and returns the state of the probes.
func deadMail(t *testing.T, l *probe.Log) func() []probe.Status {
	t.Helper()
	plan, err := probe.ParsePlan([]*probe.Kind{&check.DeadMail.Kind}, probe.Settings{Run: "all"})
	if err != nil {
		t.Fatal(err)
	}
	m := probe.NewMonitor(l, plan, time.Hour, []*probe.Probe{
		probe.Bind(&check.DeadMail, func(context.Context) (int, error) { return 20, nil })})
	m.Round(context.Background())
	return m.Status
}

// newSystem returns a server without doors, in memory.
func newSystem(t *testing.T) *Running { t.Helper(); return newSystemOf(t, 1) }

// newSystemOf is newSystem with another seed, so that two servers draw different ids.
func newSystemOf(t *testing.T, seed uint64) *Running {
	t.Helper()
	f := env.TestRealTime(t)
	f.Rand = env.Seeded(seed)
	s := &Running{
		System: &System{Env: f.Env, Stats: stat.New(f.Clock), Name: "mx.example.com", Data: "data", Version: "test",
			Started: f.Clock.Now()},
		Stopping: context.Background(), Enter: func(context.Context) (bool, error) { return false, nil },
		Doors: standardDoors,
		Bans:  noBans{},
		Tasks: &oneTask{Task{Name: "Router", State: "running"}}, Stop: func() {}, Settings: oneSetting{},
		Drop: func(note.UNID) int { return 3 }, KeepStatistics: func() time.Duration { return 35 * 24 * time.Hour },
		Certificates: &keeper{}, Health: func(context.Context) error { return nil },
	}
	s.Reached = func() []string { return []string{"web https://mx.example.com"} }
	inCluster(s, "", "")
	var err error
	s.Store, err = store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: slices.Concat(directory.Indexes(), session.Indexes(), trace.Indexes(), journal.Indexes(),
			mailbox.Indexes(), groupware.Indexes()),
		Stats: s.Stats})
	if err != nil {
		t.Fatal(err)
	}
	s.Directory, err = directory.Open(s.Store, f.Env, password.New(f.Env, 2, 100), directory.Options{
		Domain: "example.com", MailFiles: MailFiles{Store: s.Store},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Sessions, err = session.Open(s.Store, f.Env, s.Directory.Secret.Key("sessions"),
		session.Options{}); err != nil {
		t.Fatal(err)
	}
	if s.History, err = collect.Open(s.Store, f.Env, s.Stats); err != nil {
		t.Fatal(err)
	}
	if s.Events, err = probe.Open(s.Store, f.Env, s.Stats); err != nil {
		t.Fatal(err)
	}
	s.Probes = deadMail(t, s.Events)
	if s.Catalog, err = catalog.Open(s.Store, f.Env); err != nil {
		t.Fatal(err)
	}
	s.Mailbox = mailbox.New(s.Store, f.Env, mailbox.Options{KeepDeleted: keepDeleted})
	s.Groupware = groupware.New(s.Store, f.Env, groupware.Options{})
	s.Feeds = feed.NewPublisher(f.Env, s.Groupware, s.Directory, "https://mail.example.com")
	s.Sources = feed.NewSubscriber(f.Env, s.Store, s.Groupware, webcal.New(reach.New(f.Env, s.DNS, nil), nil))
	s.Transfer = transfer.New(f.Env, s.Store, s.Directory, s.Mailbox)
	s.Replica = replica.New(s.Store, s.Mailbox, f.Env, replica.Options{Stats: s.Stats})
	own := func() *pki.Own { own, _ := pki.OpenOwn(f.Env, "key"); return own }
	connecting(s, reach.New(s.Env, nil, nil), own)
	s.Domain = domain.New(f.Env, s.Directory, domain.Options{Name: s.Name, Host: s.Name, Own: own,
		Make:   func() (*pki.Own, error) { return pki.MakeOwn(f.Env, "key", pki.Options{}) },
		Tokens: pki.DomainTokens(f.Env, "key", pki.Options{}),
	})
	if s.Journal, err = journal.Open(s.Store, f.Env, s.Directory, journal.Options{}); err != nil {
		t.Fatal(err)
	}
	if s.Junk, err = junk.Open(s.Store, f.Env, s.Directory, junk.Options{Stats: s.Stats}); err != nil {
		t.Fatal(err)
	}
	if s.Mail, err = mail.Open(s.Store, f.Env, s.Directory, s.Mailbox, mail.Options{Stats: s.Stats}); err != nil {
		t.Fatal(err)
	}
	s.Scheduling = scheduling.New(f.Env, s.Directory, s.Groupware, s.Mail, scheduling.Options{Stats: s.Stats})
	withReports(t, s)
	t.Cleanup(func() {
		s.Sessions.Close()
		s.Directory.Close()
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connecting opens the connections of a system, and their task.
func connecting(s *Running, guard *reach.Guard, own func() *pki.Own) {
	s.Connections = schedule.New(s.Env, s.Directory, s.Replica, s.Store, schedule.Options{Server: s.Name, Own: own,
		Reach: guard, Primary: s.Member.Primary, Every: 20 * time.Millisecond})
	s.Replicator = schedule.NewReplicator(s.Connections)
}

// overSocket serves a system and connects to it.
func overSocket(t *testing.T, s *Running) Caller {
	t.Helper()
	path := filepath.Join(t.TempDir(), SocketName)
	l, err := s.Env.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: Handler(s)}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	c, err := Dial(s.Env, path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeFile(t *testing.T, s *Running, path, text string) {
	t.Helper()
	if err := s.Env.FS.MkdirAll(s.Env.FS.PathDir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := s.Env.FS.Create(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

const (
	one = "From ada@example.com Thu Jan  1 10:00:00 2026\nFrom: ada@example.com\nSubject: one\nStatus: RO\n" +
		"X-Status: F\n\nbody\n>From here\n\n"
	two = "From bo@example.com Fri Jan  2 10:00:00 2026\nFrom: bo@example.com\nSubject: two\n\nmore\n"
)

func prepare(t *testing.T, s *Running) {
	writeFile(t, s, "people.csv",
		"FullName,ShortName,Password\nCy Twombly,cy,c\nAda Lovelace,ada2,x\nDi,di,d\nshort row\n")
	writeFile(t, s, "broken.csv", "nonsense,columns\n1,2\n")
	writeFile(t, s, "aliases", "newsroom: ada\n")
	writeFile(t, s, "in.mbox", one+two)
	writeFile(t, s, "lunch.eml", "From: ada@example.com\nTo: bo@example.com\nSubject: today\n\nLunch at one?\n")
	writeFile(t, s, "tree/Work.mbox", one+two)
	writeFile(t, s, "tree/sub/bare.eml", "Subject: bare\n\nbody\n")
	writeFile(t, s, "tree/junk", "no mail at all\n")
	writeFile(t, s, "Maildir/cur/1767261600.M1.host:2,FS", "Subject: kept\n\nx\n")
	writeFile(t, s, "Maildir/.Sent.Old/new/1767261601.M2.host", "Subject: sent\n\nx\n")
	writeFile(t, s, "Maildir/.Sent.Old/cur/.keep", "")
}

// play runs the script, and returns the results without the parts that differ from run to run.
func play(t *testing.T, s *Running, c Caller) []string {
	t.Helper()
	ctx := context.Background()
	prepare(t, s)
	var answers []string
	queue := ""
	for _, step := range script {
		if step.verb == "show queue" && step.args == "{}" {
			queue = wait(t, s)
		}
		output := 0
		raw, err := c.Call(ctx, step.verb, json.RawMessage(strings.ReplaceAll(step.args, "QUEUE", queue)),
			func(p Progress) { output += len(p.Output) })
		got := string(raw)
		if err != nil {
			got = "!" + Kind(err) + " " + err.Error()
		}
		if !strings.Contains(bytesField.ReplaceAllString(got, `"bytes":~`), step.want) &&
			!strings.Contains(got, step.want) || strings.HasPrefix(step.want, "!") != (err != nil) {
			t.Errorf("%s %s\n got %s\nwant %s", step.verb, step.args, got, step.want)
		}
		if strings.HasPrefix(step.verb, "dump") && step.verb != "dump objects" && err == nil && output == 0 {
			t.Errorf("%s wrote nothing", step.verb)
		}
		if v, ok := Find(step.verb); ok && err == nil {
			if err := json.Unmarshal(raw, v.Result()); err != nil {
				t.Errorf("%s: result does not decode: %v", step.verb, err)
			}
		}
		answers = append(answers, step.verb+" "+normal(got))
	}
	return answers
}

var bytesField = regexp.MustCompile(`"bytes":[0-9]+`)

var changing = regexp.MustCompile(
	`[0-9A-Fa-f]{32}|[0-9A-F]{16}|"id":"[^"]*"|"(secret|token)":"[^"]*"|"last4":"[^"]*"|\d{4}-\d\d-\d\dT[0-9:.]+` +
		`Z|"(took|elapsed)":"[^"]*"|"(messages_per_second|memory|free_space|horizon|bytes|copied|rows|before|` +
		`after|saved|disk)":[0-9.]+`)

// normal returns a result without varying parts. Lists are sorted: an import creates people and databases concurrently,
// so that their ids differ from run to run.
func normal(s string) string {
	s = changing.ReplaceAllString(s, "~")
	if list, ok := strings.CutPrefix(s, "[{"); ok {
		rows := strings.Split(strings.TrimSuffix(list, "}]"), "},{")
		slices.Sort(rows)
		s = strings.Join(rows, "},{")
	}
	return s
}

// wait puts a message for another domain into mail.box and returns its queue id.
func wait(t *testing.T, s *Running) string {
	t.Helper()
	from, err := smtp.ParsePath("ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	to, err := smtp.ParsePath("zed@far.example.net")
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Mail.Deposits.Deposit(context.Background(), &mail.Submission{
		From: from, Recipients: []mail.Recipient{{To: to, Outside: true}}, Message: []byte("Subject: x\r\n\r\nx\r\n"),
		Answer: mail.AnswerNone,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	there := newSystem(t)
	remote := play(t, there, overSocket(t, there))
	here := newSystem(t)
	direct := play(t, here, Direct{here})
	for i := range direct {
		if direct[i] != remote[i] {
			t.Errorf("here and over the socket differ:\n%s\n%s", direct[i], remote[i])
		}
	}
	covered := map[string]bool{}
	for _, step := range script {
		covered[step.verb] = true
	}
	for _, v := range Verbs() {
		if !covered[v.Name] {
			t.Errorf("no step for the verb %s", v.Name)
		}
		if v.Help == "" {
			t.Errorf("the verb %s has no help", v.Name)
		}
	}
}

func TestStopped(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, verb := range []string{"stop", "show tasks", "show bans", "ban remove"} {
		if _, err := (Direct{s.System}).Call(context.Background(), verb, nil, nil); Kind(err) != "stopped" {
			t.Errorf("%s on a stopped server: %v", verb, err)
		}
	}
}

func TestOnlyAdministrators(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, err := s.Run(context.Background(), note.Who{Person: note.UNID{1}}, "user list", nil, nil)
	if Kind(err) != "denied" {
		t.Errorf("a stranger listed people: %v", err)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	v, _ := Find("user add")
	for _, name := range []string{"password", "passwd", "Password"} {
		if got := v.redact(json.RawMessage(`{"name":"Ada","` + name + `":"hush"}`)); strings.Contains(got, "hush") ||
			!strings.Contains(got, "Ada") {
			t.Errorf("the log would show %s", got)
		}
	}
	v, _ = Find("calendar feed add")
	if got := v.redact(json.RawMessage(`{"person":"ada","address":"https://x/hush"}`)); strings.Contains(got, "hush") {
		t.Errorf("the log would show %s", got)
	}
}
