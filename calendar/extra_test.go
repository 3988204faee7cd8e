package calendar

import (
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

// TestManyExtras reads and changes an event of a stranger with very many JSPROP, which takes no noticeable time.
func TestManyExtras(t *testing.T) {
	t.Parallel()
	const n = 50_000
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\n" +
		"DTSTART:20260101T000000Z\r\n")
	for i := range n {
		fmt.Fprintf(&b, "JSPROP;JSPTR=\"x:%d\":%d\r\n", i, i)
	}
	b.WriteString("END:VEVENT\r\nEND:VCALENDAR\r\n")
	o, err := ReadObject([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if o, err = o.Edit(object(t, `{"title":"t","x:7":"seven"}`)); err != nil {
		t.Fatal(err)
	}
	got := string(shown(o, &View{}))
	if strings.Count(got, `"x:`) != n || !strings.Contains(got, `"x:7":"seven"`) ||
		!strings.Contains(got, `"x:49999":49999`) {
		t.Errorf("%d octets, %.500s", len(got), got)
	}
}
