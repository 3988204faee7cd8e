package maildir

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	keywords := []string{"$Junk", "", "work"}
	for in, want := range map[string]string{
		"1772530272.M1P2.host": "1772530272.M1P2.host 1772530272 -1 -1 []",
		"1772530272.M1P2.host,S=12,W=15:2,FRS": `1772530272.M1P2.host,S=12,W=15 1772530272 12 15 [\Flagged ` +
			`\Answered \Seen]`,
		"1.a:2,TSRPFD":           `1.a 1 -1 -1 [\Draft \Flagged $Forwarded \Answered \Seen \Deleted]`,
		"1.a:2,":                 "1.a 1 -1 -1 []",
		"1.a:2,Sabcz?":           `1.a 1 -1 -1 [\Seen $Junk work]`,
		"1.a;2,S":                `1.a 1 -1 -1 [\Seen]`,
		"1.a!2,S":                `1.a 1 -1 -1 [\Seen]`,
		"1.a:1,x":                "1.a 1 -1 -1 []",
		"name,S=x,W=-3":          "name,S=x,W=-3 none -1 -1 []",
		"99999999999999999999.a": "99999999999999999999.a none -1 -1 []",
	} {
		e, ok := ParseName(in, keywords)
		sec := "none"
		if !e.Time.IsZero() {
			sec = fmt.Sprint(e.Time.Unix())
		}
		if got := fmt.Sprintf("%s %s %d %d %v", e.Unique, sec, e.Size, e.CRLFSize, e.Flags); got != want || !ok {
			t.Errorf("%q: got %q %v, want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{"", ".", ".hidden", "a/b", "dovecot-uidlist", "courierimapuiddb", "maildirfolder",
		"subscriptions", ":2,S", strings.Repeat("a", 2000)} {
		if _, ok := ParseName(in, nil); ok {
			t.Errorf("%q accepted", in)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	keywords := []string{"$Junk", "", "work"}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "u:2,"},
		{[]string{`\seen`, `\Flagged`, "work", "other"}, "u:2,FSc"},
		{[]string{`\Deleted`, `\Draft`, `\Answered`, "$forwarded", "$JUNK"}, "u:2,DPRTa"},
	} {
		got := Name("u", c.flags, keywords)
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c.flags, got, c.want)
		}
		if e, ok := ParseName(got, keywords); !ok || Name(e.Unique, e.Flags, keywords) != got {
			t.Errorf("%q read as %+v", got, e)
		}
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "INBOX", ".": "INBOX", ".inbox": "INBOX", ".Sent": "Sent", ".Sent.2024": "Sent/2024",
		".Entw&APw-rfe": "Entwürfe", ".A&-B": "A&B", ".&U,BTFw-": "台北", ".&2D3eAA-": "😀", ".Entwürfe": "Entwürfe",
		".a&AC4-b": "a.b",
	} {
		path, ok := Folder(in)
		if got := strings.Join(path, "/"); got != want || !ok {
			t.Errorf("%q: got %q %v, want %q", in, got, ok, want)
		}
		if back, ok := Folder(FolderName(path)); !ok || strings.Join(back, "/") != want {
			t.Errorf("%q does not come back from %q", want, FolderName(path))
		}
	}
	for _, in := range []string{"cur", "..", ".a..b", ".a.", ".&", ".&AP", ".&AP-", ".&A-", ".&====-", ".&2D0-",
		".\xff", "./a", ".&AAA-"} {
		if path, ok := Folder(in); ok {
			t.Errorf("%q accepted as %q", in, path)
		}
	}
	if got := FolderName([]string{"Entwürfe", "a.b/c", "&"}); got != ".Entw&APw-rfe.a&AC4-b&AC8-c.&-" {
		t.Errorf("%q", got)
	}
	if FolderName([]string{"inbox"}) != "" || FolderName(nil) != "" {
		t.Error("INBOX has a folder name")
	}
}

func FuzzMaildir(f *testing.F) {
	f.Add("1772530272.M1P2.host,S=12:2,FRS")
	f.Add(".Entw&APw-rfe.&2D3eAA-")
	f.Fuzz(func(t *testing.T, s string) {
		if e, ok := ParseName(s, []string{"a", "b"}); ok {
			name := Name(e.Unique, e.Flags, []string{"a", "b"})
			if again, ok := ParseName(name, []string{"a", "b"}); len(name) <= maxName &&
				(!ok || fmt.Sprint(again.Flags) != fmt.Sprint(e.Flags)) {
				t.Fatalf("%q: %+v, then %+v", s, e, again)
			}
		}
		if path, ok := Folder(s); ok {
			if again, ok := Folder(FolderName(path)); len(FolderName(path)) <= maxName &&
				(!ok || strings.Join(again, "\x00") != strings.Join(path, "\x00")) {
				t.Fatalf("%q: %q, then %q", s, path, again)
			}
		}
	})
}
