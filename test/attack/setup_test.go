package attack

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"doublet/test/program"
)

// TestSetup checks that neither another account of the machine, a page of another site, nor a foreign host name for
// this address can create a server. Of two clients with the token one succeeds, and afterwards the token is invalid.
func TestSetup(t *testing.T) {
	exe, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	ports := program.FreePorts(t, 5)
	at := "127.0.0.1:" + ports[0]
	args := []string{"setup", "--data", filepath.Join(t.TempDir(), "data"), "--at", at}
	for i, d := range []string{"smtp", "imap", "http", "https"} {
		args = append(args, "--"+d, "127.0.0.1:"+ports[i+1])
	}
	for _, d := range []string{"submission", "submissions", "lmtp", "imaps", "pop3", "pop3s", "sieve"} {
		args = append(args, "--"+d, "off")
	}
	cmd := exec.Command(exe, args...)
	out := &program.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var token string
	for deadline := time.Now().Add(time.Minute); token == ""; time.Sleep(10 * time.Millisecond) {
		if m := regexp.MustCompile(`/setup#(\S+)`).FindStringSubmatch(out.String()); m != nil {
			token = m[1]
		} else if time.Now().After(deadline) {
			t.Fatal(out)
		}
	}
	if len(token) < 26 {
		t.Errorf("the token %q can be guessed", token)
	}
	b := &browser{t, "http://" + at, map[string]string{}}
	const field = "X-Setup-Token"
	body := func(person string) string {
		return fmt.Sprintf(
			`{"domain":"example.org","name":"mx.example.org","person":%q,"short":"admin","password":"correct `+
				`horse battery","certificates":"self"}`, person)
	}
	for _, header := range [][]string{
		{}, {field, ""}, {field, token[1:]}, {field, token + "x"}, {field, "x"}, {"Cookie", field + "=" + token},
		{"Authorization", "Bearer " + token},
		{field, token, "Host", "evil.example"}, {field, token, "Host", "127.0.0.1.evil.example:" + ports[0]},
		{field, token, "Host", "localhost.:" + ports[0]},
	} {
		for _, path := range []string{"/setup/state", "/setup/make", "/setup/make?" + field + "=" + token} {
			if a := b.send("POST", path, "application/json", body("Mallory"),
				header...); a.code != http.StatusForbidden && a.code != http.StatusMisdirectedRequest {
				t.Errorf("%s with %v: %d %s", path, header, a.code, a.body)
			}
		}
	}
	if a := b.send("GET", "/setup", "", ""); a.code != http.StatusOK || a.header.Get("X-Frame-Options") != "DENY" ||
		a.header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page: %d %v", a.code, a.header)
	}
	if a := b.send("OPTIONS", "/setup/make", "", "", "Origin", "https://evil.example", "Access-Control-Request-Method",
		"POST", "Access-Control-Request-Headers", field); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("pages of other sites may ask: %v", a.header)
	}
	// A race of two clients with the token, such as two tabs.
	codes := make([]int, 2)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			racer := &browser{t, b.base, map[string]string{}}
			codes[i] = racer.send("POST", "/setup/make", "application/json", body(fmt.Sprintf("Admin %d", i)), field,
				token).code
		})
	}
	wg.Wait()
	made := 0
	for _, c := range codes {
		if c == http.StatusOK {
			made++
		}
	}
	if made != 1 {
		t.Fatalf("%d servers made: %v\n%s", made, codes, out)
	}
	for _, path := range []string{"/setup/make", "/setup/state"} {
		if a := b.send("POST", path, "application/json", body("Mallory"), field, token); a.code < 400 {
			t.Errorf("%s after the server was made: %d %s", path, a.code, a.body)
		}
	}
	if a := b.send("GET", "/", "", "", "Host", "evil.example"); a.code != http.StatusMisdirectedRequest {
		t.Errorf("the door under another name: %d", a.code)
	}
	// An unlisted proxy in front of the door makes no client local.
	if a := b.send("GET", "/metrics", "", "", "X-Forwarded-For", "203.0.113.1"); a.code != http.StatusNotFound {
		t.Errorf("/metrics through a proxy: %d", a.code)
	}
}
