package jmapd

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/test/long"
)

type obj = map[string]any

// call executes method calls and returns their responses, each [name, arguments, id].
func (w *world) call(who string, calls ...[]any) [][]any {
	w.t.Helper()
	b, err := json.Marshal(obj{"using": capabilities, "methodCalls": calls})
	w.ok(err)
	out := w.do(who, "POST", PathAPI, "application/json", b)
	var v struct {
		MethodResponses [][]any `json:"methodResponses"`
	}
	if err := json.Unmarshal(out.Body.Bytes(), &v); err != nil || out.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", b, out.Code, out.Body)
	}
	return v.MethodResponses
}

// one executes a method call.
func (w *world) one(who, name string, args obj) obj {
	w.t.Helper()
	r := w.call(who, []any{name, args, "0"})[0]
	if r[0] != name {
		w.t.Fatalf("%s %v: %v", name, args, r)
	}
	return r[1].(obj)
}

func strs(v any) []string {
	out := []string{}
	for _, x := range v.([]any) {
		out = append(out, x.(string))
	}
	return out
}

// cacher is a client that updates its cache only by /changes and /queryChanges.
type cacher struct {
	w        *world
	who      string
	account  string
	rng      *rand.Rand
	emails   map[string]obj
	boxes    map[string]obj
	threads  map[string][]string
	state    map[string]string
	queries  []obj
	results  [][]string
	restarts int
}

var emailFields = []string{"keywords", "mailboxIds", "threadId"}

func newCacher(w *world, who, account string, rng *rand.Rand, inbox, archive string) *cacher {
	c := &cacher{w: w, who: who, account: account, rng: rng}
	date := []any{obj{"property": "receivedAt", "isAscending": true}}
	c.queries = []obj{
		{}, {"sort": date}, {"filter": obj{"inMailbox": inbox}},
		{"filter": obj{"inMailbox": inbox}, "collapseThreads": true},
		{"collapseThreads": true, "sort": date}, {"filter": obj{"hasKeyword": "$seen"}},
		{"filter": obj{"notKeyword": "work", "inMailboxOtherThan": []string{archive}}},
		{"filter": obj{"someInThreadHaveKeyword": "work"}}, {"filter": obj{"allInThreadHaveKeyword": "$seen"},
			"collapseThreads": true},
		{"sort": []any{obj{"property": "hasKeyword", "keyword": "$seen"}, obj{"property": "receivedAt"}}},
		{"sort": []any{obj{"property": "someInThreadHaveKeyword", "keyword": "work", "isAscending": false},
			obj{"property": "size"}}, "filter": obj{"minSize": 100}},
		{"filter": obj{"operator": "NOT", "conditions": []any{obj{"inMailbox": archive}, obj{"hasAttachment": true}}}},
	}
	c.load()
	return c
}

func (c *cacher) args(more obj) obj {
	out := obj{"accountId": c.account}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// load discards the cache and reads everything.
func (c *cacher) load() {
	c.restarts++
	c.emails, c.boxes, c.threads, c.state, c.results = map[string]obj{}, map[string]obj{}, map[string][]string{},
		map[string]string{}, nil
	all := c.w.one(c.who, "Email/query", c.args(nil))
	c.state["Email"], c.state["Thread"] = "", ""
	ids := strs(all["ids"])
	got := c.w.one(c.who, "Email/get", c.args(obj{"ids": ids, "properties": emailFields}))
	c.state["Email"], c.state["Thread"] = got["state"].(string), got["state"].(string)
	c.putEmails(got)
	threads := map[string]bool{}
	for _, e := range c.emails {
		threads[e["threadId"].(string)] = true
	}
	c.getThreads(keys(threads))
	boxes := c.w.one(c.who, "Mailbox/get", c.args(nil))
	c.state["Mailbox"] = boxes["state"].(string)
	for _, b := range boxes["list"].([]any) {
		c.boxes[b.(obj)["id"].(string)] = b.(obj)
	}
	for i, q := range c.queries {
		r := c.w.one(c.who, "Email/query", c.args(q))
		c.results = append(c.results, strs(r["ids"]))
		c.state[fmt.Sprint(i)] = r["queryState"].(string)
	}
}

func keys[V any](m map[string]V) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func (c *cacher) putEmails(got obj) {
	for _, e := range got["list"].([]any) {
		c.emails[e.(obj)["id"].(string)] = e.(obj)
	}
}

func (c *cacher) getThreads(ids []string) {
	if len(ids) == 0 {
		return
	}
	got := c.w.one(c.who, "Thread/get", c.args(obj{"ids": ids}))
	for _, t := range got["list"].([]any) {
		c.threads[t.(obj)["id"].(string)] = strs(t.(obj)["emailIds"])
	}
}

// sync catches up. It reports whether that was possible.
func (c *cacher) sync() bool {
	c.w.t.Helper()
	limit := []any{nil, 1, 2, 5, 100}[c.rng.IntN(5)]
	ok := c.follow("Email", limit, func(made, changed, gone []string) {
		for _, id := range changed {
			if c.emails[id] == nil {
				c.w.t.Errorf("%s: %s is told of as updated, and is not known", c.who, id)
			}
		}
		if ids := append(made, changed...); len(ids) > 0 {
			for i := 0; i < len(ids); i += 500 {
				c.putEmails(c.w.one(c.who, "Email/get",
					c.args(obj{"ids": ids[i:min(i+500, len(ids))], "properties": emailFields})))
			}
		}
		for _, id := range gone {
			delete(c.emails, id)
		}
	})
	ok = ok && c.follow("Thread", limit, func(made, changed, gone []string) {
		for _, id := range changed {
			if c.threads[id] == nil {
				c.w.t.Errorf("%s: thread %s is told of as updated, and is not known", c.who, id)
			}
		}
		for _, id := range gone {
			delete(c.threads, id)
		}
		c.getThreads(append(made, changed...))
	})
	ok = ok && c.follow("Mailbox", limit, func(made, changed, gone []string) {
		if ids := append(made, changed...); len(ids) > 0 {
			for _, b := range c.w.one(c.who, "Mailbox/get", c.args(obj{"ids": ids}))["list"].([]any) {
				c.boxes[b.(obj)["id"].(string)] = b.(obj)
			}
		}
		for _, id := range gone {
			delete(c.boxes, id)
		}
	})
	for i := range c.queries {
		ok = ok && c.followQuery(i)
	}
	return ok
}

func (c *cacher) follow(kind string, limit any, fn func(made, changed, gone []string)) bool {
	c.w.t.Helper()
	for range 10_000 {
		args := c.args(obj{"sinceState": c.state[kind]})
		if limit != nil {
			args["maxChanges"] = limit
		}
		r := c.w.call(c.who, []any{kind + "/changes", args, "0"})[0]
		if r[0] == "error" {
			if r[1].(obj)["type"] != "cannotCalculateChanges" {
				c.w.t.Fatalf("%s/changes: %v", kind, r)
			}
			return false
		}
		x := r[1].(obj)
		made, changed, gone := strs(x["created"]), strs(x["updated"]), strs(x["destroyed"])
		if limit != nil && len(made)+len(changed)+len(gone) > limit.(int) {
			c.w.t.Fatalf("%s/changes tells more than %v: %v", kind, limit, x)
		}
		fn(made, changed, gone)
		c.state[kind] = x["newState"].(string)
		if x["hasMoreChanges"] != true {
			return true
		}
	}
	c.w.t.Fatalf("%s/changes does not end", kind)
	return false
}

func (c *cacher) followQuery(i int) bool {
	c.w.t.Helper()
	q := c.args(c.queries[i])
	q["sinceQueryState"], q["calculateTotal"] = c.state[fmt.Sprint(i)], true
	r := c.w.call(c.who, []any{"Email/queryChanges", q, "0"})[0]
	if r[0] == "error" {
		if r[1].(obj)["type"] != "cannotCalculateChanges" {
			c.w.t.Fatalf("%v: %v", q, r)
		}
		return false
	}
	x := r[1].(obj)
	removed := strs(x["removed"])
	list := slices.DeleteFunc(slices.Clone(c.results[i]), func(id string) bool { return slices.Contains(removed, id) })
	last := -1
	for _, a := range x["added"].([]any) {
		id, at := a.(obj)["id"].(string), int(a.(obj)["index"].(float64))
		if slices.Contains(list, id) {
			c.w.t.Errorf("%s, query %d: %s is added and there already", c.who, i, id)
		}
		if at <= last || at > len(list) {
			c.w.t.Fatalf("%s, query %d: index %d of %d, after %d", c.who, i, at, len(list), last)
		}
		last = at
		list = slices.Insert(list, at, id)
	}
	c.results[i], c.state[fmt.Sprint(i)] = list, x["newQueryState"].(string)
	if total := int(x["total"].(float64)); total != len(list) {
		c.w.t.Errorf("%s, query %d: %d results, total says %d", c.who, i, len(list), total)
	}
	return true
}

// compare compares the cache with the account.
func (c *cacher) compare() {
	c.w.t.Helper()
	fresh := &cacher{w: c.w, who: c.who, account: c.account, rng: c.rng, queries: c.queries}
	fresh.load()
	same := func(what string, a, b any) {
		c.w.t.Helper()
		if !reflect.DeepEqual(a, b) {
			c.w.t.Errorf("%s: %s\nhas  %v\nwant %v", c.who, what, a, b)
		}
	}
	for id, e := range fresh.emails {
		if !reflect.DeepEqual(e, c.emails[id]) {
			c.w.t.Errorf("%s: email %s\nhas  %v\nwant %v", c.who, id, c.emails[id], e)
		}
	}
	for id, e := range c.emails {
		if fresh.emails[id] == nil {
			c.w.t.Errorf("%s: email %s is gone, and kept: %v", c.who, id, e)
		}
	}
	same("threads", c.threads, fresh.threads)
	same("mailboxes", c.boxes, fresh.boxes)
	for i := range c.queries {
		same(fmt.Sprintf("query %d %v", i, c.queries[i]), c.results[i], fresh.results[i])
	}
	for k, s := range fresh.state {
		if c.state[k] != s {
			c.w.t.Errorf("%s: state %s is %s, and %s asked anew", c.who, k, c.state[k], s)
		}
	}
}

// operator makes random changes to alice's mail through IMAP and JMAP.
type operator struct {
	w    *world
	rng  *rand.Rand
	n    int
	made []string // folders
}

func (o *operator) emails() []string {
	return strs(o.w.one("alice", "Email/query", obj{"accountId": o.w.account("alice")})["ids"])
}

func (o *operator) folder() string {
	all := append([]string{"INBOX", "INBOX", "Archive", "Trash", "Sent"}, o.made...)
	return all[o.rng.IntN(len(all))]
}

func (o *operator) folderID(name string) string {
	f, err := o.w.file("alice").Folder(bg, name)
	o.w.ok(err)
	return idOf(letterFolder, f.UNID)
}

var someFlags = []string{`\Seen`, `\Flagged`, "work", `\Draft`, `\Deleted`}

func (o *operator) step() {
	o.n++
	file := o.w.file("alice")
	if o.rng.IntN(4) == 0 {
		o.w.fix.Time.Advance(time.Duration(o.rng.IntN(100)) * time.Second)
	}
	switch n := o.rng.IntN(20); {
	case n < 5:
		o.deliver()
	case n < 8:
		o.flag(file)
	case n < 10:
		o.imapMove(file, n == 8)
	case n == 10:
		v, _, err := file.Open(bg, o.folder(), false)
		o.w.ok(err)
		o.w.ok(v.Expunge(bg, nil))
	case n < 15:
		o.jmapSet()
	case n == 15:
		if ids := o.emails(); len(ids) > 0 {
			o.w.one("alice", "Email/set", obj{"accountId": o.w.account("alice"),
				"destroy": []string{ids[o.rng.IntN(len(ids))]}})
		}
	case n == 16:
		name := fmt.Sprint("Folder ", o.n)
		_, err := file.Create(bg, name, "")
		o.w.ok(err)
		o.made = append(o.made, name)
	case n == 17 && len(o.made) > 0:
		i := o.rng.IntN(len(o.made))
		name := fmt.Sprint("Renamed ", o.n)
		o.w.ok(file.Rename(bg, o.made[i], name))
		o.made[i] = name
	case n == 18 && len(o.made) > 0:
		i := o.rng.IntN(len(o.made))
		o.w.ok(file.Delete(bg, o.made[i]))
		o.made = slices.Delete(o.made, i, i+1)
	default:
		o.w.one("alice", "Mailbox/set", obj{"accountId": o.w.account("alice"),
			"update": obj{o.folderID(o.folder()): obj{"sortOrder": o.rng.IntN(100),
				"isSubscribed": o.rng.IntN(2) == 0}}})
	}
}

func (o *operator) deliver() {
	id := o.rng.IntN(8)
	raw := fmt.Sprintf("Subject: thread %d\nMessage-ID: <%d@x>\nReferences: <root%d@x>\n\n%s\n", id, o.n, id,
		strings.Repeat("x", o.rng.IntN(100)))
	if o.rng.IntN(5) == 0 {
		raw = "Content-Type: application/pdf\nContent-Disposition: attachment\n" + raw
	}
	var flags []string
	for _, f := range someFlags {
		if o.rng.IntN(6) == 0 {
			flags = append(flags, f)
		}
	}
	fl, err := mailbox.ParseFlags(flags)
	o.w.ok(err)
	date := o.w.fix.Clock.Now().Add(-time.Duration(o.rng.IntN(3)*o.rng.IntN(1000)) * time.Second)
	_, _, err = o.w.file("alice").Append(bg, o.folder(), []byte(strings.ReplaceAll(raw, "\n", "\r\n")), fl, date)
	o.w.ok(err)
}

func (o *operator) flag(file *mailbox.File) {
	v, _, err := file.Open(bg, o.folder(), false)
	o.w.ok(err)
	if v.Exists() == 0 {
		return
	}
	n := 1 + o.rng.Uint32N(v.Exists())
	fl, err := mailbox.ParseFlags([]string{someFlags[o.rng.IntN(len(someFlags))]})
	o.w.ok(err)
	mode := mailbox.Add
	if o.rng.IntN(2) == 0 {
		mode = mailbox.Remove
	}
	_, err = v.Store(bg, mailbox.Set{{Start: n, Stop: min(n+2, v.Exists())}}, false,
		mailbox.StoreOp{Mode: mode, Flags: fl}, func(*mailbox.Message) {})
	o.w.ok(err)
}

func (o *operator) imapMove(file *mailbox.File, move bool) {
	v, _, err := file.Open(bg, o.folder(), false)
	o.w.ok(err)
	if v.Exists() == 0 {
		return
	}
	n := 1 + o.rng.Uint32N(v.Exists())
	set := mailbox.Set{{Start: n, Stop: n}}
	if move {
		_, err = v.Move(bg, set, false, o.folder())
	} else {
		_, err = v.Copy(bg, set, false, o.folder())
	}
	o.w.ok(err)
}

func (o *operator) jmapSet() {
	ids := o.emails()
	if len(ids) == 0 {
		return
	}
	update := obj{}
	for range 1 + o.rng.IntN(3) {
		patch := obj{}
		k := []string{"$seen", "$flagged", "work", "$draft"}[o.rng.IntN(4)]
		patch["keywords/"+k] = []any{true, nil}[o.rng.IntN(2)]
		switch o.rng.IntN(4) {
		case 0:
			patch["mailboxIds"] = obj{o.folderID(o.folder()): true, o.folderID(o.folder()): true}
		case 1:
			patch["mailboxIds/"+o.folderID(o.folder())] = []any{true, nil}[o.rng.IntN(2)]
		}
		update[ids[o.rng.IntN(len(ids))]] = patch
	}
	o.w.one("alice", "Email/set", obj{"accountId": o.w.account("alice"), "update": update})
}

// TestSync makes random changes through IMAP and JMAP while clients follow them only by /changes and /queryChanges:
// alice, who sees everything, and bob, with whom a part is shared.
func TestSync(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := open(t, settings{})
			rng := rand.New(rand.NewPCG(seed+1, 7))
			share := func(folder string, on bool) {
				w.ok(w.file("alice").SetAccess(bg, folder, w.who["bob"].Who.Person, func(note.Rights) note.Rights {
					return map[bool]note.Rights{true: note.Lookup | note.Read | note.KeepSeen, false: 0}[on]
				}, false))
			}
			share("INBOX", true)
			share("Sent", true)
			o := &operator{w: w, rng: rng}
			for range 30 {
				o.step()
			}
			account := w.account("alice")
			clients := []*cacher{
				newCacher(w, "alice", account, rng, o.folderID("INBOX"), o.folderID("Archive")),
				newCacher(w, "alice", account, rng, o.folderID("INBOX"), o.folderID("Archive")),
				newCacher(w, "bob", account, rng, o.folderID("INBOX"), o.folderID("Sent")),
			}
			for i := range 250 {
				o.step()
				if i == 150 {
					share("Archive", true)
				}
				for _, c := range clients {
					if rng.IntN(12) != 0 {
						continue
					}
					if !c.sync() {
						if c.who == "alice" || c.restarts > 2 {
							t.Fatalf("%s cannot follow", c.who)
						}
						c.load()
					}
					c.compare()
				}
				if t.Failed() {
					t.Fatalf("at step %d", i)
				}
			}
		})
	}
}
