package webd

import (
	"net"
	"net/http"
	"net/mail"
	"slices"
	"strconv"
	"strings"
)

// clients registers the paths that mail clients and other servers request.
func (w *Server) clients() {
	w.mux.HandleFunc("GET /.well-known/autoconfig/mail/config-v1.1.xml", w.autoconfig)
	w.mux.HandleFunc("GET /mail/config-v1.1.xml", w.autoconfig)
	// Outlook uses several spellings, and the patterns of ServeMux are case-sensitive.
	for _, dir := range []string{"autodiscover", "Autodiscover", "AutoDiscover"} {
		for _, file := range []string{"autodiscover", "Autodiscover", "AutoDiscover"} {
			w.mux.Handle("/"+dir+"/"+file+".xml", w.people(w.autodiscover))
			w.mux.Handle("GET /"+dir+"/"+file+".json", w.people(w.autodiscoverJSON))
		}
	}
	w.mux.Handle("GET /mobileconfig", w.people(w.mobileconfig))
	w.mux.HandleFunc("GET /.well-known/mta-sts.txt", w.mtaSTS)
}

// The prefixes of a domain under which mail clients and senders look for its services.
var prefixes = []string{"autoconfig.", "autodiscover.", "mta-sts.", "mail.", "www."}

// host returns the host that a request names, if it belongs to a local domain, and that domain. Otherwise it returns
// the server's name and "".
func (w *Server) host(r *http.Request) (host, domain string) {
	host = strings.ToLower(r.Host)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(host, ".")
	all, err := w.system.Directory.Domains.List(r.Context())
	if err != nil {
		w.env.Log.Error("cannot read the local domains", "error", err)
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

// maxAddress is the length of the longest e-mail address (RFC 5321 section 4.5.3.1.3).
const maxAddress = 254

// account returns the address whose settings are requested, and its domain, which must be local. It does not check that
// the address exists, so that it does not disclose that.
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

// endpoint is a server address as a mail client needs it.
type endpoint struct {
	kind     string // imap, pop3, smtp
	host     string
	port     int
	startTLS bool // else implicit TLS
}

// socket returns the socketType of autoconfig.
func (e endpoint) socket() string {
	if e.startTLS {
		return "STARTTLS"
	}
	return "SSL"
}

// endpoints returns the enabled services for mail clients, the best first: implicit TLS before STARTTLS (RFC 8314),
// IMAP before POP3. It skips services without TLS.
func (w *Server) endpoints() (in, out []endpoint) {
	var doors = map[string]endpoint{}
	for _, d := range w.system.Doors() {
		_, text, err := net.SplitHostPort(d.Address)
		port, perr := strconv.Atoi(text)
		if err != nil || perr != nil || d.TLS == "" {
			continue
		}
		kind := map[string]string{"imaps": "imap", "imap": "imap", "pop3s": "pop3", "pop3": "pop3",
			"submissions": "smtp", "submission": "smtp"}[d.Name]
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
