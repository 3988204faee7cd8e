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
			groupware.Indexes()),
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

// script runs every verb at least once, in an order in which each has something to do. want is a part of the result, or
// of the error after "!kind ". QUEUE stands for the queue id of a waiting message.
var script = []struct{ verb, args, want string }{
	{"user add",
		`{"name":"Ada Lovelace","short":"ada","role":["Admin"],"password":"engine","scram":true,"quota":"10MB"}`,
		`"address":"ada@example.com"`},
	{"user add", `{"name":"Ada Lovelace"}`, "!exists "},
	{"user add", `{}`, "!usage bad arguments of user add: name is missing"},
	{"user add", `{"name":"X","frobs":1}`, "!usage "},
	{"user add", `{"name":"Bo","short":"bo","password":"x","alias":["b@example.com"]}`, `"aliases":["b@example.com"]`},
	{"user list", `{}`, `"name":"Ada Lovelace"`},
	{"user list", `{"prefix":"bo"}`, `[{"name":"Bo"`},
	{"user show", `{"name":"ada"}`, `"quota":10485760`},
	{"user show", `{"name":"nobody"}`, "!not found "},
	{"user set", `{"name":"bo","rename":"Bo Peep","alias":[""],"quota":"1MB"}`, `"name":"Bo Peep"`},
	{"user password", `{"name":"bo","password":"sheep"}`, `"done":"password of Bo Peep is set"`},
	{"user app-password add", `{"name":"bo","label":"phone"}`, `"secret":"`},
	{"user app-password remove", `{"name":"bo","id":"phone"}`, `"done"`},
	{"user app-password remove", `{"name":"bo","id":"phone"}`, "!not found "},
	{"user totp off", `{"name":"bo"}`, "!not found "},                  // see TestSessions
	{"user passkey remove", `{"name":"bo","id":"all"}`, "!not found "}, // see TestPasskeys
	{"session list", `{}`, `[]`},
	{"session end", `{"id":"x"}`, "!not found "},
	{"session end", `{}`, "!usage "},
	{"session end", `{"id":"x","all":true}`, "!usage "},
	{"session end", `{"person":"bo"}`, `0 sessions are ended`},
	{"cluster init", `{"name":"Acme"}`, "!usage "}, // see TestClusterInit
	{"cluster token", `{}`, "!not found "},
	{"show cluster", `{}`, "!"}, // needs a running member: test/e2e TestCluster
	{"show cluster databases", `{}`, "!"},
	{"user move", `{"name":"ada"}`, "!"}, // needs several servers: test/e2e TestDomain
	{"show domain", `{}`, `[]`},          // needs several servers: test/e2e TestDomain
	{"server remove", `{"name":"two"}`, "!not found "},
	{"server undo", `{"name":"two"}`, "!not found "},
	{"cluster move", `{"database":"bo","server":"x"}`, "!"},
	{"cluster replica", `{"database":"bo","server":"x","state":"out"}`, "!"},
	{"cluster replica", `{"database":"bo","server":"x","state":"away"}`, "!usage "},
	{"cluster set", `{"server":"x"}`, "!"},
	{"cluster leave", `{"server":"x"}`, "!"},
	{"show events", `{}`,
		`"severity":"warning-low","state":"open","type":"Messaging","probe":"DeadMail","target":"mail.box"`},
	{"show events", `{"severity":"failure"}`, `[]`},
	{"show events", `{"type":"messaging","probe":"deadmail","target":"BOX","since":"1h"}`,
		`"20 dead messages in mail.box"`},
	{"show events", `{"state":"closed"}`, `[]`},
	{"show events", `{"state":"shut"}`, "!usage "},
	{"show events", `{"severity":"bad"}`, "!usage "},
	{"show events", `{"type":"Weather"}`, "!usage "},
	{"show events", `{"since":"soon"}`, "!usage "},
	{"show probes", `{}`, `"name":"DeadMail","on":true,"every":"5m","limits":"low=10 high=1000","findings":1`},
	{"event show", `{"id":"52db2654ea04"}`, `"remedy":"Look at`},
	{"event show", `{"id":"x"}`, "!not found "},
	{"event assign", `{"id":"52db2654ea04","person":"bo"}`, `"assigned":"Bo`},
	{"event assign", `{"id":"52db2654ea04","person":"nobody"}`, "!not found "},
	{"event comment", `{"id":"52db2654ea04","text":"waits for the other side"}`,
		`"comment":"waits for the other side"`},
	{"event silence", `{"id":"52db2654ea04","for":"4h"}`, `52db2654ea04 is silenced until`},
	{"event silence", `{"id":"52db2654ea04","probe":"x","for":"4h"}`, "!usage "},
	{"event silence", `{"id":"52db2654ea04","for":"a while"}`, "!usage "},
	{"event silence", `{"id":"52db2654ea04","for":"800d"}`, "!usage "},
	{"event silence", `{"for":"4h"}`, "!usage "},
	{"event unsilence", `{"id":"52db2654ea04"}`, `is not silenced any more`},
	{"event silence", `{"probe":"Disk*","for":"7d","reason":"new disks"}`, `silence d5e4305d2a19 lasts until`},
	{"event silences", `{}`, `"probe":"Disk*","until":`},
	{"event unsilence", `{"id":"d5e4305d2a19"}`, `silence d5e4305d2a19 has ended`},
	{"event unsilence", `{"id":"d5e4305d2a19"}`, "!not found "},
	{"event close", `{"id":"52db2654ea04","permanently":true}`, `"state":"permanently-closed"`},
	{"event reopen", `{"id":"52db2654ea04"}`, `"state":"closed"`},
	{"event close", `{"id":"52db2654ea04"}`, `"state":"closed"`},
	{"cluster balance", `{}`, "!"}, // test/e2e TestClusterOperated
	{"cluster replicas", `{"database":"bo","number":"2"}`, "!"},
	{"cluster remove", `{"server":"x"}`, "!"},
	{"search status", `{}`, "!"},
	{"sieve put", `{"person":"bo","name":"main","text":"require \"fileinto\"; fileinto \"Archive\";","activate":true}`,
		`{"name":"main","active":true}`},
	{"sieve put", `{"person":"bo","name":"bad","text":"kep;"}`, `!usage`},
	{"sieve list", `{"person":"bo"}`, `"scripts":[{"name":"main","active":true}]`},
	{"sieve show", `{"person":"bo","name":"main"}`, `fileinto \"Archive\";`},
	{"sieve show", `{"person":"bo","name":"none"}`, `!not found`},
	{"sieve check", `{"text":"discard;"}`, `valid`},
	{"sieve check", `{"text":"if"}`, `!usage`},
	{"sieve test", `{"person":"bo","text":"discard;","all":true}`, `[`},
	{"sieve activate", `{"person":"bo","name":"none"}`, `!`},
	{"sieve deactivate", `{"person":"bo"}`, `"active":false`},
	{"sieve activate", `{"person":"bo","name":"main"}`, `"active":true`},
	{"sieve delete", `{"person":"bo","name":"main"}`, `!usage`},
	{"sieve deactivate", `{"person":"bo"}`, `"active":false`},
	{"sieve delete", `{"person":"bo","name":"main"}`, `"scripts":[]`},
	{"calendar list", `{"person":"bo"}`, `[]`},
	{"calendar list", `{"person":"nobody"}`, "!not found "},
	{"calendar removed", `{"person":"bo"}`, `[]`},
	{"calendar restore", `{"person":"bo","id":"x"}`, "!not found "},
	{"deleted list", `{"person":"bo"}`, `[]`},
	{"deleted list", `{"person":"bo","since":"soon"}`, "!usage "},
	{"deleted list", `{"person":"nobody"}`, "!not found "},
	{"deleted restore", `{"person":"bo"}`, "!usage "},
	{"deleted restore", `{"person":"bo","id":["x"]}`, "!usage "},
	{"deleted restore", `{"person":"bo","id":["00000000000000000000000000000001"]}`, "!"},
	{"deleted restore", `{"person":"bo","since":"7d"}`, `0 messages restored`},
	{"user hold", `{"person":"bo","state":"perhaps"}`, "!usage "},
	{"user hold", `{"person":"bo","state":"on"}`, `is on`},
	{"user hold", `{"person":"bo","state":"off"}`, `is off`},
	{"assistance list", `{}`, `[]`},
	{"assistance test", `{}`, `[]`},
	{"assistance add", `{"name":"corp","url":["ldap://127.0.0.1:1"],"base":"dc=x","bind_dn":"cn=x",` +
		`"password":"xyzzy","use":["signin","groups"],"map":["mail=email"],"cache":"-1s","timeout":"2s"}`,
		`{"name":"corp","on":true,"urls":["ldap://127.0.0.1:1"],"base":"dc=x","bind_dn":"cn=x","kind":"ldap",` +
			`"uses":["signin","groups"],"attributes":["mail=email"],"timeout":"2s","cache":"-1s"}`},
	{"assistance add", `{"name":"Corp","url":["ldap://h"]}`, "!exists "},
	{"assistance add", `{"name":"x"}`, "!usage "},
	{"assistance add", `{"name":"x","url":["http://h"]}`, "!usage "},
	{"assistance add", `{"name":"x","url":["ldap://h"],"map":["color=red"]}`, "!usage "},
	{"assistance add", `{"name":"x","url":["ldap://h"],"timeout":"soon"}`, "!usage "},
	{"assistance set", `{"name":"CORP","domain":["example.com"],"map":[""],"enroll":true}`,
		`"enroll":true,"domains":["example.com"]`},
	{"assistance set", `{"name":"absent","off":true}`, "!not found "},
	{"assistance test", `{"name":"absent"}`, "!not found "},
	{"assistance test", `{"name":"corp"}`, `"step":"connect 127.0.0.1:1","ok":false`},
	{"user set", `{"name":"bo","assistance":"absent"}`, "!not found "},
	{"assistance remove", `{"name":"corp"}`, `removed the directory corp`},
	{"assistance remove", `{"name":"corp"}`, "!not found "},
	{"retention list", `{}`, `[]`},
	{"retention test", `{}`, `{"people":[],"messages":[]}`},
	{"retention add", `{"name":"junk","days":30,"action":"delete","folder":["junk","inbox/old"],"off":true}`,
		`{"name":"junk","on":false,"folders":["INBOX/old","junk"],"days":30,"action":"delete"}`},
	{"retention add", `{"name":"Junk","days":3,"action":"trash"}`, "!exists "},
	{"retention add", `{"name":"x","action":"trash"}`, "!usage "},
	{"retention add", `{"name":"x","days":0,"action":"trash"}`, "!usage "},
	{"retention add", `{"name":"x","days":-4,"action":"trash"}`, "!usage "},
	{"retention add", `{"name":"x","days":4,"action":"shred"}`, "!usage "},
	{"retention add", `{"name":"x","days":4,"action":"trash","folder":["a//b"]}`, "!usage "},
	{"retention add", `{"name":"x","days":4,"action":"trash","label":["two words"]}`, "!usage "},
	{"retention add", `{"name":"x","days":4,"action":"trash","for":["nobody"]}`, "!not found "},
	{"retention set", `{"name":"JUNK","for":["bo"],"label":["Tax"],"off":false,"rename":"Junk mail"}`,
		`{"name":"Junk mail","on":true,"for":["Bo Peep"],"folders":["INBOX/old","junk"],"labels":["tax"],"days":30,`},
	{"retention set", `{"name":"junk mail","for":[""],"label":[""],"folder":[""],"subfolders":true}`, "!usage "},
	{"retention set", `{"name":"junk mail","for":[""],"label":[""],"folder":[""]}`,
		`{"name":"Junk mail","on":true,"days":30,"action":"delete"}`},
	{"retention set", `{"name":"absent","days":4}`, "!not found "},
	{"retention test", `{"people":["nobody"]}`, "!not found "},
	{"retention run", `{"people":["bo"]}`, `{"mail_files":1,"trashed":0,"deleted":0,"deleted_bytes":0}`},
	{"retention delete", `{"name":"junk mail"}`, `deleted the retention policy Junk mail`},
	{"retention delete", `{"name":"junk mail"}`, "!not found "},
	{"calendar feed list", `{"person":"bo"}`, `[]`},
	{"calendar feed add", `{"person":"bo","address":"http://example.com/x.ics"}`, "!usage "},
	{"calendar feed add", `{"person":"bo","address":"https://127.0.0.1/x.ics"}`, "!usage "},
	{"calendar feed add", `{"person":"bo"}`, "!usage "},
	{"calendar feed add", `{"person":"nobody","address":"webcal://example.com/x.ics"}`, "!not found "},
	{"calendar feed add", `{"person":"bo","address":"webcal://example.com/x.ics","title":"Holidays"}`,
		`"title":"Holidays","address":"https://example.com/x.ics"`},
	{"calendar feed remove", `{"person":"bo","name":"calendar"}`, "!not found "},
	{"calendar feed refresh", `{"person":"bo","name":"x"}`, "!not found "}, // see TestCalendarFeeds
	{"calendar link list", `{"person":"bo"}`, `[]`},
	{"calendar link make", `{"person":"bo","name":"x"}`, "!not found "},
	{"calendar link make", `{"person":"bo","name":"calendar","busy":true}`, `"shows":"busy","address":"https://`},
	{"calendar link list", `{"person":"bo"}`, `"shows":"busy"`},
	{"calendar link revoke", `{"person":"bo","name":"calendar","busy":true}`, `[]`},
	{"search rebuild", `{}`, "!"},
	{"user send-as allow", `{"name":"bo","by":"ada"}`, `Ada Lovelace may write as Bo Peep`},
	{"user send-as deny", `{"name":"bo","by":"ada"}`, `may no longer write as`},
	{"list pending", `{}`, `[]`},
	{"list approve", `{"id":"00000000000000000000000000000001"}`, "!"},
	{"list reject", `{"id":"00000000000000000000000000000001"}`, "!"},
	{"user remove", `{"name":"bo"}`, `removed Bo Peep`},
	{"user list", `{"removed":true}`, `"name":"Bo Peep"`},
	{"user list", `{"removed":true,"prefix":"bo P","search":"peep","limit":1}`, `[{"name":"Bo Peep"`},
	{"user list", `{"removed":true,"prefix":"Peep"}`, `[]`},
	{"user list", `{"removed":true,"search":"lovelace"}`, `[]`},
	{"user undo", `{"name":"Bo Peep"}`, `brought back`},
	{"user undo", `{"name":"Nobody"}`, "!not found "},
	{"user import", `{"file":"people.csv"}`, `"added":2,"failed":2,"errors":["line 3 (`},
	{"user import", `{"file":"broken.csv"}`, "!usage "},
	{"user import", `{"file":"absent.csv"}`, "!not found "},
	{"group add", `{"name":"Crew","address":"crew@example.com","member":["ada","bo"]}`,
		`"members":["Ada Lovelace","Bo Peep"]`},
	{"group list", `{}`, `"name":"Crew"`},
	{"group show", `{"name":"crew"}`, `"kind":"multi"`},
	{"group set", `{"name":"Crew","remove":["bo"],"add":["Cy"],"description":"all hands"}`,
		`"members":["Ada Lovelace","Cy Twombly"]`},
	{"group set", `{"name":"Crew","remove":["bo"]}`, "!not found "},
	{"group remove", `{"name":"Crew"}`, `removed`},
	{"group undo", `{"name":"Crew"}`, `brought back`},
	{"domain add", `{"name":"example.org"}`, `"done"`},
	{"domain list", `{}`, `[{"name":"example.com","default":true},{"name":"example.org"}]`},
	{"domain key list", `{"domain":"example.org"}`, `[]`},
	{"domain key add", `{"domain":"example.org","algorithm":"dsa"}`, "!usage "},
	{"domain key rotate", `{"domain":"elsewhere.example"}`, "!not found "},
	{"domain key remove", `{"domain":"example.org","selector":"s"}`, "!not found "},
	{"dns show", `{}`, `"name":"example.com","type":"MX","data":"10 mx.example.com."`},
	{"dns check", `{"domain":"elsewhere.example"}`, "!not found "},
	{"domain set", `{"name":"example.org","default":true}`, `{"name":"example.org","default":true}`},
	{"domain show", `{"name":"example.com"}`, `{"name":"example.com"}`},
	{"domain remove", `{"name":"example.org"}`, `"done"`},
	{"domain remove", `{"name":"example.org"}`, "!not found "},
	{"mailin add", `{"name":"Bug Reports","address":"bugs@example.com"}`, `"address":"bugs@example.com"`},
	{"mailin add", `{"name":"Bugs too","address":"bugs@example.com"}`, "!exists "},
	{"mailin list", `{}`, `"name":"Bug Reports"`},
	{"mailin list", `{"search":"BUGS@"}`, `[{"name":"Bug Reports"`},
	{"mailin list", `{"search":"nothing"}`, `[]`},
	{"mailin show", `{"name":"bugs@example.com"}`, `"name":"Bug Reports"`},
	{"mailin set", `{"name":"Bug Reports","size_limit":"1MB"}`, `"size_limit":1048576`},
	{"mailin remove", `{"name":"Bug Reports"}`, `removed`},
	{"mailin undo", `{"name":"Bug Reports"}`, `brought back`},
	{"room add", `{"name":"Blue Room","address":"blue@example.com","capacity":8,"equipment":["projector"],` +
		`"hours":"08:00-18:00"}`, `"capacity":8`},
	{"room add", `{"name":"Blue again","address":"blue@example.com"}`, "!exists "},
	{"room add", `{"name":"Red Room","address":"red@example.com","hours":"late"}`, "!usage "},
	{"room add", `{"name":"Red Room","address":"red@example.com","time_zone":"Local"}`, "!usage "},
	{"room add", `{"name":"Red Room","address":"red@example.com","owner":["nobody"]}`, "!not found "},
	{"room add", `{"name":"Red Room","address":"red@example.com","kind":"moon"}`, "!usage "},
	{"room add", `{"name":"Red Room","address":"red@example.com","approval":true}`, "!usage "},
	{"room list", `{}`, `"name":"Blue Room"`},
	{"room show", `{"name":"blue@example.com"}`, `"equipment":["projector"]`},
	{"room show", `{"name":"Bug Reports"}`, "!not found "},
	{"room set", `{"name":"Blue Room","capacity":10,"equipment":[]}`, `"capacity":10`},
	{"room bookings", `{"name":"Blue Room"}`, `[]`},
	{"room accept", `{"name":"Blue Room","id":"x"}`, "!not found "},
	{"room decline", `{"name":"Blue Room","id":"x"}`, "!not found "},
	{"room remove", `{"name":"Blue Room"}`, `removed`},
	{"room undo", `{"name":"Blue Room"}`, `brought back`},
	{"db add", `{"title":"Projects","kind":"documents","owner":"ada"}`, `"owner":"Ada Lovelace"`},
	{"db add", `{"title":"Lab","owner":"ada"}`, `"kind":"mail"`},
	{"db list", `{"kind":"documents"}`, `"title":"Projects"`},
	{"db show", `{"name":"Lab"}`, `"access":["default=No Access","Ada Lovelace=Manager"],"folders":[{"name":"INBOX"`},
	{"db set", `{"name":"Projects","title":"Plans","access":["bo=Editor","default=Reader"]}`,
		`"access":["default=Reader","Ada Lovelace=Manager","Bo Peep=Editor"]`},
	{"db set", `{"name":"Plans","access":["bo=Emperor"]}`, "!usage "},
	{"db remove", `{"name":"Plans"}`, `removed Plans`},
	{"db remove", `{"name":"ada"}`, "!usage "},
	{"db remove", `{"name":"mail.box"}`, "!usage "},
	{"db list", `{"removed":true}`, `"state":"pending delete"`},
	{"db restore", `{"name":"ada","dir":"nowhere"}`, "!not found "}, // see TestRestoreDatabase
	{"db restore", `{}`, "!usage "},
	{"db undo", `{"name":"Plans"}`, `brought back Plans`},
	{"db undo", `{"name":"Plans"}`, "!usage "},
	{"import mbox", `{"path":"in.mbox","user":"ada"}`, `"messages":2`},
	{"import mbox", `{"path":"tree","user":"ada","folder":"Old"}`,
		`"messages":3,"bytes":~,"folders":1,"failed":1,"errors":["tree/junk: mbox: no From line"]`},
	{"import mbox", `{"path":"tree","user":"bo"}`, `"folders":2,"failed":1`},
	{"import mbox", `{"path":"absent","user":"ada"}`, "!not found "},
	{"import maildir", `{"path":"Maildir","user":"ada"}`, `"messages":2`},
	{"export", `{"user":"ada","path":"out/mbox"}`, `"messages":7`},
	{"export", `{"user":"ada","path":"out/mbox"}`, "!exists "},
	{"export", `{"user":"ada","path":"out/maildir","format":"maildir"}`, `"messages":7`},
	{"export", `{"user":"ada","path":"out/other","format":"pst"}`, "!usage "},
	{"export person", `{"user":"ada","path":"out/person"}`, `"messages":7`},
	{"export person", `{"user":"ada","path":"out/pst","format":"pst"}`, "!usage "},
	{"import person", `{"path":"out/person","user":"bo"}`, `"messages":7`},
	{"import person", `{"path":"out/person","user":"bo"}`, `"present":7`},
	{"import person", `{"path":"out/mbox"}`, "!not found "},
	{"import people", `{"file":"aliases","format":"postfix-aliases"}`, `"aliases":1`},
	{"import people", `{"file":"aliases","format":"nis"}`, "!usage "},
	{"import people", `{"file":"absent","format":"ldif"}`, "!not found "},
	{"import people", `{"file":"aliases"}`, "!usage "},
	{"import ldap", `{"url":"http://example.com/"}`, "!usage "},
	{"import ldap", `{"url":"ldap://127.0.0.1:1/dc=x"}`, "!failed "},
	{"import imap", `{"server":"127.0.0.1:1","tls":"none"}`, "!usage "},
	{"import imap", `{"server":"127.0.0.1:1","tls":"ssl","user":"ada","password":"x"}`, "!usage "},
	{"import imap", `{"server":"127.0.0.1:1","tls":"none","user":"ada","password":"x"}`, "!failed "},
	{"show server", `{}`, `"running":true`},
	{"show tasks", `{}`, `"name":"Router"`},
	{"health", `{}`, `{"state":"ok"}`},
	{"certificate show", `{}`,
		`[{"names":["mx.example.com"],"from":"self-signed","until":"2033-05-18T03:33:20Z","days_left":90,` +
			`"spki_sha256":"key-0","default":true}]`},
	{"certificate renew", `{"name":"elsewhere.example"}`, "!usage "},
	{"certificate renew", `{"name":"mx.example.com"}`, `"renewed_at":"2001-09-09T01:46:40Z","spki_sha256":"key-0"`},
	{"certificate renew", `{"new_key":true}`, `"spki_sha256":"key-1"`},
	{"certificate show", `{}`, `"spki_sha256":"key-1"`},
	{"show bans", `{}`, "[]"}, // see TestBans
	{"report tls", `{}`, `[]`},
	{"report dmarc", `{}`, `[]`},
	{"report tls", `{"days":-1}`, "!usage "},
	{"report send", `{}`, "0 reports sent"}, // see test/reports
	{"ban remove", `{"address":"192.0.2.1"}`, "!not found "},
	{"show stat", `{"pattern":"Mail.Dead"}`, `"name":"Mail.Dead"`},
	{"show stat", `{"pattern":"No.Such"}`, "!not found "},
	{"show log", `{}`, "!stopped "}, // see TestShowLog
	{"user list", `{"search":"ENGINE"}`, `[]`},
	{"user list", `{"search":"lovel"}`, `[{"name":"Ada Lovelace"`},
	{"user list", `{"limit":1,"after":"Ada Lovelace"}`, `[{"name":"Bo Peep"`},
	{"group list", `{"search":"all hands","limit":1}`, `[{"name":"Crew"`},
	{"group list", `{"after":"crew"}`, `[`},
	{"db list", `{"pattern":"mail.box","limit":1}`, `"title":"mail.box"`},
	{"db list", `{"after":"x"}`, "!usage "},
	{"show users", `{}`, `"messages":7`},
	{"show databases", `{}`, `"title":"mail.box"`},
	{"show queue", `{}`, `"to":["zed@far.example.net"]`},
	{"queue list", `{}`, `"to":["zed@far.example.net"]`},
	{"queue show", `{"id":"QUEUE"}`, `"address":"zed@far.example.net"`},
	{"queue show", `{"id":"12"}`, "!usage "},
	{"queue hold", `{"id":"QUEUE"}`, `"done"`},
	{"queue list", `{}`, `"state":"held"`},
	{"queue release", `{"id":"QUEUE"}`, `"done"`},
	{"queue retry", `{"id":"QUEUE"}`, `"done"`},
	{"queue list", `{"from":"ADA","to":"zed","domain":"far.example.net","state":"waiting"}`,
		`"to":["zed@far.example.net"]`},
	{"queue list", `{"domain":"other.example"}`, `[]`},
	{"queue list", `{"state":"held"}`, `[]`},
	{"show queue", `{"by_destination":true}`, `{}`},
	{"trace", `{"what":"zed@far.example.net"}`, `"event":"waiting"`},
	{"trace", `{"what":"QUEUE"}`, `"to":"zed@far.example.net"`},
	{"route add",
		`{"pattern":"*.Example.net","host":"relay.example:587","tls":"verify","user":"me","password":"xyzzy"}`,
		`{"pattern":"*.example.net","host":"relay.example","port":587,"tls":"verify","user":"me","password":true}`},
	{"route add", `{"pattern":"*.example.net"}`, "!exists "},
	{"route add", `{"pattern":"x.example","tls":"maybe"}`, "!usage "},
	{"route list", `{}`, `"pattern":"*.example.net"`},
	{"route set", `{"pattern":"*.example.net","hold":true,"host":""}`, "!usage "},
	{"route set", `{"pattern":"*.example.net","hold":true}`, `"hold":true`},
	{"route show", `{"pattern":"*.example.net"}`, `"user":"me"`},
	{"queue show", `{"id":"QUEUE"}`, `"reply":"the route is on hold"`},
	{"route remove", `{"pattern":"*.example.net"}`, `"done"`},
	{"rules add", `{"name":"programs","rule":"{\"when\":{\"attachment\":[\"*.exe\"]},\"do\":{\"refuse\":\"No\"}}"}`,
		`{"position":1,"name":"programs","on":true,"matches":0,"rule":"{\"when\":{\"attachment\":[\"*.exe\"]},` +
			`\"do\":{\"refuse\":\"No\"}}"}`},
	{"rules add", `{"name":"Programs","rule":"{\"do\":{\"stop\":true}}"}`, "!exists "},
	{"rules add", `{"name":"x","rule":"{\"do\":{\"explode\":true}}"}`, "!usage "},
	{"rules add", `{"name":"lunch","position":1,"off":true,"rule":"{\"when\":{\"words\":[\"lunch\"]},` +
		`\"do\":{\"move\":\"Lunch\",\"add\":[\"bo@example.com\"]}}"}`, `"position":1,"name":"lunch","on":false`},
	{"rules list", `{}`, `},{"position":2,"name":"programs","on":true`},
	{"rules test", `{"file":"in.mbox"}`, `{"matched":[],"actions":[]}`},
	{"rules on", `{"name":"lunch"}`, `"on":true`},
	{"rules test", `{"file":"lunch.eml"}`,
		`{"matched":["lunch"],"actions":["move: Lunch","add recipient: bo@example.com"]}`},
	{"rules test", `{"file":"lunch.eml","as":"ada",` +
		`"rule":"{\"when\":{\"direction\":[\"internal\"]},\"do\":{\"journal\":true}}"}`,
		`{"matched":[""],"actions":["journal"]}`},
	{"rules test", `{"file":"lunch.eml","rule":"{}"}`, "!usage "},
	{"rules test", `{"file":"lunch.eml","from":"a b"}`, "!usage "},
	{"rules test", `{"file":"lunch.eml","to":["a b"]}`, "!usage "},
	{"rules test", `{"file":"absent.eml"}`, "!not found "},
	{"junk show", `{"person":"bo"}`, `[{"model":"own","junk":0,"notJunk":0,"correspondents":0,"acts":false},` +
		`{"model":"server",`},
	{"junk show", `{"person":"nobody"}`, "!not found "},
	{"junk test", `{"person":"bo","file":"lunch.eml"}`, `junk: unknown; too little was learned`},
	{"junk test", `{"person":"bo","file":"absent.eml"}`, "!not found "},
	{"junk forget", `{"person":"bo"}`, `has forgotten what bo filed`},
	{"rules move", `{"name":"lunch","position":"2"}`, `"position":2,"name":"lunch"`},
	{"rules move", `{"name":"lunch","position":"0"}`, "!usage "},
	{"rules edit", `{"name":"lunch","rename":"noon","rule":"{\"do\":{\"stop\":true}}"}`,
		`"name":"noon","on":true,"matches":0,"rule":"{\"do\":{\"stop\":true}}"`},
	{"rules edit", `{"name":"noon","rule":"{"}`, "!usage "},
	{"rules off", `{"name":"noon"}`, `"on":false`},
	{"rules show", `{"name":"noon"}`, `"position":2`},
	{"rules show", `{"name":"lunch"}`, "!not found "},
	{"rules remove", `{"name":"noon"}`, `"done"`},
	{"rules remove", `{"name":"programs"}`, `"done"`},
	{"rules list", `{}`, `[]`},
	{"connection add",
		`{"name":"home","url":"mail.example.org","user":"ada","password":"x","every":"15m",` +
			`"between":"22:00-06:00","database":["Plans"]}`, `"between":"22:00-06:00"`},
	{"connection add", `{"name":"Home","url":"mail.example.org","user":"ada","password":"x"}`, "!exists "},
	{"connection add", `{"name":"b","url":"http://mail.example.org","user":"ada","password":"x"}`, "!usage "},
	{"connection add", `{"name":"b","url":"mail.example.org","user":"ada","password":"x","every":"soon"}`, "!usage "},
	{"connection add", `{"name":"b","url":"mail.example.org","user":"ada","password":"x","every":"1s"}`, "!usage "},
	{"connection add", `{"name":"b","url":"mail.example.org","user":"ada","password":"x","between":"22-6"}`, "!usage "},
	{"connection add", `{"name":"b","url":"mail.example.org","user":"ada","password":"x","direction":"up"}`, "!usage "},
	{"connection list", `{}`, `"every":"15m0s"`},
	{"connection run", `{"name":"nobody"}`, "!not found "},
	{"connection run", `{"name":"home"}`, "!failed replica: mail.example.org"},
	{"connection remove", `{"name":"home"}`, `"done"`},
	{"connection list", `{}`, `[]`},
	{"replica copy", `{"url":"ftp://x","user":"ada","password":"x"}`, "!usage "},
	{"replica history", `{}`, `[]`},
	{"replica forget", `{"database":"Directory","replica":"x"}`, "!usage "},
	{"replica forget", `{"database":"Directory","replica":"0000000000000001"}`, "!not found "},
	{"route show", `{"pattern":"*.example.net"}`, "!not found "},
	{"queue drop", `{"id":"QUEUE"}`, `"done"`},
	{"trace", `{"what":"zed@far.example.net"}`, `"event":"dropped"`},
	{"queue list", `{}`, `[]`},
	{"check", `{"deep":true}`, `"clean":true`},
	{"check", `{"database":["ada"]}`, `"clean":true`},
	{"backup", `{}`, "!usage "},
	{"backup", `{"dir":"/backup","rate":"1TB"}`, `"generation":1`},
	{"backup list", `{"dir":"/backup"}`, `"generation":1`},
	{"backup verify", `{"dir":"/backup","at":1}`, `"generation":1`},
	{"backup verify", `{"dir":"/backup","at":9}`, "!not found "},
	{"backup moments", `{"dir":"/backup"}`, `[]`}, // see test/e2e TestMoment
	{"encryption", `{}`, `{"on":false}`},          // see test/e2e TestEncryptionAtRest
	{"encryption rotate", `{}`, "!usage "},
	{"encryption rewrite", `{}`, "!usage "},
	{"backup moments", `{"dir":"/nowhere"}`, "!not found "},
	{"backup prune", `{"dir":"/backup","keep":0}`, "!usage "},
	{"backup prune", `{"dir":"/backup","keep":1}`, `"removed_files":0`},
	{"backup thin", `{"dir":"/backup"}`, "!usage "},
	{"backup thin", `{"dir":"/backup","keep":"7 days"}`, "!usage "},
	{"backup thin", `{"dir":"/backup","keep":"1d 1w","dry_run":true}`, `"dry_run":true`},
	{"backup thin", `{"dir":"/backup","keep":"1d 1w"}`, `"removed_files":0`}, // see TestBackupThins
	{"backup list", `{"dir":"s3://"}`, "!usage "},
	{"backup verify", `{"dir":"/backup","identity":"/nowhere"}`, "!not found "},
	{"dump database", `{"database":"ada"}`, `"bytes":`},
	{"dump note", `{"database":"ada","note":"1"}`, `"bytes":`},
	{"dump note", `{"database":"ada","note":"one"}`, "!usage "},
	{"dump view", `{"database":"ada","note":"99"}`, "!not found "},
	{"dump feed", `{"limit":2}`, `"bytes":`},
	{"dump objects", `{}`, `"bytes":`},
	{"show stat", `{"pattern":"Database.Count","history":true}`, "!not found "},
	{"collect", `{}`, "removed 0 old reports"},
	{"show stat", `{"pattern":"Database.Count","history":true}`, `{"name":"Database.Count","kind":"gauge","value":`},
	{"show stat", `{"history":true,"since":"yesterday"}`, "!usage "},
	{"show catalog", `{}`, `[]`},
	{"catalog", `{}`, `entries written, 0 removed`},
	{"show catalog", `{"pattern":"plans"}`, `"title":"Plans","kind":"documents","owner":"Ada Lovelace"`},
	{"show catalog", `{"pattern":"ADA","kind":"mail"}`, `"owner":"Ada Lovelace","state":"in service"`},
	{"show catalog", `{"unused":1}`, `[]`},
	{"journal list", `{}`, `[]`},
	{"journal keys", `{}`, `"server":"age1`},
	{"journal search", `{}`, "!usage bad arguments of journal search: reason is missing"},
	{"journal search", `{"reason":"audit"}`, "!denied "},
	{"journal search", `{"reason":"audit","as":"ada","password":"wrong"}`, "!denied "},
	{"journal show", `{"database":"Journal","number":"1","reason":" ","as":"ada"}`, "!usage "},
	{"journal export", `{"database":"Journal","path":"/tmp/x","reason":"audit"}`, "!usage "},
	{"journal verify", `{"name":"Journal"}`, "!not found "},
	{"journal roll", `{"reason":"audit"}`, "!usage bad arguments: the mail journal is off"},
	{"journal remove", `{"database":"Journal","reason":"audit"}`, "!not found "},
	{"purge", `{}`, `"people_and_groups":0`},
	{"compact", `{"database":["ada"],"share":100}`, `"databases":1`},
	{"compact", `{"share":101}`, "!usage "},
	{"compact", `{"database":["nobody"]}`, "!not found "},
	{"updall", `{"rebuild":true}`, `"views":`},
	{"updall", `{"fulltext":true}`, "!"}, // needs a running search: cmd/doublet TestConsole
	{"task list", `{}`, `"state":"running"`},
	{"task load", `{"name":"router"}`, "!exists "},
	{"task load", `{"name":"amgr"}`, "!not found "},
	{"task quit", `{"name":"router"}`, `"done"`},
	{"show tasks", `{}`, `"state":"stopped"`},
	{"task load", `{"name":"router","args":["x","--y"]}`, `"done"`},
	{"task tell", `{"name":"router","command":["show"]}`, `"output":`},
	{"task tell", `{"name":"router","command":["quit"]}`, `router has quit`},
	{"task tell", `{"name":"router","command":["dance"]}`, "!usage "},
	{"task restart", `{"name":"router"}`, `"done"`},
	{"console", `{"command":"sh ta"}`, `"output":"NAME `},
	{"console", `{"command":"sh"}`, "!usage "},
	{"console", `{"command":""}`, "!usage "},
	{"console", `{"command":"user show \"Ada Lovelace\""}`, "Ada Lovelace"},
	{"console", `{"command":"console help"}`, "!usage no such verb"},
	{"show commands", `{"begin":["tell"]}`, `{"command":"tell","verb":"task tell"`},
	{"show configuration", `{"pattern":"log"}`, `"key":"log.level","value":"info","live":true`},
	{"show configuration", `{"pattern":"no"}`, "!usage "},
	{"set configuration", `{"setting":"log.level=debug"}`, `"applied":["log.level"]`},
	{"set configuration", `{"setting":"log.level"}`, "!usage "},
	{"queue route", `{"destination":"far.example.net"}`, "messages are due now"},
	{"drop", `{"person":"ada"}`, "3 connections and 0 sessions"},
	{"drop", `{"person":"nobody"}`, "!not found "},
	{"config apply", `{}`, `"applied":["log.level"]`},
	{"domain token", `{"expires":"1s"}`, "!usage "},
	{"domain token", `{}`, `"token":"doublet-domain-`},
	{"domain token list", `{}`, `[{"id":"`},
	{"domain token remove", `{"id":"nobody"}`, "!not found "},
	{"stop", `{}`, `"done"`},
	{"frobnicate", `{}`, "!usage no such verb: frobnicate"},
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
