package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// jmap makes JMAP calls for Anna at a member and returns the response; ${account} stands for her account.
func (m *member) jmap(curl, calls string) string {
	m.T.Helper()
	url := "http://127.0.0.1:" + m.Port["http"] + "/jmap/"
	session, err := program.Command(curl, "-s", "-m", "10", "-u", "anna:secret", url+"session")
	_, account, ok := strings.Cut(session, `"accounts":{"`)
	if err != nil || !ok {
		return fmt.Sprint(err, session)
	}
	account, _, _ = strings.Cut(account, `"`)
	body := `{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail","urn:ietf:params:jmap:submission"],` +
		`"methodCalls":` + strings.ReplaceAll(calls, "${account}", account) + `}`
	answer, _ := program.Command(curl, "-s", "-m", "20", "-u", "anna:secret", "-H", "Content-Type: application/json",
		"-d", body, url+"api")
	return answer
}

// later submits a message from Anna to herself with a delay in seconds, and returns the id of the submission.
func (m *member) later(curl, subject string, seconds int) string {
	m.T.Helper()
	var identities, sent struct {
		MethodResponses [][]json.RawMessage
	}
	id := ""
	found := m.jmap(curl,
		`[["Identity/get",{"accountId":"${account}"},"i"],["Mailbox/query",{"accountId":"${account}",`+
			`"filter":{"role":"drafts"}},"m"]]`)
	var identity struct{ List []struct{ ID string } }
	var drafts struct{ IDs []string }
	err := json.Unmarshal([]byte(found), &identities)
	if err == nil && len(identities.MethodResponses) == 2 {
		_ = json.Unmarshal(identities.MethodResponses[0][1], &identity)
		_ = json.Unmarshal(identities.MethodResponses[1][1], &drafts)
	}
	if len(identity.List) == 0 || len(drafts.IDs) == 0 {
		m.T.Fatalf("%v: %s", err, found)
	}
	answer := m.jmap(curl,
		fmt.Sprintf(`[["Email/set",{"accountId":"${account}","create":{"d":{"mailboxIds":{%q:true},
		"from":[{"email":"anna@cluster.example"}],"to":[{"email":"anna@cluster.example"}],"subject":%q,
		"textBody":[{"partId":"1"}],"bodyValues":{"1":{"value":"x"}}}}},"0"],["EmailSubmission/set",{
		"accountId":"${account}","create":{"s":{"identityId":%q,"emailId":"#d",
		"envelope":{"mailFrom":{"email":"anna@cluster.example","parameters":{"HOLDFOR":"%d"}},
		"rcptTo":[{"email":"anna@cluster.example"}]}}}},"1"]]`, drafts.IDs[0], subject, identity.List[0].ID, seconds))
	var created struct {
		Created map[string]struct{ ID, UndoStatus string }
	}
	if err := json.Unmarshal([]byte(answer), &sent); err == nil && len(sent.MethodResponses) == 2 {
		_ = json.Unmarshal(sent.MethodResponses[1][1], &created)
		id = created.Created["s"].ID
	}
	if id == "" || created.Created["s"].UndoStatus != "pending" {
		m.T.Fatalf("%s is not waiting: %s", subject, answer)
	}
	return id
}

// TestClusterOutbox: delayed messages are at a server that is killed. Its mate sends the one that is due, once, also
// after the return of the server. Another is cancelled at the mate and never sent.
func TestClusterOutbox(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	_, one, two := pair(t)
	for deadline := time.Now().Add(time.Minute); strings.Count(two.Doublet("db", "list"),
		"outbox of") < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a mate gets no replica of the outbox\n%s", two.Out)
		}
	}
	one.later(curl, "due", 4)
	back := one.later(curl, "never", 20)
	after := one.later(curl, "after", 3600)
	one.Stop(syscall.SIGKILL)
	cancel := func(m *member, id string) {
		t.Helper()
		answer := ""
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			answer = m.jmap(curl,
				fmt.Sprintf(
					`[["EmailSubmission/set",{"accountId":"${account}","update":{%q:{"undoStatus":"canceled"}}},"0"]]`,
					id))
			if strings.Contains(answer, fmt.Sprintf(`"updated":{%q:null}`, id)) {
				return
			}
		}
		t.Fatalf("it is not taken back: %s\n%s", answer, m.Out)
	}
	cancel(two, back)
	two.sees(curl, "due")
	one.serve()
	cancel(two, after) // wherever it waits now
	one.deliver("last")
	one.sees(curl, "due", "last")
	two.sees(curl, "due", "last")
	list := one.jmap(curl,
		`[["EmailSubmission/query",{"accountId":"${account}","filter":{"undoStatus":"canceled"},`+
			`"calculateTotal":true},"0"]]`)
	if !strings.Contains(list, `"total":2`) {
		t.Errorf("canceled are %s", list)
	}
}
