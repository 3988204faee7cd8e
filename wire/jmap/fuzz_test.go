package jmap

import (
	"strings"
	"testing"
)

// FuzzRequest checks that a parsed request is the same after printing and parsing again, and so is a response made from
// it.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{"a":[1,-2.5e3,"\u00e4\ud83d\ude00\n",` +
			`null,true]},"0"]],"createdIds":{"a":"b"}}`,
		`{"using":[],"methodCalls":[]}`, `{"methodCalls":[["a",{},"b","c"]],"using":[1]}`, `[`, `{"a":1,"a":2}`, "\xff",
		`"\ud800"`, `{"\u0041":{}}`, `01`, `-`,
		`{"using":[],"methodCalls":[["",{"#a":{"resultOf":"0","name":"x","path":"/*"}},""]]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := Parse(s, Bounds{Depth: 50, Values: 10_000}); err == nil {
			again, err := Parse(string(v.Append(nil)), Bounds{})
			if err != nil || string(again.Append(nil)) != string(v.Append(nil)) {
				t.Fatalf("%q is printed as %q: %v", s, v.Append(nil), err)
			}
			if p := ReadProblem(v, 500); p.Error() == "" {
				t.Error("a problem without words")
			}
			ReadError(v)
		}
		r, err := ParseRequest(s, 10)
		if err != nil {
			if p, ok := err.(*Problem); !ok || p.Type == "" || p.Status != 400 {
				t.Fatalf("%v is no problem", err)
			}
			return
		}
		if len(r.Calls) > 10 {
			t.Fatalf("%d calls", len(r.Calls))
		}
		w := NewWriter(nil)
		w.Name("methodResponses")
		w.B = append(w.B, '[')
		for i, c := range r.Calls {
			if i > 0 {
				w.B = append(w.B, ',')
			}
			w.B = append(AppendString(append(w.B, '['), c.Name), ',')
			w.B = AppendString(append(c.Args.Append(w.B), ','), c.ID)
			w.B = append(w.B, ']')
		}
		w.B = append(w.B, ']')
		back, err := ParseResponse(string(w.End()), Bounds{})
		if err != nil || len(back.Calls) != len(r.Calls) {
			t.Fatalf("%v", err)
		}
		for i, c := range r.Calls {
			if b := back.Calls[i]; b.Name != c.Name || b.ID != c.ID ||
				string(b.Args.Append(nil)) != string(c.Args.Append(nil)) {
				t.Fatalf("%v came back as %v", c, b)
			}
		}
	})
}

// FuzzPointer checks that a reference into a printed value finds the same as a walk of its tree.
func FuzzPointer(f *testing.F) {
	for _, s := range [][2]string{
		{`{"list":[{"id":"a","x":{"y":[1,2]}},{"id":"b","x":{"y":[]}}]}`, "/list/*/id"},
		{`{"list":[{"y":[1,2]},{"y":[3]}]}`, "/list/*/y"},
		{`{"a/b":{"~":1}}`, "/a~1b/~0"}, {`[[1],[2]]`, "/1/0"}, {`{"a":"]}\\\""}`, "/a"}, {`{"":{"":0}}`, "//"},
		{`[]`, "/*"}, {`{"a":[{}]}`, "/a/00"}, {`{"a":1}`, "a"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		v, err := Parse(text, Bounds{Values: 1000})
		if err != nil || strings.Contains(text, `\`) { // names with escapes are not supported
			return
		}
		got, ok := Refer(v.Append(nil), path)
		want, wantOK := walk(v, path)
		if ok != wantOK || ok && string(got.Append(nil)) != string(want.Append(nil)) {
			t.Fatalf("%s %q: %s %v, want %s %v", v.Append(nil), path, got.Append(nil), ok, want.Append(nil), wantOK)
		}
	})
}

// walk implements RFC 8620 section 3.7 on a tree, word for word.
func walk(v *Value, path string) (Value, bool) {
	if path == "" {
		return *v, true
	}
	if path[0] != '/' || len(path) > 1000 {
		return Value{}, false
	}
	token, rest := path[1:], ""
	if i := strings.IndexByte(token, '/'); i >= 0 {
		token, rest = token[:i], token[i:]
	}
	token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	switch {
	case v.Kind() == Object:
		if m := v.Get(token); m != nil {
			return walk(m, rest)
		}
	case v.Kind() == Array && token == "*":
		out := Value{kind: Array}
		for i := range v.Len() {
			x, ok := walk(v.At(i), rest)
			if !ok {
				return Value{}, false
			}
			if x.Kind() == Array {
				out.items = append(out.items, x.items...)
			} else {
				out.items = append(out.items, x)
			}
		}
		return out, true
	case v.Kind() == Array && token != "" && strings.Trim(token, "0123456789") == "" &&
		(token == "0" || token[0] != '0') && len(token) < 8:
		n := 0
		for _, c := range token {
			n = 10*n + int(c-'0')
		}
		if n < v.Len() {
			return walk(v.At(n), rest)
		}
	}
	return Value{}, false
}
