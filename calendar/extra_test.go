package calendar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/wire/jmap"
)

// TestExtras compares values put into an object all at once with values put into it one after another.
func TestExtras(t *testing.T) {
	t.Parallel()
	var one func(v *jmap.Value, tokens []string, x *jmap.Value) *jmap.Value
	one = func(v *jmap.Value, tokens []string, x *jmap.Value) *jmap.Value {
		if len(tokens) > 1 {
			x = one(v.Get(tokens[0]), tokens[1:], x)
		}
		if v.Kind() != jmap.Object {
			v = jmap.MakeObject(nil, nil)
		}
		out := v.With(tokens[0], *x)
		return &out
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		base := object(t, `{"a":{"b":{"c":1},"c":2},"b":3,"c":{}}`)
		want, all := base, extras{}
		for range r.IntN(6) {
			var tokens []string
			for range 1 + r.IntN(3) {
				tokens = append(tokens, string(rune('a'+r.IntN(4))))
			}
			x := object(t, []string{`{}`, `{"a":5}`, `{"b":{"c":6}}`}[r.IntN(3)])
			if r.IntN(2) == 0 {
				text := jmap.Text("x")
				x = &text
			}
			all.put(tokens, x)
			want = one(want, tokens, x)
		}
		if got := all.over(base); !got.Equal(want) {
			t.Fatalf("%s, want %s", got.Append(nil), want.Append(nil))
		}
	}
}

// stranger returns an event with JSPROP lines for paths with numbers, and with more components.
func stranger(t *testing.T, n int, path, more string) *Object {
	t.Helper()
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:a\r\n" +
		"DTSTAMP:20260101T000000Z\r\nDTSTART:20260101T000000Z\r\nRRULE:FREQ=DAILY\r\n")
	for i := range n {
		fmt.Fprintf(&b, "JSPROP;JSPTR=\""+path+"\":{\"n\":%d}\r\n", i, i)
	}
	b.WriteString("END:VEVENT\r\n" + more + "END:VCALENDAR\r\n")
	o, err := ReadObject([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestManyExtras reads and changes an event of a stranger with very many JSPROP, which takes no noticeable time.
func TestManyExtras(t *testing.T) {
	t.Parallel()
	const n = 20_000
	o, err := stranger(t, n, "locations/x%d", "").Edit(object(t, `{"title":"t","color":"red"}`))
	if err != nil {
		t.Fatal(err)
	}
	got := string(shown(o, &View{}))
	if strings.Count(got, `:{"n":`) != n || !strings.Contains(got, `"x19999":{"n":19999}`) {
		t.Errorf("%d octets, %.500s", len(got), got)
	}
}

// TestManyKept checks the bound of properties of vendors: more are not shown, stay in the object, and cannot be set.
func TestManyKept(t *testing.T) {
	t.Parallel()
	o, err := stranger(t, 2*maxKept, "x:%d", "").Edit(object(t, `{"title":"t","x:150":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(shown(o, &View{})); strings.Count(got, `"x:`) != maxKept || !strings.Contains(got, `"x:150":1`) {
		t.Errorf("%s", got)
	}
	if n := strings.Count(string(o.Text()), "JSPROP"); n != 2*maxKept {
		t.Errorf("%d are left", n)
	}
	var bad *InvalidError
	if _, err = o.Edit(object(t, `{"x:0":1}`)); !errors.As(err, &bad) {
		t.Error(err)
	}
}

// TestOverridesOfMany checks that overrides of a series with many participants are not much larger than the object, and
// that a change keeps them.
func TestOverridesOfMany(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:202601%02dT000000Z\r\n"+
			"RECURRENCE-ID:202601%02dT000000Z\r\nLOCATION;JSID=here:H\r\nEND:VEVENT\r\n", i+2, i+2)
	}
	o := stranger(t, 1000, "locations/x%d", b.String())
	before := object(t, string(shown(o, &View{}))).Get("recurrenceOverrides")
	if got := len(before.Append(nil)); before.Len() != 20 || got > 10_000 {
		t.Fatalf("%d overrides in %d octets", before.Len(), got)
	}
	if got := string(before.At(0).Append(nil)); !strings.Contains(got, `"locations":{"here":`) {
		t.Error(got)
	}
	o, err := o.EditInstance(occurrence(t, o, "2026-01-03T00:00:00"), object(t, `{"title":"t"}`), object(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	after := object(t, string(shown(o, &View{}))).Get("recurrenceOverrides")
	for i := range before.Len() {
		if name := before.Name(i); name != "2026-01-03T00:00:00" && !before.At(i).Equal(after.Get(name)) {
			t.Errorf("%s is %s", name, after.Get(name).Append(nil))
		}
	}
}

func occurrence(t *testing.T, o *Object, at string) Occurrence {
	t.Helper()
	id, _ := ParseLocal(at)
	x, ok := o.Instance(id)
	if !ok {
		t.Fatal(at)
	}
	return x
}
