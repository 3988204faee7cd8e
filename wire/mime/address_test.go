package mime

import (
	"fmt"
	"strings"
	"testing"
)

// show prints addresses as name|mailbox|host, with |route if set, and group markers with a G before them.
func show(list []Address) string {
	var out []string
	for _, a := range list {
		s := a.Name + "|" + a.Mailbox + "|" + a.Host
		if a.Route != "" {
			s += "|" + a.Route
		}
		if a.Group {
			s = "G" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " / ")
}

func TestParseAddressList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{" , ,", ""},
		{"a@b", "|a|b"},
		{"a.b@c.d", "|a.b|c.d"},
		{"<a@b>", "|a|b"},
		{"Ann <a@b>, c@d", "Ann|a|b / |c|d"},
		{`"Ann \"X\" B" <a@b>`, `Ann "X" B|a|b`},
		{"John Q. Public <a@b>", "John Q. Public|a|b"},
		{`Joe "the man" Doe<a@b>`, "Joe the man Doe|a|b"},
		{"a@b (Ann Example)", "Ann Example|a|b"},
		{"(x) a (y) @ (z) b (Ann \\( (nested))", "Ann ( (nested)|a|b"},
		{"Ann (comment) <a@b>", "Ann|a|b"},
		{`"john doe"@b`, "|john doe|b"},
		{"a . b @ c . d", "|a.b|c.d"},
		{"a@[127.0.0.1]", "|a|[127.0.0.1]"},
		{"<@x,@y:a@b>", "|a|b|@x,@y"},
		{"Ann <@x.example , ,@y:a@b>", "Ann|a|b|@x.example,,@y"},
		{"<,@x:a@b>", "|a|b|@x"},
		{"<@x a@b>", "|a|b"},
		{"Friends: a@b, Carl <c@d>;, e@f", "G|Friends| / |a|b / Carl|c|d / G|| / |e|f"},
		{"undisclosed-recipients:;", "G|undisclosed-recipients| / G||"},
		{"open: a@b", "G|open| / |a|b / G||"},
		{"=?utf-8?Q?a=2Cb?= <a@b>", "=?utf-8?Q?a=2Cb?=|a|b"},
		{"Jürgen <jü@exämple.de>", "Jürgen|jü|exämple.de"},
		{"root", "|root|"},
		{"root (Charlie Root)", "Charlie Root|root|"},
		{"two words", "|two words|"},
		{"a@b; c@d", "|a|b / |c|d"},
		{"Ann Example ann@b", "Ann Example|ann|b"},
		{"Ann <a@b", "Ann|a|b"},
		{"Ann <a@b, c@d", "Ann|a|b / |c|d"},
		{"Ann <>", "Ann||"},
		{"<>", ""},
		{"<a@b@c>", "|a@b|c"},
		{"<a b@c>", "|ab|c"},
		{"[list] <a@b>", "[list]|a|b"},
		{`"Ann <a@b>, c@d`, "Ann|a|b / |c|d"},
		{"a@b> x, c@d", "|a|b / |c|d"},
		{"@b", "||b"},
		{"a@", "|a|"},
		{"Ann\r\n <a@b>,\r\n\tc@d", "Ann|a|b / |c|d"},
	} {
		if got := show(ParseAddressList([]byte(c.in))); got != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestParseAddressListBounded(t *testing.T) {
	t.Parallel()
	if n := len(ParseAddressList([]byte(strings.Repeat("a,", 50_000)))); n > maxAddresses+1 {
		t.Errorf("%d addresses", n)
	}
	// A naive parser takes quadratic time for each of these: a quarter of a megabyte would run for minutes.
	for _, s := range []string{`"\",\`, "<@", "(", "a.", ". ", "@a", "<a@b@", "a ", `"`, "a:", "[", "a@b.(x)"} {
		ParseAddressList([]byte(strings.Repeat(s, 1<<18/len(s))))
	}
}

func TestParseMailbox(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a@example.com":            "|a|example.com",
		" Ann <a@example.com> ":    "Ann|a|example.com",
		`"a b"@example.com`:        "|a b|example.com",
		"a+x@[192.0.2.1]":          "|a+x|[192.0.2.1]",
		"grüße@bücher.example":     "|grüße|bücher.example",
		"a@example.com (Ann Name)": "Ann Name|a|example.com",
	} {
		a, err := ParseMailbox(in)
		if err != nil || show([]Address{a}) != want {
			t.Errorf("%q: %v %v", in, a, err)
		}
	}
	for _, in := range []string{"", "a", "a@", "@b", "a@b@c", "a b@c", "a@b, c@d", "g: a@b;", "a@b;", "<>",
		"<a@b", "a@b>",
		"a@b..c", "a@.b", "a@b\x00", "a@b\n", "a@b c", "a@b/c", `"a@b`, "a@[x", "<a@b> x",
		"a@" + strings.Repeat("x", 64)} {
		if a, err := ParseMailbox(in); err == nil {
			t.Errorf("%q: accepted as %v", in, a)
		}
	}
	if _, err := ParseMailbox("x"); fmt.Sprint(err) != ErrAddress.Error() {
		t.Error(err)
	}
}
