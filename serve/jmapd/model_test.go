package jmapd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/note"
)

// results is what a client holds of a query: all of it, or the first few (most > 0).
type results struct {
	kind  string // Email, Mailbox or EmailSubmission
	query obj
	most  int
	ids   []string
	state string
}

// follower is a client that holds everything of an account, and parts of some queries, and keeps that up to date by
// /changes and /queryChanges alone.
type follower struct {
	*cacher
	personal bool
	objects  map[string]map[string]obj // Identity and EmailSubmission, by id
	states   map[string]string
	parts    []*results
}

func newFollower(w *world, who, account string, rng *rand.Rand, o *operator) *follower {
	f := &follower{personal: account == w.account(who)}
	f.cacher = newCacher(w, who, account, rng, o.folderID("INBOX"), o.folderID("Archive"))
	up := func(property string) []any { return []any{obj{"property": property}} }
	for _, r := range []results{
		{kind: "Email", query: obj{}, most: 5}, {kind: "Email", query: obj{"sort": up("size")}, most: 8},
		{kind: "Email", query: obj{"collapseThreads": true}, most: 4}, {kind: "Email", query: obj{"filter": obj{"hasKeyword": "$seen"}}, most: 6},
		{kind: "Email", query: obj{"filter": obj{"inMailbox": o.folderID("INBOX")}, "collapseThreads": true}, most: 3},
		{kind: "Email", query: obj{"filter": obj{"noneInThreadHaveKeyword": "work", "maxSize": 200}, "sort": up("sentAt")}},
		{kind: "Email", query: obj{"filter": obj{"after": "2026-01-05T09:10:00Z"}, "sort": append(up("subject"), obj{"property": "receivedAt"})}},
		{kind: "Mailbox", query: obj{}}, {kind: "Mailbox", query: obj{"sort": up("name"), "sortAsTree": true}},
		{kind: "Mailbox", query: obj{"sort": append(up("sortOrder"), obj{"property": "name", "isAscending": false}), "filter": obj{"isSubscribed": true}}},
		{kind: "Mailbox", query: obj{"filter": obj{"name": "m"}, "filterAsTree": true, "sort": up("name")}}, {kind: "Mailbox", query: obj{"sort": up("name")}, most: 4},
		{kind: "EmailSubmission", query: obj{}}, {kind: "EmailSubmission", query: obj{"filter": obj{"undoStatus": "pending"}}},
		{kind: "EmailSubmission", query: obj{"sort": []any{obj{"property": "sentAt", "isAscending": false}}}, most: 3},
		{kind: "EmailSubmission", query: obj{"sort": up("emailId"), "filter": obj{"operator": "NOT", "conditions": []any{obj{"undoStatus": "canceled"}}}}},
	} {
		if r.kind != "EmailSubmission" || f.personal {
			f.parts = append(f.parts, &r)
		}
	}
	f.reload()
	return f
}

// types are those beside mail that the account has.
func (f *follower) types() []string {
	if f.personal {
		return []string{"Identity", "EmailSubmission"}
	}
	return nil
}

// reload forgets all and asks anew.
func (f *follower) reload() {
	f.w.t.Helper()
	f.load()
	f.objects, f.states = map[string]map[string]obj{}, map[string]string{}
	for _, kind := range f.types() {
		f.objects[kind] = map[string]obj{}
		got := f.w.one(f.who, kind+"/get", f.args(nil))
		f.put(kind, got)
		f.states[kind] = got["state"].(string)
	}
	for _, r := range f.parts {
		got := f.ask(r)
		r.ids, r.state = strs(got["ids"]), got["queryState"].(string)
	}
}

func (f *follower) ask(r *results) obj {
	f.w.t.Helper()
	q := f.args(r.query)
	if r.most > 0 {
		q["limit"] = r.most
	}
	got := f.w.one(f.who, r.kind+"/query", q)
	if got["canCalculateChanges"] != true {
		f.w.t.Errorf("%s %v: canCalculateChanges is %v", r.kind, r.query, got["canCalculateChanges"])
	}
	return got
}

func (f *follower) put(kind string, got obj) {
	for _, v := range got["list"].([]any) {
		o := v.(obj)
		if o["deliveryStatus"] != nil { // which goes on without a change of state
			o["deliveryStatus"] = true
		}
		f.objects[kind][o["id"].(string)] = o
	}
}

// catchUp follows all changes. It says whether it could.
func (f *follower) catchUp() bool {
	f.w.t.Helper()
	if !f.sync() {
		return false
	}
	limit := []any{nil, 1, 2, 100}[f.rng.IntN(4)]
	for _, kind := range f.types() {
		f.state[kind] = f.states[kind]
		apply := func(made, changed, gone []string) {
			for _, id := range changed {
				if f.objects[kind][id] == nil {
					f.w.t.Errorf("%s %s is told of as updated, and is not known", kind, id)
				}
			}
			if ids := append(made, changed...); len(ids) > 0 {
				f.put(kind, f.w.one(f.who, kind+"/get", f.args(obj{"ids": ids})))
			}
			for _, id := range gone {
				delete(f.objects[kind], id)
			}
		}
		// More may have happened in one moment than a client wants to be told at once.
		ok := f.follow(kind, limit, apply) || limit != nil && f.follow(kind, nil, apply)
		f.states[kind] = f.state[kind]
		delete(f.state, kind)
		if !ok {
			return false
		}
	}
	for _, r := range f.parts {
		if !f.followPart(r) {
			return false
		}
	}
	return true
}

// followPart brings a query's results up to date, and asks for more where it then has fewer than it wants.
func (f *follower) followPart(r *results) bool {
	f.w.t.Helper()
	q := f.args(r.query)
	q["sinceQueryState"], q["calculateTotal"] = r.state, true
	if r.most > 0 && len(r.ids) > 0 {
		q["upToId"] = r.ids[len(r.ids)-1]
	}
	got := f.w.call(f.who, []any{r.kind + "/queryChanges", q, "0"})[0]
	if got[0] == "error" {
		if got[1].(obj)["type"] != "cannotCalculateChanges" {
			f.w.t.Fatalf("%s %v: %v", r.kind, q, got)
		}
		return false
	}
	x := got[1].(obj)
	removed, last := strs(x["removed"]), -1
	r.ids = slices.DeleteFunc(r.ids, func(id string) bool { return slices.Contains(removed, id) })
	for _, a := range x["added"].([]any) {
		id, at := a.(obj)["id"].(string), int(a.(obj)["index"].(float64))
		if slices.Contains(r.ids, id) || at <= last {
			f.w.t.Errorf("%s %v: %s is added at %d after %d, and is there: %v", r.kind, r.query, id, at, last, slices.Contains(r.ids, id))
		}
		if last = at; at <= len(r.ids) { // else it lies beyond what this client holds
			r.ids = slices.Insert(r.ids, at, id)
		} else if r.most == 0 {
			f.w.t.Errorf("%s %v: index %d of %d", r.kind, r.query, at, len(r.ids))
		}
	}
	r.state = x["newQueryState"].(string)
	if total := int(x["total"].(float64)); r.most == 0 && total != len(r.ids) {
		f.w.t.Errorf("%s %v: %d results, total says %d", r.kind, r.query, len(r.ids), total)
	}
	if r.most > 0 && len(r.ids) > 0 {
		f.more(r)
	}
	return true
}

// more asks for what follows what a client holds, by its last result.
func (f *follower) more(r *results) {
	f.w.t.Helper()
	r.ids = r.ids[:min(len(r.ids), 2*r.most)]
	q := f.args(r.query)
	q["anchor"], q["anchorOffset"], q["limit"] = r.ids[len(r.ids)-1], 1, r.most
	got := f.w.one(f.who, r.kind+"/query", q)
	if got["queryState"] != r.state || int(got["position"].(float64)) != len(r.ids) {
		f.w.t.Errorf("%s %v: state %v at %v, want %s at %d", r.kind, r.query, got["queryState"], got["position"], r.state, len(r.ids))
	}
	for _, id := range strs(got["ids"]) {
		if len(r.ids) < r.most {
			r.ids = append(r.ids, id)
		}
	}
}

// check holds what the client has against what there is, and what there is against what it is made of.
func (f *follower) check() {
	f.w.t.Helper()
	f.compare()
	for _, kind := range f.types() {
		got := f.w.one(f.who, kind+"/get", f.args(nil))
		have, all := f.objects[kind], map[string]obj{}
		f.objects[kind] = all
		f.put(kind, got)
		if !reflect.DeepEqual(have, all) {
			f.w.t.Errorf("%s: %s\nhas  %v\nwant %v", f.who, kind, have, all)
		}
		if got["state"] != f.states[kind] {
			f.w.t.Errorf("%s: state of %s is %s, and %s asked anew", f.who, kind, f.states[kind], got["state"])
		}
	}
	for _, r := range f.parts {
		q := f.args(r.query)
		q["calculateTotal"] = true
		whole := f.w.one(f.who, r.kind+"/query", q)
		all := strs(whole["ids"])
		if want := all[:min(len(r.ids), len(all))]; !slices.Equal(r.ids, want) || r.most == 0 && len(r.ids) != len(all) {
			f.w.t.Errorf("%s: %s %v\nhas  %v\nwant %v", f.who, r.kind, r.query, r.ids, all)
		}
		if int(whole["total"].(float64)) != len(all) {
			f.w.t.Errorf("%s: %s %v: %d results, total says %v", f.who, r.kind, r.query, len(all), whole["total"])
		}
		f.windows(r, all)
	}
}

// windows asks for random pieces of a query: by position, also from the end, and around an anchor.
func (f *follower) windows(r *results, all []string) {
	f.w.t.Helper()
	q := f.args(r.query)
	limit, from := f.rng.IntN(6), f.rng.IntN(2*len(all)+3)-len(all)-1
	q["limit"], q["position"] = limit, from
	if from < 0 {
		from = max(0, from+len(all))
	}
	if len(all) > 0 && f.rng.IntN(2) == 0 {
		at, offset := f.rng.IntN(len(all)), f.rng.IntN(9)-4
		q["anchor"], q["anchorOffset"] = all[at], offset
		from = max(0, at+offset)
	}
	from = min(from, len(all))
	want := all[from:min(len(all), from+limit)]
	got := f.w.one(f.who, r.kind+"/query", q)
	if !slices.Equal(strs(got["ids"]), want) || len(want) > 0 && int(got["position"].(float64)) != from {
		f.w.t.Errorf("%s: %s %v\nis   %v\nwant %v at %d", f.who, r.kind, q, got, want, from)
	}
}

// judge holds what queries, threads and counts say against the Emails themselves, as the RFC has it.
type judge struct {
	*follower
	emails  map[string]obj
	threads map[string][]obj
	trash   string
}

func (f *follower) judge() {
	f.w.t.Helper()
	j := &judge{follower: f, emails: map[string]obj{}, threads: map[string][]obj{}}
	ids := strs(f.w.one(f.who, "Email/query", f.args(nil))["ids"])
	got := f.w.one(f.who, "Email/get", f.args(obj{"ids": ids, "properties": []string{
		"keywords", "mailboxIds", "threadId", "receivedAt", "size", "hasAttachment", "subject", "sentAt",
	}}))
	for _, v := range got["list"].([]any) {
		e := v.(obj)
		j.emails[e["id"].(string)] = e
		t := e["threadId"].(string)
		j.threads[t] = append(j.threads[t], e)
	}
	for t, list := range j.threads {
		got := strs(f.w.one(f.who, "Thread/get", f.args(obj{"ids": []string{t}}))["list"].([]any)[0].(obj)["emailIds"])
		sorted := slices.IsSortedFunc(got, func(a, b string) int {
			return strings.Compare(j.emails[a]["receivedAt"].(string), j.emails[b]["receivedAt"].(string))
		})
		if len(got) != len(list) || !sorted {
			f.w.t.Errorf("%s: thread %s is %v, want %v by date", f.who, t, got, list)
		}
	}
	for _, q := range f.queries {
		j.query(q)
	}
	for _, r := range f.parts {
		if r.kind == "Email" {
			j.query(r.query)
		}
	}
	if f.personal {
		j.counts()
	}
}

func has(e obj, keyword string) bool { return e["keywords"].(obj)[keyword] == true }

// fits says whether a filter fits an Email.
func (j *judge) fits(filter any, e obj) bool {
	f, _ := filter.(obj)
	if op := f["operator"]; op != nil {
		n, of := 0, f["conditions"].([]any)
		for _, c := range of {
			if j.fits(c, e) {
				n++
			}
		}
		return op == "AND" && n == len(of) || op == "OR" && n > 0 || op == "NOT" && n == 0
	}
	thread := j.threads[e["threadId"].(string)]
	for name, v := range f {
		word, _ := v.(string)
		inThread := 0
		for _, x := range thread {
			if has(x, word) {
				inThread++
			}
		}
		ok := true
		switch name {
		case "inMailbox":
			ok = e["mailboxIds"].(obj)[word] == true
		case "inMailboxOtherThan":
			ok = slices.ContainsFunc(keys(e["mailboxIds"].(obj)), func(id string) bool { return !slices.Contains(v.([]string), id) })
		case "hasKeyword":
			ok = has(e, word)
		case "notKeyword":
			ok = !has(e, word)
		case "someInThreadHaveKeyword":
			ok = inThread > 0
		case "noneInThreadHaveKeyword":
			ok = inThread == 0
		case "allInThreadHaveKeyword":
			ok = inThread == len(thread)
		case "minSize":
			ok = e["size"].(float64) >= float64(v.(int))
		case "maxSize":
			ok = e["size"].(float64) < float64(v.(int))
		case "hasAttachment":
			ok = e["hasAttachment"] == v
		case "after":
			ok = e["receivedAt"].(string) >= word
		case "before":
			ok = e["receivedAt"].(string) < word
		default:
			j.w.t.Fatalf("no model of %s", name)
		}
		if !ok {
			return false
		}
	}
	return true
}

// order compares two Emails by the keys of a query; 0 where these do not tell them apart.
func (j *judge) order(sort []any, a, b obj) int {
	if sort == nil {
		sort = []any{obj{"property": "receivedAt", "isAscending": false}}
	}
	bit := func(on bool) int { return map[bool]int{true: 1}[on] }
	for _, s := range sort {
		k, n := s.(obj), 0
		switch k["property"] {
		case "receivedAt":
			n = strings.Compare(a["receivedAt"].(string), b["receivedAt"].(string))
		case "size":
			n = int(a["size"].(float64) - b["size"].(float64))
		case "hasKeyword":
			n = bit(has(a, k["keyword"].(string))) - bit(has(b, k["keyword"].(string)))
		case "someInThreadHaveKeyword":
			some := obj{"someInThreadHaveKeyword": k["keyword"]}
			n = bit(j.fits(some, a)) - bit(j.fits(some, b))
		}
		if k["isAscending"] == false {
			n = -n
		}
		if n != 0 {
			return n
		}
		if p := k["property"]; p == "subject" || p == "sentAt" {
			return 0 // whose order is that of a base subject, or of a zone: not modelled
		}
	}
	return 0
}

func (j *judge) query(q obj) {
	j.w.t.Helper()
	flat := obj{}
	for k, v := range q {
		if k != "collapseThreads" {
			flat[k] = v
		}
	}
	all := strs(j.w.one(j.who, "Email/query", j.args(flat))["ids"])
	n := 0
	for id, e := range j.emails {
		if fits := j.fits(q["filter"], e); fits != slices.Contains(all, id) {
			j.w.t.Errorf("%s: %v: email %v: the filter fits: %v", j.who, q, e, fits)
		} else if fits {
			n++
		}
	}
	sort, _ := q["sort"].([]any)
	sorted := slices.IsSortedFunc(all, func(a, b string) int { return j.order(sort, j.emails[a], j.emails[b]) })
	if n != len(all) || !sorted {
		j.w.t.Errorf("%s: %v: %d results of %d, sorted: %v", j.who, q, len(all), n, sorted)
	}
	if q["collapseThreads"] != true {
		return
	}
	seen, want := map[any]bool{}, []string{}
	for _, id := range all {
		if t := j.emails[id]["threadId"]; !seen[t] {
			seen[t] = true
			want = append(want, id)
		}
	}
	if got := strs(j.w.one(j.who, "Email/query", j.args(q))["ids"]); !slices.Equal(got, want) {
		j.w.t.Errorf("%s: %v\nis   %v\nwant %v", j.who, q, got, want)
	}
}

// counts holds the counts of Mailboxes against the Emails (RFC 8621 section 2).
func (j *judge) counts() {
	j.w.t.Helper()
	for _, b := range j.boxes {
		if b["role"] == "trash" {
			j.trash, _ = b["id"].(string)
		}
	}
	for id, b := range j.boxes {
		total, unread, threads, unreadThreads := 0, 0, 0, 0
		for _, list := range j.threads {
			in, open := 0, false
			for _, e := range list {
				boxes := e["mailboxIds"].(obj)
				fresh := !has(e, "$seen") && !has(e, "$draft")
				if boxes[id] == true {
					if in++; fresh {
						unread++
					}
				}
				onlyTrash := boxes[j.trash] == true && len(boxes) == 1
				open = open || fresh && (id == j.trash && boxes[j.trash] == true || id != j.trash && !onlyTrash)
			}
			total += in
			if in > 0 {
				if threads++; open {
					unreadThreads++
				}
			}
		}
		want := fmt.Sprint(total, unread, threads, unreadThreads)
		if got := fmt.Sprint(b["totalEmails"], b["unreadEmails"], b["totalThreads"], b["unreadThreads"]); got != want {
			j.w.t.Errorf("%s: the counts of %v are %s, want %s", j.who, b["name"], got, want)
		}
	}
}

// actor does what an operator does, and more, through JMAP alone: Mailboxes in trees, drafts, identities, submissions that
// wait, go, are taken back and forgotten.
type actor struct{ *operator }

func (a *actor) args(more obj) obj {
	more["accountId"] = a.w.account("alice")
	return more
}

// pick is a random id of a type, "" where there is none.
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

// own is a random Mailbox that an actor has made.
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
			a.w.one("alice", "Mailbox/set", a.args(obj{"destroy": []string{id}, "onDestroyRemoveEmails": a.rng.IntN(2) == 0}))
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
		a.w.mail.ReleaseDue(bg)
		_, err := a.w.mail.Route(bg)
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

// changeMailbox renames and moves: into itself, onto a name that is taken, and back, as it comes.
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
		"mailboxIds": obj{a.folderID("Drafts"): true}, "keywords": obj{"$draft": true}, "from": []any{obj{"email": "alice@example.com"}},
		"to": []any{obj{"email": to}}, "subject": fmt.Sprint("thread ", a.rng.IntN(8)),
	}}}), "0"}, []any{"EmailSubmission/set", a.args(obj{
		"create": obj{"s": obj{
			"identityId": a.pick("Identity", nil), "emailId": "#d", "envelope": obj{"mailFrom": from, "rcptTo": []any{obj{"email": to}}},
		}},
		"onSuccessUpdateEmail": obj{"#s": obj{"mailboxIds/" + a.folderID("Sent"): true, "mailboxIds/" + a.folderID("Drafts"): nil, "keywords/$draft": nil}},
	}), "1"})
}

// TestSequences lets random things happen while clients follow them: two of alice's programs, one of bob's in what she shows
// him, and one in his own account. Whenever one has caught up, it has exactly what there is; and what queries, threads and
// counts say is held against the Emails themselves. SEEDS=100 plays so many, each four times as long.
func TestSequences(t *testing.T) {
	t.Parallel()
	seeds, steps := 4, 120
	if n, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		seeds, steps = n, 4*steps
	} else if testing.Short() {
		seeds = 2
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
