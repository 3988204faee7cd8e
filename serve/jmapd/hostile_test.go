package jmapd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"doublet/serve/condition"
	"doublet/store"
	"doublet/wire/jmap"
)

// endless returns octets without end, and counts them.
type endless struct{ n int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.n += int64(len(b))
	return len(b), nil
}

// TestHostileRequests checks that huge, deep or circular requests are rejected with the RFC's error at the right level,
// and change nothing.
//
// Implements: RFC 8620 §3.6.1 Request-level errors
// Implements: RFC 8620 §8.2 bounds against requests that are made to cost much
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	mail := w.append("alice", "INBOX", simple("one"))
	state := w.one("alice", "Email/get", obj{"accountId": w.account("alice"), "ids": []string{}})["state"]
	account := w.account("alice")
	using := string(jmap.AppendStrings(nil, capabilities))
	calls := func(list string) string { return `{"using":` + using + `,"methodCalls":[` + list + `]}` }
	nest := func(n int, head, tail string) string {
		return strings.Repeat(head, n) + `{"subject":"x"}` + strings.Repeat(tail, n)
	}
	filter := func(f string) string {
		return calls(`["Email/query",{"accountId":"` + account + `","filter":` + f + `},"0"]`)
	}
	not := func(n int) string { return nest(n, `{"operator":"NOT","conditions":[`, `]}`) }
	ids := func(n int) string { return `["x"` + strings.Repeat(`,"x"`, n-1) + `]` }
	var different []string
	for i := range 100_000 {
		different = append(different, fmt.Sprint("e", i))
	}
	const limit = "urn:ietf:params:jmap:error:limit"
	for _, c := range []struct{ name, body, want string }{
		{"10,000 calls", calls(`["Core/echo",{},"0"]` + strings.Repeat(`,["Core/echo",{},"0"]`, 9999)),
			limit + " maxCallsInRequest"},
		{"a reference to itself", calls(`["Email/get",{"accountId":"` + account +
			`","#ids":{"resultOf":"0","name":"Email/get","path":"/list/*/id"}},"0"]`), "invalidResultReference"},
		{"references round in a circle",
			calls(`["Core/echo",{"#a":{"resultOf":"1","name":"Core/echo","path":"/b"}},"0"],["Core/echo",` +
				`{"#b":{"resultOf":"0","name":"Core/echo","path":"/a"}},"1"]`), "invalidResultReference"},
		{"a filter 1,000 deep", filter(not(1000)), limit + " maxSizeRequest"},
		{"a filter 40 deep", filter(not(40)), "unsupportedFilter"},
		{"a filter of 10,000", filter(`{"operator":"OR","conditions":[` + `{"subject":"x"}` +
			strings.Repeat(`,{"subject":"x"}`, 9999) + `]}`), "unsupportedFilter"},
		{"a filter of 10,000 words", filter(`{"text":"` + strings.Repeat("x ", 2000) + `"}`), "unsupportedFilter"},
		{"100,000 ids", calls(`["Email/get",{"accountId":"` + account + `","ids":` + ids(100_000) + `},"0"]`),
			"requestTooLarge"},
		{"1,000,000 ids", calls(`["Email/get",{"accountId":"` + account + `","ids":` + ids(1_000_000) + `},"0"]`),
			limit + " maxSizeRequest"},
		{"100,000 to destroy", calls(`["Email/set",{"accountId":"` + account + `","destroy":` +
			string(jmap.AppendStrings(nil, different)) + `},"0"]`), "requestTooLarge"},
		{"a deep pointer",
			calls(`["Core/echo",{"a":1},"0"],["Core/echo",{"#x":{"resultOf":"0","name":"Core/echo","path":"` +
				strings.Repeat("/*", 10_000) + `"}},"1"]`), "invalidResultReference"},
		{"a response that grows", calls(`["Core/echo",{"a":` + ids(40_000) +
			`},"0"],["Core/echo",{"#a":{"resultOf":"0","name":"Core/echo","path":"/a"},"#b":{"resultOf":"0",` +
			`"name":"Core/echo","path":"/a"},"#c":{"resultOf":"0","name":"Core/echo","path":"/a"}},"1"],` +
			`["Core/echo",{"#a":{"resultOf":"1","name":"Core/echo","path":"/*"}},"2"]`), "invalidResultReference"},
		{"arrays in arrays", strings.Repeat("[", 1<<20), limit + " maxSizeRequest"},
		{"no text", "\xff\xfe", "urn:ietf:params:jmap:error:notJSON"},
	} {
		out := w.do("alice", "POST", PathAPI, "application/json", []byte(c.body))
		v, err := jmap.Parse(out.Body.String(), jmap.Bounds{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := ""
		if responses := v.Get("methodResponses"); responses != nil {
			for i := range responses.Len() {
				if name, _ := responses.At(i).At(0).Text(); name == jmap.MethodError {
					got = jmap.ReadError(responses.At(i).At(1)).Type
				}
			}
		} else {
			p := jmap.ReadProblem(v, out.Code)
			if got = strings.TrimSpace(p.Type + " " + p.Limit); p.Status != out.Code ||
				out.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %d, %s", c.name, out.Code, out.Body)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q: %d %.300s", c.name, got, c.want, out.Code, out.Body)
		}
	}
	if got := w.one("alice", "Email/get", obj{"accountId": account, "ids": []string{mail}})["state"]; got != state {
		t.Errorf("the state went from %v to %v", state, got)
	}
}

// TestHugeRequest checks that a request of 50 MB is rejected before it is read, or once it is too long, and takes
// little memory.
func TestHugeRequest(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	for _, length := range []int64{50 << 20, -1} {
		body := &endless{}
		r := httptest.NewRequest("POST", PathAPI, io.LimitReader(body, 50<<20))
		r.ContentLength = length
		r.Header.Set("Authorization", "alice")
		r.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		w.server.ServeHTTP(out, r)
		if out.Code != http.StatusRequestEntityTooLarge || !strings.Contains(out.Body.String(), "maxSizeRequest") {
			t.Errorf("%d %s", out.Code, out.Body)
		}
		if body.n > 12<<20 {
			t.Errorf("%d octets were read", body.n)
		}
	}
}

// TestPanics checks that a call that panics is answered with serverFail and counted, and that the other calls are
// executed.
func TestPanics(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.server.methods["Core/bug"] = w.server.bound("Core/bug", method{jmap.Core, func(c *call) error {
		c.out = append(c.out, "half an ans"...)
		panic("a bug")
	}})
	got := fmt.Sprint(w.call("alice", []any{"Core/echo", obj{"a": 1}, "0"}, []any{"Core/bug", obj{}, "1"},
		[]any{"Core/echo", obj{"b": 2}, "2"}))
	if got != "[[Core/echo map[a:1] 0] [error map[description:Something went wrong here; it stands in the server's "+
		"log. type:serverFail] 1] [Core/echo map[b:2] 2]]" {
		t.Error(got)
	}
	if n := w.server.stats.panics.Value(); n != 1 {
		t.Errorf("%d panics are counted", n)
	}
}

// TestMethodErrors checks the method-level errors for the errors of other packages.
//
// Implements: RFC 8620 §3.6.2 Method-level errors
func TestMethodErrors(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	b := &batch{s: w.server, ctx: bg, caller: w.who["alice"]}
	told := map[error]string{store.ErrUnconfirmed: "serverPartialFail", store.ErrDenied: "forbidden",
		errors.New("?"): "serverFail"}
	for _, c := range condition.All {
		for _, err := range c.Errors() {
			told[err] = c.JMAP
		}
	}
	for err, want := range told {
		if got := b.methodError("Email/get", fmt.Errorf("below: %w", err)).Type; got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
		if got := b.setError(fmt.Errorf("below: %w", err)).Type; got != want {
			t.Errorf("%v of an object: %s, want %s", err, got, want)
		}
	}
	w.server.methods["Core/away"] = w.server.bound("Core/away",
		method{jmap.Core, func(*call) error { return store.ErrNotHome }})
	if got := w.call("alice", []any{"Core/away", obj{}, "0"})[0]; got[0] != "error" ||
		got[1].(obj)["type"] != "serverUnavailable" {
		t.Error(got)
	}
}
