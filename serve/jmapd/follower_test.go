package jmapd

import (
	"math/rand/v2"
	"reflect"
	"slices"
)

// results holds a client's copy of a query's results: all of them, or the first few (most > 0).
type results struct {
	kind  string // Email, Mailbox or EmailSubmission
	query obj
	most  int
	ids   []string
	state string
}

// follower is a client that caches all objects of an account and parts of some queries. It updates its cache only by
// /changes and /queryChanges.
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
		{kind: "Email", query: obj{"collapseThreads": true}, most: 4},
		{kind: "Email", query: obj{"filter": obj{"hasKeyword": "$seen"}}, most: 6},
		{kind: "Email", query: obj{"filter": obj{"inMailbox": o.folderID("INBOX")}, "collapseThreads": true}, most: 3},
		{kind: "Email", query: obj{"filter": obj{"noneInThreadHaveKeyword": "work", "maxSize": 200},
			"sort": up("sentAt")}},
		{kind: "Email", query: obj{"filter": obj{"after": "2026-01-05T09:10:00Z"},
			"sort": append(up("subject"), obj{"property": "receivedAt"})}},
		{kind: "Mailbox", query: obj{}}, {kind: "Mailbox", query: obj{"sort": up("name"), "sortAsTree": true}},
		{kind: "Mailbox", query: obj{"sort": append(up("sortOrder"), obj{"property": "name", "isAscending": false}),
			"filter": obj{"isSubscribed": true}}},
		{kind: "Mailbox", query: obj{"filter": obj{"name": "m"}, "filterAsTree": true, "sort": up("name")}},
		{kind: "Mailbox", query: obj{"sort": up("name")}, most: 4},
		{kind: "EmailSubmission", query: obj{}}, {kind: "EmailSubmission",
			query: obj{"filter": obj{"undoStatus": "pending"}}},
		{kind: "EmailSubmission", query: obj{"sort": []any{obj{"property": "sentAt", "isAscending": false}}}, most: 3},
		{kind: "EmailSubmission", query: obj{"sort": up("emailId"),
			"filter": obj{"operator": "NOT", "conditions": []any{obj{"undoStatus": "canceled"}}}}},
	} {
		if r.kind != "EmailSubmission" || f.personal {
			f.parts = append(f.parts, &r)
		}
	}
	f.reload()
	return f
}

// types returns the types other than mail that the account has.
func (f *follower) types() []string {
	if f.personal {
		return []string{"Identity", "EmailSubmission"}
	}
	return nil
}

// reload discards the cache and reads everything.
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
		if o["deliveryStatus"] != nil { // changes without a new state
			o["deliveryStatus"] = true
		}
		f.objects[kind][o["id"].(string)] = o
	}
}

// catchUp follows all changes. It reports whether that was possible.
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
		// One moment may have more changes than maxChanges allows.
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

// followPart updates the results of a query. If there are then fewer than it wants, it requests more.
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
			f.w.t.Errorf("%s %v: %s is added at %d after %d, and is there: %v", r.kind, r.query, id, at, last,
				slices.Contains(r.ids, id))
		}
		if last = at; at <= len(r.ids) { // else it is after the results in the cache
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

// more requests the results after the last cached one.
func (f *follower) more(r *results) {
	f.w.t.Helper()
	r.ids = r.ids[:min(len(r.ids), 2*r.most)]
	q := f.args(r.query)
	q["anchor"], q["anchorOffset"], q["limit"] = r.ids[len(r.ids)-1], 1, r.most
	got := f.w.one(f.who, r.kind+"/query", q)
	if got["queryState"] != r.state || int(got["position"].(float64)) != len(r.ids) {
		f.w.t.Errorf("%s %v: state %v at %v, want %s at %d", r.kind, r.query, got["queryState"], got["position"],
			r.state, len(r.ids))
	}
	for _, id := range strs(got["ids"]) {
		if len(r.ids) < r.most {
			r.ids = append(r.ids, id)
		}
	}
}

// check compares the cache with the account, and the account with its messages.
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
		if want := all[:min(len(r.ids), len(all))]; !slices.Equal(r.ids, want) || r.most == 0 &&
			len(r.ids) != len(all) {
			f.w.t.Errorf("%s: %s %v\nhas  %v\nwant %v", f.who, r.kind, r.query, r.ids, all)
		}
		if int(whole["total"].(float64)) != len(all) {
			f.w.t.Errorf("%s: %s %v: %d results, total says %v", f.who, r.kind, r.query, len(all), whole["total"])
		}
		f.windows(r, all)
	}
}

// windows requests random windows of a query: by position, also from the end, and around an anchor.
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
