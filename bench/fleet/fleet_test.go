package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	"doublet/bench/ledger"
	"doublet/bench/record"
)

// ended is the process of a server that does not run.
type ended struct{ Process }

func (ended) Running() bool { return false }
func (ended) Log() string   { return "server.log" }

// TestLedgerNeedsServers checks that a server that should run but does not is an error: it may have lost everything.
func TestLedgerNeedsServers(t *testing.T) {
	t.Parallel()
	one := Server{Name: "one", Process: ended{}}
	for _, c := range []struct {
		name   string
		starts []bool // faults: false kills the server, true starts it
		fails  bool
	}{
		{"it ended by itself", nil, true},
		{"it was killed, and stays so", []bool{false}, false},
		{"it did not come back", []bool{false, true}, true},
		{"it was killed again", []bool{false, true, false}, false},
	} {
		f := &Fleet{Servers: Servers{Clustered: true, List: []Server{one}}}
		for _, start := range c.starts {
			f.faults = append(f.faults, fault{&f.List[0], time.Second, start})
		}
		a := &audit{fleet: f, ledger: ledger.New()}
		if err := a.missing(); (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "one is down") {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.fails {
			if err := a.verify(t.Context(), record.Step{}, nil); err == nil {
				t.Errorf("%s: it was verified", c.name)
			}
		}
	}
}

// TestFaults checks the order of faults, that a kill keeps a ledger, and which faults are rejected.
func TestFaults(t *testing.T) {
	t.Parallel()
	servers := Servers{List: []Server{{Name: "one", Process: ended{}}, {Name: "two", Process: ended{}}},
		Settle: func(context.Context) error { return nil }}
	o := Options{Kill: []string{"two@30s", "one@10s"}, Restart: []string{"two@20s"}, Window: time.Minute}
	f, err := New(nil, servers, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range f.faults {
		word := "kill "
		if x.start {
			word = "start "
		}
		got = append(got, word+x.server.Name)
	}
	if text := strings.Join(got, ", "); text != "kill one, start two, kill two" || f.ledger == nil {
		t.Errorf("%s, ledger %v", text, f.ledger)
	}
	for _, bad := range []string{"three@1s", "one", "one@-1s", "one@60s", "one@soon"} {
		if _, err := New(nil, servers, Options{Kill: []string{bad}, Window: time.Minute}); err == nil ||
			!strings.Contains(err.Error(), "one, two") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
