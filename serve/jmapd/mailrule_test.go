package jmapd

import (
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
)

// TestMailRule checks that a mail rule refuses a submission with its text, and that the draft stays.
//
// RFC 8621 §7.5 (forbiddenToSend).
func TestMailRule(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	a := &actor{&operator{w: w, rng: rand.New(rand.NewPCG(1, 1))}}
	_, err := w.people.MailRules.Add(bg, note.System, directory.MailRuleFields{Name: "r",
		Text: `{"when":{"subject":["merger"],"direction":["internal"]},"do":{"refuse":"Ask the board first"}}`})
	w.ok(err)
	drafts, sent := a.folderID("Drafts"), a.folderID("Sent")
	alice := obj{"email": "alice@example.com"}
	for subject, refused := range map[string]bool{"the merger": true, "lunch": false} {
		out := w.call("alice", []any{"Email/set", a.args(obj{"create": obj{"m": obj{"mailboxIds": obj{drafts: true},
			"from": []any{alice}, "to": []any{alice}, "subject": subject}}}), "0"},
			[]any{"EmailSubmission/set", a.args(obj{
				"create": obj{"s": obj{"identityId": a.pick("Identity", nil), "emailId": "#m",
					"envelope": obj{"mailFrom": alice, "rcptTo": []any{alice}}}},
				"onSuccessUpdateEmail": obj{"#s": obj{"mailboxIds/" + drafts: nil, "mailboxIds/" + sent: true}},
			}), "1"})
		problem, _ := out[1][1].(obj)["notCreated"].(obj)
		if !refused {
			if problem != nil {
				t.Errorf("%s: %v", subject, problem)
			}
			continue
		}
		p, _ := problem["s"].(obj)
		if text, _ := p["description"].(string); p["type"] != "forbiddenToSend" ||
			!strings.Contains(text, "Ask the board first") {
			t.Errorf("%s: %v", subject, out[1])
		}
	}
	for folder, want := range map[string]int{drafts: 1, sent: 1} {
		in := w.one("alice", "Email/query", a.args(obj{"filter": obj{"inMailbox": folder}}))
		if ids := strs(in["ids"]); len(ids) != want {
			t.Errorf("%d messages in %s, want %d", len(ids), folder, want)
		}
	}
}
