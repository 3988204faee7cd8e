package jmapd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/test/long"
)

// actor does random changes through JMAP alone, more than operator does: trees of Mailboxes, drafts, identities, and
// submissions that are delayed, sent, canceled and removed.
type actor struct{ *operator }

func (a *actor) args(more obj) obj {
	more["accountId"] = a.w.account("alice")
	return more
}

// pick returns a random id of a type, or "" if there is none.
func (a *actor) pick(kind string, fits func(obj) bool) string {
	var ids []string
	for _, v := range a.w.one("alice", kind+"/get", a.args(obj{"ids": nil}))["list"].([]any) {
		if fits == nil || fits(v.(obj)) {
			ids = append(ids, v.(obj)["id"].(string))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[a.rng.IntN(len(ids))]
}

// own returns a random Mailbox that an actor has made.
func (a *actor) own() string {
	return a.pick("Mailbox", func(b obj) bool { return strings.HasPrefix(b["name"].(string), "M") })
}

func (a *actor) act() {
	if a.rng.IntN(2) == 0 {
		a.step()
		return
	}
	a.n++
	switch n := a.rng.IntN(16); {
	case n < 3:
		a.makeMailbox()
	case n < 5:
		a.changeMailbox()
	case n == 5:
		if id := a.own(); id != "" {
			a.w.one("alice", "Mailbox/set",
				a.args(obj{"destroy": []string{id}, "onDestroyRemoveEmails": a.rng.IntN(2) == 0}))
		}
	case n < 8:
		a.identity()
	case n < 12:
		a.submit()
	case n < 14:
		if id := a.pick("EmailSubmission", nil); id != "" {
			a.w.one("alice", "EmailSubmission/set", a.args(obj{"update": obj{id: obj{"undoStatus": "canceled"}}}))
		}
	case n == 14:
		if id := a.pick("EmailSubmission", nil); id != "" {
			a.w.one("alice", "EmailSubmission/set", a.args(obj{"destroy": []string{id}}))
		}
	default:
		a.w.fix.Time.Advance(time.Duration(a.rng.IntN(200)) * time.Second)
		a.w.mail.Scheduled.ReleaseDue(bg)
		_, err := a.w.mail.Router.Route(bg)
		a.w.ok(err)
	}
}

func (a *actor) makeMailbox() {
	box := obj{"name": fmt.Sprint("M", a.n), "isSubscribed": a.rng.IntN(2) == 0}
	if id := a.own(); id != "" && a.rng.IntN(2) == 0 {
		box["parentId"] = id
	}
	below := obj{"name": fmt.Sprint("Mbelow", a.n), "parentId": "#a"}
	a.w.one("alice", "Mailbox/set", a.args(obj{"create": obj{"b": below, "a": box}}))
}

// changeMailbox renames and moves a Mailbox at random: into itself, to a name in use, and back.
func (a *actor) changeMailbox() {
	id := a.own()
	if id == "" {
		return
	}
	patch := obj{"sortOrder": a.rng.IntN(20)}
	if a.rng.IntN(2) == 0 {
		patch["name"] = fmt.Sprint("M", a.rng.IntN(30))
	}
	if a.rng.IntN(2) == 0 {
		patch["parentId"] = any(nil)
		if to := a.own(); a.rng.IntN(3) > 0 {
			patch["parentId"] = to
		}
	}
	a.w.one("alice", "Mailbox/set", a.args(obj{"update": obj{id: patch}}))
}

func (a *actor) identity() {
	id := a.pick("Identity", nil)
	a.w.one("alice", "Identity/set", a.args(obj{
		"create":  obj{"a": obj{"email": "alice@example.com", "name": fmt.Sprint("I", a.n)}},
		"update":  obj{id: obj{"textSignature": fmt.Sprint(a.n)}},
		"destroy": []string{a.pick("Identity", func(o obj) bool { return o["mayDelete"] == true })},
	}))
}

func (a *actor) submit() {
	from := obj{"email": "alice@example.com"}
	if a.rng.IntN(3) > 0 {
		from["parameters"] = obj{"HOLDFOR": strconv.Itoa(1 + a.rng.IntN(150))}
	}
	to := []string{"alice", "bob", "carol"}[a.rng.IntN(3)] + "@example.com"
	a.w.call("alice", []any{"Email/set", a.args(obj{"create": obj{"d": obj{
		"mailboxIds": obj{a.folderID("Drafts"): true}, "keywords": obj{"$draft": true},
		"from": []any{obj{"email": "alice@example.com"}},
		"to":   []any{obj{"email": to}}, "subject": fmt.Sprint("thread ", a.rng.IntN(8)),
	}}}), "0"}, []any{"EmailSubmission/set", a.args(obj{
		"create": obj{"s": obj{
			"identityId": a.pick("Identity", nil), "emailId": "#d",
			"envelope": obj{"mailFrom": from, "rcptTo": []any{obj{"email": to}}},
		}},
		"onSuccessUpdateEmail": obj{"#s": obj{"mailboxIds/" + a.folderID("Sent"): true,
			"mailboxIds/" + a.folderID("Drafts"): nil, "keywords/$draft": nil}},
	}), "1"})
}

// TestSequences makes random changes while clients follow them: two clients of alice, one of bob in what she shares
// with him, and one in his own account. Once a client has caught up, its cache must equal the account. Queries, threads
// and counts are checked against the Emails themselves. SEEDS=100 plays 100 sequences, each four times as long.
func TestSequences(t *testing.T) {
	t.Parallel()
	seeds, steps := long.Pick(2, 4), 120
	if n, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		seeds, steps = n, 4*steps
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			sequence(t, uint64(seed), steps)
		})
	}
}

func sequence(t *testing.T, seed uint64, steps int) {
	w := open(t, settings{})
	rng := rand.New(rand.NewPCG(seed, 11))
	for _, folder := range []string{"INBOX", "Sent"} {
		w.ok(w.file("alice").SetAccess(bg, folder, w.who["bob"].Who.Person, func(note.Rights) note.Rights {
			return note.Lookup | note.Read | note.KeepSeen
		}, false))
	}
	a := &actor{&operator{w: w, rng: rng}}
	for range 20 {
		a.act()
	}
	mine, his := w.account("alice"), w.account("bob")
	clients := []*follower{
		newFollower(w, "alice", mine, rng, a.operator), newFollower(w, "alice", mine, rng, a.operator),
		newFollower(w, "bob", mine, rng, a.operator), newFollower(w, "bob", his, rng, a.operator),
	}
	for i := range steps {
		a.act()
		for k, f := range clients {
			if rng.IntN(10) != 0 && i < steps-1 {
				continue
			}
			if !f.catchUp() {
				t.Fatalf("step %d: client %d cannot follow", i, k)
			}
			f.check()
			if rng.IntN(3) == 0 {
				f.judge()
			}
		}
		if t.Failed() {
			t.Fatalf("at step %d of seed %d", i, seed)
		}
	}
}
