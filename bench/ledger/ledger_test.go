package ledger

import (
	"errors"
	"strings"
	"testing"
)

// TestCheck checks that each kind of broken acknowledgement is found and described, and nothing else.
func TestCheck(t *testing.T) {
	t.Parallel()
	failed := errors.New("connection lost")
	yes, no := func(int) bool { return true }, func(int) bool { return false }
	in := func(id string) Message { return Message{Folder: Inbox, ID: id} }
	filed := func(id string) Message { return Message{Folder: Archive, ID: id} }
	for _, c := range []struct {
		name                       string
		tell                       func(*Ledger)
		found                      []Message
		lost, doubled, resurrected int
		says                       string
	}{
		{name: "all is well", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"a"}, yes); l.Added("a", "2", nil) },
			found: []Message{in("1"), in("2")}},
		{name: "a message is lost", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"a"}, yes) }, lost: 1,
			says: "lost: message 1 of a"},
		{name: "of two recipients one has it", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"a", "b"}, yes) },
			found: []Message{in("1")}, lost: 1, says: "1 of b"},
		{name: "refused", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"a"}, no) }},
		{name: "not acknowledged, and there", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"a"}, nil) },
			found: []Message{in("1")}},
		{name: "not acknowledged, and twice", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"a"}, nil) },
			found: []Message{in("1"), in("1")}, doubled: 1, says: "doubled: message 1"},
		{name: "twice", tell: func(l *Ledger) { l.Added("a", "1", nil) }, found: []Message{in("1"), filed("1")},
			doubled: 1, says: "there 2 times"},
		{name: "deleted", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Deleted("a", "1", nil) }},
		{name: "deleted before its sender knew",
			tell: func(l *Ledger) { l.Deleted("a", "1", nil); l.Sent(Mail, "1", []string{"a"}, yes) }},
		{name: "deleted, and back", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Deleted("a", "1", nil) },
			found: []Message{filed("1")}, resurrected: 1, says: "resurrected"},
		{name: "perhaps deleted, there", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Deleted("a", "1", failed) },
			found: []Message{in("1")}},
		{name: "perhaps deleted, gone", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Deleted("a", "1", failed) }},
		{name: "filed", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Moved("a", "1", nil) },
			found: []Message{filed("1")}},
		{name: "filed, and in the inbox", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Moved("a", "1", nil) },
			found: []Message{in("1")}, lost: 1, says: "filed"},
		{name: "perhaps filed", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Moved("a", "1", failed) },
			found: []Message{filed("1")}},
		{name: "filed by nobody", tell: func(l *Ledger) { l.Added("a", "1", nil) }, found: []Message{filed("1")},
			doubled: 1, says: "nobody"},
		{name: "flag there", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Flagged("a", "1", nil) },
			found: []Message{{Inbox, "1", true}}},
		{name: "flag lost", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Flagged("a", "1", nil) },
			found: []Message{in("1")}, lost: 1, says: "flag"},
		{name: "flag not acknowledged", tell: func(l *Ledger) { l.Added("a", "1", nil); l.Flagged("a", "1", failed) },
			found: []Message{in("1")}},
		{name: "what was there before", tell: func(l *Ledger) {
			l.Inventory("a", []Message{filed("1"), {Inbox, "2", true}})
		}, found: []Message{in("2")}, lost: 2},
		{name: "a recipient whose mail nobody reads", tell: func(l *Ledger) { l.Sent(Mail, "1", []string{"c"}, yes) }},
		{name: "before the step", tell: func(l *Ledger) {
			l.Deleted("a", "1", nil)
			l.Begin()
			l.Inventory("a", []Message{in("1")})
		}, found: []Message{in("1")}},
		{name: "not the benchmark's", tell: func(l *Ledger) { l.Deleted("a", "", nil) }, found: []Message{in("")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := New()
			c.tell(l)
			v := l.Check("one", map[string][]Message{"a": c.found, "b": nil})
			if v.Lost != c.lost || v.Doubled != c.doubled || v.Resurrected != c.resurrected ||
				!strings.Contains(strings.Join(v.Named, "\n"), c.says) {
				t.Errorf("%+v", v)
			}
		})
	}
	var none *Ledger
	none.Sent(Mail, "1", []string{"a"}, yes)
	none.Deleted("a", "1", nil)
}

func TestID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Message-ID: <run7.s1.3.9@bench.example>\r\n\r\n":                "run7.s1.3.9",
		`NIL NIL "<asked.1@bench.example>" "<run7.3.9@bench.example>"))`: "run7.3.9",
		"Message-ID: <x@elsewhere.example>":                              "",
		"@bench.example>":                                                "",
		"":                                                               "",
	} {
		if got := ID([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
