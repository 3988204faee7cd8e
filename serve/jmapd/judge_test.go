package jmapd

import (
	"fmt"
	"slices"
	"strings"
)

// judge checks queries, threads and counts against the Emails themselves, by the rules of the RFC.
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

// fits reports whether a filter matches an Email.
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
			ok = slices.ContainsFunc(keys(e["mailboxIds"].(obj)),
				func(id string) bool { return !slices.Contains(v.([]string), id) })
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

// order compares two Emails by the sort keys of a query. It returns 0 if they are equal in all keys.
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
			return 0 // the order by base subject or time zone is not modelled
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

// counts checks the counts of Mailboxes against the Emails (RFC 8621 section 2).
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
