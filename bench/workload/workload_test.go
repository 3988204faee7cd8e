package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func all(t *testing.T) []*Workload {
	t.Helper()
	list, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestBuiltinAreThere(t *testing.T) {
	t.Parallel()
	var names []string
	for _, w := range all(t) {
		names = append(names, w.Name)
		if text, err := Text(w.Name); err != nil || len(text) == 0 {
			t.Errorf("%s: the file has another name than the workload: %v", w.Name, err)
		}
	}
	want := []string{"clustermail", "dwa8", "dwa85", "dwa85lite", "entmail", "geoplex-heavy", "geoplex-light",
		"geoplex-medium", "idle", "imapmail",
		"login-storm", "massmail", "n7mail", "n8mail", "pop3mail", "pulse", "r4mail", "r6inotes", "r6mail"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestTheDocumentsTables counts the actions of users over simulated time and compares them with the documents' tables.
func TestTheDocumentsTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		over time.Duration // at speed 1, a whole number of cycles
		set  map[string]int
		want map[Verb]int
	}{
		{"r6mail", 90 * time.Minute, nil, map[Verb]int{Open: 6, Read: 30, Delete: 12, Add: 2, Send: 1, Calendar: 1,
			Invite: 1, RSVP: 1, Close: 6}},
		{"r6mail", 90 * time.Minute, map[string]int{"adds": 12},
			map[Verb]int{Open: 6, Read: 30, Delete: 12, Add: 12, Send: 1, Calendar: 1, Invite: 1, RSVP: 1, Close: 6}},
		{"r6mail", 90 * time.Minute, map[string]int{"appointments": 1}, map[Verb]int{Open: 6, Read: 30,
			Delete: 12, Add: 2, Send: 1, Calendar: 1, Appointment: 1, Invite: 1, RSVP: 1, Close: 6}},
		{"r6inotes", 90 * time.Minute, nil, map[Verb]int{Open: 6, Read: 30, Delete: 12, Add: 2, Send: 1, Calendar: 1,
			Invite: 1, RSVP: 1, Close: 6}},
		{"r4mail", 8 * time.Hour, nil, map[Verb]int{Open: 32, Read: 160, Update: 64, Delete: 64, Send: 32, Close: 32}},
		{"r4mail", 8 * time.Hour, map[string]int{"nthiteration": 4},
			map[Verb]int{Open: 32, Read: 160, Update: 64, Delete: 64, Send: 8, Close: 32}},
		{"n8mail", 2 * time.Hour, nil, map[Verb]int{Open: 8, Scroll: 8, Read: 40, Move: 8, Delete: 16, Reply: 4,
			Lookup: 16, Send: 12, Calendar: 1, Appointment: 1, Invite: 1, RSVP: 1, Close: 8}},
		// 100 users, 60 minutes: 11, 46 and 240 messages a minute.
		{"geoplex-light", 5 * time.Hour, nil, map[Verb]int{Send: 33}},
		{"geoplex-medium", 150 * time.Minute, nil, map[Verb]int{Send: 69}},
		{"geoplex-heavy", 15 * time.Minute, nil, map[Verb]int{Send: 36}},
		{"pulse", 15 * time.Hour, nil, map[Verb]int{Send: 6*69 + 1}},
	} {
		w, err := ByName(c.name)
		if err != nil {
			t.Fatal(err)
		}
		for user := range 5 {
			got := make(map[Verb]int)
			loops := int(c.over / time.Duration(w.Loop.Min))
			for p := range w.Schedule(user, Options{Seed: 42, Set: c.set}) {
				if p.Loop >= loops {
					break
				}
				got[p.Do]++
			}
			for verb, n := range c.want {
				if got[verb] != n {
					t.Errorf("%s, user %d: %d of %s in %v, want %d", c.name, user, got[verb], verb, c.over, n)
				}
			}
			if len(c.want) > 1 && len(got) != len(c.want) {
				t.Errorf("%s: %v", c.name, slices.Collect(maps.Keys(got)))
			}
		}
	}
}

// TestGeoplexAPIs checks that the users do as much as document 004's table 1 prints: client APIs a minute of 100 users,
// if an action is one.
func TestGeoplexAPIs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{"geoplex-light": 245, "geoplex-medium": 337, "geoplex-heavy": 850} {
		w, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, n := range w.PerHour(nil) {
			sum += n
		}
		if got := sum * 100 / 60; got < want*0.995 || got > want*1.005 {
			t.Errorf("%s: %.1f actions a minute of 100 users, want %v", name, got, want)
		}
	}
}

// TestUnknownClients checks that the workloads of clients whose requests no document prints say so, and do the same as
// the workload that they are derived from.
func TestUnknownClients(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]string{"n7mail": "n8mail", "dwa8": "dwa85"} {
		w, err := ByName(name)
		b, err2 := ByName(base)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !strings.Contains(w.Unknown, base) || b.Unknown != "" || !strings.Contains(w.Explain(nil), w.Unknown) {
			t.Errorf("%s: %q", name, w.Unknown)
		}
		if o := (Options{Seed: 3}); print(w, 1, o, 300) != print(b, 1, o, 300) {
			t.Errorf("%s does not do what %s does", name, base)
		}
	}
}

// TestN8MailRates checks the rates derived from the documents: eight submissions and twelve deliveries an hour.
func TestN8MailRates(t *testing.T) {
	t.Parallel()
	w, _ := ByName("n8mail")
	sent, received := 0, 0
	for p := range w.Schedule(3, Options{Seed: 1}) {
		if p.Loop >= 16 {
			break
		}
		if p.Do == Send || p.Do == Reply {
			sent++
			received += p.To
		}
	}
	if sent != 4*8 || received != 4*12 {
		t.Errorf("%d sent and %d received in 4 hours", sent, received)
	}
	if m := Mean(w.Sizes["mail"]); m < 97_200 || m > 97_400 {
		t.Errorf("mean of the profile %v", m)
	}
	if h := w.PerHour(nil); h["read"] != 20 || h["send"] != 6 {
		t.Errorf("per hour: %v", h)
	}
}

// print formats the first n actions of a schedule.
func print(w *Workload, user int, o Options, n int) string {
	var b strings.Builder
	for p := range w.Schedule(user, o) {
		fmt.Fprintf(&b, "%v %d %s %x\n", p.At, p.Loop, p.Do, p.Pick)
		if n--; n == 0 {
			break
		}
	}
	return b.String()
}

func TestScheduleIsFixedInAdvance(t *testing.T) {
	t.Parallel()
	for _, w := range all(t) {
		o := Options{Seed: 7}
		first := print(w, 5, o, 200)
		if second := print(w, 5, o, 200); first != second {
			t.Errorf("%s: the same seed and user gave two schedules", w.Name)
		}
		if first == print(w, 6, o, 200) || first == print(w, 5, Options{Seed: 8}, 200) {
			t.Errorf("%s: users or seeds are alike", w.Name)
		}
	}
}

func TestScheduleKeepsTime(t *testing.T) {
	t.Parallel()
	for _, w := range all(t) {
		for user := range 20 {
			last, loop, longest := time.Duration(-1), 0, time.Duration(0)
			var next time.Duration
			for p := range w.Schedule(user, Options{Seed: 9}) {
				if p.Loop > loop {
					if p.At != next && w.Actions[0].Per == 1 {
						t.Fatalf("%s: loop %d begins at %v, not at %v", w.Name, p.Loop, p.At, next)
					}
					loop = p.Loop
				}
				if p.At < last {
					t.Fatalf("%s: time runs back from %v to %v", w.Name, last, p.At)
				}
				if p.At >= p.Next {
					longest = max(longest, p.At-p.Next)
				}
				last, next = p.At, p.Next
				if p.Loop > 60 {
					break
				}
			}
			// Otherwise an undelayed user would already be late for the next loop.
			if longest > 0 {
				t.Errorf("%s, user %d: the think times overrun the loop by %v", w.Name, user, longest)
			}
		}
	}
}

func TestSpeedAndProtocolLeaveTheRest(t *testing.T) {
	t.Parallel()
	w, _ := ByName("n8mail")
	var slow, fast []Planned
	for p := range w.Schedule(1, Options{Seed: 3}) {
		if slow = append(slow, p); len(slow) == 300 {
			break
		}
	}
	for p := range w.Schedule(1, Options{Seed: 3, Speed: 10, Protocol: IMAP}) {
		if fast = append(fast, p); len(fast) == 200 {
			break
		}
	}
	slow = slices.DeleteFunc(slow, func(p Planned) bool { return !Carries(IMAP, p.Do) })
	for i := range fast {
		a, b := slow[i], fast[i]
		if a.Do != b.Do || a.Pick != b.Pick || (a.At/10-b.At).Abs() > time.Millisecond {
			t.Fatalf("action %d: %s at %v, and at ten times the speed %s at %v", i, a.Do, a.At, b.Do, b.At)
		}
	}
	if left := w.Left(IMAP); !slices.Equal(left, []string{"lookup", "calendar"}) {
		t.Errorf("left out: %q", left)
	}
}

func TestNothingToDoEnds(t *testing.T) {
	t.Parallel()
	w, _ := ByName("dwa8")
	for p := range w.Schedule(1, Options{Protocol: LMTP, Set: nil}) {
		if p.Do != Send {
			t.Fatalf("LMTP carries %s", p.Do)
		}
		break
	}
	for p := range w.Schedule(1, Options{Protocol: HTTP}) {
		t.Fatalf("HTTP carries %s", p.Do)
	}
}

// TestMailInABrowser checks the actions that the web clients leave out.
func TestMailInABrowser(t *testing.T) {
	t.Parallel()
	for protocol, left := range map[string][]string{WebLite: {"close"}, WebFull: {"lookup", "close"}} {
		for _, name := range []string{"dwa8", "dwa85", "dwa85lite", "r6inotes"} {
			w, err := ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range w.Left(protocol) {
				if !slices.Contains(left, v) {
					t.Errorf("%s: %s leaves %s out", name, protocol, v)
				}
			}
		}
	}
}

// TestCalendarActions checks the counts of the calendar's actions in the documents' workloads by protocol. The
// explanation of each workload names the messages or requests of every protocol, and the actions that are left out, now
// and in earlier versions.
func TestCalendarActions(t *testing.T) {
	t.Parallel()
	for name, hours := range map[string]float64{"r6mail": 1.5, "r6inotes": 1.5, "n8mail": 2, "dwa8": 2, "dwa85": 2,
		"dwa85lite": 2} {
		w, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		text := w.Explain(nil)
		for protocol, verbs := range map[string][]Verb{IMAP: {Invite, RSVP}, JMAP: {Calendar, Invite, RSVP},
			WebFull: {Calendar, Invite, RSVP}, WebLite: {Calendar, Invite, RSVP}} {
			got := map[Verb]int{}
			for p := range w.Schedule(1, Options{Seed: 5, Protocol: protocol}) {
				if p.Loop >= int(hours*4) {
					break
				}
				if got[p.Do]++; p.Do == Invite && p.To != 3 {
					t.Errorf("%s: an invitation to %d", name, p.To)
				}
			}
			for _, v := range verbs {
				if got[v] != 1 {
					t.Errorf("%s over %s: %d of %s in %g hours", name, protocol, got[v], v, hours)
				}
				if !strings.Contains(text, fmt.Sprintf("over %s, %s: ", protocol, v)) {
					t.Errorf("%s does not say how %s carries %s", name, protocol, v)
				}
			}
		}
		for _, want := range []string{"over imap, which cannot carry it yet: ", "before: ", "no document counts it"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", name, want, text)
			}
		}
	}
}

// TestMailOverJMAP checks that JMAP can carry all actions of mail users except close, which has no equivalent.
func TestMailOverJMAP(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"r6mail", "n7mail", "n8mail", "imapmail", "idle"} {
		w, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range w.Left(JMAP) {
			if v != string(Close) && v != string(Lookup) {
				t.Errorf("%s: JMAP leaves %s out", name, v)
			}
		}
	}
}

// TestLoopsAreNotInStep checks that users send in different loops.
func TestLoopsAreNotInStep(t *testing.T) {
	t.Parallel()
	w, _ := ByName("r6mail")
	per := make([]int, 6)
	for user := range 600 {
		for p := range w.Schedule(user, Options{Seed: 11}) {
			if p.Loop >= 6 {
				break
			}
			if p.Do == Send {
				per[p.Loop]++
			}
		}
	}
	for loop, n := range per {
		if n < 60 || n > 140 {
			t.Errorf("%d of 600 users send in loop %d: %v", n, loop, per)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	w, _ := ByName("pop3mail")
	few, sum := 0, 0
	for i := range 5000 {
		got := w.Choose(50, 100, 1, uint64(i)*0x9e3779b97f4a7c15)
		if len(got) != 1 || got[0] == 50 {
			t.Fatalf("%v", got)
		}
		if sum++; got[0] < 20 {
			few++
		}
	}
	if share := float64(few) / float64(sum); share < 0.77 || share > 0.83 {
		t.Errorf("a fifth of the users receive %.2f", share)
	}
	if got := w.Choose(0, 10, 50, 1); len(got) != 9 || slices.Contains(got, 0) {
		t.Errorf("fifty of ten: %v", got)
	}
}

func TestPickFollowsTheShares(t *testing.T) {
	t.Parallel()
	w, _ := ByName("n8mail")
	sum := 0.0
	const n = 1 << 18
	for i := range uint64(n) {
		s := Pick(w.Sizes["mail"], (i*2+1)<<(64-19)) // evenly
		sum += float64(s.Body + s.Attachment)
	}
	if mean := sum / n; mean < 96_000 || mean > 99_000 {
		t.Errorf("mean %v", mean)
	}
}

func TestWrongFilesNameLineAndField(t *testing.T) {
	t.Parallel()
	good, _ := Text("r4mail")
	change := func(from, to string) string { return strings.Replace(string(good), from, to, 1) }
	for _, c := range []struct{ text, want string }{
		{change(`loop = "15m"`, `lop = "15m"`), "lop"},
		{change(`loop = "15m"`, `loop = "soon"`), "soon"},
		{change(`do = "read"`, `do = "dance"`), "dance"},
		{change(`protocol = "imap"`, `protocol = "nrpc"`), "nrpc"},
		{change(`percent = 100`, `percent = 90`), "90 percent"},
		{change(`per-set = "nthiteration"`, `per-set = "sands"`), "sands"},
		{change(`per-set = "nthiteration"`, "per-set = \"nthiteration\"\nper = 2"), "exclude each other"},
		{change(`times = 5`, `times = -5`), "times"},
		{change(`sizes = "short"`, `sizes = "long"`), "long"},
		{change(`loop = "15m"`, "loop = \"15m\"\nattachments = 101"), "attachments"},
		{"name = 7", "line 1"},
		{"", "name"},
	} {
		_, err := Parse("x.toml", []byte(c.text))
		if !errors.Is(err, ErrWorkload) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "x.toml") {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
	if _, err := ByName("../files/r4mail"); err == nil {
		t.Error("a path is no name")
	}
}

func TestValuesPrintAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"15m", "10s..20s", "1h", "1m30s", "0s", "500ms"} {
		var v Span
		if err := v.UnmarshalText([]byte(s)); err != nil || v.String() != s {
			t.Errorf("%s: %s, %v", s, v, err)
		}
	}
	for _, s := range []string{"500B", "50KB", "10MB", "0B", "6888B"} {
		var v Bytes
		if err := v.UnmarshalText([]byte(s)); err != nil || v.String() != s {
			t.Errorf("%s: %s, %v", s, v, err)
		}
	}
	for _, s := range []string{"", "-1s", "20s..10s", "1x"} {
		if err := new(Span).UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
	for _, s := range []string{"", "-5B", "200MB", "99999999999999999999B", "5GB"} {
		if err := new(Bytes).UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"n8mail", "pop3mail", "idle"} {
		text, _ := Text(name)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := Parse("x", text)
		if err != nil {
			return
		}
		n := 0
		for p := range w.Schedule(1, Options{Seed: 1, Speed: 1}) {
			if n++; n > 100 || p.Loop > 100 {
				break
			}
		}
	})
}

func TestCycle(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{"r6mail": 90 * time.Minute, "n8mail": 2 * time.Hour,
		"r4mail": 15 * time.Minute} {
		w, err := ByName(name)
		if err != nil || w.Cycle(nil, 1) != want || w.Cycle(nil, 10) != want/10 {
			t.Errorf("%s: %v, %v", name, w.Cycle(nil, 1), err)
		}
	}
}

// TestSchemaNamesEverything checks that every field is described.
func TestSchemaNamesEverything(t *testing.T) {
	t.Parallel()
	text := Schema()
	for _, want := range []string{"  loop ", "  percent ", "  think ", "[[action]]", "[parameters.NAME]", "[mailbox]",
		"  idle "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for l := range strings.Lines(text) {
		if strings.HasSuffix(strings.TrimSpace(l), ":") && !strings.Contains(l, "today") ||
			strings.Contains(l, "[[action]]") && len(l) < 20 {
			t.Errorf("%q says nothing", l)
		}
	}
}
