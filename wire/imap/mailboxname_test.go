package imap

import (
	"strings"
	"testing"
)

func TestMailboxName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire string
		utf8 bool
		want string
	}{
		{"inBox", false, "INBOX"}, {"inbox/X", false, "INBOX/X"}, {"inboxes", false, "inboxes"},
		{"~peter/&U,BTFw-/&ZeVnLIqe-", false, "~peter/台北/日本語"},
		{"a&-b", false, "a&b"}, {"a&b", true, "a&b"}, {"&AOk-", true, "&AOk-"}, {"&2D3eCg-", false, "😊"},
		{"e\u0301", true, "é"}, {"é", false, "é"}, {"", false, ""},
	} {
		got, err := DecodeMailbox(c.wire, c.utf8)
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v", c.wire, got, err)
		}
		p := parser{s: string(AppendMailbox(nil, got, c.utf8)), limits: &testLimits, utf8: c.utf8}
		if back := p.mailbox(); p.err != nil || back != got {
			t.Errorf("%q printed as %q", got, p.s)
		}
	}
	for _, bad := range []string{"&", "&AOk", "&Jjo!", "&AGE-", "&2D0-", "&3go-", "&U,BTFw-&ZeVnLIqe-", "&AOl-", "&A-",
		"\xff", strings.Repeat("x", 1001)} {
		if got, err := DecodeMailbox(bad, false); err != ErrMailboxName {
			t.Errorf("%.20q: %q, %v", bad, got, err)
		}
	}
	for name, ok := range map[string]bool{"a": true, "a/b c/é": true, "": false, "/a": false, "a//b": false,
		"a/": false, "a\x00": false, "a*": false, "a/..": false, " a": false, "a\u0085": false} {
		if (ValidMailbox(name) == nil) != ok {
			t.Errorf("%q", name)
		}
	}
}

func FuzzMailboxName(f *testing.F) {
	for _, s := range []string{"INBOX", "&U,BTFw-/x", "a&-b", "é", "&2D3eCg-", "e\u0301&", "\r\n", `"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, u := range []bool{false, true} {
			name, err := DecodeMailbox(s, u)
			if err != nil || strings.IndexByte(name, 0) >= 0 {
				continue
			}
			p := parser{s: string(AppendMailbox(nil, name, u)), limits: &testLimits, utf8: u}
			if len(p.s) > 2*MaxMailboxName && ValidMailbox(name) != nil {
				continue // thousands of control characters print longer than the maximum name
			}
			if back := p.mailbox(); p.err != nil || back != name || !p.end() {
				t.Fatalf("%q is %q, printed as %q, read as %q: %v", s, name, p.s, back, p.err)
			}
		}
	})
}
