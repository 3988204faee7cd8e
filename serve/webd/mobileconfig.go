package webd

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"net/http"

	"doublet/web"
	"strconv"
)

// profileText is the page that asks for the address.
const profileText = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mail on iPhone, iPad and Mac</title>
<style></style></head>
<body><main><h1>Mail on iPhone, iPad and Mac</h1>
<section>
<p>Your address at {{.}}: the profile sets your account up, and asks for your password on the device.</p>
<form method="get" action="/mobileconfig"><label>Address<input type="email" name="email" required
autocomplete="email"></label><label>Your name<input name="name" maxlength="100" autocomplete="name"></label>
<button>Get the profile</button></form>
</section></main></body></html>
`

var profilePage, profilePolicy = web.Page(profileText, "'self'")

const maxName = 100

// mobileconfig serves a configuration profile for Apple's mail clients, or a form that asks for the address.
//
// The format: Apple Configuration Profile Reference, payload com.apple.mail.managed.
func (w *Server) mobileconfig(out http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	email, domain, ok := w.account(r, q.Get("email"))
	in, sub := w.endpoints()
	switch {
	case !ok || len(q.Get("name")) > maxName:
		http.NotFound(out, r)
		return
	case len(in) == 0 || len(sub) == 0:
		http.Error(out, "this server has no doors for mail programs open", http.StatusNotFound)
		return
	case email == "":
		out.Header().Set("Content-Security-Policy", profilePolicy)
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		var b bytes.Buffer
		if err := profilePage.Execute(&b, domain); err != nil {
			http.Error(out, "the page cannot be made", http.StatusInternalServerError)
			return
		}
		_, _ = out.Write(b.Bytes())
		return
	}
	body := profile(w.system.Name, email, domain, q.Get("name"), in[0], sub[0])
	h := out.Header()
	h.Set("Content-Type", "application/x-apple-aspen-config; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="mail.mobileconfig"`)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	_, _ = out.Write(body)
}

// plist writes a property list.
type plist struct{ bytes.Buffer }

func (p *plist) key(k string) {
	p.WriteString("<key>")
	_ = xml.EscapeText(p, []byte(k)) // a buffer returns no error
	p.WriteString("</key>")
}

func (p *plist) text(k, v string) {
	p.key(k)
	p.WriteString("<string>")
	_ = xml.EscapeText(p, []byte(v))
	p.WriteString("</string>\n")
}

func (p *plist) number(k string, v int) {
	p.key(k)
	fmt.Fprintf(p, "<integer>%d</integer>\n", v)
}

func (p *plist) yes(k string, v bool) {
	p.key(k)
	fmt.Fprintf(p, "<%t/>\n", v)
}

// profile returns a configuration profile. Its UUIDs depend only on the server and address, so that a newer profile
// replaces the older one on the device.
func profile(server, email, domain, name string, in, out endpoint) []byte {
	id := func(what string) string {
		h := sha256.Sum256([]byte(what + "\x00" + server + "\x00" + email))
		h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8 of RFC 9562: custom content
		return fmt.Sprintf("%X-%X-%X-%X-%X", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
	}
	if name == "" {
		name = email
	}
	var p plist
	p.WriteString(xml.Header +
		`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	p.WriteString("<plist version=\"1.0\"><dict>\n")
	p.key("PayloadContent")
	p.WriteString("<array><dict>\n")
	p.text("EmailAccountDescription", domain)
	p.text("EmailAccountName", name)
	if in.kind == "pop3" {
		p.text("EmailAccountType", "EmailTypePOP")
	} else {
		p.text("EmailAccountType", "EmailTypeIMAP")
	}
	p.text("EmailAddress", email)
	for _, s := range []struct {
		way string
		e   endpoint
	}{{"Incoming", in}, {"Outgoing", out}} {
		p.text(s.way+"MailServerAuthentication", "EmailAuthPassword")
		p.text(s.way+"MailServerHostName", s.e.host)
		p.number(s.way+"MailServerPortNumber", s.e.port)
		p.yes(s.way+"MailServerUseSSL", true)
		p.text(s.way+"MailServerUsername", email)
	}
	p.yes("OutgoingPasswordSameAsIncomingPassword", true)
	p.text("PayloadDisplayName", "Mail "+domain)
	p.text("PayloadIdentifier", "doublet."+server+".mail."+id("account"))
	p.text("PayloadType", "com.apple.mail.managed")
	p.text("PayloadUUID", id("account"))
	p.number("PayloadVersion", 1)
	p.WriteString("</dict></array>\n")
	p.text("PayloadDisplayName", email)
	p.text("PayloadIdentifier", "doublet."+server+"."+id("profile"))
	p.yes("PayloadRemovalDisallowed", false)
	p.text("PayloadType", "Configuration")
	p.text("PayloadUUID", id("profile"))
	p.number("PayloadVersion", 1)
	p.WriteString("</dict></plist>\n")
	return p.Bytes()
}
