package main

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/client/imap"

	"github.com/spf13/cobra"
)

// made creates a data folder of example.org.
func made(t *testing.T, data string) {
	t.Helper()
	if code, out, errs := command(t, "secret\n", "init", "--domain", "example.org", "--data", data); code != 0 {
		t.Fatalf("init: %d %s %s", code, out, errs)
	}
}

// TestEveryCommandIsDescribed checks that the help says of each command what it is for.
func TestEveryCommandIsDescribed(t *testing.T) {
	t.Parallel()
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look((&app{}).root())
}

func TestMovedFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, moved := filepath.Join(dir, "old"), filepath.Join(dir, "moved")
	made(t, old)
	file := filepath.Join(old, "doublet.toml")
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), old) {
		t.Errorf("the file names its folder: %v\n%s", err, text)
	}
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{string(text), strings.Replace(string(text), "[data]\n",
		"[data]\ndir = '"+old+"'\n", 1)} {
		if err := os.WriteFile(filepath.Join(moved, "doublet.toml"), []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		// Without --data the folder is found by the variable, which stands for the working directory here.
		show := func(args ...string) (int, string, string) {
			var out, errs strings.Builder
			code := run(context.Background(), args, streams{strings.NewReader(""), &out, &errs},
				append([]string{"DOUBLET_DATA_DIR=" + moved}, quick...))
			return code, out.String(), errs.String()
		}
		if code, out, errs := show("user", "show", "admin"); code != 0 || !strings.Contains(out, "admin@example.org") {
			t.Errorf("%d %s %s", code, out, errs)
		}
		if code, out, _ := command(t, "", "config", "show", "--data", moved); code != 0 ||
			!strings.Contains(out, "dir = \""+moved+"\"") {
			t.Errorf("%d %s", code, out)
		}
	}
}

func TestConfigCheckReadsCertificate(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	cert, key := filepath.Join(data, "c.pem"), filepath.Join(data, "k.pem")
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(data, "doublet.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[tls]\ncertificate = '" + cert + "'\nkey = '" + key + "'\n")
	if code, _, errs := command(t, "", "config", "check", "--data", data); code != exitUsage ||
		!strings.Contains(errs, cert) {
		t.Errorf("without the files: %d %s", code, errs)
	}
	if err := makeCertificate(cert, key, "mail.example.org", time.Now()); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := command(t, "", "config", "check", "--data", data); code != 0 {
		t.Errorf("with the files: %d %s%s", code, out, errs)
	}
	if err := os.WriteFile(key, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := command(t, "", "config", "check", "--data", data); code != exitUsage {
		t.Errorf("with a broken key: %d", code)
	}
}

func TestStoppedServer(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	made(t, data)
	if code, _, errs := command(t, "", "stop", "--data", data); code != exitFailed ||
		!strings.Contains(errs, "no server runs in "+data) {
		t.Errorf("stop: %d %s", code, errs)
	}
	if code, out, errs := command(t, "", "purge", "--data", data); code != 0 || strings.TrimSpace(out) == "" {
		t.Errorf("purge: %d %q %s", code, out, errs)
	}
	_, out, _ := command(t, "", "show", "users", "--data", data)
	if !regexp.MustCompile(`(?s)MESSAGES +UNREAD +BYTES +QUOTA\n.* 0 +0 +0 B +none\n`).MatchString(out) {
		t.Errorf("show users:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(file, []byte("shortname\nada\nada\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := command(t, "", "user", "import", file, "--data", data); code != exitFailed ||
		!strings.Contains(out, "line 3 (ada)") {
		t.Errorf("import with a bad row: %d %s", code, out)
	}
	if err := os.WriteFile(file, []byte("shortname\nbo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := command(t, "", "user", "import", file, "--data", data); code != 0 {
		t.Errorf("import: %d %s", code, out)
	}
}

// TestSCRAMSetting checks that one setting controls both the offered mechanisms and the stored credentials.
func TestSCRAMSetting(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"true", "false"} {
		ctx, cancel := context.WithCancel(context.Background())
		data := filepath.Join(t.TempDir(), "data")
		environ := append([]string{"DOUBLET_DIRECTORY_SCRAM=" + on}, quick...)
		var out, errs strings.Builder
		if code := run(ctx, []string{"init", "--domain", "example.org", "--data", data},
			streams{strings.NewReader("secret\n"), &out, &errs}, environ); code != 0 {
			t.Fatalf("init: %d %s", code, errs.String())
		}
		_, user, _ := command(t, "", "user", "show", "admin", "--json", "--data", data)
		if strings.Contains(user, `"scram":true`) != (on == "true") {
			t.Errorf("setting %s: init made %s", on, user)
		}
		log, code := newLines(), make(chan int, 1)
		go func() {
			code <- run(ctx, append([]string{"serve", "--data", data}, random...),
				streams{strings.NewReader(""), log, log}, quick)
			log.end()
		}()
		// The file that init wrote has the setting.
		c, err := imap.Dial(quiet.Dial, log.door(t, "imap"), imap.Options{})
		if err != nil {
			t.Fatal(err)
		}
		offered, err := c.Capability()
		if err != nil || !slices.Contains(offered, "AUTH=PLAIN") ||
			slices.Contains(offered, "AUTH=SCRAM-SHA-256") != (on == "true") {
			t.Errorf("setting %s: %v %v", on, offered, err)
		}
		_ = c.Close()
		cancel()
		if c := <-code; c != 0 {
			t.Errorf("serve ended with %d", c)
		}
	}
}

// TestHangup checks that after SIGHUP the running server shows a renewed certificate and nothing is interrupted.
func TestHangup(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	made(t, data)
	cert, key := filepath.Join(data, "c.pem"), filepath.Join(data, "k.pem")
	renew := func(name string) {
		if err := makeCertificate(cert, key, name, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	renew("old.example.org")
	log := newLines()
	p := startServe(t, log, []string{"DOUBLET_TLS_CERTIFICATE=" + cert, "DOUBLET_TLS_KEY=" + key}, "--data", data)
	at := log.door(t, "imaps")
	shown := func() string {
		c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "old.example.org" {
		t.Fatalf("it shows %s", got)
	}
	renew("new.example.org")
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	log.await(t, "settings reloaded")
	if got := shown(); got != "new.example.org" {
		t.Errorf("after SIGHUP it shows %s", got)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	log.await(t, "the previous one stays")
	if got := shown(); got != "new.example.org" {
		t.Errorf("after a reload that failed it shows %s", got)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
