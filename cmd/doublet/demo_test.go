package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"doublet/admin"
	"doublet/client/imap"
	"doublet/client/smtp"
	"doublet/cmd/doublet/config"
	"doublet/env"
	wire "doublet/wire/imap"
	"doublet/wire/sasl"
	wiresmtp "doublet/wire/smtp"
)

// random assigns a free port to every door. The door at port 465 stays closed: two servers cannot share it.
var random = []string{
	"--smtp", "127.0.0.1:0", "--submission", "127.0.0.1:0", "--lmtp", "127.0.0.1:0", "--imap", "127.0.0.1:0", "--imaps",
	"127.0.0.1:0", "--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--pop3", "127.0.0.1:0", "--submissions", "off",
	"--sieve", "127.0.0.1:0", "--ldap", "127.0.0.1:0",
}

// quick keeps a test's server small.
var quick = []string{"DOUBLET_STORE_SPACE_FLOOR=0B", "DOUBLET_STORE_SPACE_FLOOR_PERCENT=0",
	"DOUBLET_STORE_MEMTABLE_SIZE=4MB", "DOUBLET_STORE_CACHE_SIZE=8MB"}

var quiet = env.Real(slog.New(slog.DiscardHandler))

// readBox reads the addresses from the demo's output, up to the end of the box.
func readBox(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	var all []byte
	for buf := make([]byte, 4096); !bytes.Contains(all, []byte("╯")); {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			t.Fatalf("the demo did not start: %v\n%s", err, all)
		}
	}
	doors := map[string]string{}
	for _, m := range regexp.MustCompile(`│ (\w+) +(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(string(all), -1) {
		doors[m[1]] = m[2]
	}
	if m := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/`).FindStringSubmatch(string(all)); m != nil {
		doors["http"] = m[1]
	}
	return doors
}

// startDemo runs the demo in this process, with variables of the environment.
func startDemo(t *testing.T, data string, environ ...string) (doors map[string]string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"demo", "--data", data}, random...),
			streams{strings.NewReader(""), w, &errs}, append(environ, quick...))
		_ = w.Close()
	}()
	doors = readBox(t, r)
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return doors, func() {
		cancel()
		if c := <-code; c != 0 {
			t.Errorf("demo ended with %d: %s", c, &errs)
		}
	}
}

func mustPath(t *testing.T, s string) wiresmtp.Path {
	t.Helper()
	p, err := wiresmtp.ParsePath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// deliver sends a message to the SMTP door.
func deliver(at string, from, to wiresmtp.Path, raw []byte) error {
	c, err := smtp.Dial(quiet, "tcp", at, smtp.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Hello("test.example.com"); err != nil {
		return err
	}
	return send(c, from, to, raw)
}

func send(c *smtp.Client, from, to wiresmtp.Path, raw []byte) error {
	res, err := c.Deliver(&smtp.Outgoing{From: from, To: []wiresmtp.Path{to}, Message: raw})
	if err != nil {
		return err
	}
	if !res.Accepted(0) {
		return fmt.Errorf("refused: %+v", res)
	}
	return nil
}

// inbox reads all messages of a folder over IMAP.
func inbox(t *testing.T, at, user, folder string) []string {
	t.Helper()
	c, err := imap.Dial(quiet.Dial, at, imap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Login(user, "demo"); err != nil {
		t.Fatal(err)
	}
	sel, err := c.Select(&wire.Select{Mailbox: folder}, true)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if sel.Exists == 0 {
		return nil
	}
	items := []wire.FetchItem{{Kind: wire.ItemBodySection, Peek: true}}
	err = c.Fetch(&wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 0}}}, Items: items}, false,
		func(d *wire.FetchData) error {
			out = append(out, d.Section(wire.ItemBodySection).Data)
			return nil
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != int(sel.Exists) {
		t.Errorf("%s has %d messages, %d came", folder, sel.Exists, len(out))
	}
	return out
}

// command runs a command line and returns its output.
func command(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, streams{strings.NewReader(in), &o, &e}, quick)
	return code, o.String(), e.String()
}

func get(t *testing.T, url string) (int, string, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func TestDemo(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	doors, stop := startDemo(t, data)
	for _, name := range []string{"smtp", "submission", "lmtp", "imap", "imaps", "pop3", "http"} {
		if doors[name] == "" {
			t.Errorf("the demo tells no address of %s: %v", name, doors)
		}
	}
	before := inbox(t, doors["imap"], "alice", "INBOX")
	if len(before) < 10 {
		t.Errorf("alice has %d messages", len(before))
	}
	raw := []byte("From: bob@example.com\r\nTo: alice@example.com\r\nSubject: here\r\n\r\nat once\r\n")
	if err := deliver(doors["smtp"], mustPath(t, "bob@example.com"), mustPath(t, "alice@example.com"),
		raw); err != nil {
		t.Fatal(err)
	}
	after := inbox(t, doors["imap"], "alice", "INBOX")
	if len(after) != len(before)+1 || !strings.HasSuffix(after[len(after)-1],
		string(raw[strings.Index(string(raw), "From"):])) {
		t.Errorf("what was sent is not there: %d messages, then %d", len(before), len(after))
	}
	if drafts := inbox(t, doors["imap"], "bob", "Drafts"); len(drafts) != 1 {
		t.Errorf("bob has %d drafts", len(drafts))
	}
	if junk := inbox(t, doors["imap"], "bob", "Junk"); len(junk) != 1 {
		t.Errorf("bob has %d messages in Junk", len(junk))
	}

	status, page, header := get(t, "http://"+doors["http"]+"/status")
	if status != 200 || !strings.Contains(page, doors["imap"]) || header.Get("Content-Security-Policy") == "" ||
		header.Get("Set-Cookie") != "" {
		t.Errorf("page: %d %v\n%s", status, header, page)
	}
	if status, body, _ := get(t, "http://"+doors["http"]+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("health: %d %s", status, body)
	}
	if status, body, _ := get(t, "http://"+doors["http"]+"/metrics"); status != 200 ||
		!strings.Contains(body, "doublet_mail_delivered_total") ||
		!strings.Contains(body, "doublet_server_users_active15_min") {
		t.Errorf("metrics: %d %s", status, body)
	}
	if status, _, _ := get(t, "http://"+doors["http"]+"/nothing"); status != 404 {
		t.Errorf("a page that is not there: %d", status)
	}

	// The same verb, over the socket and on the stopped store.
	_, running, _ := command(t, "", "user", "list", "--json", "--data", data)
	if info, err := os.Stat(filepath.Join(data, "doublet.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	stop()
	code, stopped, errs := command(t, "", "user", "list", "--json", "--data", data)
	if code != 0 || running != stopped || !strings.Contains(stopped, "Carol Müller-Ångström") {
		t.Errorf("running: %s\nstopped (%d, %s): %s", running, code, errs, stopped)
	}
	if code, out, errs := command(t, "", "check", "--deep", "--data", data); code != 0 ||
		!strings.HasPrefix(out, "clean") {
		t.Errorf("check: %d %s %s", code, out, errs)
	}

	doors, stop = startDemo(t, data)
	defer stop()
	if again := inbox(t, doors["imap"], "alice", "INBOX"); len(again) != len(after) {
		t.Errorf("a second start made %d messages of %d", len(again), len(after))
	}
	if code, _, errs := command(t, "", "serve", "--data", data, "--http", "off"); code != exitInUse ||
		!strings.Contains(errs, fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second server: %d %s", code, errs)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	doors, stop := startDemo(t, t.TempDir())
	defer stop()
	c, err := smtp.Dial(quiet, "tcp", doors["submission"], smtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Hello("test"); err != nil {
		t.Fatal(err)
	}
	if err := c.Auth(sasl.NewPlainClient("", "bob", "demo")); err != nil {
		t.Fatal(err)
	}
	if err := send(c, mustPath(t, "bob@example.com"), mustPath(t, "team@example.com"),
		[]byte("From: bob@example.com\r\nSubject: to all\r\n\r\nx\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.Quit(); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"alice", "bob", "carol"} {
		all := inbox(t, doors["imap"], who, "INBOX")
		if !strings.Contains(all[len(all)-1], "Subject: to all") {
			t.Errorf("%s did not get what the group got", who)
		}
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	args := append([]string{"demo", "--data", t.TempDir()}, random...)
	code, _, errs := command(t, "", append(args, "--imap", at)...)
	if code != exitPort || !strings.Contains(errs, "imap") || !strings.Contains(errs, at) {
		t.Errorf("%d %s", code, errs)
	}
}

// TestDemoExposed checks for a warning if other machines can reach the demo, because its password is public.
func TestDemoExposed(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{"127.0.0.1": false, "::1": false, "0.0.0.0": true, "::": true,
		"192.0.2.1": true} {
		h := &server{house: &house{system: &admin.System{}}}
		h.doors.add(admin.Door{Name: "imap", Address: net.JoinHostPort(host, "2143")})
		if got := strings.Contains(box(h, false, ""), "its password is public"); got != want {
			t.Errorf("at %s it warns: %v", host, got)
		}
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, errs := command(t, "", "serve", "--data", data); code != exitFailed ||
		!strings.Contains(errs, "doublet init") {
		t.Errorf("serve without a store: %d %s", code, errs)
	}
	if code, _, errs := command(t, "", "user", "list", "--data", data); code != exitFailed ||
		!strings.Contains(errs, "doublet init") {
		t.Errorf("a verb without a store: %d %s", code, errs)
	}
	if code, _, _ := command(t, "\n", "init", "--domain", "example.org", "--data", data); code != exitUsage {
		t.Errorf("init without a password: %d", code)
	}
	if code, out, errs := command(t, "secret\n", "init", "--domain", "example.org", "--data", data); code != 0 ||
		!strings.Contains(out, "admin@example.org") {
		t.Fatalf("init: %d %s %s", code, out, errs)
	}
	if code, _, _ := command(t, "secret\n", "init", "--domain", "example.org", "--data", data); code != exitFailed {
		t.Errorf("init twice: %d", code)
	}
	var user struct {
		Roles []string `json:"roles"`
	}
	_, out, _ := command(t, "", "user", "show", "admin", "--json", "--data", data)
	if err := json.Unmarshal([]byte(out), &user); err != nil || len(user.Roles) != 1 || user.Roles[0] != "Admin" {
		t.Errorf("%s %v", out, err)
	}
	if code, out, _ := command(t, "", "config", "show", "--data", data); code != 0 ||
		!strings.Contains(out, `domain = "example.org"`) {
		t.Errorf("config show: %d %s", code, out)
	}
	file, err := os.ReadFile(filepath.Join(data, config.FileName))
	if err != nil || bytes.Count(file, []byte("\n")) > 40 {
		t.Errorf("init writes more than what was chosen: %v\n%s", err, file)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"set", "log.level", "loud"}, exitUsage, "loud"},
		{[]string{"set", "log.level", "warn", "limits.recipients", "500"}, 0, ""},
		{[]string{"unset", "limits.recipients"}, 0, ""},
		{[]string{"show"}, 0, "[log]\n"},
	} {
		code, out, errs := command(t, "", append(append([]string{"config"}, c.args...), "--data", data)...)
		if code != c.code || !strings.Contains(out+errs, c.want) || strings.Contains(out, "recipients") {
			t.Errorf("config %v: %d %s%s", c.args, code, out, errs)
		}
	}
}

// TestDemoPorts checks that all doors of the demo move up by one step if one port is taken.
func TestDemoPorts(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp", config.Demo().Doors.IMAP); err == nil {
		defer l.Close()
	}
	cfg, err := demoDoors("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	usual := config.Demo()
	port := func(address string) int {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			t.Fatal(err)
		}
		return int(at.Port())
	}
	shift := port(cfg.Doors.IMAP) - port(usual.Doors.IMAP)
	if shift < 10_000 || shift%10_000 != 0 || port(cfg.Doors.HTTP)-port(usual.Doors.HTTP) != shift ||
		cfg.Doors.Submissions != config.Off {
		t.Errorf("doors %+v", cfg.Doors)
	}
	if cfg, err = demoDoors("0.0.0.0"); err != nil || !strings.HasPrefix(cfg.Doors.SMTP, "0.0.0.0:") {
		t.Errorf("%v, %+v", err, cfg.Doors)
	}
	if _, err := demoDoors("everywhere"); err == nil {
		t.Error("a name is taken for an address")
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		want string // in the output or the errors
	}{
		{"version", 0, "doublet " + release},
		{"--version", 0, "doublet " + release},
		{"init", exitUsage, "--domain is missing"},
		{"user set --help", 0, "mail too (SMTP answers 550 5.2.1)"},
		{"frobnicate", exitUsage, "unknown command"},
		{"user frobnicate", exitUsage, "unknown command"},
		{"user add", exitUsage, "usage: doublet user add NAME"},
		{"user add A --frob", exitUsage, "unknown flag"},
		{"import mbox x", exitUsage, "--user is missing"},
		{"config check --imap nowhere", exitUsage, "doors.imap"},
		{"config check --imap off", 0, "good"},
		{"config show --imap 127.0.0.1:1143", 0, `imap = "127.0.0.1:1143"`},
		{"config show --demo", 0, `imap = "127.0.0.1:2143"`},
		{"config show", 0, "config show --defaults"},
		{"config show --defaults", 0, `message_size = "50MB"`},
		{"config set log.level", exitUsage, "usage: doublet config set"},
		{"config set log.level debug", exitFailed, "no data folder"},
		{"config describe", 0, "# Configuration"},
		{"user --help", 0, "app-password"},
		{"demo --help", 0, "--lmtp"},
	} {
		code, out, errs := command(t, "", append(strings.Fields(c.args), "--data",
			filepath.Join(t.TempDir(), "none"))...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("doublet %s: %d\n%s%s\nwant %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}
