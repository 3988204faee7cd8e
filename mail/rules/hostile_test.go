package rules_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"doublet/mail/rules"
	"doublet/wire/sieve"
)

// big is a message with a long header and a long body.
func big() *rules.Message {
	return &rules.Message{From: "a@example.org", To: "b@example.com", Raw: []byte("From: a@example.org\r\nSubject: " +
		strings.Repeat("aaaa ", 2000) + "\r\n\r\n" + strings.Repeat("aaaaaaaaaaaaaaaaaaaa\r\n", 40_000))}
}

// TestHostile checks that scripts which are made to take long or to grow end with the message kept.
func TestHostile(t *testing.T) {
	t.Parallel()
	keys := strings.TrimSuffix(strings.Repeat(`"aaaaaaaaaab",`, 15_000), ",")
	grow := `require "variables"; set "a" "` + strings.Repeat("x", 4000) + `";`
	for name, script := range map[string]string{
		"10000 keys over a long body": `require "body"; if body :raw :contains [` + keys + `] { discard; }`,
		"globs that backtrack": `require "body"; if body :raw :matches ["` + strings.Repeat("*a", 200) +
			`*b*c"] { discard; }`,
		"regular expressions " +
			"explode": `require ["regex", "body"]; if body :raw :regex ["(a+)+$x", "(a|aa)+$y", "(a*)*b"] { discard; }`,
		"actions":       `require "fileinto";` + repeat(`fileinto "f%d";`, 100),
		"notifications": `require "enotify";` + repeat(`notify "mailto:a%d@example.com";`, 10),
		"variables":     `require "variables";` + repeat(`set "v%d" "x";`, 300),
		"header fields": `require "editheader";` + repeat(`addheader "X-%d" "x";`, 100),
		"large automaton": `require ["regex", "body"]; if body :raw :regex "` +
			strings.Repeat("a?.{0,200}a.{0,200}b", 20) + `x$" { discard; }`,
		"questions about folders": `require "mailbox"; if mailboxexists [` +
			strings.TrimSuffix(strings.Repeat(`"a",`, 15_000), ",") + `] { discard; }`,
		"types of bodies": `require "body";` +
			repeat(`if body :content "x/%d" :contains "a" { discard; }`, 17),
		"folded header": `require ["relational", "editheader", "index"];` +
			repeat(`deleteheader "X-%d"; addheader "Y" "y"; if header :count "gt" "subject" "5" { discard; }`, 40) +
			repeat(`if anyof (`+strings.TrimSuffix(strings.Repeat(
				`header :index 1 :count "gt" "subject" "5", `, 100), ", ")+`) { discard; } # %d`, 20),
		"regular expressions by values": `require ["regex", "variables"]; set "v" "x";` +
			repeat(`if header :regex "subject" "${v}%d" { discard; }`, 100),
	} {
		p, err := rules.Compile("", script)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := rules.Run(p, big(), &rules.World{Now: now, Mailbox: func(string) bool { return true }})
		if o.Err == nil || len(o.Filings) != 1 || o.Filings[0].Folder != "" || len(o.Redirects)+len(o.Notices) > 0 {
			t.Errorf("%s: %+v, want an error and the message kept", name, o)
		}
	}
	// A string of many variables is cut.
	p, err := rules.Compile("", grow+`if string :contains "`+strings.Repeat("${a}", 40_000)+`" "y" { discard; }`)
	if err != nil {
		t.Fatal(err)
	}
	if o := rules.Run(p, big(), &rules.World{Now: now}); o.Err != nil || len(o.Filings) != 1 {
		t.Errorf("%+v", o)
	}
}

// allocated returns the bytes that fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestMemory checks that a script takes memory in proportion to its size, not to its square, and that strings of
// variables do not take much more. It runs alone, because it counts what the process allocates.
func TestMemory(t *testing.T) { //nolint:paralleltest // see above
	if n := allocated(func() {
		_, _ = rules.Compile("", `require "variables"; set "a" "`+strings.Repeat("${", 60_000)+`A}";`)
		_, _ = rules.Compile("", `require "encoded-character"; keep; # x
			redirect "`+strings.Repeat("${", 60_000)+`HEX: 40}";`)
	}); n > 20<<20 {
		t.Errorf("compiled with %d MB", n>>20)
	}
	long := `"` + strings.Repeat("${a}", 16) + `",`
	p, err := rules.Compile("", `require "variables"; set "a" "`+strings.Repeat("x", 4000)+`";
		if string :contains [`+strings.TrimSuffix(strings.Repeat(long, 1700), ",")+`] "y" { stop; }`)
	if err != nil {
		t.Fatal(err)
	}
	var o rules.Outcome
	if n := allocated(func() { o = rules.Run(p, big(), &rules.World{Now: now}) }); n > 60<<20 || o.Err == nil {
		t.Errorf("%d MB, %v", n>>20, o.Err)
	}
	// Two hundred regular expressions of 20,000 instructions each would stay in memory with the program.
	_, err = rules.Compile("", `require "regex";`+
		repeat(`if header :regex "x" "%d`+strings.Repeat("a{900}", 15)+`" { keep; }`, 5))
	if err == nil || !strings.Contains(err.Error(), "too large together") {
		t.Errorf("%v", err)
	}
}

// TestLongHeader checks that an edit of the header keeps the fields that are not looked at.
func TestLongHeader(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\r\n\r\nbody", "\r\n", ""} {
		raw := repeat("A%d: x\r", 5000) + "Last: z" + end
		p, err := rules.Compile("", `require "editheader"; addheader "New" "n"; deleteheader "A7";`)
		if err != nil {
			t.Fatal(err)
		}
		o := rules.Run(p, &rules.Message{Raw: []byte(raw)}, &rules.World{Now: now})
		want := "New: n\r\n" + strings.Replace(repeat("A%d: x\r", 5000), "A7: x\r\n", "", 1) + "Last: z\r\n\r\n"
		if string(o.Header) != want {
			t.Errorf("%q: %d bytes, want %d", end, len(o.Header), len(want))
		}
	}
}

func repeat(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

// TestManyRules checks that 10,000 rules are refused, not truncated.
func TestManyRules(t *testing.T) {
	t.Parallel()
	_, err := rules.Compile("", repeat(`if header :is "x" "%d" { keep; }`, 10_000))
	if err == nil || !strings.Contains(err.Error(), "larger than") && !strings.Contains(err.Error(), "more than 5000") {
		t.Errorf("%v", err)
	}
}

// twenty are rules as people have them.
func twenty() string {
	var b strings.Builder
	b.WriteString("require [\"fileinto\", \"imap4flags\"];\n")
	for i := range 7 {
		fmt.Fprintf(&b, "if header :contains \"list-id\" \"list%d.example.org\" { fileinto \"Lists/%d\"; stop; }\n",
			i, i)
		fmt.Fprintf(&b,
			"if address :domain \"from\" [\"shop%d.example\", \"bank%d.example\"] { fileinto \"Shop\"; }\n", i, i)
		if i < 6 {
			fmt.Fprintf(&b,
				"if allof (header :matches \"subject\" \"*report %d*\", size :over 1K) { addflag \"r%d\"; }\n", i, i)
		}
	}
	return b.String()
}

func BenchmarkTwentyRules(b *testing.B) {
	p, err := rules.Compile("", twenty())
	if err != nil {
		b.Fatal(err)
	}
	var head strings.Builder
	for i := range 20 {
		fmt.Fprintf(&head, "X-Field-%d: some value of a usual length, folded\r\n\tonce or twice\r\n", i)
	}
	m := &rules.Message{From: "a@example.org", To: "b@example.com", Raw: []byte("Return-Path: <a@example.org>\r\n" +
		head.String() + "From: Alice <a@example.org>\r\nTo: b@example.com\r\nSubject: The weekly report\r\n" +
		"Message-ID: <1@example.org>\r\n\r\n" + strings.Repeat("body\r\n", 1000))}
	b.ReportAllocs()
	for b.Loop() {
		if o := rules.Run(p, m, &rules.World{Now: now}); o.Err != nil {
			b.Fatal(o.Err)
		}
	}
}

func FuzzRun(f *testing.F) {
	f.Add(twenty(), "Subject: x\r\n\r\nbody")
	f.Add(`require ["variables","regex","body","editheader","date","index"]; if header :regex "subject" "(.*)" `+
		`{ addheader "${1}" "x"; deleteheader :index 1 "Subject"; } if body :content "text" :matches "*" { keep; }`,
		"Subject: x\r\n\r\nbody")
	f.Fuzz(func(t *testing.T, script, message string) {
		p, err := rules.Compile("", script)
		if err != nil {
			return
		}
		o := rules.Run(p, &rules.Message{Raw: []byte(message)}, &rules.World{Now: now})
		if o.Err != nil && len(o.Filings) != 1 {
			t.Fatalf("%+v", o)
		}
		if tree, err := sieve.Parse(script); err != nil || sieve.Check(tree) != nil {
			t.Fatal("compiled, but not valid")
		}
	})
}
