package smtp

import (
	"strings"
	"testing"
)

func TestParseCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		verb Verb
		arg  string
		bad  *Reply
	}{
		{"NOOP\r\n", NOOP, "", nil},
		{"noop  a b \r\n", NOOP, "a b", nil},
		{"StartTLS\r\n", STARTTLS, "", nil},
		{"mAIL FROM:<a@b>\r\n", MAIL, "FROM:<a@b>", nil},
		{"MAILX\r\n", Unknown, "", nil},
		{"\r\n", Unknown, "", nil},
		{" NOOP\r\n", Unknown, "NOOP", nil},
		{"N\x0fOP\r\n", Unknown, "", ErrControl},
		{"NOOP\n", Unknown, "", ErrBareLF},
		{"NOOP", Unknown, "", ErrBareLF},
		{"NO\rOP\r\n", Unknown, "", ErrControl},
		{"NOOP \x00\r\n", Unknown, "", ErrControl},
		{"NOOP\r\r\n", Unknown, "", ErrControl},
	} {
		cmd, bad := ParseCommand([]byte(tc.in), false)
		if cmd.Verb != tc.verb || string(cmd.Arg) != tc.arg || bad != tc.bad {
			t.Errorf("%q: %v %q %v", tc.in, cmd.Verb, cmd.Arg, bad)
		}
	}
	if cmd, bad := ParseCommand([]byte("QUIT\n"), true); bad != nil || cmd.Verb != QUIT {
		t.Error("lenient", cmd, bad)
	}
	for v := EHLO; v <= STARTTLS; v++ {
		if cmd, _ := ParseCommand([]byte(strings.ToLower(v.String())+"\r\n"), false); cmd.Verb != v {
			t.Errorf("%v came as %v", v, cmd.Verb)
		}
	}
}

func TestParseBDAT(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		size int64
		last bool
		ok   bool
	}{
		{"0", 0, false, true}, {"100 LAST", 100, true, true}, {"1  last", 1, true, true},
		{"", 0, false, false}, {"-1", 0, false, false}, {"LAST", 0, false, false}, {"1 2", 0, false, false},
		{"9999999999999999999", 0, false, false}, {"0x10", 0, false, false},
	} {
		size, last, bad := ParseBDAT([]byte(tc.in))
		if (bad == nil) != tc.ok || size != tc.size || last != tc.last {
			t.Errorf("%q: %d %v %v", tc.in, size, last, bad)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", 64)
	for _, tc := range []struct {
		in, local, domain string
		ok                bool
	}{
		{"<a@b.example>", "a", "b.example", true},
		{"<a+b.c=d/e@b>", "a+b.c=d/e", "b", true},
		{"<@x.example,@y.example:a@b.example>", "a", "b.example", true},
		{"<@x.example:>", "", "", false},
		{"<@:a@b>", "", "", false},
		{`<"a b"@c.example>`, "a b", "c.example", true},
		{`<"a\"\\@b"@c.example>`, `a"\@b`, "c.example", true},
		{`<"abc"@c.example>`, "abc", "c.example", true},
		{`<""@c.example>`, "", "", false},
		{`<"a@c.example>`, "", "", false},
		{`<"a"b@c.example>`, "", "", false},
		{"<Postmaster>", "Postmaster", "", true},
		{"<alice>", "", "", false},
		{"<a@[192.0.2.1]>", "a", "[192.0.2.1]", true},
		{"<a@[IPv6:2001:db8::1]>", "a", "[IPv6:2001:db8::1]", true},
		{"<a@[ipv6:::ffff:192.0.2.1]>", "a", "[ipv6:::ffff:192.0.2.1]", true},
		{"<a@[x-tag:stuff]>", "", "", false},
		{"<a@[192.0.2.999]>", "", "", false},
		{"<a@[IPv6:xyz]>", "", "", false},
		{"<a@[fe80::1%eth0]>", "", "", false},
		{"<a@[]>", "", "", false},
		{"<jürgen@müller.example>", "jürgen", "müller.example", true},
		{"<用户@例子.example>", "用户", "例子.example", true},
		{"<a\xff@b.example>", "", "", false},
		{"<a@b\xc3.example>", "", "", false},
		{"<.a@b>", "", "", false},
		{"<a.@b>", "", "", false},
		{"<a..b@c>", "", "", false},
		{"<a@b..c>", "", "", false},
		{"<a@.b>", "", "", false},
		{"<a@b.>", "", "", false},
		{"<a@-b>", "", "", false},
		{"<a@b->", "", "", false},
		{"<a@b-.c>", "", "", false},
		{"<a@b_c>", "a", "b_c", true},
		{"<a@" + long + ">", "", "", false},
		{"<a@" + long[:63] + ">", "a", long[:63], true},
		{"<" + strings.Repeat("l", MaxLocal) + "@b>", strings.Repeat("l", MaxLocal), "b", true},
		{"<" + strings.Repeat("l", MaxLocal+1) + "@b>", "", "", false},
		{"<a@" + strings.Repeat("d.", 128) + "d>", "", "", false},
		{"<a b@c>", "", "", false},
		{"<a@b c>", "", "", false},
		{"<a@b", "", "", false},
		{"<", "", "", false},
		{"<a@b>>", "", "", false},
		{"a@b", "", "", false},
	} {
		p, _, bad := ParseRcpt([]byte("TO:"+tc.in), true)
		if (bad == nil) != tc.ok || tc.ok && p != (Path{tc.local, tc.domain}) {
			t.Errorf("%q: %+v, %v", tc.in, p, bad)
			continue
		}
		if !tc.ok {
			continue
		}
		if again, err := ParsePath(p.String()); err != nil || again != p {
			t.Errorf("%q prints as %q: %+v, %v", tc.in, p.String(), again, err)
		}
	}
	if _, err := ParsePath(""); err == nil {
		t.Error("an empty path parsed")
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"FROM:<>": 0, "FROM:<> SIZE=0": 0, "FROM:<> SMTPUTF8": 0, "FROM:<> AUTH=<>": 0, "FROM:<> AUTH=a+40b@c": 501,
		"FROM:<> AUTH=e+3Dmc2@example.com": 0, "FROM:<> ENVID=a+2Bb": 0, "FROM:<> ENVID=a+2b": 501,
		"FROM:<> ENVID=+0D+0A": 501,
		"FROM:<> SIZE":         501, "FROM:<> SIZE=": 501, "FROM:<> SIZE=-1": 501, "FROM:<> SIZE=1 SIZE=1": 501,
		"FROM:<> REQUIRETLS": 0, "FROM:<> REQUIRETLS=1": 501, "FROM:<> REQUIRETLS REQUIRETLS": 501,
		"FROM:<> SMTPUTF8=1": 501, "FROM:<> BODY=9BIT": 501, "FROM:<>SIZE=1": 501, "FROM:<> X=1": 555,
		"FROM:<> XDOUBLET=0A.junk": 0, "FROM:<> XDOUBLET": 501, "FROM:<> XDOUBLET=": 501,
		"FROM:<> XDOUBLET=a XDOUBLET=a": 501, "FROM:<> XDOUBLET=a+b": 501,
		"FROM:<> XDOUBLET=" + strings.Repeat("x", 65): 501,
		"FROM:<alice>": 501, "FROM:<postmaster>": 0, "TO:<>": 501, "": 501,
		"FROM:<>" + strings.Repeat(" ENVID", 17):    501,
		"FROM:<> ENVID=" + strings.Repeat("x", 101): 501,
	} {
		_, _, bad := ParseMail([]byte(in))
		code := 0
		if bad != nil {
			code = bad.Code
		}
		if code != want {
			t.Errorf("%q: %v, want %d", in, bad, want)
		}
	}
	for in, want := range map[string]int{
		"TO:<a@b>": 0, "TO:<a@b> NOTIFY=NEVER": 0, "TO:<a@b> NOTIFY=success,FAILURE,delay": 0, "TO:<a@b> NOTIFY=": 501,
		"TO:<a@b> NOTIFY=SUCCESS,": 501, "TO:<a@b> NOTIFY=SUCCESS,NEVER": 501,
		"TO:<a@b> NOTIFY=NEVER NOTIFY=NEVER": 501,
		"TO:<a@b> ORCPT=rfc822;a+2Bb@c":      0, "TO:<a@b> ORCPT=a@b": 501, "TO:<a@b> ORCPT=;a": 501,
		"TO:<a@b> ORCPT=rfc822;": 501,
		"TO:<a@b> XDOUBLET=p-0A": 0, "TO:<a@b> XDOUBLET=": 501, "TO:<a@b> XDOUBLET=a XDOUBLET=a": 501,
		"TO:<a@b> XDOUBLET=a;b": 501,
		"TO:<a@b> SIZE=1":       555,
	} {
		_, _, bad := ParseRcpt([]byte(in), false)
		code := 0
		if bad != nil {
			code = bad.Code
		}
		if code != want {
			t.Errorf("%q: %v, want %d", in, bad, want)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		"EHLO me\r\n", "MAIL FROM:<a@b.example> SIZE=10 BODY=8BITMIME SMTPUTF8 RET=FULL ENVID=a+2Bb AUTH=<>\r\n",
		"RCPT TO:<\"q \\\" p\"@[IPv6:::1]> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;x+40y\r\n", "BDAT 10 LAST\r\n",
		"MAIL FROM:<a@b.example> XDOUBLET=0A.junk\r\n", "RCPT TO:<a@b.example> XDOUBLET=p-0A\r\n",
		"MAIL FROM:<@a,@b:c@d>\r\n", "RCPT TO:<jürgen@müller.example>\r\n", "AUTH PLAIN =\r\n",
		"RCPT TO:<Postmaster>\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		cmd, bad := ParseCommand(line, true)
		if bad != nil {
			return
		}
		_, _ = ParseHello(cmd.Arg)
		if n, _, bad := ParseBDAT(cmd.Arg); bad == nil && n < 0 {
			t.Fatal("negative chunk")
		}
		if from, m, bad := ParseMail(cmd.Arg); bad == nil {
			again := AppendMail(nil, from, m)
			c2, bad := ParseCommand(again, false)
			if bad != nil {
				t.Fatalf("%q printed as %q: %v", line, again, bad)
			}
			f2, m2, bad := ParseMail(c2.Arg)
			if m.Size == 0 {
				m.Size = -1
			}
			if bad != nil || f2 != from || m2 != m {
				t.Fatalf("%q printed as %q: %v %+v %+v", line, again, bad, f2, m2)
			}
		}
		for _, utf8 := range []bool{false, true} {
			to, r, bad := ParseRcpt(cmd.Arg, utf8)
			if bad != nil {
				continue
			}
			again := AppendRcpt(nil, to, r)
			c2, bad := ParseCommand(again, false)
			if bad != nil {
				t.Fatalf("%q printed as %q: %v", line, again, bad)
			}
			if to2, r2, bad := ParseRcpt(c2.Arg, utf8); bad != nil || to2 != to || r2 != r {
				t.Fatalf("%q printed as %q: %v %+v %+v", line, again, bad, to2, r2)
			}
		}
	})
}
