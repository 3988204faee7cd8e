package managesieve_test

import (
	"reflect"
	"strings"
	"testing"

	"doublet/wire/managesieve"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]managesieve.Command{
		"noop": {Name: "NOOP"},
		"HAVESPACE \"a b\" 99": {Name: "HAVESPACE", Args: []managesieve.Argument{{Text: "a b"},
			{IsNumber: true, Number: 99}}},
		"PUTSCRIPT \"a\\\"\" {3+}\r\nx\ny": {Name: "PUTSCRIPT", Args: []managesieve.Argument{{Text: `a"`},
			{Text: "x\ny"}}},
		"X {1}\r\na \"\"": {Name: "X", Args: []managesieve.Argument{{Text: "a"}, {}}},
	} {
		if got, err := managesieve.Parse([]byte(in)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v %v", in, got, err)
		}
	}
	for _, in := range []string{"", " x", "A1", "A x", "A \"x", "A {9}\r\nx", "A \"\"\"\"", "A \"\xff\"",
		"A 1 2 3 4 5"} {
		if _, err := managesieve.Parse([]byte(in)); err == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("PUTSCRIPT \"a\" {3+}\r\nx\ny", "text")
	f.Fuzz(func(t *testing.T, line, s string) {
		_, _ = managesieve.Parse([]byte(line))
		c, err := managesieve.Parse(managesieve.AppendString([]byte("X "), strings.ToValidUTF8(s, "")))
		if err != nil || c.Args[0].Text != strings.ToValidUTF8(s, "") {
			t.Fatalf("%q: %+v %v", s, c, err)
		}
	})
}
