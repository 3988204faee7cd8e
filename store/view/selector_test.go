package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"doublet/note"
)

func match(t *testing.T, selector, doc string) (bool, error) {
	t.Helper()
	s, err := ParseSelector([]byte(selector))
	if err != nil {
		return false, err
	}
	d, err := decode([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	m := d.(map[string]any)
	return s.Match(func(name string) (any, bool) { v, ok := m[name]; return v, ok }), nil
}

func TestSelector(t *testing.T) {
	t.Parallel()
	doc := `{"a":1,"s":"Hello","l":[1,2,{"x":5}],"m":{"n":{"o":true}},"d.t":"dot","z":null,"f":1.5}`
	for _, x := range []struct {
		selector string
		want     bool
	}{
		{`{}`, true}, {`{"a":1}`, true}, {`{"a":1.0}`, true}, {`{"a":2}`, false}, {`{"a":{"$eq":1}}`, true},
		{`{"a":{"$ne":1}}`, false}, {`{"a":{"$ne":"1"}}`, true}, {`{"none":{"$ne":1}}`, false},
		{`{"a":{"$gt":0,"$lt":2}}`, true},
		{`{"a":{"$gte":1}}`, true}, {`{"a":{"$gt":1}}`, false}, {`{"a":{"$lte":0}}`, false}, {`{"s":{"$gt":99}}`, true},
		{`{"s":{"$lt":"hellp"}}`, true},
		{`{"a":{"$in":[3,1]}}`, true}, {`{"a":{"$nin":[3,1]}}`, false}, {`{"none":{"$nin":[1]}}`, false},
		{`{"none":{"$exists":false}}`, true},
		{`{"z":{"$exists":true}}`, true}, {`{"z":null}`, true}, {`{"none":null}`, false},
		{`{"s":{"$regex":"^H.l+o$"}}`, true}, {`{"a":{"$regex":"1"}}`, false},
		{`{"m.n.o":true}`, true}, {`{"m":{"n":{"o":true}}}`, true}, {`{"m":{"n.o":false}}`, false},
		{`{"m.q":{"$exists":true}}`, false},
		{`{"d\\.t":"dot"}`, true}, {`{"d.t":"dot"}`, false}, {`{"l":{"$size":3}}`, true},
		{`{"l":{"$elemMatch":{"$gt":1,"$lt":3}}}`, true},
		{`{"l":{"$elemMatch":{"x":5}}}`, true}, {`{"l":{"$elemMatch":{"x":6}}}`, false}, {`{"l":[1,2,{"x":5}]}`, true},
		{`{"l":2}`, false},
		{`{"$or":[{"a":2},{"s":"Hello"}]}`, true}, {`{"$or":[]}`, false}, {`{"$and":[{"a":1},{"s":"x"}]}`, false},
		{`{"$and":[]}`, true},
		{`{"$not":{"a":2}}`, true}, {`{"$nor":[{"a":2},{"a":1}]}`, false}, {`{"$nor":[{"a":2}]}`, true},
		{`{"a":{"$not":{"$gt":5}}}`, true},
		{`{"f":{"$gt":1,"$lt":2}}`, true}, {`{"m":{}}`, false}, {`{"a":{"$lt":"a"}}`, true},
		{`{"l":{"$gt":{}}}`, false},
	} {
		got, err := match(t, x.selector, doc)
		if err != nil || got != x.want {
			t.Errorf("%s: %v, %v", x.selector, got, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{"a":{"$foo":1}}`, `{"$eq":1}`, `{"a":{"$in":1}}`, `{"$and":{}}`,
		`{"a":{"$regex":"("}}`, `{"a":{"$regex":1}}`,
		`{"a":{"$size":-1}}`, `{"a":{"$exists":1}}`, `{} {}`, `{"a":{"$regex":"` + strings.Repeat("a", 2000) + `"}}`,
		strings.Repeat(`{"$not":`, 40) + `{}` + strings.Repeat(`}`, 40)} {
		if _, err := ParseSelector([]byte(bad)); !errors.Is(err, ErrDefinition) {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

func TestDefinitionErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{``, `{}`, `{"columns":[]}`, `{"columns":[{"item":""}]}`,
		`{"columns":[{"item":"a","sort":"up"}]}`, `{"columns":[{"item":"a","total":"mean"}]}`,
		`{"columns":[{"item":"a","sort":"asc"},{"item":"b","category":true}]}`, `{"columns":[{"item":"a"}],"extra":1}`,
		`{"columns":[{"item":"a"}],"selector":{"$x":1}}`} {
		if _, err := ParseDefinition([]byte(bad)); !errors.Is(err, ErrDefinition) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// ordered lists values in their sort order.
var ordered = []any{
	nil, false, true, math.Inf(-1), int64(math.MinInt64), int64(math.MinInt64 + 1), -1e10, int64(-2), -1.5, int64(-1),
	int64(0), 0.5, int64(1), 1.5,
	int64(1<<53 - 1), int64(1 << 53), int64(1<<53 + 1), int64(1<<53 + 2), int64(math.MaxInt64 - 1),
	int64(math.MaxInt64), float64(1 << 63), math.Inf(1),
	"", "a", "a\x00", "á", "ab", "b", "B", "z",
	[]any{}, []any{nil}, []any{int64(1)}, []any{int64(1), "a"}, []any{int64(2)}, []any{"a"}, []any{[]any{}},
	map[string]any{}, map[string]any{"a": int64(1)}, map[string]any{"a": int64(1), "b": int64(1)},
	map[string]any{"a": int64(2)}, map[string]any{"b": nil},
}

func TestKeysSortAsValuesDo(t *testing.T) {
	t.Parallel()
	for i, a := range ordered {
		for j, b := range ordered {
			ka, kb := appendKey(nil, a), appendKey(nil, b)
			if want := i - j; sign(bytes.Compare(ka, kb)) != sign(want) || sign(compare(a, b)) != sign(want) {
				t.Errorf("%#v and %#v: keys %d, values %d, want %d", a, b, bytes.Compare(ka, kb), compare(a, b), want)
			}
			if i != j && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
				t.Errorf("the key of %#v begins that of %#v", a, b)
			}
			invert(ka)
			invert(kb)
			if sign(bytes.Compare(ka, kb)) != -sign(i-j) {
				t.Errorf("%#v and %#v: wrong order inverted", a, b)
			}
		}
	}
	long := strings.Repeat("x", 600)
	if bytes.Equal(appendKey(nil, long+"a"), appendKey(nil, long+"b")) {
		t.Error("long texts that differ at the end share a key")
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{tasks, `{"a":{"$gt":1}}`,
		`{"$or":[{"a.b":{"$elemMatch":{"$in":[1,"x",null]}}},{"c":{"$regex":"a+"}}]}`,
		`{"$not":{"a":{"$not":{"$size":1}}}}`} {
		f.Add([]byte(s), []byte(`{"a":{"b":[1,"x"]},"c":"aaa"}`))
	}
	f.Fuzz(func(t *testing.T, selector, doc []byte) {
		s, err := ParseSelector(selector)
		if err != nil {
			return
		}
		v, err := note.FromJSON(doc)
		if err != nil {
			return
		}
		m, ok := v.Any().(map[string]any)
		if !ok {
			return
		}
		field := func(name string) (any, bool) { v, ok := m[name]; return v, ok }
		first, second := s.Match(field), s.Match(field)
		if first != second {
			t.Fatal("matches once and not twice")
		}
		not, err := ParseSelector([]byte(`{"$not":` + string(selector) + `}`))
		if err == nil && not.Match(field) == s.Match(field) {
			t.Fatal("a selector and its negation agree")
		}
	})
}

func FuzzKeys(f *testing.F) {
	for _, v := range []string{`1`, `"a"`, `[1,"x"]`, `{"a":[null]}`, `1e300`, `"\u0000"`, `9007199254740993`} {
		f.Add([]byte(v), []byte(`"b"`))
	}
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, errA := decode(x)
		b, errB := decode(y)
		if errA != nil || errB != nil || len(x) > 200 || len(y) > 200 {
			return
		}
		ka, kb := appendKey(nil, a), appendKey(nil, b)
		if c := compare(a, b); sign(c) != sign(bytes.Compare(ka, kb)) {
			// Keys of long lists and maps are cut, so their order differs.
			if len(ka) < keyText && len(kb) < keyText {
				t.Fatalf("%s and %s: values %d, keys %d", x, y, c, bytes.Compare(ka, kb))
			}
		}
		if !bytes.Equal(ka, kb) && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			t.Fatalf("the key of one of %s and %s begins the other's", x, y)
		}
	})
}

func FuzzDefinition(f *testing.F) {
	f.Add([]byte(tasks), []byte(`{"Form":"Task","Prio":3,"Cat":["a","b"]}`))
	f.Add([]byte(titles), []byte(`{"Form":"Memo","Title":"x"}`))
	f.Fuzz(func(t *testing.T, def, doc []byte) {
		d, err := ParseDefinition(def)
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(doc, &m) != nil {
			return
		}
		var list []note.Item
		for k, raw := range m {
			v, err := note.FromJSON(raw)
			if err != nil {
				return
			}
			list = append(list, note.Item{Name: k, Value: v})
		}
		rows := d.rows(note.UNID{1}, &note.Content{Items: note.MakeItems(list...)})
		if len(rows) > maxEntries {
			t.Fatalf("%d rows", len(rows))
		}
		for i := range rows {
			e, err := readEntry(appendEntry(nil, &rows[i].value))
			if err != nil || len(e.values) != len(d.Columns) || len(e.ends) != d.categories {
				t.Fatal(e, err)
			}
		}
	})
}
