package speech

import (
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	at := time.Date(2026, 11, 22, 23, 30, 0, 0, time.UTC)
	for _, c := range []struct{ cookie, accept, lang, zone string }{
		{"", "", "en", ""}, {"", "de-AT,de;q=0.8,en;q=0.5", "de", ""}, {"", "fr, zh-CN;q=0.7", "zh", ""},
		{"", "xx;;,,", "en", ""},
		{"zh|Europe/Berlin", "de", "zh", "Europe/Berlin"}, {"xx|Nowhere/Here", "de", "de", ""},
		{"de|Local", "", "de", ""}, {"de|../../etc/passwd", "", "de", ""}, {"de", "", "de", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", Cookie+"="+c.cookie)
		r.Header.Set("Accept-Language", c.accept)
		if p := Of(r, at); p.Lang != c.lang || p.Zone != c.zone || p.T("signIn") == "signIn" {
			t.Errorf("%+v: %s %s", c, p.Lang, p.Zone)
		}
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	Choose(w, r, "de", "Asia/Shanghai")
	r.AddCookie(w.Result().Cookies()[0])
	p := Of(r, at)
	if got := p.Long(at); p.Lang != "de" || got != "23. Nov. 2026, 07:30 CST" {
		t.Errorf("%s %q", p.Lang, got)
	}
	if got := English("elsewhere", "mail.example"); got != "Your mail is on another server: mail.example" {
		t.Error(got)
	}
}

var keyPattern = regexp.MustCompile(`(?:\.T|\.say|speech\.English|\bbad)[( ]"([\w.]+)"(\s*\+)?`)

// TestKeys checks that all texts of server-rendered pages exist.
func TestKeys(t *testing.T) {
	n := 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".html") &&
			(!strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go")) {
			return err
		}
		raw, err := os.ReadFile("../" + name)
		for _, m := range keyPattern.FindAllStringSubmatch(string(raw), -1) {
			n++
			switch {
			case m[2] == "" && texts()["en"][m[1]] == "":
				t.Errorf("%s: the catalogue has no %q", name, m[1])
			case m[2] != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(texts()["en"])),
				func(k string) bool { return strings.HasPrefix(k, m[1]) }):
				t.Errorf("%s: the catalogue has nothing that begins with %q", name, m[1])
			}
		}
		return err
	})
	if err != nil || n < 200 {
		t.Error(n, err)
	}
}
