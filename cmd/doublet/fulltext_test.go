package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFullTextOfDatabase switches the full text of a mail file off and on while the server runs, with a restart and new
// mail in between. IMAP finds the same messages at each time.
func TestFullTextOfDatabase(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	doors, stop := startDemo(t, data)
	verb := func(args ...string) string {
		t.Helper()
		code, out, errs := command(t, "", append([]string{"--data", data}, args...)...)
		if code != 0 {
			t.Fatalf("%v: %d %s", args, code, errs)
		}
		return out
	}
	verb("user", "add", "Dora Example", "--short", "dora", "--password", "demo")
	sent := 0
	send := func() {
		t.Helper()
		for range 20 {
			sent++
			raw := fmt.Sprintf("From: eve@far.example\r\nTo: dora@example.com\r\nSubject: %d\r\n\r\n%s\r\n", sent,
				[]string{"a turbine", "a generator"}[sent%2])
			if err := deliver(doors["smtp"], mustPath(t, "eve@far.example"), mustPath(t, "dora@example.com"),
				[]byte(raw)); err != nil {
				t.Fatal(err)
			}
		}
	}
	finds := func(when string) {
		t.Helper()
		c := speak(t, doors["imap"])
		c.say("a LOGIN dora demo", "a OK")
		c.say("b EXAMINE INBOX", "b OK")
		line := c.say("c UID SEARCH TEXT turbine", "* SEARCH")
		c.until("c OK")
		c.say("d LOGOUT", "d OK")
		if n := len(strings.Fields(line)) - 2; n != sent/2 {
			t.Errorf("%s: %d of %d messages found", when, n, sent/2)
		}
	}
	send()
	indexed := awaitIndexed(t, data, 0, 0)
	finds("at first")
	if out := verb("db", "set", "dora", "--fulltext", "off", "--json"); !strings.Contains(out, `"fulltext": "off"`) &&
		!strings.Contains(out, `"fulltext":"off"`) {
		t.Errorf("db set: %s", out)
	}
	finds("switched off")
	awaitIndexed(t, data, indexed-1, 1)
	if code, _, errs := command(t, "", "--data", data, "search", "rebuild", "dora"); code == 0 ||
		!strings.Contains(errs, "db set dora --fulltext on") {
		t.Errorf("search rebuild: %d %s", code, errs)
	}
	send()
	finds("off")
	stop()
	doors, stop = startDemo(t, data)
	defer func() { stop() }()
	awaitIndexed(t, data, indexed-1, 1)
	finds("off after a restart")
	verb("db", "set", "dora", "--fulltext", "on")
	finds("switched on")
	send()
	awaitIndexed(t, data, indexed, 0)
	finds("on again")
}

// awaitIndexed waits until the index holds so many databases (0: any), none of which is being built, and leaves out so
// many. It returns the number of databases in the index.
func awaitIndexed(t *testing.T, data string, databases, off int) int {
	t.Helper()
	var st struct {
		Running             bool
		Behind              uint64
		Databases, Building int
		Off                 int `json:"databases_off"`
	}
	for by := time.Now().Add(time.Minute); time.Now().Before(by); {
		code, out, errs := command(t, "", "--data", data, "search", "status", "--json")
		st.Off = 0 // left out where it is 0
		if err := json.Unmarshal([]byte(out), &st); code != 0 || err != nil {
			t.Fatalf("search status: %d %s %v", code, errs, err)
		}
		if st.Running && st.Behind == 0 && st.Building == 0 && st.Off == off && st.Databases > 0 &&
			(databases == 0 || st.Databases == databases) {
			return st.Databases
		}
	}
	t.Fatalf("the index does not settle with %d databases, %d off: %+v", databases, off, st)
	return 0
}
