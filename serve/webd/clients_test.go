package webd

import (
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"doublet/admin"
	"doublet/client/mtasts"
)

// ask sends a request to a host, with or without TLS.
func ask(w *Server, method, host, path, body string, secure bool) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	q.Host = host
	if secure {
		q.TLS = &tls.ConnectionState{}
	}
	r := httptest.NewRecorder()
	w.ServeHTTP(r, q)
	return r
}

func mailDoors() []admin.Door {
	return []admin.Door{
		{Name: "smtp", Address: "0.0.0.0:25", TLS: "STARTTLS"}, {Name: "submission", Address: "[::]:587",
			TLS: "STARTTLS"}, {Name: "submissions", Address: ":465", TLS: "TLS"},
		{Name: "imap", Address: "0.0.0.0:143", TLS: "STARTTLS"}, {Name: "imaps", Address: "[::]:993", TLS: "TLS"},
		{Name: "pop3", Address: ":110"}, {Name: "http", Address: ":80"},
	}
}

// wellFormed checks that a document is well-formed XML.
func wellFormed(t *testing.T, doc string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
	}
}

func TestAutoconfig(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	s.Name, s.Doors = "mx.example.com", mailDoors
	for _, c := range []struct{ host, path string }{
		{"autoconfig.example.com", "/mail/config-v1.1.xml?emailaddress=ada%40example.com"},
		{"example.com", "/.well-known/autoconfig/mail/config-v1.1.xml?emailaddress=ada@EXAMPLE.com"},
		{"example.com:8080", "/.well-known/autoconfig/mail/config-v1.1.xml"},
		{"whatever.example", "/.well-known/autoconfig/mail/config-v1.1.xml"},
	} {
		r := ask(w, "GET", c.host, c.path, "", false)
		if r.Code != 200 || !strings.HasPrefix(r.Header().Get("Content-Type"), "text/xml") {
			t.Fatalf("%s%s: %d", c.host, c.path, r.Code)
		}
		var got clientConfig
		if err := xml.Unmarshal(r.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		p := got.Provider
		if got.Version != "1.1" || p.ID != "example.com" || p.Domain != "example.com" || len(p.Incoming) != 2 ||
			len(p.Outgoing) != 2 {
			t.Fatalf("%+v", got)
		}
		// Implicit TLS comes before STARTTLS, and services without TLS are not listed.
		if want := (mailServer{"imap", "mx.example.com", 993, "SSL", "password-cleartext",
			"%EMAILADDRESS%"}); p.Incoming[0] != want {
			t.Errorf("%+v", p.Incoming[0])
		}
		if want := (mailServer{"smtp", "mx.example.com", 587, "STARTTLS", "password-cleartext",
			"%EMAILADDRESS%"}); p.Outgoing[1] != want {
			t.Errorf("%+v", p.Outgoing[1])
		}
	}
	for _, address := range []string{"ada@example.org", "ada", "@example.com", "ada%40example.com%3E",
		"%22%3Cx%3E%22@example.org", "Ada+%3Cada@example.com%3E", strings.Repeat("a", 300) + "@example.com"} {
		if r := ask(w, "GET", "example.com", "/mail/config-v1.1.xml?emailaddress="+address, "", false); r.Code != 404 {
			t.Errorf("%s: %d %s", address, r.Code, r.Body)
		}
	}
}

func TestAutodiscover(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	s.Name, s.Doors = "mx.example.com", mailDoors
	request := func(email, schema string) string {
		return `<?xml version="1.0" encoding="utf-8"?><Autodiscover ` +
			`xmlns="http://schemas.microsoft.com/exchange/autodiscover/outlook/requestschema/2006"><Request>` +
			`<EMailAddress>` + email +
			`</EMailAddress><AcceptableResponseSchema>` + schema +
			`</AcceptableResponseSchema></Request></Autodiscover>`
	}
	r := ask(w, "POST", "autodiscover.example.com", "/Autodiscover/Autodiscover.xml",
		request("o&apos;neil&amp;co@example.com", outlookSpace), true)
	wellFormed(t, r.Body.String())
	var got struct {
		XMLName  xml.Name `xml:"http://schemas.microsoft.com/exchange/autodiscover/responseschema/2006 Autodiscover"`
		Response discoverSettings
	}
	if err := xml.Unmarshal(r.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, r.Body)
	}
	a := got.Response.Account
	if a.Type != "email" || a.Action != "settings" || len(a.Protocol) != 2 {
		t.Fatalf("%+v\n%s", a, r.Body)
	}
	if p := a.Protocol[0]; p.Type != "IMAP" || p.Server != "mx.example.com" || p.Port != 993 || p.SSL != "on" ||
		p.Encryption != "SSL" || p.LoginName != "o'neil&co@example.com" || p.SPA != "off" {
		t.Errorf("%+v", p)
	}
	if p := a.Protocol[1]; p.Type != "SMTP" || p.Port != 465 || p.AuthRequired != "on" {
		t.Errorf("%+v", p)
	}
	s.Doors = func() []admin.Door {
		return []admin.Door{{Name: "imap", Address: ":143", TLS: "STARTTLS"},
			{Name: "submission", Address: ":587", TLS: "STARTTLS"}}
	}
	r = ask(w, "POST", "example.com", "/autodiscover/autodiscover.xml", request("ada@example.com", outlookSpace), true)
	if err := xml.Unmarshal(r.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if p := got.Response.Account.Protocol; p[len(p)-1].Port != 587 || p[len(p)-1].Encryption != "TLS" {
		t.Errorf("with STARTTLS only: %+v", p)
	}
	s.Doors = mailDoors
	entity := `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><Autodiscover><Request>` +
		`<EMailAddress>&x;@example.com</EMailAddress></Request></Autodiscover>`
	for body, code := range map[string]string{
		request("ada@example.org", outlookSpace):     "<ErrorCode>500<",
		request("ada@example.com", "urn:mobilesync"): "<ErrorCode>601<",
		"": "<ErrorCode>600<", "<a>": "<ErrorCode>600<", entity: "<ErrorCode>600<",
		strings.Repeat("<a>", 100_000):                                   "<ErrorCode>600<",
		request("&lt;/LoginName&gt;&lt;x&gt;@example.com", outlookSpace): "<ErrorCode>500<",
	} {
		r := ask(w, "POST", "example.com", "/autodiscover/autodiscover.xml", body, true)
		wellFormed(t, r.Body.String())
		if !strings.Contains(r.Body.String(), code) || strings.Contains(r.Body.String(), "root:") {
			t.Errorf("%.60q: %s", body, r.Body)
		}
	}
	if r := ask(w, "GET", "example.com", "/autodiscover/autodiscover.xml", "", true); r.Code != 405 {
		t.Errorf("GET: %d", r.Code)
	}
	r = ask(w, "GET", "autodiscover.example.com",
		"/autodiscover/autodiscover.json?Email=ada@example.com&Protocol=AutodiscoverV1", "", true)
	var v2 map[string]string
	if err := json.Unmarshal(r.Body.Bytes(), &v2); err != nil ||
		v2["Url"] != "https://autodiscover.example.com/autodiscover/autodiscover.xml" {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if r := ask(w, "GET", "evil.example",
		"/autodiscover/autodiscover.json?Email=ada@example.com&Protocol=AutodiscoverV1", "",
		true); strings.Contains(r.Body.String(), "evil") {
		t.Errorf("a foreign host is passed on: %s", r.Body)
	}
	if r := ask(w, "GET", "example.com", "/autodiscover/autodiscover.json?Email=ada@example.com&Protocol=EWS", "",
		true); r.Code != 400 {
		t.Errorf("another protocol: %d", r.Code)
	}
}

func TestMobileconfig(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	s.Name, s.Doors = "mx.example.com", mailDoors
	r := ask(w, "GET", "example.com", "/mobileconfig?email=ada@example.com&name=%3C/string%3E%3Ctrue/%3E%26", "", true)
	wellFormed(t, r.Body.String())
	body := r.Body.String()
	for _, want := range []string{
		"<key>PayloadType</key><string>Configuration</string>",
		"<key>PayloadType</key><string>com.apple.mail.managed</string>",
		"<key>EmailAccountType</key><string>EmailTypeIMAP</string>",
		"<key>IncomingMailServerHostName</key><string>mx.example.com</string>",
		"<key>IncomingMailServerPortNumber</key><integer>993</integer>",
		"<key>OutgoingMailServerPortNumber</key><integer>465</integer>",
		"<key>EmailAddress</key><string>ada@example.com</string>", "&lt;/string&gt;&lt;true/&gt;&amp;",
		"<key>IncomingMailServerUseSSL</key><true/>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %s:\n%s", want, body)
		}
	}
	if r.Header().Get("Content-Type") != "application/x-apple-aspen-config; charset=utf-8" ||
		strings.Count(body, "<key>PayloadUUID</key>") != 2 {
		t.Errorf("%v", r.Header())
	}
	if again := ask(w, "GET", "example.com", "/mobileconfig?email=ada@example.com&name=%3C/string%3E%3Ctrue/%3E%26", "",
		true).Body.String(); again != body {
		t.Error("a second profile does not replace the first")
	}
	if r := ask(w, "GET", "example.com", "/mobileconfig", "", true); r.Code != 200 ||
		!strings.Contains(r.Body.String(), "<form") {
		t.Errorf("the page: %d", r.Code)
	} else {
		ownStyle(t, r)
	}
	for _, q := range []string{"email=ada@example.org", "email=%3Cx%3E@example.com", "email=ada@example.com&name=" +
		strings.Repeat("x", 200)} {
		if r := ask(w, "GET", "example.com", "/mobileconfig?"+q, "", true); r.Code != 404 {
			t.Errorf("%.40s: %d", q, r.Code)
		}
	}
}

func TestMTASTS(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	s.Name = "mx.example.com"
	get := func(host string, secure bool) *httptest.ResponseRecorder {
		return ask(w, "GET", host, "/.well-known/mta-sts.txt", "", secure)
	}
	if r := get("mta-sts.example.com", true); r.Code != 404 {
		t.Errorf("a policy that nobody has asked for: %d", r.Code)
	}
	w.opts.MTASTS, w.opts.MTASTSAge, w.opts.MX = "enforce", 7*24*time.Hour, []string{"mx.example.com",
		"*.backup.example"}
	r := get("MTA-STS.example.com:443", true)
	p, err := mtasts.ParsePolicy(r.Body.String())
	if r.Code != 200 || err != nil {
		t.Fatalf("%d %v %q", r.Code, err, r.Body)
	}
	if p.Mode != "enforce" || len(p.MX) != 2 ||
		r.Body.String() != "version: STSv1\r\nmode: enforce\r\nmx: mx.example.com\r\nmx: *.backup.example\r\n"+
			"max_age: 604800\r\n" {
		t.Errorf("%+v %q", p, r.Body)
	}
	for _, host := range []string{"example.com", "mx.example.com", "mta-sts.example.org", "mta-sts."} {
		if r := get(host, true); r.Code != 404 {
			t.Errorf("%s: %d", host, r.Code)
		}
	}
	if r := get("mta-sts.example.com", false); r.Code != 404 {
		t.Errorf("without TLS: %d", r.Code)
	}
}

// TestRedirect checks that pages for people redirect to https, but ACME, health checks and paths for mail clients do
// not.
func TestRedirect(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	s.Name, s.Doors = "mx.example.com", mailDoors
	w.opts.Redirect = "443"
	for _, c := range []struct{ host, path, to string }{
		{"autodiscover.example.com", "/autodiscover/autodiscover.xml",
			"https://autodiscover.example.com/autodiscover/autodiscover.xml"},
		{"example.com", "/mobileconfig?email=ada@example.com",
			"https://example.com/mobileconfig?email=ada@example.com"},
		{"evil.example", "/", "https://mx.example.com/"},
		{"example.com", "/healthz", ""}, {"example.com", "/readyz", ""}, {"example.com", "/metrics", ""},
		{"example.com", "/mail/config-v1.1.xml", ""},
	} {
		r := ask(w, "GET", c.host, c.path, "", false)
		if got := r.Header().Get("Location"); got != c.to || c.to == "" && r.Code != 200 || c.to != "" &&
			r.Code != 308 {
			t.Errorf("%s%s: %d %q", c.host, c.path, r.Code, got)
		}
		if r := ask(w, "GET", c.host, c.path, "", true); r.Header().Get("Location") != "" {
			t.Errorf("%s%s is sent on though it came by https", c.host, c.path)
		}
	}
	w.opts.Redirect = "8443"
	if got := ask(w, "GET", "example.com", "/", "",
		false).Header().Get("Location"); got != "https://example.com:8443/" {
		t.Errorf("another port: %q", got)
	}
}

func TestHSTS(t *testing.T) {
	t.Parallel()
	w, _ := newServer(t)
	w.hsts = "max-age=60"
	if got := ask(w, "GET", "example.com", "/healthz", "",
		true).Header().Get("Strict-Transport-Security"); got != "max-age=60" {
		t.Errorf("over https: %q", got)
	}
	if got := ask(w, "GET", "example.com", "/healthz", "", false).Header().Get("Strict-Transport-Security"); got != "" {
		t.Errorf("over http: %q", got)
	}
}

func TestMonitors(t *testing.T) {
	t.Parallel()
	w, _ := newServer(t)
	w.opts.Monitors = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for from, sees := range map[string]bool{"127.0.0.1:9": true, "[2001:db8::7]:9": true, "[::ffff:127.0.0.1]:9": true,
		"192.0.2.1:9": false, "[::1]:9": false, "": false, "@": false} {
		for _, path := range []string{"/", "/metrics"} {
			q := httptest.NewRequest("GET", path, nil)
			q.RemoteAddr = from
			r := httptest.NewRecorder()
			w.ServeHTTP(r, q)
			if (r.Code == 200) != sees {
				t.Errorf("%q gets %d at %s", from, r.Code, path)
			}
		}
	}
	q := httptest.NewRequest("GET", "/healthz", nil)
	q.RemoteAddr = "192.0.2.1:9"
	r := httptest.NewRecorder()
	if w.ServeHTTP(r, q); r.Code != 200 {
		t.Errorf("health: %d", r.Code)
	}
}
