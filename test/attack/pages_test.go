package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"doublet/test/program"
)

// browser sends requests to the web door of a demo, with the cookies that it has received, and does not follow
// redirects.
type browser struct {
	t       *testing.T
	base    string
	cookies map[string]string
}

func newBrowser(t *testing.T, s *program.Server) *browser {
	return &browser{t, "http://127.0.0.1:" + s.Port["http"], map[string]string{}}
}

// answer is the response to a request.
type answer struct {
	code   int
	body   string
	header http.Header
}

func (b *browser) send(method, path, kind, body string, header ...string) answer {
	b.t.Helper()
	r, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	c := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	out, err := c.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Body.Close()
	text, err := io.ReadAll(io.LimitReader(out.Body, 8<<20))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, k := range out.Cookies() {
		if b.cookies[k.Name] = k.Value; k.MaxAge < 0 {
			delete(b.cookies, k.Name)
		}
	}
	return answer{out.StatusCode, string(text), out.Header}
}

// signIn signs alice in and returns the CSRF token of her session.
func (b *browser) signIn() (csrf string) {
	b.t.Helper()
	a := b.send("POST", "/auth/sign-in", "application/json", `{"user":"alice","password":"demo"}`)
	var got struct{ CSRF string }
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.CSRF == "" {
		b.t.Fatalf("sign-in: %d %s", a.code, a.body)
	}
	return got.CSRF
}

var pagePaths = []string{
	"/", "/status", "/admin/", "/lite/", "/lite/sign", "/auth/", "/auth/sign-in", "/account", "/mail-frame",
	"/mail-frame?pictures=1", "/auth/session", "/auth/sessions", "/auth/totp",
	"/admin/verbs/", "/.well-known/jmap", "/unsubscribe", "/healthz", "/nothing", "/mobileconfig",
	"/mail/config-v1.1.xml", "/.well-known/autoconfig/mail/config-v1.1.xml",
}

// TestPages checks that no page can be framed by another site, taken for another type, made to run an inline script, or
// cached if it holds personal data.
func TestPages(t *testing.T) {
	s := program.Demo(t)
	inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>\s*[^<\s]|\son[a-z]+\s*=\s*["'a-z]|javascript:`)
	for _, signedIn := range []bool{false, true} {
		b := newBrowser(t, s)
		if signedIn {
			b.signIn()
		}
		for _, path := range pagePaths {
			a := b.send("GET", path, "", "")
			policy := a.header.Get("Content-Security-Policy")
			if path == "/mail-frame" || strings.HasPrefix(path, "/mail-frame?") {
				if !strings.Contains(policy, "frame-ancestors 'self'") || !strings.Contains(policy, "sandbox ") ||
					strings.Contains(policy, "allow-scripts") {
					t.Errorf("%s: policy %q", path, policy)
				}
			} else if !strings.Contains(policy, "frame-ancestors 'none'") && a.header.Get("X-Frame-Options") != "DENY" {
				t.Errorf("%s can be framed: %v", path, a.header)
			}
			if !strings.Contains(policy, "default-src 'none'") && !strings.Contains(policy, "default-src 'self'") ||
				strings.Contains(policy, "script-src 'unsafe") || strings.Contains(policy, "unsafe-eval") {
				t.Errorf("%s: policy %q", path, policy)
			}
			if a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s may be taken for another type: %v", path, a.header)
			}
			if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && inline.MatchString(a.body) {
				t.Errorf("%s has a script in it: %s", path, inline.FindString(a.body))
			}
			personal := signedIn && a.code == 200 && (strings.Contains(a.body, "alice") ||
				strings.Contains(a.body, "Alice"))
			if cache := a.header.Get("Cache-Control"); personal && !strings.Contains(cache, "no-store") {
				t.Errorf("%s stays in caches: %q", path, cache)
			}
		}
	}
}

// TestForeignHost checks that a host name from an attacker's DNS or request appears in no answer to strangers.
func TestForeignHost(t *testing.T) {
	t.Setenv("DOUBLET_WEB_REDIRECT", "true")
	s := program.Demo(t)
	b := newBrowser(t, s)
	for _, host := range []string{"evil.example", "evil.example:443", "mta-sts.evil.example", "autoconfig.evil.example",
		"localhost.evil.example", `x"><script>`} {
		for _, path := range append(pagePaths, "//evil.example/%2f..", "/admin", "/lite", "/%0d%0aSet-Cookie:x=1",
			"/.well-known/mta-sts.txt") {
			a := b.send("GET", path, "", "", "Host", host, "X-Forwarded-Host", "evil.example", "Forwarded",
				"host=evil.example")
			to, err := url.Parse(a.header.Get("Location"))
			if err != nil || strings.Contains(to.Host, "evil") || strings.HasPrefix(a.header.Get("Location"), "//") ||
				a.header.Get("Set-Cookie") != "" || strings.Contains(a.body, "evil.example") &&
				path != "//evil.example/%2f.." {
				t.Errorf("%s of %s: %d, to %q: %.300s", path, host, a.code, a.header.Get("Location"), a.body)
			}
		}
	}
}

// TestRedirects checks that signing in never redirects to another site, whatever the link to the page contains.
func TestRedirects(t *testing.T) {
	s := program.Demo(t)
	for _, to := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "/\t/evil.example",
		"\t//evil.example", "/\n/evil.example", "javascript:alert(1)", "/%09//evil.example", "https:evil.example",
		"///evil.example", "/..//evil.example", "/./\\evil.example", "/\x00/evil.example", " //evil.example",
	} {
		for path, fields := range map[string]url.Values{
			"/auth/sign-in": {"user": {"alice"}, "password": {"demo"}, "to": {to}},
			"/lite/sign":    {"user": {"alice"}, "password": {"demo"}, "to": {to}, "next": {to}},
		} {
			b := newBrowser(t, s)
			at := b.send("POST", path, "application/x-www-form-urlencoded", fields.Encode(), "Origin", b.base,
				"Sec-Fetch-Site", "same-origin").header.Get("Location")
			base, _ := url.Parse(b.base + path)
			u, err := base.Parse(strings.NewReplacer("\t", "", "\n", "", "\\", "/").Replace(at)) // as browsers read it
			if err != nil || at != "" && u.Host != base.Host {
				t.Errorf("%s leads with %q to %q", path, to, at)
			}
		}
	}
}

// TestForeignPages checks that a page of another site cannot change anything in a user's session.
func TestForeignPages(t *testing.T) {
	s := program.Demo(t)
	b := newBrowser(t, s)
	csrf := b.signIn()
	form := "application/x-www-form-urlencoded"
	for _, from := range [][]string{
		{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		{"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "same-site", "Origin", "http://other.localhost"},
		{"Origin", "http://127.0.0.1:1"},
		{"Referer", "https://evil.example/"}, // an old browser: the form's token is missing
		{"Sec-Fetch-Site", "same-origin"},    // our page, without the token
	} {
		for _, x := range []struct{ path, kind, body string }{
			{"/auth/sign-out", form, ""}, {"/auth/sign-out", "application/json", "{}"},
			{"/auth/sessions/end", form, "others=yes"}, {"/auth/sessions/end", "text/plain", `{"others":true}`},
			{"/auth/totp/begin", form, "password=demo"}, {"/admin/verbs/user/add", "application/json",
				`{"name":"Evil"}`}, {"/admin/verbs/user/add", "text/plain", `{"name":"Evil"}`},
			{"/jmap/api/", "application/json",
				`{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"a"]]}`},
			{"/jmap/api/", "text/plain",
				`{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"a"]]}`},
			{"/lite/act", form, "do=delete"}, {"/lite/send", form, "to=x@example.com"},
		} {
			a := b.send("POST", x.path, x.kind, x.body, from...)
			if a.code < 400 || a.code == http.StatusServiceUnavailable || strings.Contains(a.body, "methodResponses") {
				t.Errorf("%v: %s %s: %d %.200s", from, x.path, x.kind, a.code, a.body)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "" &&
				a.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s lets other sites read: %v", x.path, a.header)
			}
		}
		if a := b.send("GET", "/auth/session", "", ""); a.code != http.StatusOK {
			t.Fatalf("%v ended the session: %d", from, a.code)
		}
	}
	if a := b.send("POST", "/auth/sign-out", "application/json", "{}", "X-CSRF-Token", csrf, "Origin", b.base,
		"Sec-Fetch-Site", "same-origin"); a.code != http.StatusOK {
		t.Errorf("our own page: %d %s", a.code, a.body)
	}
}

// TestFixation checks that a planted session is not the one that gets signed in, and that a new sign-in ends the old
// session.
func TestFixation(t *testing.T) {
	s := program.Demo(t)
	mallory, victim := newBrowser(t, s), newBrowser(t, s)
	for _, planted := range []string{strings.Repeat("A", 43), ""} {
		if planted == "" {
			mallory.signIn()
			planted = mallory.cookies["doublet"]
		}
		victim.cookies = map[string]string{"doublet": planted}
		victim.signIn()
		if victim.cookies["doublet"] == planted || victim.cookies["doublet"] == "" {
			t.Errorf("the planted session goes on: %v", victim.cookies)
		}
		thief := newBrowser(t, s)
		thief.cookies["doublet"] = planted
		if a := thief.send("GET", "/auth/session", "", ""); a.code != http.StatusUnauthorized {
			t.Errorf("the planted session is signed in: %d %s", a.code, a.body)
		}
	}
	// A token in an address or a body is ignored.
	bare := newBrowser(t, s)
	token := victim.cookies["doublet"]
	for _, path := range []string{"/auth/session?doublet=" + token, "/auth/session?session=" + token,
		"/auth/session;doublet=" + token} {
		if a := bare.send("GET", path, "", ""); a.code == http.StatusOK {
			t.Errorf("%s signs in", path)
		}
	}
}

const hostileMail = "From: Mallory <mallory@elsewhere.example>\r\nTo: alice@example.com\r\nSubject: attached\r\n" +
	"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/plain\r\n\r\nlook\r\n" +
	"--b\r\nContent-Type: text/html; name=page.html\r\nContent-Disposition: inline; filename=page.html\r\n\r\n" +
	"<script>top.hacked=1</script>\r\n" +
	"--b\r\nContent-Type: image/svg+xml; name=picture.svg\r\nContent-Disposition: inline; filename=picture.svg\r\n" +
	"\r\n<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"top.hacked=1\"/>\r\n" +
	"--b\r\nContent-Type: image/png; name=picture.png\r\nContent-Disposition: inline; filename=\"picture.png\"\r\n" +
	"\r\n<html><script>top.hacked=1</script></html>\r\n" +
	"--b\r\nContent-Type: application/xhtml+xml; name=x.xhtml\r\n" +
	"Content-Disposition: attachment; filename=\"x.html\"\r\n\r\n" +
	"<html xmlns=\"http://www.w3.org/1999/xhtml\"><script>top.hacked=1</script></html>\r\n" +
	"--b\r\nContent-Type: text/xml\r\nContent-Disposition: inline; filename=\"a\\\"; x=.html\"\r\n\r\n" +
	"<?xml-stylesheet href=\"data:,\"?><a/>\r\n--b--\r\n"

// deliver sends a message as a stranger.
func deliver(t *testing.T, s *program.Server, to, text string) {
	t.Helper()
	c, err := smtp.Dial("127.0.0.1:" + s.Port["smtp"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.Mail("mallory@elsewhere.example"), c.Rcpt(to)); err != nil {
		t.Fatal(err)
	}
	w, err := c.Data()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAttachments checks that an attachment is downloaded and never shown as a page of ours, whatever type it or the
// URL declares.
func TestAttachments(t *testing.T) {
	s := program.Demo(t)
	deliver(t, s, "alice@example.com", hostileMail)
	b := newBrowser(t, s)
	csrf := b.signIn()
	var session struct {
		PrimaryAccounts map[string]string
		DownloadURL     string `json:"downloadUrl"`
		APIURL          string `json:"apiUrl"`
	}
	if err := json.Unmarshal([]byte(b.send("GET", "/.well-known/jmap", "", "").body), &session); err != nil ||
		session.APIURL == "" {
		// The session may be at another address.
		a := b.send("GET", "/jmap/session", "", "")
		if err := json.Unmarshal([]byte(a.body), &session); err != nil {
			t.Fatal(a.code, a.body)
		}
	}
	account := session.PrimaryAccounts["urn:ietf:params:jmap:mail"]
	ask := func() string {
		return b.send("POST", path(session.APIURL), "application/json",
			fmt.Sprintf(`{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail"],"methodCalls":[
		["Email/query",{"accountId":%q,"filter":{"subject":"attached"},"limit":1},"q"],
		["Email/get",{"accountId":%[1]q,"#ids":{"resultOf":"q","name":"Email/query","path":"/ids"},
		"properties":["bodyStructure","blobId"]},"g"]]}`, account), "X-CSRF-Token", csrf, "Origin", b.base).body
	}
	blobs := regexp.MustCompile(`"blobId":"([^"]+)"`)
	var found [][]string
	for deadline := time.Now().Add(time.Minute); len(found) < 5 &&
		time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		found = blobs.FindAllStringSubmatch(ask(), -1)
	}
	if len(found) < 5 {
		t.Fatal("no attachments:", ask())
	}
	for _, id := range found {
		for _, kind := range []string{"text/html", "image/svg+xml", "application/xhtml+xml", "text/xml",
			"application/pdf", "text/javascript", "image/png"} {
			at := strings.NewReplacer("{accountId}", account, "{blobId}", id[1], "{type}", url.QueryEscape(kind),
				"{name}", "x.html").Replace(path(session.DownloadURL))
			a := b.send("GET", at, "", "")
			disposition := a.header.Get("Content-Disposition")
			if a.code != http.StatusOK || !strings.HasPrefix(disposition, "attachment") ||
				!strings.HasPrefix(a.header.Get("Content-Security-Policy"), "sandbox;") ||
				a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d %v", at, a.code, a.header)
			}
		}
	}
}

// path returns an address without its host.
func path(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		_, rest, _ = strings.Cut(rest, "/")
		return "/" + rest
	}
	return address
}
