package davd

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"doublet/groupware"
)

// TestFileNames reads names of files that clients send.
func TestFileNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                  "attachment",
		"attachment":                        "attachment",
		"attachment; filename=a.txt":        "a.txt",
		`attachment; filename="a b.txt"`:    "a b.txt",
		`attachment; filename="../../a"`:    "a",
		`attachment; filename="C:\\x\\a.b"`: "a.b",
		`attachment; filename=".."`:         "attachment",
		"attachment; filename*=UTF-8''%C3%A4%0D%0A%22.txt":                "ä.txt",
		"attachment; filename=" + strings.Repeat("a", 1000):               strings.Repeat("a", 200),
		"attachment; filename*=utf-8''" + strings.Repeat("%E2%82%AC", 99): strings.Repeat("€", 66),
		"attachment; filename*=utf-8''a%E2%80%AEtxt.exe":                  "atxt.exe",
	} {
		if got := nameOfFile(in); got != want {
			t.Errorf("%.60q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"": "application/octet-stream", "text": "application/octet-stream",
		"Text/HTML; charset=\"UTF-8\"": "text/html; charset=UTF-8", "a/b;" + strings.Repeat("c", 1000) +
			"=d": "application/octet-stream"} {
		if got := groupware.MediaType(in); got != want {
			t.Errorf("%.60q: %q, want %q", in, got, want)
		}
	}
}

// TestAttachmentSize checks that a body that is too large has the error of the RFC and changes nothing.
//
// Implements: RFC 8607 §6.2 CALDAV:max-attachment-size
func TestAttachmentSize(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	path := home + "calendar/a.ics"
	tag := w.do("alice", "PUT", path, event("a", "")).Header().Get("ETag")
	got := w.do("alice", "POST", path+"?action=attachment-add", strings.Repeat("x", groupware.MaxAttachment+1))
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "<C:max-attachment-size/>") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if now := w.do("alice", "GET", path, "").Header().Get("ETag"); now != tag {
		t.Errorf("the entry has changed from %s to %s", tag, now)
	}
}

// TestManyIDs checks that a text that names many attachments is refused before they are looked up.
//
// Implements: RFC 8607 §6.3 CALDAV:max-attachments-per-resource
func TestManyIDs(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	var more strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&more, "ATTACH;MANAGED-ID=%d:https://cal.example.com/\n", i)
	}
	got := w.do("alice", "PUT", home+"calendar/a.ics", event("a", more.String()))
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "<C:max-attachments-per-resource/>") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// FuzzAttaching parses the query and the fields of a POST. What is accepted is well-formed.
func FuzzAttaching(f *testing.F) {
	f.Add("action=attachment-add&rid=M,20260105T090000Z", `attachment; filename="a.txt"`, "text/plain",
		"return=representation")
	f.Add("action=attachment-update&managed-id=1", "attachment; filename*=UTF-8''%e2%82%ac", "a/b;c=d",
		"a;b, return=minimal")
	f.Add("action=attachment-remove&managed-id=1&rid=20260105", "x;filename=a;filename=b", "", "")
	f.Fuzz(func(t *testing.T, query, disposition, kind, prefer string) {
		if values, err := url.ParseQuery(query); err == nil {
			a, err := readAttaching(values)
			if err == nil && (a.action == attachmentAdd) != (a.change.ID == "") ||
				err == nil && a.action == attachmentUpdate && a.change.Instances != nil {
				t.Fatalf("%q is accepted: %+v", query, a)
			}
		}
		name := nameOfFile(disposition)
		if name == "" || len(name) > 200 || !utf8.ValidString(name) ||
			strings.ContainsAny(name, "/\\\"\r\n\x00") {
			t.Fatalf("%q is the name %q", disposition, name)
		}
		s := mime.FormatMediaType("attachment", map[string]string{"filename": name})
		if s == "" || nameOfFile(s) != name {
			t.Fatalf("%q does not come back: %q", name, s)
		}
		if _, _, err := mime.ParseMediaType(groupware.MediaType(kind)); err != nil {
			t.Fatalf("%q is the type %q", kind, groupware.MediaType(kind))
		}
		prefersRepresentation([]string{prefer})
	})
}
