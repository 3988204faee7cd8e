package calendar

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

var write = flag.Bool("write", false, "write the .json files of testdata/*.ics from what the package prints")

// golden compares JSON with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *write {
		var b bytes.Buffer
		if err := json.Indent(&b, got, "", "\t"); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !same(t, got, want) {
		t.Errorf("%s: %s", name, got)
	}
}

// real returns the objects of testdata that a calendar can keep, by file.
func real(t *testing.T) map[string]*Object {
	t.Helper()
	files, err := filepath.Glob("testdata/*.ics")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	out := map[string]*Object{}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := ical.Parse(raw, ical.DefaultLimits)
		if err != nil {
			t.Fatal(name, err)
		}
		whole.Drop("METHOD")
		o, err := NewObject(whole)
		if err != nil {
			t.Fatal(name, err)
		}
		out[name] = o
	}
	return out
}

// shown returns an object as Append prints it.
func shown(o *Object, v *View) []byte {
	w := jmap.NewWriter(nil)
	o.Append(&w, v)
	return w.End()
}

func object(t *testing.T, text string) *jmap.Value {
	t.Helper()
	v, err := jmap.Parse(text, jmap.Bounds{})
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// TestAppend compares real objects, with their overrides, with the files beside them.
func TestAppend(t *testing.T) {
	for name, o := range real(t) {
		golden(t, strings.TrimSuffix(name, ".ics")+".whole.json", shown(o, &View{}))
	}
}

// lines returns the unfolded lines of an object, sorted.
func lines(o *Object) []string {
	text := strings.ReplaceAll(string(o.Text()), "\r\n ", "")
	list := strings.Split(text, "\r\n")
	slices.Sort(list)
	return list
}

// changes returns the lines that b has and a has not, after +, and those that a has, after -.
func changes(a, b []string) (out []string) {
	count := map[string]int{}
	for _, s := range a {
		count[s]--
	}
	for _, s := range b {
		count[s]++
	}
	for s, n := range count {
		for ; n > 0; n-- {
			out = append(out, "+"+s)
		}
		for ; n < 0; n++ {
			out = append(out, "-"+s)
		}
	}
	slices.Sort(out)
	return out
}

// TestEditLines checks that a change of one property changes the lines of that property alone, in real objects.
func TestEditLines(t *testing.T) {
	for _, x := range []struct {
		file, patch string
		want        []string
	}{
		{"apple", `{"title":"New, better"}`, []string{`+SUMMARY:New\, better`, `-SUMMARY:Standup; daily\, short`}},
		{"apple", `{"start":"2026-09-07T10:00:00"}`, []string{"+DTEND;TZID=Europe/Berlin:20260907T110000",
			"+DTSTART;TZID=Europe/Berlin:20260907T100000", "-DTEND;TZID=Europe/Berlin:20260907T100000",
			"-DTSTART;TZID=Europe/Berlin:20260907T090000"}},
		{"apple", `{"locations":{"1":{"@type":"Location","name":"Room 5"}}}`, []string{"+LOCATION:Room 5",
			"+LOCATION:Room 5", `-LOCATION:Café Einstein\nKurfürstenstraße 58\, Berlin`,
			`-LOCATION:Café Einstein\nKurfürstenstraße 58\, Berlin`,
			`-X-APPLE-STRUCTURED-LOCATION;VALUE=URI;X-APPLE-RADIUS=70.6;X-TITLE=Café Einstein:geo:52.50,13.35`,
			`-X-APPLE-STRUCTURED-LOCATION;VALUE=URI;X-APPLE-RADIUS=70.6;X-TITLE=Café Einstein:geo:52.50,13.35`}},
		{"thunderbird", `{"color":"teal","keywords":{"Birthday":true}}`, []string{"+CATEGORIES:Birthday", "+COLOR:teal",
			`-CATEGORIES:Birthday,Family\, close`}},
		{"google-series", `{"status":"tentative"}`, []string{"+STATUS:TENTATIVE", "+STATUS:TENTATIVE",
			"-STATUS:CONFIRMED", "-STATUS:CONFIRMED"}},
		{"google-series", `{"alerts":{"x":{"@type":"Alert","trigger":{"@type":"OffsetTrigger","offset":"-PT5M"}}}}`,
			[]string{"+ACTION:DISPLAY", "+ACTION:DISPLAY", "+BEGIN:VALARM", "+BEGIN:VALARM", "+DESCRIPTION:Planning",
				"+DESCRIPTION:Planning", "+END:VALARM", "+END:VALARM", "+TRIGGER:-PT5M", "+TRIGGER:-PT5M", "+UID:x",
				"+UID:x"}},
		{"outlook", `{"recurrenceOverrides":{"2026-12-09T10:00:00":{"excluded":true}}}`,
			[]string{"+EXDATE;TZID=W. Europe Standard Time:20261209T100000"}},
		{"apple", `{"recurrenceOverrides":{"2026-09-21T09:00:00":{"excluded":true}}}`, nil},
	} {
		o := real(t)["testdata/"+x.file+".ics"]
		before := lines(o)
		after, err := o.Edit(object(t, x.patch))
		if err != nil {
			t.Errorf("%s %s: %v", x.file, x.patch, err)
			continue
		}
		if got := changes(before, lines(after)); x.want != nil && !slices.Equal(got, x.want) {
			t.Errorf("%s %s:\n%s", x.file, x.patch, strings.Join(got, "\n"))
		}
		if _, err := ReadObject(after.Text()); err != nil {
			t.Error(err)
		}
	}
}

// contains reports whether got has all that want has.
func contains(want, got *jmap.Value) bool {
	if want.Kind() != jmap.Object || got.Kind() != jmap.Object {
		return want.Equal(got)
	}
	for i := range want.Len() {
		x, y := want.At(i), got.Get(want.Name(i))
		if y == nil && (x.IsNull() || x.Kind() == jmap.Object && x.Len() == 0) {
			continue
		}
		if y == nil || !contains(x, y) {
			return false
		}
	}
	return true
}

// settable returns the properties of an event that Edit may change.
func settable(v *jmap.Value) *jmap.Value {
	var names []string
	var values []jmap.Value
	for i := range v.Len() {
		if Settable(Event, v.Name(i)) {
			names, values = append(names, v.Name(i)), append(values, *v.At(i))
		}
	}
	return jmap.MakeObject(names, values)
}

var then = time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)

// TestRoundTrip makes a new object of what a real one says in JSCalendar, and compares what it says.
func TestRoundTrip(t *testing.T) {
	for name, o := range real(t) {
		if !o.master {
			continue
		}
		first := object(t, string(shown(o, &View{})))
		made, err := New(Event, o.UID, then).Edit(settable(first))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again := object(t, string(shown(made, &View{})))
		if !contains(first, again) {
			t.Errorf("%s:\n%s\n%s", name, first.Append(nil), again.Append(nil))
		}
		for _, between := range []string{"2026-09", "2026-10", "2026-11", "2027-02"} {
			from, _ := time.Parse("2006-01", between)
			if a, b := inMonth(t, o, from), inMonth(t, made, from); !slices.Equal(a, b) {
				t.Errorf("%s: %s: %v, want %v", name, between, b, a)
			}
		}
	}
}

// inMonth lists the occurrences of an object in the month from a time on.
func inMonth(t *testing.T, o *Object, from time.Time) (list []string) {
	t.Helper()
	err := o.Series.Between(from, from.AddDate(0, 1, 0), nil, func(x Occurrence) bool {
		w := jmap.NewWriter(nil)
		o.AppendInstance(&w, x, &View{Properties: []string{"title", "start", "utcStart", "utcEnd", "recurrenceId"}})
		list = append(list, string(w.End()))
		return true
	})
	if err != nil {
		t.Error(err)
	}
	slices.Sort(list)
	return list
}

// TestInstances checks changes of single instances.
func TestInstances(t *testing.T) {
	o := real(t)["testdata/apple.ics"]
	edit := func(id, patch string) {
		t.Helper()
		at, _ := ParseLocal(id)
		x, ok := o.Instance(at)
		if !ok {
			t.Fatalf("%s is no instance", id)
		}
		var err error
		if patch == "" {
			o, err = o.RemoveInstance(x, nil)
		} else {
			o, err = o.EditInstance(x, object(t, patch), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"2026-09-21T09:00:00", "2026-09-14T11:00:00", "2027-09-06T09:00:00"} {
		at, _ := ParseLocal(id)
		if _, ok := o.Instance(at); ok {
			t.Errorf("%s is an instance", id)
		}
	}
	edit("2026-09-28T09:00:00", `{"title":"Retro","start":"2026-09-30T14:00:00"}`)
	edit("2026-09-28T09:00:00", `{"duration":"PT2H"}`)
	edit("2026-09-14T09:00:00", `{"title":"Standup; daily, short","start":"2026-09-14T09:00:00"}`)
	edit("2026-10-12T09:00:00", "")
	edit("2026-10-19T09:00:00", `{"alerts":null}`)
	var err error
	if o, err = o.Edit(object(t, `{"description":"All hands"}`)); err != nil {
		t.Fatal(err)
	}
	got := object(t, string(shown(o, &View{Properties: []string{"recurrenceOverrides"}}))).Get("recurrenceOverrides")
	want := `{"2026-09-14T09:00:00":{"alerts":null},"2026-09-21T09:00:00":{"excluded":true},"2026-09-28T09:00:00":{
		"title":"Retro","start":"2026-09-30T14:00:00","duration":"PT2H"},"2026-10-05T09:00:00":{"excluded":true},
		"2026-10-12T09:00:00":{"excluded":true},"2026-10-19T09:00:00":{"alerts":null}}`
	if !got.Equal(object(t, want)) {
		t.Errorf("%s", got.Append(nil))
	}
	if bad, err := o.EditInstance(Occurrence{ID: then}, object(t, `{"privacy":"private"}`), nil); err == nil {
		t.Errorf("an instance of another privacy: %s", bad.Text())
	}
}

// TestRefused checks that values that an event cannot have are refused, with the names of the properties.
func TestRefused(t *testing.T) {
	for patch, want := range map[string]string{
		`{"uid":"x"}`: "uid", `{"method":"request"}`: "method", `{"start":"2026-01-01"}`: "start",
		`{"start":null}`:              "start",
		`{"timeZone":"Mars/Olympus"}`: "timeZone", `{"duration":"-PT1H"}`: "duration", `{"title":1}`: "title",
		`{"title":"a\u0000b"}`: "title", `{"priority":10}`: "priority", `{"status":"maybe"}`: "status",
		`{"privacy":"open"}`: "privacy", `{"participants":{"a":{"name":"x"}}}`: "participants",
		`{"participants":{"a":{"email":"x@y"},"b":{"email":"X@y"}}}`:   "participants",
		`{"recurrenceRules":[{"frequency":"sometimes"}]}`:              "recurrenceRules",
		`{"recurrenceRules":[{"frequency":"daily","skip":"forward"}]}`: "recurrenceRules",
		`{"recurrenceRules":[{"frequency":"daily","byDay":[]}]}`:       "recurrenceRules",
		`{"excludedRecurrenceRules":[{"frequency":"daily"}]}`:          "excludedRecurrenceRules",
		`{"recurrenceOverrides":{"x":{}}}`:                             "recurrenceOverrides",
		`{"recurrenceOverrides":{"2026-01-01T00:00:00":{"uid":"x"}}}`:  "recurrenceOverrides",
		`{"alerts":{"a":{"trigger":{"offset":"soon"}}}}`:               "alerts",
		`{"links":{"a":{"href":"javascript:alert(1)"}}}`:               "links",
		`{"virtualLocations":{"a":{"uri":"javascript:alert(1)"}}}`:     "virtualLocations",
		`{"titel":"x"}`: "titel", `{"keywords":["x"]}`: "keywords", `{"updated":"today"}`: "updated",
	} {
		_, err := New(Event, "x", then).Edit(object(t, patch))
		var bad *InvalidError
		if !errors.As(err, &bad) || !slices.Contains(bad.Properties, want) {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// TestKept checks that what iCalendar cannot say comes back, and that a line that a program of iCalendar changes wins.
func TestKept(t *testing.T) {
	o, err := New(Event, "x", then).Edit(object(t, `{"title":"T","start":"2026-01-01T10:00:00",
		"timeZone":"Europe/Berlin",
		"useDefaultAlerts":true,"example.com:x":{"a":[1,"ü;,\\"]},"isDraft":true,
		"locations":{"a":{"@type":"Location","name":"A","description":"D"},"b":{"@type":"Location","name":"B"}},
		"participants":{"me":{"@type":"Participant","email":"a@b","roles":{"owner":true,"contact":true},
		"percentComplete":5},"you":{"@type":"Participant","sendTo":{"imip":"mailto:c@d","other":"x:y"},
		"roles":{"attendee":true},"delegatedTo":{"me":true}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(o.Text()), "LOCATION;JSID=a:A", "LOCATION;JSID=a:Elsewhere", 1)
	if o, err = ReadObject([]byte(text)); err != nil {
		t.Fatal(err)
	}
	got := object(t, string(shown(o, &View{})))
	if !o.Flag("isDraft") {
		t.Error("no draft")
	}
	want := object(t, `{"useDefaultAlerts":true,"example.com:x":{"a":[1,"ü;,\\"]},
		"locations":{"a":{"name":"Elsewhere","description":"D"},"b":{"name":"B"}},
		"participants":{"me":{"roles":{"owner":true,"contact":true},"percentComplete":5,"email":"a@b"},
		"you":{"sendTo":{"imip":"mailto:c@d","other":"x:y"},"delegatedTo":{"me":true}}},
		"replyTo":{"imip":"mailto:a@b"}}`)
	if !contains(want, got) {
		t.Errorf("%s\n%s", got.Append(nil), text)
	}
	if o, err = o.Edit(object(t, `{"locations":null,"useDefaultAlerts":null,"participants":null,"replyTo":null,
		"example.com:x":null,"isDraft":null}`)); err != nil {
		t.Fatal(err)
	}
	if s := string(o.Text()); strings.Contains(s, "JSPROP") || strings.Contains(s, "ATTENDEE") ||
		strings.Contains(s, "ORGANIZER") || strings.Contains(s, "LOCATION") {
		t.Error(s)
	}
}

// TestModel changes a random event at random, and compares what the object says with a model that is JSON alone.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		o, model := New(Event, "x", then), object(t, `{"start":"2026-03-02T09:00:00","timeZone":"Europe/Berlin"}`)
		var err error
		if o, err = o.Edit(model); err != nil {
			t.Fatal(err)
		}
		for range 25 {
			change := randomChange(t, r)
			if o, err = o.Edit(change); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, change.Append(nil), err)
			}
			for i := range change.Len() {
				next := model.With(change.Name(i), *change.At(i))
				model = &next
			}
			if o, err = ReadObject(o.Text()); err != nil {
				t.Fatal(err)
			}
			model = normal(model)
			if got := object(t, string(shown(o, &View{}))); !contains(model, got) {
				t.Fatalf("seed %d: after %s:\n%s\nwant\n%s\n%s", seed, change.Append(nil), got.Append(nil),
					model.Append(nil), o.Text())
			}
		}
	}
}

// normal returns the model without overrides that say nothing.
func normal(model *jmap.Value) *jmap.Value {
	v := model.Get("recurrenceOverrides")
	if v.Len() == 0 {
		return model
	}
	var names []string
	var values []jmap.Value
	for i := range v.Len() {
		patch := v.At(i)
		if on, _ := patch.Get("excluded").Bool(); !on {
			for k := 0; k < patch.Len(); k++ { // what the series says too is not told
				if x := model.Get(patch.Name(k)); x.Equal(patch.At(k)) ||
					patch.Name(k) == "start" && patch.At(k).Equal(&[]jmap.Value{jmap.Text(v.Name(i))}[0]) {
					next := patch.Without(patch.Name(k))
					patch, k = &next, k-1
				}
			}
		}
		if patch.Len() > 0 {
			names, values = append(names, v.Name(i)), append(values, *patch)
		}
	}
	out := model.With("recurrenceOverrides", *jmap.MakeObject(names, values))
	return &out
}

// randomChange returns new values of one to three properties.
func randomChange(t *testing.T, r *rand.Rand) *jmap.Value {
	t.Helper()
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	day := func() string { return fmt.Sprintf("2026-%02d-%02dT09:00:00", 3+r.IntN(3), 2+r.IntN(26)) }
	values := map[string]func() string{
		"title":       func() string { return pick(`"A"`, `"B, c;\n\\d"`, `"ü\"q\" ^n"`, `null`) },
		"description": func() string { return pick(`"x"`, `"long `+strings.Repeat("ä", 100)+`"`, `null`) },
		"timeZone":    func() string { return pick(`"Europe/Berlin"`, `"America/New_York"`, `"Etc/UTC"`, `null`) },
		"duration":    func() string { return pick(`"PT1H"`, `"PT30M"`, `"PT0S"`, `"PT26H"`) },
		"recurrenceRules": func() string {
			return pick(`null`, `[{"@type":"RecurrenceRule","frequency":"daily"}]`,
				`[{"@type":"RecurrenceRule","frequency":"weekly","interval":2,"until":"2026-06-01T09:00:00",`+
					`"firstDayOfWeek":"su",`+
					`"byDay":[{"@type":"NDay","day":"mo"},{"@type":"NDay","day":"we"}]}]`,
				`[{"@type":"RecurrenceRule","frequency":"monthly","count":5,`+
					`"byDay":[{"@type":"NDay","day":"fr","nthOfPeriod":-1}]}]`)
		},
		"recurrenceOverrides": func() string {
			list := map[string]string{}
			for range r.IntN(4) {
				list[day()] = pick(`{"excluded":true}`, `{"title":"Other"}`, `{"duration":"PT3H","start":"`+day()+`"}`,
					`{"locations":null}`, `{"color":"red","freeBusyStatus":"free"}`)
			}
			var parts []string
			for k, v := range list {
				parts = append(parts, fmt.Sprintf("%q:%s", k, v))
			}
			return "{" + strings.Join(parts, ",") + "}"
		},
		"color":          func() string { return pick(`"teal"`, `null`) },
		"freeBusyStatus": func() string { return pick(`"free"`, `null`) },
		"privacy":        func() string { return pick(`"private"`, `"secret"`, `null`) },
		"priority":       func() string { return pick(`1`, `9`, `null`) },
		"keywords":       func() string { return pick(`null`, `{"a":true,"b,c":true}`, `{"d;\\":true}`) },
		"categories":     func() string { return pick(`null`, `{"http://example.com/c":true}`) },
		"locations": func() string {
			return pick(`null`, `{"1":{"@type":"Location","name":"X"}}`,
				`{"a":{"@type":"Location","name":"Y","coordinates":"geo:1.5,-2"},`+
					`"b":{"@type":"Location","description":"Z"}}`)
		},
		"virtualLocations": func() string {
			return pick(`null`, `{"1":{"@type":"VirtualLocation","uri":"https://a.example/"}}`,
				`{"v":{"@type":"VirtualLocation","uri":"https://b.example/;x","name":"N","features":{"audio":true}},`+
					`"2":{"@type":"VirtualLocation","uri":"tel:+123"}}`)
		},
		"links": func() string {
			return pick(`null`, `{"l":{"@type":"Link","href":"https://x.example/f","rel":"enclosure",`+
				`"contentType":"text/plain","size":5,"title":"f.txt"}}`,
				`{"m":{"@type":"Link","href":"data:text/plain;base64,aGk=","rel":"enclosure"},`+
					`"n":{"@type":"Link","href":"https://y.example/","rel":"describedby","display":"badge"}}`)
		},
		"relatedTo": func() string {
			return pick(`null`, `{"other@x":{"@type":"Relation","relation":{"parent":true,"next":true}}}`)
		},
		"alerts": func() string {
			return pick(`null`, `{"1":{"@type":"Alert","trigger":{"@type":"OffsetTrigger","offset":"-PT15M"}}}`,
				`{"x":{"@type":"Alert","trigger":{"@type":"AbsoluteTrigger","when":"2026-03-01T08:00:00Z"},`+
					`"action":"email"},`+
					`"2":{"@type":"Alert","trigger":{"@type":"OffsetTrigger","offset":"PT0S","relativeTo":"end"},`+
					`"acknowledged":"2026-03-01T08:00:00Z",`+
					`"relatedTo":{"x":{"@type":"Relation","relation":{"snooze":true}}}}}`)
		},
		"participants": func() string {
			return pick(`null`, `{"a":{"@type":"Participant","name":"Ann \"A\", B","email":"ann@x",`+
				`"roles":{"owner":true,"attendee":true},"participationStatus":"accepted"},`+
				`"b":{"@type":"Participant","sendTo":{"imip":"mailto:bob@x"},"roles":{"attendee":true,`+
				`"optional":true},"expectReply":true,"scheduleAgent":"client","delegatedFrom":{"a":true}}}`,
				`{"b":{"@type":"Participant","email":"bob@x","kind":"group","roles":{"owner":true}},`+
					`"c":{"@type":"Participant","email":"carl@x","kind":"location","roles":{"informational":true}}}`)
		},
		"useDefaultAlerts": func() string { return pick(`true`, `null`) },
		"locale":           func() string { return pick(`"de"`, `null`) },
		"example.com:y":    func() string { return pick(`[1,{"a":null}]`, `null`) },
		"sequence":         func() string { return pick(`1`, `7`) },
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	var parts []string
	for _, name := range names[:1+r.IntN(3)] {
		parts = append(parts, fmt.Sprintf("%q:%s", name, values[name]()))
	}
	return object(t, "{"+strings.Join(parts, ",")+"}")
}

// FuzzEdit changes any object that a calendar keeps by any patch: what results can be kept, and prints I-JSON.
func FuzzEdit(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.ics")
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw), `{"title":"x","recurrenceOverrides":{"2026-09-14T09:00:00":{"title":"y"}},"timeZone":null}`)
		f.Add(string(raw), `{"participants":{"a":{"email":"a@b","roles":{"attendee":true}}},"showWithoutTime":true}`)
	}
	f.Add(string(aTask(f).Text()), `{"due":null,"progress":"completed","recurrenceOverrides":{"2026-11-09T00:00:00":
		{"due":"2026-11-10T00:00:00"}}}`)
	f.Fuzz(func(t *testing.T, text, patch string) {
		if len(text) > 1<<16 || len(patch) > 1<<14 {
			return
		}
		o, err := ReadObject([]byte(text))
		if err != nil || o.Kind == Journal {
			return
		}
		v, err := jmap.Parse(patch, jmap.Bounds{Depth: 20, Values: 1000})
		if err != nil || v.Kind() != jmap.Object {
			return
		}
		if !json.Valid(shown(o, &View{})) {
			t.Fatal("no JSON")
		}
		after, err := o.Edit(v)
		if err != nil {
			return
		}
		again, err := ReadObject(after.Text())
		if err != nil {
			t.Fatalf("%v\n%s", err, after.Text())
		}
		if a, b := shown(after, &View{}), shown(again, &View{}); !bytes.Equal(a, b) {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}
