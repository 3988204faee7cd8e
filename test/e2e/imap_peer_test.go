package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/imap"
	"doublet/test/external"
	wire "doublet/wire/imap"
)

// TestSortLikeDovecot checks that two servers with the same messages sort and thread them alike.
//
// Implements: RFC 5256 §3 SORT and THREAD, against a foreign server
func TestSortLikeDovecot(t *testing.T) {
	messages := external.Corpus(t, 400)
	port := dovecot(t)
	clients := []*imap.Client{imapClient(t, demo(t).Port["imap"], "alice", "demo"), imapClient(t, port, "alice", "far")}
	for i, c := range clients {
		folder := []string{"Peer", "INBOX.Peer"}[i]
		if err := c.Create(folder); err != nil {
			t.Fatal(err)
		}
		for k, raw := range messages {
			date := time.Unix(1_000_000_000+int64(k*7919%1000), 0).UTC()
			if _, err := c.Append(folder, nil, date, strings.NewReader(raw), int64(len(raw))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Select(&wire.Select{Mailbox: folder}, true); err != nil {
			t.Fatal(err)
		}
	}
	all := wire.Search{Charset: "UTF-8"}
	for f := wire.SortArrival; f <= wire.SortDisplayTo; f++ {
		for _, reverse := range []bool{false, true} {
			by := []wire.SortKey{{Field: f, Reverse: reverse}, {Field: wire.SortSize}}
			var got [2][]uint32
			for i, c := range clients {
				var err error
				if got[i], err = c.Sort(&wire.Sort{Search: all, By: by}, false); err != nil {
					t.Fatal(err)
				}
			}
			if n := differences(got[0], got[1]); n > 0 || len(got[0]) != len(messages) {
				t.Errorf("%+v: %d of %d stand elsewhere\n%v\n%v", by, n, len(got[0]), got[0], got[1])
			}
		}
	}
	for _, algorithm := range []string{"ORDEREDSUBJECT", "REFERENCES", "REFS"} {
		var got [2][]string
		for i, c := range clients {
			threads, err := c.Thread(&wire.Thread{Algorithm: algorithm, Search: all}, false)
			if err != nil && strings.Contains(err.Error(), "BAD") && i == 1 {
				t.Logf("Dovecot does not know %s", algorithm)
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range threads {
				got[i] = append(got[i], string(wire.AppendThread(nil, []wire.ThreadNode{n})))
			}
		}
		if got[1] == nil {
			continue
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s:\n%s", algorithm, difference(got[0], got[1]))
		}
	}
}

func differences(a, b []uint32) (n int) {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			n++
		}
	}
	return n
}

func difference(a, b []string) string {
	var out strings.Builder
	for _, s := range a {
		if !slices.Contains(b, s) {
			fmt.Fprintf(&out, "- %s", s)
		}
	}
	for _, s := range b {
		if !slices.Contains(a, s) {
			fmt.Fprintf(&out, "+ %s", s)
		}
	}
	if out.Len() == 0 {
		return "the same threads in another order"
	}
	return out.String()
}
