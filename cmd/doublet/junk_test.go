package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/serve/jmapd"
)

// TestJunk moves 20 messages to Junk over IMAP and marks 20 others with $NotJunk. The next one goes to Junk with the
// reason. It is taken out over JMAP, which is learned too.
func TestJunk(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	doors, stop := startDemo(t, data, "DOUBLET_JUNK_LEARNED_GOOD=20")
	defer stop()
	// A person whose mail file is empty: of another one, the filter learns what was there before.
	if code, out, errs := command(t, "", "--data", data, "user", "add", "Dora Example", "--short", "dora",
		"--password", "demo"); code != 0 {
		t.Fatal(out, errs)
	}
	const each = 20
	send := func(topic, words string, n int) {
		t.Helper()
		raw := fmt.Sprintf("From: %s%d@far.example\r\nTo: dora@example.com\r\nSubject: %s %d\r\n\r\n%s\r\n",
			topic, n, topic, n, words)
		if err := deliver(doors["smtp"], mustPath(t, "eve@far.example"), mustPath(t, "dora@example.com"),
			[]byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	const casino, turbine = "Jackpot roulette bonus spins", "Bearings rotor delivery drawing"
	for i := range each {
		send("casino", casino, i)
		send("turbine", turbine, i)
	}
	c := speak(t, doors["imap"])
	c.say("a LOGIN dora demo", "a OK")
	c.say("b SELECT INBOX", "b OK")
	found := func(topic string) string {
		line := c.say("c UID SEARCH SUBJECT "+topic, "* SEARCH")
		c.until("c OK")
		return strings.Join(strings.Fields(line)[2:], ",")
	}
	c.say("d UID STORE "+found("turbine")+" +FLAGS ($NotJunk)", "d OK")
	c.say("e UID MOVE "+found("casino")+" Junk", "e OK")
	want := learnedNow{each, each}
	awaitLearned(t, data, want)

	send("casino", casino, 100)
	send("turbine", turbine, 100)
	list := inbox(t, doors["imap"], "dora", "Junk")
	if len(list) != each+1 || !strings.Contains(list[len(list)-1], "\r\nX-Doublet-Junk: yes; score=") ||
		!strings.Contains(list[len(list)-1], "casino 100") {
		t.Fatalf("%d messages in Junk, the last is %s", len(list), list[len(list)-1])
	}
	notJunk(t, doors["http"], "casino 100")
	want.NotJunk++
	awaitLearned(t, data, want)
	code, out, errs := command(t, "", "--data", data, "junk", "forget", "dora")
	if got := junkLearned(t, data); code != 0 || got != (learnedNow{}) {
		t.Errorf("forget: %d %s %s, then %+v", code, out, errs, got)
	}
}

// learnedNow is a line of junk show.
type learnedNow struct{ Junk, NotJunk int }

// junkLearned returns what was learned from dora.
func junkLearned(t *testing.T, data string) learnedNow {
	t.Helper()
	code, out, errs := command(t, "", "--data", data, "junk", "show", "dora", "--json")
	var list []learnedNow
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil || len(list) != 2 {
		t.Fatalf("junk show: %d %s %s %v", code, out, errs, err)
	}
	return list[0]
}

func awaitLearned(t *testing.T, data string, want learnedNow) {
	t.Helper()
	got := junkLearned(t, data)
	for by := time.Now().Add(time.Minute); got != want && time.Now().Before(by); {
		got = junkLearned(t, data)
	}
	if got != want {
		t.Fatalf("learned %+v, want %+v", got, want)
	}
}

// notJunk takes the message with a subject out of Junk over JMAP, as the web client does.
func notJunk(t *testing.T, at, subject string) {
	t.Helper()
	call := func(method, path, body string, to any) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+at+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("dora", "demo")
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if err := json.NewDecoder(a.Body).Decode(to); err != nil || a.StatusCode != http.StatusOK {
			t.Fatal(a.Status, err)
		}
	}
	var session struct {
		PrimaryAccounts map[string]string `json:"primaryAccounts"`
	}
	call("GET", jmapd.PathSession, "", &session)
	account := session.PrimaryAccounts["urn:ietf:params:jmap:mail"]
	ask := func(calls string) []json.RawMessage {
		t.Helper()
		var answer struct {
			MethodResponses []json.RawMessage `json:"methodResponses"`
		}
		using := `["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail"]`
		call("POST", jmapd.PathAPI, `{"using":`+using+`,"methodCalls":[`+
			strings.ReplaceAll(calls, "ACCOUNT", account)+`]}`, &answer)
		return answer.MethodResponses
	}
	got := ask(`["Mailbox/query",{"accountId":"ACCOUNT","filter":{"role":"junk"}},"0"],` +
		`["Mailbox/query",{"accountId":"ACCOUNT","filter":{"role":"inbox"}},"1"],` +
		`["Email/query",{"accountId":"ACCOUNT","filter":{"subject":"` + subject + `"}},"2"]`)
	ids := make([]string, len(got))
	for i, raw := range got {
		var parts []json.RawMessage
		var x struct {
			IDs []string `json:"ids"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != 3 {
			t.Fatalf("%s", raw)
		}
		if err := json.Unmarshal(parts[1], &x); err != nil || len(x.IDs) != 1 {
			t.Fatalf("%s", raw)
		}
		ids[i] = x.IDs[0]
	}
	done := ask(fmt.Sprintf(`["Email/set",{"accountId":"ACCOUNT","update":{%q:{"mailboxIds/%s":null,`+
		`"mailboxIds/%s":true,"keywords/$junk":null,"keywords/$notjunk":true}}},"0"]`, ids[2], ids[0], ids[1]))
	if !strings.Contains(string(done[0]), `"updated":{"`+ids[2]) {
		t.Fatalf("%s", done[0])
	}
}
