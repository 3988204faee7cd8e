package jmapd

import (
	"reflect"
	"testing"
	"time"
)

// TestAvailableFromReplica checks that busy times from a replica say since when the server of the primary is away, with
// the events and without.
//
// Implements: draft-ietf-jmap-calendars §2.2 Principal/getAvailability
func TestAvailableFromReplica(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	account := w.account("alice")
	ask := func(details bool) any {
		t.Helper()
		answer := w.call("alice", []any{"Principal/getAvailability", obj{"accountId": account,
			"id": principalID(w.who["alice"].Who.Person), "utcStart": "2026-01-05T00:00:00Z",
			"utcEnd": "2026-01-06T00:00:00Z", "showDetails": details}, "0"})[0][1].(obj)
		if _, ok := answer["list"].([]any); !ok {
			t.Fatal(answer)
		}
		return answer["fromReplica"]
	}
	at := time.Date(2026, 1, 5, 14, 3, 0, 0, time.UTC)
	for _, c := range []struct {
		at   *time.Time
		want any
	}{{nil, nil}, {&at, obj{"asOf": "2026-01-05T14:03:00Z"}}, {&time.Time{}, obj{"asOf": nil}}} {
		w.others.at = c.at
		for _, details := range []bool{true, false} {
			if got := ask(details); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v: %v, want %v", c.at, got, c.want)
			}
		}
	}
}
