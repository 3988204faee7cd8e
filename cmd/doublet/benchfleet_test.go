package main

import (
	"strings"
	"testing"
	"time"

	"doublet/bench/ledger"
	"doublet/cmd/doublet/lab"
)

// TestLedgerNeedsServers checks that a server that should run but does not is an error: it may have lost everything.
func TestLedgerNeedsServers(t *testing.T) {
	t.Parallel()
	one := &lab.Server{Name: "one", Data: t.TempDir()}
	kill, start := fault{one, time.Second, false}, fault{one, 2 * time.Second, true}
	for _, c := range []struct {
		name   string
		faults []fault
		fails  bool
	}{
		{"it ended by itself", nil, true},
		{"it was killed, and stays so", []fault{kill}, false},
		{"it did not come back", []fault{kill, start}, true},
		{"it was killed again", []fault{kill, start, kill}, false},
	} {
		f := &fleet{Lab: &lab.Lab{Clustered: true, Servers: []*lab.Server{one}}, faults: c.faults, ledger: ledger.New()}
		if err := f.missing(); (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "one is down") {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.fails {
			if err := f.verify(t.Context(), nil); err == nil {
				t.Errorf("%s: it was verified", c.name)
			}
		}
	}
}
