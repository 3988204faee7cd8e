package sieve_test

import (
	"reflect"
	"strings"
	"testing"

	"doublet/wire/sieve"
)

// valid are scripts that must be accepted, and printed so that they read back the same.
var valid = []string{
	``,
	"# nothing but a comment\n",
	`keep; stop;`,
	`require ["fileinto", "copy"]; if header :contains "Subject" ["a", "b"] { fileinto :copy "A/B"; }` +
		` else { discard; }`,
	"/* over\n two lines */ if not anyof (true, allof(false, size :over 10K), exists \"X-Spam\") { keep; } elsif " +
		"false { stop; }",
	"require \"vacation\"; vacation :days 3 :subject \"Away\" text:\nI am away.\n..dot\n\n.\n;",
	`require ["variables", "regex"]; set :lower :length "n" "${1}"; if string :regex "${n}" "^[0-9]+$" { keep; }`,
	`require "imap4flags"; setflag "\\Seen"; addflag ["a", "b"]; if hasflag :is "a" { keep :flags "\\Flagged"; }`,
	`require ["date", "index", "relational"]; if date :value "ge" :index 2 :last :zone "+0100" "Received" "date"` +
		` "2026-01-01" { keep; }`,
	`require ["mailbox", "special-use", "fileinto"]; if mailboxexists "A" {` +
		` fileinto :create :specialuse "\\Archive" "B"; }`,
	`require ["body", "subaddress", "envelope"]; if allof(body :content "text" :contains "x",` +
		` envelope :detail "to" "list") { keep; }`,
	`require ["editheader"]; addheader :last "X-A" "b"; deleteheader :index 1 "X-B"; deleteheader "X-C" ["d"];`,
	`require ["enotify", "ihave", "environment", "duplicate"]; if duplicate :seconds 60 {` +
		` notify :message "m" "mailto:a@example.com?subject=x"; }`,
	`require "ihave"; if ihave "vnd.example.magic" { magic :wand "x"; } else { keep; }`,
	`require "include"; include :once :optional "other"; return;`,
	"keep\r\n;\r\n",
}

func TestValid(t *testing.T) {
	t.Parallel()
	for _, text := range valid {
		s, err := sieve.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		printed := sieve.Print(s)
		again, err := sieve.Parse(printed)
		if err != nil || !reflect.DeepEqual(bare(s.Commands), bare(again.Commands)) {
			t.Errorf("%s\nis printed as\n%s\n%v", text, printed, err)
		}
		if err := sieve.Check(s); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// bare returns nodes without their lines.
func bare(list []*sieve.Node) []sieve.Node {
	var out []sieve.Node
	for _, n := range list {
		c := sieve.Node{Name: n.Name, Comment: n.Comment, List: n.List, Braces: n.Braces}
		for _, a := range n.Args {
			a.Line = 0
			c.Args = append(c.Args, a)
		}
		for _, x := range bare(n.Tests) {
			c.Tests = append(c.Tests, &x)
		}
		for _, x := range bare(n.Block) {
			c.Block = append(c.Block, &x)
		}
		out = append(out, c)
	}
	return out
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"keep", `line 1: expected ; or { after keep, found the end of the script`},
		{"\nfoo;", `line 2: unknown command "foo"`},
		{"if true keep;", `unknown test "keep"`},
		{"if { keep; }", `if needs one test`},
		{"else { keep; }", `else must follow if or elsif`},
		{"keep; require \"fileinto\";", `require must come before all other commands`},
		{"fileinto \"x\";", `fileinto needs: require "fileinto";`},
		{"require \"nothing\";", `unsupported capability "nothing"`},
		{"if header :is :contains \"a\" \"b\" { keep; }", `contradicts another tag`},
		{"if header :is \"a\" { keep; }", `header needs 2 arguments, found 1`},
		{"if header :regex \"a\" \"b\" { keep; }", `:regex needs: require "regex";`},
		{"require \"regex\"; if header :regex \"a\" \"(\" { keep; }", `invalid regular expression: missing closing )`},
		{"require \"regex\"; if header :regex \"a\" \"" + strings.Repeat("[a-z]{900}", 90) + "\" { keep; }",
			`regular expression is too large`},
		{"if size 10 { keep; }", `size needs the tag :over or :under`},
		{"if size :over 10X { keep; }", `unknown quantifier`},
		{"if size :over 99999999999G { keep; }", `number is too large`},
		{"redirect \"nobody\";", `redirect needs an address`},
		{"keep \"x\";", `keep needs 0 arguments, found 1`},
		{"stop { keep; }", `stop takes no block`},
		{"if not (true) { keep; }", `not needs one test`},
		{"if allof true { keep; }", `allof needs a list of tests`},
		{"keep; \"x\";", `expected a command`},
		{"keep; /* x", `comment has no end`},
		{"redirect \"x", `string has no end`},
		{"redirect text:\nx\n", `text: has no end`},
		{"require \"date\"; if currentdate \"eon\" \"1\" { keep; }", `unknown part of a date "eon"`},
		{"require \"enotify\"; notify \"xmpp:a@b\";", `unknown notification method`},
		{"require \"include\"; include :global \"x\";", `include :global names no script`},
		{"keep;\xff", `script is not UTF-8`},
		{"keep;\x00", `script contains a NUL byte`},
		{strings.Repeat("if true {", 100), `blocks and tests are nested deeper than 32`},
		{"if " + strings.Repeat("not ", 100) + "true { keep; }", `blocks and tests are nested deeper than 32`},
		{strings.Repeat("keep;", 6000), `more than 5000 commands`},
		{strings.Repeat(" ", sieve.MaxSize+1), `script is larger than`},
	} {
		s, err := sieve.Parse(c.text)
		if err == nil {
			err = sieve.Check(s)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestEncodedCharacters checks the examples of the RFC, and that the script keeps its own spelling.
//
// Implements: RFC 5228 §2.4.2.4 encoded characters
func TestEncodedCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`$${hex:40}`, `$@`}, {`${hex: 40 }`, `@`}, {`${HEX: 40}`, `@`}, {`${hex:40`, `${hex:40`},
		{`${hex:400}`, `${hex:400}`}, {`${hex:4${hex:30}}`, `${hex:40}`}, {`${unicode:40}`, `@`},
		{`${ unicode:40}`, `${ unicode:40}`}, {`${unicode:Cool}`, `${unicode:Cool}`}, {`${hex: c3 a9}`, `é`},
	} {
		s, err := sieve.Parse(`require ["encoded-character","fileinto"]; fileinto ` + sieve.Quote(c.in) + `;`)
		if err == nil {
			err = sieve.Check(s)
		}
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		n := s.Commands[1]
		if got := n.Values[0].Text; got != c.want || n.Args[0].Text != c.in {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range valid {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sieve.Parse(text)
		if err != nil {
			return
		}
		printed := sieve.Print(s)
		again, err := sieve.Parse(printed)
		if err != nil {
			if len(printed) > sieve.MaxSize {
				return
			}
			t.Fatalf("%q is printed as %q: %v", text, printed, err)
		}
		if !reflect.DeepEqual(bare(s.Commands), bare(again.Commands)) {
			t.Fatalf("%q is printed as %q", text, printed)
		}
		_ = sieve.Check(s)
	})
}

func FuzzMailto(f *testing.F) {
	f.Add("mailto:a@example.com?subject=x&body=y&x-z=%20")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := sieve.ParseMailto(s)
		if err == nil && len(m.To) == 0 {
			t.Fatal("no recipient")
		}
	})
}
