package itip

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/test/long"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// event makes an object of VEVENTs, each given by its lines separated by "|".
func event(t testing.TB, parts ...string) *calendar.Object {
	t.Helper()
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n"
	for _, p := range parts {
		text += "BEGIN:VEVENT\r\nUID:u\r\nORGANIZER:mailto:alice@a.example\r\n" + strings.ReplaceAll(p, "|", "\r\n") +
			"\r\nEND:VEVENT\r\n"
	}
	o, err := calendar.ReadObject([]byte(text + "END:VCALENDAR\r\n"))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func is(names ...string) func(string) bool {
	return func(a string) bool { return slices.Contains(names, a) }
}

var alice = is("alice@a.example")

const (
	single = "DTSTART:20260105T090000Z|DTEND:20260105T100000Z|SUMMARY:Meeting"
	daily  = single + "|RRULE:FREQ=DAILY;COUNT=5"
	bob    = "|ATTENDEE:mailto:Bob@b.example"
	carol  = "|ATTENDEE:mailto:carol@c.example"
	// delegated is the answer of bob, who sends dan.
	delegated = "|ATTENDEE;PARTSTAT=DELEGATED;DELEGATED-TO=\"mailto:dan@d.example\":mailto:bob@b.example" +
		"|ATTENDEE;DELEGATED-FROM=\"mailto:bob@b.example\":mailto:dan@d.example"
	third = "RECURRENCE-ID:20260107T090000Z|DTSTART:20260107T090000Z|DTEND:20260107T100000Z|SUMMARY:Meeting"
)

// told prints messages: method, recipient and instances, sorted.
func told(list []*Message) string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.Method + " " + Address(m.To)[:1]
		for _, c := range m.Parts {
			if k := key(m.whole, c); k != master {
				out[i] += " " + k[6:8]
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestOrganize has the messages of RFC 5546 that follow from a change of the organizer.
func TestOrganize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new []string
		want     string
	}{
		"4.2.1 a group event request": {nil, []string{single + bob + carol}, "REQUEST b, REQUEST c"},
		"nothing changes":             {[]string{single + bob}, []string{single + bob}, ""},
		"only an answer is new": {[]string{single + bob},
			[]string{single + "|ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@b.example"}, ""},
		"4.2.5 update": {[]string{single + bob},
			[]string{single + bob + "|LOCATION:here"}, "REQUEST b"},
		"4.2.10 cancel": {[]string{single + bob + carol}, nil, "CANCEL b, CANCEL c"},
		"4.2.11 removing an attendee": {[]string{single + bob + carol}, []string{single + bob},
			"CANCEL c, REQUEST b"},
		"adding an attendee": {[]string{single + bob}, []string{single + bob + carol},
			"REQUEST b, REQUEST c"},
		"4.4.2 modify one instance": {[]string{daily + bob}, []string{daily + bob,
			third + "|LOCATION:x" + bob}, "REQUEST b 07"},
		"4.4.3 cancel one instance": {[]string{daily + bob},
			[]string{daily + bob + "|EXDATE:20260107T090000Z"}, "CANCEL b 07"},
		"one instance without an attendee": {[]string{daily + bob + carol}, []string{daily + bob + carol,
			third + bob}, "CANCEL c 07, REQUEST b 07"},
		"one instance with one more": {[]string{daily + bob}, []string{daily + bob,
			third + bob + carol}, "REQUEST b 07, REQUEST c 07"},
		"an instance is back": {[]string{daily + bob + "|EXDATE:20260107T090000Z"},
			[]string{daily + bob}, "REQUEST b"},
		"an instance is as the others": {[]string{daily + bob, third + "|LOCATION:x" + bob},
			[]string{daily + bob}, "REQUEST b"},
		"4.4.4 another rule": {[]string{daily + bob},
			[]string{single + "|RRULE:FREQ=WEEKLY;COUNT=5" + bob}, "REQUEST b"},
		"cancelled by status": {[]string{single + bob},
			[]string{single + bob + "|STATUS:CANCELLED"}, "CANCEL b"},
		"cancelled before": {[]string{single + bob + "|STATUS:CANCELLED"}, nil, ""},
		"the client sends": {nil,
			[]string{single + "|ATTENDEE;SCHEDULE-AGENT=CLIENT:mailto:bob@b.example"}, ""},
		"6638 7.3 force": {[]string{single + bob},
			[]string{single + "|ATTENDEE;SCHEDULE-FORCE-SEND=REQUEST:mailto:bob@b.example"}, "REQUEST b"},
		"only the organizer": {nil, []string{single + "|ATTENDEE:mailto:alice@a.example"}, ""},
		"alarms are the organizer's": {[]string{single + bob},
			[]string{single + bob + "|BEGIN:VALARM|ACTION:DISPLAY|TRIGGER:-PT5M|END:VALARM"}, ""},
		"another spelling of the same time": {[]string{daily + bob, third + "|LOCATION:x" + bob},
			[]string{daily + bob, strings.Replace(third, "RECURRENCE-ID:20260107T090000Z",
				"RECURRENCE-ID;TZID=Europe/Berlin:20260107T100000", 1) + "|LOCATION:x" + bob}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := Change{Me: alice, Now: t0}
			if c.old != nil {
				x.Old = event(t, c.old...)
			}
			if c.new != nil {
				x.New = event(t, c.new...)
			}
			_, list, err := Organize(x)
			if err != nil || told(list) != c.want {
				t.Errorf("messages %q, %v; want %q", told(list), err, c.want)
			}
			for _, m := range list {
				if text := string(m.Text()); strings.Contains(text, "SCHEDULE-") || strings.Contains(text, "VALARM") {
					t.Errorf("message has properties that attendees must not see: %s", text)
				}
				if again, err := Parse(m.Text()); err != nil || again.Sender() != "alice@a.example" {
					t.Errorf("message does not parse: %v", err)
				}
			}
		})
	}
}

// TestAskAgain: a new time asks the attendees again with a higher SEQUENCE; a new place does not.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	accepted := "|ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@b.example"
	old := event(t, single+accepted)
	for moved, text := range map[bool]string{true: strings.Replace(single, "T10", "T11", 1) + accepted,
		false: single + accepted + "|LOCATION:x"} {
		o, _, err := Organize(Change{Old: old, New: event(t, text), Me: alice, Now: t0})
		if err != nil {
			t.Fatal(err)
		}
		if s := Status(o,
			is("bob@b.example")); (s == "NEEDS-ACTION") != moved || (sequence(o.Parts[0]) == 1) != moved {
			t.Errorf("moved %v: status %s, sequence %d", moved, s, sequence(o.Parts[0]))
		}
	}
}

// TestAttend has the changes of an attendee and the answers that follow.
func TestAttend(t *testing.T) {
	t.Parallel()
	accept := "|ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@b.example"
	for name, c := range map[string]struct {
		old, new []string
		want     string
		err      error
	}{
		"4.2.3 accept": {[]string{single + bob + carol}, []string{single + accept + carol},
			"REPLY ACCEPTED", nil},
		"accept from a message":  {nil, []string{single + accept}, "REPLY ACCEPTED", nil},
		"not answered":           {nil, []string{single + bob}, "", nil},
		"delete":                 {[]string{single + accept}, nil, "REPLY DECLINED", nil},
		"delete a cancelled one": {[]string{single + accept + "|STATUS:CANCELLED"}, nil, "", nil},
		"one instance": {[]string{daily + accept}, []string{daily + accept,
			third + "|ATTENDEE;PARTSTAT=DECLINED:mailto:bob@b.example"}, "REPLY 07 DECLINED", nil},
		"take out an instance": {[]string{daily + accept},
			[]string{daily + accept + "|EXDATE:20260107T090000Z"}, "REPLY 07 DECLINED", nil},
		"an alarm": {[]string{single + bob},
			[]string{single + bob + "|BEGIN:VALARM|ACTION:DISPLAY|TRIGGER:-PT5M|END:VALARM"}, "", nil},
		"4.2.6 move": {[]string{single + bob}, []string{strings.Replace(single, "T10", "T11",
			1) + bob}, "", ErrNotAllowed},
		"invite others": {[]string{single + bob}, []string{single + bob + carol}, "", ErrNotAllowed},
		"take the event over": {[]string{single + bob}, []string{strings.Replace(single, "SUMMARY",
			"X-A:b|SUMMARY", 1) + bob + "|RRULE:FREQ=DAILY"}, "", ErrNotAllowed},
		"the client answers": {[]string{single + bob}, []string{single + accept}, "REPLY ACCEPTED", nil},
		"4.2.8 delegate": {[]string{single + bob},
			[]string{single + delegated}, "REPLY DELEGATED", nil},
		"an instance that is not": {[]string{daily + bob}, []string{daily + bob, strings.Replace(third,
			"DTSTART:20260107", "DTSTART:20260108", 1) + accept}, "", ErrNotAllowed},
		"only for the client to say": {nil, []string{single + accept + "|X-A:1"}, "REPLY ACCEPTED", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var old, changed *calendar.Object
			if c.old != nil {
				old = event(t, c.old...)
			}
			if c.new != nil {
				changed = event(t, c.new...)
			}
			_, m, err := Attend(old, changed, is("bob@b.example"), t0)
			got := ""
			if m != nil {
				got = m.Method
				for _, p := range m.Parts {
					if k := key(m.whole, p); k != master {
						got += " " + k[6:8]
					}
					got += " " + status(attendee(p, is("bob@b.example")))
				}
				if m.To != "mailto:alice@a.example" {
					t.Errorf("to %q", m.To)
				}
			}
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

// message parses a message of one VEVENT.
func message(t testing.TB, method, part string) *Message {
	t.Helper()
	m, err := Parse([]byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:" + method + "\r\nBEGIN:VEVENT\r\nUID:u\r\n" +
		"ORGANIZER:mailto:alice@a.example\r\n" + strings.ReplaceAll(part, "|",
		"\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRefused: messages of strangers, late ones, repeated ones and those about nothing change nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	const now, later = "DTSTAMP:20260101T000000Z|SEQUENCE:1|", "DTSTAMP:20260102T000000Z|SEQUENCE:1|"
	for name, c := range map[string]struct {
		stored, method, part, from string
		me                         string
		err                        error
	}{
		"update": {now + single + bob, Request, later + single + bob, "alice@a.example",
			"bob@b.example", nil},
		"repeated": {now + single + bob, Request, now + single + bob, "alice@a.example",
			"bob@b.example", ErrStale},
		"lower sequence": {now + single + bob, Request,
			"DTSTAMP:20260109T000000Z|SEQUENCE:0|" + single + bob, "alice@a.example", "bob@b.example", ErrStale},
		"not the organizer": {now + single + bob, Request, later + single + bob, "eve@e.example",
			"bob@b.example", ErrStranger},
		"not invited": {"", Request, now + single + carol, "alice@a.example", "bob@b.example",
			ErrStranger},
		"own invitation": {"", Request, now + single + bob, "alice@a.example", "alice@a.example",
			ErrStranger},
		"forged cancel": {now + single + bob, Cancel, later + single + bob, "eve@e.example",
			"bob@b.example", ErrStranger},
		"late cancel": {later + single + bob, Cancel, now + single + bob, "alice@a.example",
			"bob@b.example", ErrStale},
		"cancel for others": {"", Cancel, now + single + carol, "alice@a.example", "bob@b.example", ErrUnknown},
		"cancel of no instance": {now + daily + bob, Cancel, later + strings.ReplaceAll(third, "20260107",
			"20260117") + bob, "alice@a.example", "bob@b.example", ErrUnknown},
		"reply": {now + single + bob, Reply, later + single + bob, "bob@b.example",
			"alice@a.example", nil},
		"reply of a stranger": {now + single + bob, Reply, later + single + carol, "carol@c.example",
			"alice@a.example", ErrStranger},
		"reply in another name": {now + single + bob + carol, Reply, later + single + bob, "carol@c.example",
			"alice@a.example", ErrStranger},
		"reply to an old one": {"DTSTAMP:20260101T000000Z|SEQUENCE:2|" + single +
			"|ATTENDEE;X-DOUBLET-REPLY=2/:mailto:bob@b.example", Reply, later + single + bob,
			"bob@b.example", "alice@a.example", ErrStale},
		"reply from the future": {now + single + bob, Reply,
			"DTSTAMP:20260102T000000Z|SEQUENCE:9|" + single + bob, "bob@b.example", "alice@a.example", ErrAhead},
		"reply to the attendee": {now + single + bob, Reply, later + single + carol, "carol@c.example",
			"bob@b.example", ErrStranger},
		"strange status": {now + single + bob, Reply,
			later + single + "|ATTENDEE;PARTSTAT=X:mailto:bob@b.example", "bob@b.example", "alice@a.example",
			ErrStranger},
		"counter": {now + single + bob, Counter, later + single + bob, "bob@b.example",
			"alice@a.example", ErrNoEffect},
		"counter of a stranger": {now + single + bob, Counter, later + single + bob, "eve@e.example",
			"alice@a.example", ErrStranger},
		"refresh": {now + single + bob, Refresh, later + single + bob, "bob@b.example",
			"alice@a.example", ErrNoEffect},
		"decline counter": {now + single + bob, DeclineCounter, later + single + bob,
			"alice@a.example", "bob@b.example", ErrNoEffect},
		"add": {now + daily + bob, Add,
			"DTSTAMP:20260102T000000Z|SEQUENCE:2|DTSTART:20260120T090000Z" + bob, "alice@a.example",
			"bob@b.example", nil},
		"add twice": {"DTSTAMP:20260102T000000Z|SEQUENCE:2|" + daily + bob, Add,
			"DTSTAMP:20260102T000000Z|SEQUENCE:2|DTSTART:20260120T090000Z" + bob, "alice@a.example",
			"bob@b.example", ErrStale},
		"without a time": {"", Request, now + "SUMMARY:x" + bob, "alice@a.example", "bob@b.example",
			ErrMalformed},
		"delegate with no power": {now + single + bob, Reply,
			later + single +
				"|ATTENDEE;PARTSTAT=DELEGATED;DELEGATED-TO=\"mailto:d@d.example\":mailto:bob@b.example",
			"bob@b.example", "alice@a.example", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stored *calendar.Object
			if c.stored != "" {
				stored = event(t, c.stored)
			}
			o, err := Receive(stored, message(t, c.method, c.part), c.from, is(c.me))
			if !errors.Is(err, c.err) || (o == nil) != (err != nil) {
				t.Errorf("got %v, want %v", err, c.err)
			}
		})
	}
}

// TestAlarms checks that the alarms of an object stay those of its owner: a message brings none, and takes none away.
func TestAlarms(t *testing.T) {
	t.Parallel()
	const theirs = "|BEGIN:VALARM|ACTION:EMAIL|TRIGGER:-PT9M|SUMMARY:Buy|DESCRIPTION:d|ATTENDEE:mailto:x@b.example" +
		"|END:VALARM"
	const ours = "|BEGIN:VALARM|ACTION:DISPLAY|TRIGGER:-PT5M|DESCRIPTION:d|END:VALARM"
	const stamp = "DTSTAMP:2026010%dT000000Z|SEQUENCE:1|"
	first, later := fmt.Sprintf(stamp, 1), fmt.Sprintf(stamp, 2)
	me, from := is("bob@b.example"), "alice@a.example"
	invited, err := message(t, Request, first+single+bob+theirs).Object()
	if err != nil || bytes.Contains(Print(invited), []byte("VALARM")) {
		t.Errorf("%v; the invitation brings an alarm: %s", err, Print(invited))
	}
	for name, c := range map[string]struct {
		stored, method, part string
		alarms               int // of the owner: those of the series, and those of an instance that follows it
	}{
		"invitation":   {"", Request, first + single + bob + theirs, 0},
		"update":       {first + single + bob + ours, Request, later + single + bob + theirs, 1},
		"no alarm yet": {first + single + bob, Request, later + single + bob + theirs, 0},
		"instance":     {first + daily + bob + ours, Request, later + third + bob + theirs, 2},
		"added": {first + daily + bob + ours, Add, later + "DTSTART:20260120T090000Z" + bob + theirs,
			2},
	} {
		var stored *calendar.Object
		if c.stored != "" {
			stored = event(t, c.stored)
		}
		o, err := Receive(stored, message(t, c.method, c.part), from, me)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := string(Print(o))
		if n := strings.Count(text, "TRIGGER:-PT5M"); n != c.alarms || strings.Contains(text, "TRIGGER:-PT9M") {
			t.Errorf("%s: %d alarms of the owner, want %d, and none of the organizer: %s", name, n, c.alarms, text)
		}
	}
}

// world is an organizer and attendees who exchange messages over a network that loses, repeats and reorders them.
type world struct {
	t      *testing.T
	r      *rand.Rand
	now    time.Time
	org    *calendar.Object
	copies map[string]*calendar.Object
	wire   []parcel
	sent   int
	// missed holds the people of whom the network lost a cancellation, or let it overtake another message. ended holds
	// the last cancellation that came to each.
	missed map[string]bool
	ended  map[string]int
}

type parcel struct {
	to, from string
	text     []byte
	number   int // in the order of sending
}

func (w *world) send(from string, list ...*Message) {
	for _, m := range list {
		if m != nil {
			w.sent++
			w.wire = append(w.wire, parcel{Address(m.To), from, m.Text(), w.sent})
		}
	}
}

func (p *parcel) cancels() bool { return bytes.Contains(p.text, []byte("METHOD:CANCEL")) }

// deliver delivers one message of the network. faulty may lose or repeat it.
func (w *world) deliver(faulty bool) {
	i := w.r.IntN(len(w.wire))
	p := w.wire[i]
	if n := w.r.IntN(10); !faulty || n != 0 { // else it stays, and comes again
		w.wire = slices.Delete(w.wire, i, i+1)
		if faulty && n == 1 {
			w.missed[p.to] = w.missed[p.to] || p.cancels()
			return
		}
	}
	if p.cancels() {
		w.ended[p.to] = max(w.ended[p.to], p.number)
	} else if p.number < w.ended[p.to] {
		w.missed[p.to] = true
	}
	m, err := Parse(p.text)
	if err != nil {
		w.t.Fatalf("%v in %s", err, p.text)
	}
	me, stored := is(p.to), w.copies[p.to]
	if p.to == "alice@a.example" {
		stored = w.org
	}
	o, err := Receive(stored, m, p.from, me)
	if err != nil {
		if errors.Is(err, ErrMalformed) || errors.Is(err, ErrNoEffect) {
			w.t.Fatalf("%v in %s", err, p.text)
		}
		return
	}
	if again, err := Receive(o, m, p.from, me); !errors.Is(err, ErrStale) {
		w.t.Fatalf("repeated message is not stale: %v %v\n%s", again, err, p.text)
	}
	if p.to == "alice@a.example" {
		w.org = o
	} else {
		w.copies[p.to] = o
	}
}

// rewrite changes the organizer's object at random.
func (w *world) rewrite(names []string, force bool) {
	o := event(w.t, w.text(names, force)...)
	stored, list, err := Organize(Change{Old: w.org, New: o, Me: alice, Now: w.now, KeepStatus: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.org = stored
	w.send("alice@a.example", list...)
}

func (w *world) text(names []string, force bool) []string {
	people := func(keep int) (s string) {
		for i, n := range names {
			if i >= keep && w.r.IntN(4) == 0 {
				continue
			}
			if force {
				n = "|ATTENDEE;SCHEDULE-FORCE-SEND=REQUEST:mailto:" + n
			} else {
				n = "|ATTENDEE:mailto:" + n
			}
			s += n
		}
		return s
	}
	hour := 8 + w.r.IntN(2)
	start := func(day, h int) string {
		return fmt.Sprintf("DTSTART:202601%02dT%02d0000Z|DURATION:PT1H|SUMMARY:s%d", day, h, w.r.IntN(2))
	}
	list := []string{start(5, hour) + "|RRULE:FREQ=DAILY;COUNT=6" + people(1)}
	for day := 6; day < 10; day++ {
		switch w.r.IntN(5) {
		case 0:
			list[0] += fmt.Sprintf("|EXDATE:202601%02dT%02d0000Z", day, hour)
		case 1:
			list = append(list, fmt.Sprintf("RECURRENCE-ID:202601%02dT%02d0000Z|", day, hour)+
				start(day, hour+w.r.IntN(2))+people(1))
		}
	}
	return list
}

// answer changes the status of an attendee, in the whole or in one instance.
func (w *world) answer(name string, force bool) {
	old := w.copies[name]
	if old == nil {
		return
	}
	changed, err := calendar.ReadObject(printed(old))
	if err != nil {
		w.t.Fatal(err)
	}
	for i, c := range changed.Parts {
		p := attendee(c, is(name))
		if p == nil {
			continue
		}
		if force {
			setParam(c.Get("ORGANIZER"), "SCHEDULE-FORCE-SEND", Reply)
		} else if i == w.r.IntN(len(changed.Parts)) {
			setParam(p, "PARTSTAT", statuses[1+w.r.IntN(3)])
		}
	}
	o, m, err := Attend(old, changed, is(name), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.copies[name] = o
	w.send(name, m)
}

// TestConvergence: whatever the network does, after the organizer sends all once more and everybody answers once more,
// all have the same times and the same answers. Only a person of whom a cancellation was lost, or overtook an
// invitation, may keep an event or an instance of which they are no guest: the organizer writes to guests again.
func TestConvergence(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(60, 3000)) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: t0, copies: map[string]*calendar.Object{},
			missed: map[string]bool{}, ended: map[string]int{}}
		names := []string{"bob@b.example", "carol@c.example", "dan@d.example"}
		w.rewrite(names, false)
		for range 60 {
			w.now = w.now.Add(time.Duration(w.r.IntN(3)) * time.Second)
			switch n := w.r.IntN(6); {
			case n == 0:
				w.rewrite(names, false)
			case n < 3:
				w.answer(names[w.r.IntN(3)], false)
			case len(w.wire) > 0:
				w.deliver(true)
			}
		}
		for len(w.wire) > 0 {
			w.deliver(false)
		}
		w.rewrite(names, true)
		for len(w.wire) > 0 {
			w.deliver(false)
		}
		for _, name := range names {
			w.answer(name, true)
		}
		for len(w.wire) > 0 {
			w.deliver(false)
		}
		w.compare(seed, names)
	}
}

func (w *world) compare(seed uint64, names []string) {
	w.t.Helper()
	mine := byKey(w.org)
	for _, name := range names {
		theirs := byKey(w.copies[name])
		for k, c := range mine {
			p := attendee(c, is(name))
			q := theirs[k]
			if p == nil {
				if q != nil && !cancelled(q) && !w.missed[name] {
					w.t.Fatalf("seed %d: %s still has %q", seed, name, k)
				}
				continue
			}
			if q == nil || when(w.org.Whole, c, nil, true) != when(w.copies[name].Whole, q, nil, true) ||
				status(attendee(q, is(name))) != status(p) || c.Text("SUMMARY") != q.Text("SUMMARY") || cancelled(q) {
				w.t.Fatalf("seed %d: %s has another %q:\n%s\n%s", seed, name, k, printed(w.org),
					printed(w.copies[name]))
			}
		}
	}
}

func printed(o *calendar.Object) []byte { return Print(o) }

// FuzzReceive applies messages to an object. The result is an object that parses again.
func FuzzReceive(f *testing.F) {
	for _, method := range methods {
		f.Add([]byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:" + method + "\r\nBEGIN:VEVENT\r\nUID:u\r\n" +
			"ORGANIZER:mailto:alice@a.example\r\nSEQUENCE:3\r\nDTSTAMP:20260102T000000Z\r\n" +
			strings.ReplaceAll(third+bob, "|", "\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		if _, err := Parse(m.Text()); err != nil {
			t.Fatalf("%v: %s", err, m.Text())
		}
		for _, me := range []string{"alice@a.example", "bob@b.example"} {
			for _, stored := range []*calendar.Object{nil, event(t, daily+bob, third+"|LOCATION:x"+bob)} {
				o, err := Receive(stored, m, m.Sender(), is(me))
				if err != nil {
					continue
				}
				if _, err := calendar.ReadObject(Print(o)); err != nil {
					t.Fatalf("%v: %s", err, Print(o))
				}
			}
		}
	})
}

// TestCancelOvertakes lets a CANCEL arrive before the REQUEST that it cancels, which then has no effect. A later
// REQUEST invites again, and does not bring the answer to the former invitation.
func TestCancelOvertakes(t *testing.T) {
	t.Parallel()
	const first, second, third = "DTSTAMP:20260101T000000Z|SEQUENCE:0|", "DTSTAMP:20260101T000001Z|SEQUENCE:1|",
		"DTSTAMP:20260102T000000Z|SEQUENCE:2|"
	me, from := is("bob@b.example"), "alice@a.example"
	buried, err := Receive(nil, message(t, Cancel, second+single+bob), from, me)
	if err != nil || !IsCancelled(buried) {
		t.Fatalf("cancelled event %v, %v", buried, err)
	}
	if o, err := Receive(buried, message(t, Request, first+single+bob), from, me); !errors.Is(err, ErrStale) {
		t.Errorf("the late request: %v, %v", o, err)
	}
	declined, err := WithStatus(event(t, second+single+bob), me, "DECLINED")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := Receive(declined, message(t, Cancel, "DTSTAMP:20260101T000002Z|SEQUENCE:1|"+single+bob), from, me)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*calendar.Object{"overtaken": buried, "declined before": gone} {
		again, err := Receive(o, message(t, Request, third+single+bob), from, me)
		if err != nil || IsCancelled(again) || Status(again, me) != "NEEDS-ACTION" {
			t.Errorf("%s: invited again: %v, %v", name, again, err)
		}
	}
}
