package webd

import (
	"net"
	"net/http"
	"net/mail"
	"slices"
	"strconv"
	"strings"
)

// clients puts what mail programs and other servers ask for into the mux.
func (w *Server) clients() {
	w.mux.HandleFunc("GET /.well-known/autoconfig/mail/config-v1.1.xml", w.autoconfig)
	w.mux.HandleFunc("GET /mail/config-v1.1.xml", w.autoconfig)
	// Outlook spells it in several ways; the router's patterns know one case only.
	for _, dir := range []string{"autodiscover", "Autodiscover", "AutoDiscover"} {
		for _, file := range []string{"autodiscover", "Autodiscover", "AutoDiscover"} {
			w.mux.Handle("/"+dir+"/"+file+".xml", w.people(w.autodiscover))
			w.mux.Handle("GET /"+dir+"/"+file+".json", w.people(w.autodiscoverJSON))
		}
	}
	w.mux.Handle("GET /mobileconfig", w.people(w.mobileconfig))
	w.mux.HandleFunc("GET /.well-known/mta-sts.txt", w.mtaSTS)
}

// The names in front of a domain under which mail programs and senders look for us.
var prefixes = []string{"autoconfig.", "autodiscover.", "mta-sts.", "mail.", "www."}

// host is the host that a request names if it is one of ours, else the server's name; and the local domain
// that it stands for, or "".
func (w *Server) host(r *http.Request) (host, domain string) {
	host = strings.ToLower(r.Host)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(host, ".")
	all, err := w.system.Directory.Domains.List(r.Context())
	if err != nil {
		w.env.Log.Error("the local domains cannot be read", "error", err)
		return w.system.Name, ""
	}
	if slices.Contains(all, host) {
		return host, host
	}
	for _, p := range prefixes {
		if d, ok := strings.CutPrefix(host, p); ok && slices.Contains(all, d) {
			return host, d
		}
	}
	return w.system.Name, ""
}

// maxAddress is the longest e-mail address (RFC 5321 section 4.5.3.1.3).
const maxAddress = 254

// account is whose settings are asked for: the address, and its domain, which is ours. Whether there is
// such a person is not said.
func (w *Server) account(r *http.Request, address string) (email, domain string, ok bool) {
	if address == "" {
		if _, domain = w.host(r); domain != "" {
			return "", domain, true
		}
		all, err := w.system.Directory.Domains.List(r.Context())
		if err != nil || len(all) == 0 {
			return "", "", false
		}
		return "", all[0], true
	}
	if len(address) > maxAddress {
		return "", "", false
	}
	a, err := mail.ParseAddress(address)
	if err != nil || a.Name != "" || a.Address != address {
		return "", "", false
	}
	domain = strings.ToLower(address[strings.LastIndexByte(address, '@')+1:])
	local, err := w.system.Directory.Domains.IsLocal(r.Context(), domain)
	return address, domain, err == nil && local
}

// endpoint is an open door as a mail program is told of it.
type endpoint struct {
	kind     string // imap, pop3, smtp
	host     string
	port     int
	startTLS bool // else TLS from the first byte
}

// socket is the word for it in autoconfig.
func (e endpoint) socket() string {
	if e.startTLS {
		return "STARTTLS"
	}
	return "SSL"
}

// endpoints are the doors for mail programs that are open, the best first: TLS from the first byte before
// STARTTLS (RFC 8314), IMAP before POP3. A door without TLS is not told of.
func (w *Server) endpoints() (in, out []endpoint) {
	var doors = map[string]endpoint{}
	if w.system.Doors == nil {
		return nil, nil
	}
	for _, d := range w.system.Doors() {
		_, text, err := net.SplitHostPort(d.Address)
		port, perr := strconv.Atoi(text)
		if err != nil || perr != nil || d.TLS == "" {
			continue
		}
		kind := map[string]string{"imaps": "imap", "imap": "imap", "pop3s": "pop3", "pop3": "pop3", "submissions": "smtp", "submission": "smtp"}[d.Name]
		doors[d.Name] = endpoint{kind, w.system.Name, port, d.TLS == "STARTTLS"}
	}
	pick := func(names ...string) (list []endpoint) {
		for _, n := range names {
			if e, ok := doors[n]; ok {
				list = append(list, e)
			}
		}
		return list
	}
	return pick("imaps", "imap", "pop3s", "pop3"), pick("submissions", "submission")
}
