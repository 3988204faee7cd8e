package jmapd

import (
	"errors"
	"testing"

	"doublet/mailbox"
	"doublet/wire/jmap"
)

// FuzzFilter checks that a filter is parsed within the bounds, or rejected with one of the errors for filters.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		`{"inMailbox":"m1","hasKeyword":"$seen"}`,
		`{"operator":"AND","conditions":[{"text":"a \"b c\""},{"operator":"NOT","conditions":[{"minSize":1}]}]}`, `{}`,
		`null`, `[]`,
		`{"before":"2026-01-01T00:00:00Z","after":"x"}`, `{"header":["Subject","x"]}`, `{"header":[]}`,
		`{"operator":"XOR","conditions":[]}`, `{"inMailboxOtherThan":["m1","x"]}`,
		`{"hasAttachment":false,"noneInThreadHaveKeyword":"a"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := jmap.Parse(s, jmap.Bounds{})
		if err != nil {
			return
		}
		got, err := readFilter(v, emailCondition, joinEmailFilters)
		var e *jmap.Error
		if err != nil && (!errors.As(err, &e) || e.Type != "invalidArguments" && e.Type != "unsupportedFilter") {
			t.Fatalf("%s: %v", s, err)
		}
		if n, depth := count(&got); err == nil && (n > 60*maxFilterConditions || depth > 3*maxFilterDepth) {
			t.Fatalf("%d conditions, %d deep", n, depth)
		}
	})
}

func count(f *mailbox.Filter) (n, depth int) {
	n = 1
	for i := range f.Of {
		k, d := count(&f.Of[i])
		n, depth = n+k, max(depth, d)
	}
	return n, depth + 1
}

// FuzzCall checks that a request gets a response or a problem, that both are I-JSON, and that no method panics.
func FuzzCall(f *testing.F) {
	w := open(f, settings{Limits: Limits{Calls: 5}})
	account := w.account("alice")
	for _, s := range []string{
		`["Email/query",{"accountId":"` + account +
			`","sort":[{"property":"receivedAt"}],"limit":3},"0"],["Email/get",{"accountId":"` + account +
			`","#ids":{"resultOf":"0","name":"Email/query","path":"/ids"}},"1"]`,
		`["Email/set",{"accountId":"` + account +
			`","create":{"a":{"subject":"x","from":[{"email":"a@b"}],"keywords":{"$seen":true}}}},"0"]`,
		`["Mailbox/query",{"accountId":"` + account + `","filter":{"role":"inbox"}},"0"]`,
		`["Email/set",{"accountId":"` + account + `","update":{"e":{"keywords/$seen":null,"mailboxIds/m":true}}},"0"]`,
		`["Core/echo",{"a":{}},"0"],["Core/echo",{"#b":{"resultOf":"0","name":"Core/echo","path":"/a"}},"1"]`,
		`["Email/parse",{"accountId":"` + account + `","blobIds":["x"]},"0"]`, `["SearchSnippet/get",{"accountId":"` +
			account + `","filter":{"text":"x"},"emailIds":[]},"0"]`, `["Blob/upload",{"accountId":"` + account +
			`","create":{"b":{"data":[{"data:asText":"x"}]}}},"0"]`,
		`["VacationResponse/get",{"accountId":"` + account + `","ids":["singleton"]},"0"]`,
		`["EmailSubmission/query",{"accountId":"` + account + `"},"0"]`, `["Identity/get",{"accountId":"` + account +
			`","ids":null},"0"]`, `["Quota/get",{"accountId":"` + account + `","ids":null},"0"]`,
		`["Email/queryChanges",{"accountId":"` + account + `","sinceQueryState":"1"},"0"]`,
		`["Thread/changes",{"accountId":"` + account + `","sinceState":"x"},"0"]`,
		`["SieveScript/set",{"accountId":"` + account + `","create":{"a":{"name":"n","blobId":"u"}}},"0"]`,
		`["SieveRules/set",{"accountId":"` + account + `","update":{"singleton":{"rules":[{"name":"a","actions":[` +
			`{"type":"move","value":"A"}],"conditions":[{"field":"size","comparison":"over","size":1}]}]}}},"0"]`,
		`["SieveRules/test",{"accountId":"` + account + `","rules":[{"text":"discard;"}]},"0"]`,
	} {
		f.Add(s)
	}
	using := string(jmap.AppendStrings(nil, capabilities))
	f.Fuzz(func(t *testing.T, s string) {
		answer, problem := w.server.Call(bg, w.who["alice"], []byte(`{"using":`+using+`,"methodCalls":[`+s+`]}`))
		if problem != nil {
			return
		}
		out := string(answer.JSON)
		answer.Release()
		v, err := jmap.Parse(out, jmap.Bounds{Values: 10_000_000})
		if err == nil {
			_, err = jmap.ReadResponse(v)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", s, err, out)
		}
		if n := w.server.stats.panics.Value(); n != 0 {
			t.Fatalf("%s: a method panics", s)
		}
	})
}
