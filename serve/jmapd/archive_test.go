package jmapd

import (
	"archive/zip"
	"bytes"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"doublet/mailbox"
	"doublet/wire/mbox"
)

// TestArchives downloads the attachments of a message as a ZIP file, and a folder as an mbox file.
func TestArchives(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	put := func(raw string) {
		t.Helper()
		_, _, err := w.file("alice").Append(bg, "INBOX", []byte(strings.ReplaceAll(raw, "\n", "\r\n")), mailbox.Flags{},
			time.Unix(1_700_000_000, 0))
		w.ok(err)
	}
	put("Subject: one\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nText\n" +
		"--x\nContent-Type: text/plain\nContent-Disposition: attachment; filename=a.txt\n\nfirst\n" +
		"--x\nContent-Type: text/plain\nContent-Disposition: attachment; filename=a.txt\n\nsecond\n--x--\n")
	put("Subject: two\n\nFrom here on\n")
	p := &player{t: t, w: w, who: "alice", vars: map[string]string{"account": w.account("alice")}}
	p.folders()
	p.play("archives", 0, `C: [["Email/query",{"accountId":"${account}","filter":{"hasAttachment":true}},"0"],`+
		`["Email/get",{"accountId":"${account}","#ids":{"resultOf":"0","name":"Email/query","path":"/ids"},`+
		`"properties":["attachments"],"bodyProperties":["blobId"]},"1"]]
S: [["Email/query",{"...":1},"0"],["Email/get",{"...":1,
  "list":[{"id":"*","attachments":[{"blobId":"$a"},{"blobId":"$b"}]}]},"1"]]`)
	get := func(who, path string) (int, []byte) {
		t.Helper()
		out := w.do(who, "GET", path, "", nil)
		return out.Code, out.Body.Bytes()
	}
	at := "/jmap/zip/" + p.vars["account"] + "/all.zip?"
	ask := url.Values{"blob": {p.vars["a"], p.vars["b"]}, "as": {"a.txt", "../a.txt"}}.Encode()
	code, body := get("alice", at+ask)
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if code != 200 || err != nil || len(z.File) != 2 {
		t.Fatalf("%d %v", code, err)
	}
	got := ""
	for _, f := range z.File {
		r, err := f.Open()
		w.ok(err)
		text, err := io.ReadAll(r)
		w.ok(err)
		got += f.Name + "=" + strings.TrimSpace(string(text)) + ";"
	}
	if got != "a.txt=first;_a.txt=second;" {
		t.Error(got)
	}
	for name, c := range map[string]struct {
		who, path string
		code      int
	}{
		"nothing":         {"alice", at, 400},
		"too few names":   {"alice", at + "blob=" + p.vars["a"], 400},
		"an unknown blob": {"alice", at + "blob=Bxyz&as=a", 404},
		"another's":       {"bob", at + ask, 404},
		"another's mail":  {"bob", "/jmap/export/" + p.vars["account"] + "/" + p.vars["INBOX"] + "/x.mbox", 404},
		"no such folder":  {"alice", "/jmap/export/" + p.vars["account"] + "/Fxyz/x.mbox", 404},
	} {
		if code, _ := get(c.who, c.path); code != c.code {
			t.Errorf("%s: %d", name, code)
		}
	}
	code, body = get("alice", "/jmap/export/"+p.vars["account"]+"/"+p.vars["INBOX"]+"/Inbox.mbox")
	r := mbox.NewReader(bytes.NewReader(body), mbox.Options{Unquote: true})
	for _, want := range []string{"Subject: one", "Subject: two\r\n\r\nFrom here on"} {
		m, err := r.Next()
		if raw := string(r.Take()); code != 200 || err != nil || !strings.HasPrefix(raw, want) {
			t.Errorf("%d %v %q %v", code, err, raw, m)
		}
	}
}

// TestMemberName checks that names of members are unique, and no paths.
func TestMemberName(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	var got []string
	for _, s := range []string{"a.txt", "A.txt", "a.txt", "../../etc/passwd", "", ".", "b\r\n\x00"} {
		got = append(got, memberName(s, taken))
	}
	want := "a.txt|A (2).txt|a (3).txt|_.._etc_passwd|file|file (2)|b___"
	if strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
	if long := memberName(strings.Repeat("é", 300), taken); len(long) > 200 || !utf8.ValidString(long) {
		t.Errorf("%q", long)
	}
}
