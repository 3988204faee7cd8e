package jmapd

import (
	"fmt"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/jmap"
)

// TestPrincipals checks that a user finds people and groups by name and address, and learns nothing else about them.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	g, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Bobsleigh Team",
		InternetAddress: "team@example.com", Members: []string{"carol"}, Description: "hush"})
	w.ok(err)
	account, bob, team := w.account("alice"), principalID(w.who["bob"].Who.Person), principalID(g.ID)
	query := func(filter any, more ...any) string {
		args := obj{"accountId": account, "filter": filter}
		for i := 0; i+1 < len(more); i += 2 {
			args[more[i].(string)] = more[i+1]
		}
		r := w.call("alice", []any{"Principal/query", args, "0"})[0]
		if r[0] == jmap.MethodError {
			return r[1].(obj)["type"].(string)
		}
		a := r[1].(obj)
		if a["canCalculateChanges"] != false || a["queryState"] == "" || a["accountId"] != account {
			t.Errorf("%v: %v", filter, a)
		}
		return fmt.Sprint(strings.Join(strs(a["ids"]), " "), " ", a["position"], " ", a["total"], " ", a["limit"])
	}
	for _, c := range []struct {
		filter any
		more   []any
		want   string
	}{
		{obj{"text": "bob"}, nil, bob + " " + team + " 0 <nil> 20"},
		{obj{"text": "bob"}, []any{"limit", 1}, bob + " 0 <nil> <nil>"},
		{obj{"text": "bob"}, []any{"limit", 1, "position", 1, "calculateTotal", true}, team + " 1 2 <nil>"},
		{obj{"text": "bob"}, []any{"position", -1, "limit", 1000}, team + " 1 <nil> 20"},
		{obj{"text": "bob"}, []any{"anchor", bob, "anchorOffset", 1}, team + " 1 <nil> 20"},
		{obj{"text": "bob"}, []any{"anchor", "nobody"}, "anchorNotFound"},
		{obj{"text": "bob"}, []any{"sort", []obj{{"property": "name"}}}, "unsupportedSort"},
		{obj{"text": "bob"}, []any{"colour", 1}, "invalidArguments"},
		{obj{"text": "bob", "type": "group"}, nil, team + " 0 <nil> 20"},
		{obj{"text": "bob", "type": "resource"}, nil, " 0 <nil> 20"},
		{obj{"name": "exam bo"}, nil, bob + " 0 <nil> 20"},
		{obj{"email": "TEAM@"}, nil, team + " 0 <nil> 20"},
		{obj{"text": "nobody"}, nil, " 0 <nil> 20"},
		{obj{"text": ""}, nil, "unsupportedFilter"},
		{obj{"type": "individual"}, nil, "unsupportedFilter"},
		{obj{"text": "bob", "accountIds": []string{account}}, nil, "unsupportedFilter"},
		{obj{"text": "bob", "role": "Admin"}, nil, "unsupportedFilter"},
		{obj{"operator": "NOT", "conditions": []obj{{"text": "bob"}}}, nil, "unsupportedFilter"},
		{obj{}, nil, "unsupportedFilter"},
		{nil, nil, "unsupportedFilter"},
		{obj{"text": 1}, nil, "invalidArguments"},
		{"bob", nil, "invalidArguments"},
	} {
		if got := query(c.filter, c.more...); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.filter, c.more, got, c.want)
		}
	}

	got := w.one("alice", "Principal/get", obj{"accountId": account,
		"ids": []string{bob, team, account, "p" + strings.Repeat("0", 32)}})
	want := fmt.Sprintf("[%v %v]",
		obj{"id": bob, "type": "individual", "name": "Bob Example", "email": "bob@example.com", "description": nil,
			"timeZone": nil, "capabilities": obj{}, "accounts": nil},
		obj{"id": team, "type": "group", "name": "Bobsleigh Team", "email": "team@example.com", "description": nil,
			"timeZone": nil, "capabilities": obj{}, "accounts": nil})
	if fmt.Sprint(got["list"]) != want || len(got["notFound"].([]any)) != 2 || got["state"] == "" {
		t.Errorf("%v, want %s", got, want)
	}
	if got := w.one("alice", "Principal/get", obj{"accountId": account, "ids": []string{bob},
		"properties": []string{"email"}})["list"]; fmt.Sprint(got) != fmt.Sprintf("[map[email:bob@example.com id:%s]]",
		bob) {
		t.Error(got)
	}
	for _, c := range []struct {
		method string
		args   obj
		want   string
	}{
		{"Principal/get", obj{"accountId": account, "ids": nil}, "requestTooLarge"},
		{"Principal/get", obj{"accountId": account, "ids": []string{bob}, "properties": []string{"roles"}},
			"invalidArguments"},
		{"Principal/get", obj{"accountId": w.account("bob"), "ids": []string{bob}}, "accountNotFound"},
		{"Principal/query", obj{"accountId": w.account("bob"), "filter": obj{"text": "bob"}}, "accountNotFound"},
	} {
		if r := w.call("alice", []any{c.method, c.args, "0"})[0]; r[0] != jmap.MethodError ||
			r[1].(obj)["type"] != c.want {
			t.Errorf("%s %v: %v", c.method, c.args, r)
		}
	}
	if out := w.do("", "POST", PathAPI, "application/json", nil); out.Code != 401 {
		t.Error(out.Code)
	}
	if out := w.do("alice", "GET", PathSession, "", nil).Body.String(); strings.Count(out,
		`"`+jmap.Principals+`"`) != 3 ||
		!strings.Contains(out, `{"currentUserPrincipalId":"`+principalID(w.who["alice"].Who.Person)+`"}`) {
		t.Error(out)
	}
}

// TestPrincipalsPrivate checks that the capability is absent if the directory is private.
func TestPrincipalsPrivate(t *testing.T) {
	t.Parallel()
	w := open(t, settings{private: true})
	if out := w.do("alice", "GET", PathSession, "", nil).Body.String(); strings.Contains(out, "principals") {
		t.Error(out)
	}
	out := w.do("alice", "POST", PathAPI, "application/json",
		[]byte(`{"using":["`+jmap.Core+`","`+jmap.Principals+`"],"methodCalls":[["Core/echo",{},"0"]]}`))
	if out.Code != 400 || !strings.Contains(out.Body.String(), "unknownCapability") {
		t.Error(out.Code, out.Body)
	}
}
