package calendar

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/wire/jmap"
)

// daily is a series in a time zone with an exception and a component for an instance.
const daily = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n" +
	"BEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;TZID=Europe/Berlin:20260105T090000\r\n" +
	"DURATION:PT1H\r\nRRULE:FREQ=DAILY;COUNT=5\r\nEXDATE;TZID=Europe/Berlin:20260108T090000\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\nRECURRENCE-ID;TZID=Europe/Berlin:20260106T090000\r\n" +
	"DTSTART;TZID=Europe/Berlin:20260106T110000\r\nDURATION:PT1H\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

func readText(t *testing.T, text []byte) *Object {
	t.Helper()
	o, err := ReadObject(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o
}

// having returns the components that have a managed attachment: "M", or the RECURRENCE-ID.
func having(o *Object, id string) string {
	var list []string
	for _, c := range o.Parts {
		for i := range c.Properties {
			if ManagedID(&c.Properties[i]) != id {
				continue
			}
			name := "M"
			if p := c.Get("RECURRENCE-ID"); p != nil {
				name = p.Value
			}
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

var agenda = Attachment{ID: "one", URL: "https://cal.example.com/a,b;c", Name: `a "b", c.txt`, Type: "text/plain",
	Size: 7}

// TestAttach adds an attachment to instances that rid names.
//
// Implements: RFC 8607 §3.3.2 rid= Query Parameter
func TestAttach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rid, want string }{
		{"", "M 20260106T090000"},
		{"M", "M"},
		{"20260106T080000Z", "20260106T090000"},
		{"20260106T090000", "20260106T090000"},
		{"20260106", "20260106T090000"},
		{"20260107T080000Z", "20260107T090000"},
		{"M,20260107T080000Z,20260109T090000", "M 20260107T090000 20260109T090000"},
		{"20260108T080000Z", "no"}, // it is excluded
		{"20260106T090000Z", "no"},
		{"20270101T080000Z", "no"},
		{"20260106T080000Z,20260106T090000", "no"}, // twice the same
	} {
		o := readText(t, []byte(daily))
		var in Instances
		if c.rid != "" {
			var err error
			if in, err = ParseInstances(c.rid); err != nil {
				t.Fatal(c.rid, err)
			}
		}
		text, err := o.Attach(agenda, in)
		if c.want == "no" {
			if !errors.Is(err, ErrInstance) {
				t.Errorf("%s: %v", c.rid, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", c.rid, err)
		} else if got := having(readText(t, text), "one"); got != c.want {
			t.Errorf("%s: %s, want %s", c.rid, got, c.want)
		}
		if string(o.Text()) != daily {
			t.Fatalf("%s: the object itself has changed", c.rid)
		}
	}
	for _, s := range []string{"", "m", "M,", ",M", "M,M", "20260105,20260105", "2026", "20260105T250000", "\x00",
		strings.Repeat("M,", 5000)} {
		if _, err := ParseInstances(s); !errors.Is(err, ErrInstance) {
			t.Errorf("%.20q: %v", s, err)
		}
	}
}

// TestAttachOnwards adds an attachment to an instance that a component for later ones has moved, and removes it: no
// time changes.
func TestAttachOnwards(t *testing.T) {
	t.Parallel()
	in, err := ParseInstances("20260108T090000")
	last, err2 := ParseInstances("20260109T090000")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	series := strings.Replace(daily, "EXDATE;TZID=Europe/Berlin:20260108T090000\r\n", "", 1)
	o := readText(t, []byte(strings.Replace(series, "RECURRENCE-ID;", "RECURRENCE-ID;RANGE=THISANDFUTURE;", 1)))
	const want = "05T09 06T11 07T11 08T11 09T11"
	for _, change := range []func() ([]byte, error){
		func() ([]byte, error) { return o.Attach(agenda, in) },
		func() ([]byte, error) { return o.Detach("one", in) },
		func() ([]byte, error) { return o.Attach(agenda, nil) },
		func() ([]byte, error) { return o.Detach("one", last) },
	} {
		text, err := change()
		if err != nil {
			t.Fatal(err)
		}
		o = readText(t, text)
		var times []string
		err = o.Series.Between(time.Unix(0, 0), time.Unix(1<<40, 0), nil, func(x Occurrence) bool {
			times = append(times, x.Start.Add(time.Hour).UTC().Format("02T15"))
			return true
		})
		slices.Sort(times)
		if got := strings.Join(times, " "); err != nil || got != want {
			t.Errorf("%v: %s, want %s, after\n%s", err, got, want, text)
		}
	}
	if got := having(o, "one"); got != "M 20260106T090000 20260108T090000" {
		t.Errorf("the attachment is at %s", got)
	}
}

// TestDetach removes and replaces an attachment. An instance that follows the series gets a component without it.
func TestDetach(t *testing.T) {
	t.Parallel()
	text, err := readText(t, []byte(daily)).Attach(agenda, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := readText(t, text)
	if p := o.Parts[0].Get("ATTACH"); p.Value != agenda.URL || p.Param("SIZE") != "7" ||
		p.Param("FILENAME") != agenda.Name || p.Param("FMTTYPE") != "text/plain" {
		t.Errorf("the line has %+v", p)
	}
	in, _ := ParseInstances("20260107T090000")
	if text, err = o.Detach("one", in); err != nil {
		t.Fatal(err)
	}
	o = readText(t, text)
	if got := having(o, "one"); got != "M 20260106T090000" || len(o.Parts) != 3 {
		t.Errorf("%s in %d components", got, len(o.Parts))
	}
	if _, err := o.Detach("one", in); !errors.Is(err, ErrManagedID) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := o.Detach("", nil); !errors.Is(err, ErrManagedID) {
		t.Errorf("no id: %v", err)
	}
	if text, err = o.Reattach("one", Attachment{ID: "two", URL: "https://cal.example.com/2"}); err != nil {
		t.Fatal(err)
	}
	o = readText(t, text)
	if got := having(o, "two"); got != "M 20260106T090000" || len(o.Managed()) != 1 {
		t.Errorf("%s, want the places of the first", got)
	}
	if text, err = o.Detach("two", nil); err != nil || len(readText(t, text).Managed()) != 0 {
		t.Errorf("not removed: %v: %s", err, text)
	}
}

// TestLinksManaged checks that a change over JMAP keeps managed attachments.
//
// Implements: RFC 8984 §4.2.7 links
func TestLinksManaged(t *testing.T) {
	t.Parallel()
	text, err := readText(t, []byte(daily)).Attach(agenda, nil)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(o *Object, json string) *Object {
		t.Helper()
		v, err := jmap.Parse(json, jmap.Bounds{Values: 1000, Depth: 20})
		if err != nil {
			t.Fatal(err)
		}
		if o, err = o.Edit(v); err != nil {
			t.Fatal(err)
		}
		return readText(t, o.Text())
	}
	o := edit(readText(t, text), `{"title":"Other"}`)
	if got := having(o, "one"); got != "M 20260106T090000" {
		t.Errorf("after a change of the title: %s", got)
	}
	o = edit(o, `{"links":{"x":{"@type":"Link","href":"https://cal.example.com/a,b;c","rel":"enclosure",`+
		`"title":"Agenda"},"y":{"@type":"Link","href":"https://else.example/"}}}`)
	if having(o, "one") != "M 20260106T090000" || o.Parts[0].Get("ATTACH").Param("FILENAME") != "Agenda" {
		t.Errorf("after another title of the link: %s", o.Text())
	}
	o = edit(o, `{"links":{"y":{"@type":"Link","href":"https://else.example/"}}}`)
	if got := having(o, "one"); strings.HasPrefix(got, "M") {
		t.Errorf("the link was removed, and the attachment stays in %s", got)
	}
}

// FuzzInstances parses the parameter rid. What is parsed names instances of a series, or none.
func FuzzInstances(f *testing.F) {
	for _, s := range []string{"M", "M,20260106T080000Z", "20260107", "20260107T090000,20260109T090000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		in, err := ParseInstances(s)
		if err != nil {
			return
		}
		if len(in) == 0 || len(in) > maxInstances {
			t.Fatalf("%d instances", len(in))
		}
		text, err := readText(t, []byte(daily)).Attach(agenda, in)
		if err != nil {
			if !errors.Is(err, ErrInstance) {
				t.Fatal(err)
			}
			return
		}
		o := readText(t, text)
		if n := len(strings.Fields(having(o, "one"))); n != len(in) {
			t.Fatalf("%d instances have the attachment, want %d: %s", n, len(in), text)
		}
		if text, err = o.Detach("one", in); err != nil || len(readText(t, text).Managed()) != 0 {
			t.Fatalf("not removed: %v", err)
		}
	})
}

// oneBlob knows one blob, which is a managed attachment.
type oneBlob struct{}

func (oneBlob) BlobID(id string) string { return "b-" + id }

func (oneBlob) Attachment(blob, _, _ string) (Attachment, error) {
	if blob != "b-1" {
		return Attachment{}, ErrManagedID
	}
	return Attachment{ID: "1", URL: "https://cal.example.com/1", Name: "a", Type: "text/plain", Size: 1}, nil
}

// TestBlobOfStranger checks that the text of an event chooses no blob: only a line with MANAGED-ID has one.
//
// Implements: draft-ietf-jmap-calendars §5.2 blobId of Link
func TestBlobOfStranger(t *testing.T) {
	t.Parallel()
	o, err := ReadObject([]byte(strings.ReplaceAll("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nBEGIN:VEVENT\nUID:a\n"+
		"DTSTAMP:20260101T000000Z\nDTSTART:20260105T090000Z\nATTACH:https://else.example/x\n"+
		"JSPROP;JSPTR=links/y:{\"@type\":\"Link\"\\,\"href\":\"https://else.example/y\"\\,\"blobId\":\"b-1\"}\n"+
		"JSPROP;JSPTR=links/y/blobId:\"b-1\"\nEND:VEVENT\nEND:VCALENDAR\n", "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	print := func() string {
		w := jmap.NewWriter(nil)
		o.Append(&w, &View{Properties: []string{"links"}})
		return string(w.End())
	}
	o.Blobs = oneBlob{}
	if got := print(); strings.Contains(got, "blobId") || !strings.Contains(got, "else.example/y") {
		t.Error(got)
	}
	change, err := jmap.Parse(`{"links":{"n":{"@type":"Link","blobId":"b-1","cid":"c@x"}}}`, jmap.Bounds{})
	if err == nil {
		o, err = o.Edit(change)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text := string(o.Text()); strings.Contains(text, "blobId") || strings.Count(text, "MANAGED-ID=1") != 1 ||
		!strings.Contains(text, "c@x") {
		t.Error(text)
	}
	o.Blobs = oneBlob{}
	if got := print(); !strings.Contains(got, `"blobId":"b-1"`) || !strings.Contains(got, `"cid":"c@x"`) {
		t.Error(got)
	}
}
