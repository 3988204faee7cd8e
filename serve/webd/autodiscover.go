package webd

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"strings"
)

// maxDiscover bounds the request, in bytes.
const maxDiscover = 64 << 10

// discoverRequest is the request that Outlook posts. The namespace is ignored, because it differs between clients.
type discoverRequest struct {
	XMLName xml.Name `xml:"Autodiscover"`
	Request struct {
		Email  string `xml:"EMailAddress"`
		Schema string `xml:"AcceptableResponseSchema"`
	} `xml:"Request"`
}

const (
	discoverSpace = "http://schemas.microsoft.com/exchange/autodiscover/responseschema/2006"
	outlookSpace  = "http://schemas.microsoft.com/exchange/autodiscover/outlook/responseschema/2006a"
)

type discoverAnswer struct {
	XMLName  xml.Name `xml:"http://schemas.microsoft.com/exchange/autodiscover/responseschema/2006 Autodiscover"`
	Response any
}

type discoverSettings struct {
	XMLName xml.Name `xml:"http://schemas.microsoft.com/exchange/autodiscover/outlook/responseschema/2006a Response"`
	Account struct {
		Type     string             `xml:"AccountType"`
		Action   string             `xml:"Action"`
		Protocol []discoverProtocol `xml:"Protocol"`
	} `xml:"Account"`
}

type discoverProtocol struct {
	Type           string `xml:"Type"`
	Server         string `xml:"Server"`
	Port           int    `xml:"Port"`
	LoginName      string `xml:"LoginName"`
	DomainRequired string `xml:"DomainRequired"`
	SPA            string `xml:"SPA"`
	SSL            string `xml:"SSL"`
	Encryption     string `xml:"Encryption"`
	AuthRequired   string `xml:"AuthRequired"`
}

type discoverError struct {
	XMLName xml.Name `xml:"Response"`
	Error   struct {
		Time    string `xml:"Time,attr"`
		ID      string `xml:"Id,attr"`
		Code    int    `xml:"ErrorCode"`
		Message string `xml:"Message"`
		Debug   string `xml:"DebugData"`
	} `xml:"Error"`
}

// autodiscover serves the configuration for Outlook and compatible clients. It ignores a password in the request.
//
// The protocol: MS-OXDSCLI, POX Autodiscover, for IMAP, POP3 and SMTP.
func (w *Server) autodiscover(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		out.Header().Set("Allow", http.MethodPost)
		http.Error(out, "post a request", http.StatusMethodNotAllowed)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(out, r.Body, maxDiscover))
	var q discoverRequest
	if err != nil || xml.Unmarshal(raw, &q) != nil || q.Request.Email == "" {
		w.discoverFail(out, 600, "Invalid request")
		return
	}
	if s := q.Request.Schema; s != "" && !strings.EqualFold(strings.TrimSpace(s), outlookSpace) {
		w.discoverFail(out, 601, "Requested schema version not supported")
		return
	}
	email, _, ok := w.account(r, strings.TrimSpace(q.Request.Email))
	if !ok {
		w.discoverFail(out, 500, "The e-mail address is not of this server")
		return
	}
	var s discoverSettings
	s.Account.Type, s.Account.Action = "email", "settings"
	in, sub := w.endpoints()
	seen := map[string]bool{}
	for _, e := range append(in, sub...) {
		if seen[e.kind] { // only the best of each kind, because Outlook uses the first
			continue
		}
		seen[e.kind] = true
		p := discoverProtocol{
			Type: strings.ToUpper(e.kind), Server: e.host, Port: e.port, LoginName: email,
			DomainRequired: "off", SPA: "off", SSL: "on", Encryption: "SSL", AuthRequired: "on",
		}
		if e.startTLS {
			p.Encryption = "TLS"
		}
		s.Account.Protocol = append(s.Account.Protocol, p)
	}
	writeXML(out, discoverAnswer{Response: s})
}

func (w *Server) discoverFail(out http.ResponseWriter, code int, message string) {
	var e discoverError
	e.Error.Time = w.env.Clock.Now().UTC().Format("15:04:05.0000000")
	e.Error.ID, e.Error.Code, e.Error.Message = "1", code, message
	writeXML(out, discoverAnswer{Response: e})
}

// autodiscoverJSON returns the URL of the XML service. Clients with version 2 of the protocol request this first.
func (w *Server) autodiscoverJSON(out http.ResponseWriter, r *http.Request) {
	answer := func(status int, v any) {
		out.Header().Set("Content-Type", "application/json")
		out.Header().Set("Cache-Control", "no-store")
		out.WriteHeader(status)
		_ = json.NewEncoder(out).Encode(v)
	}
	type failure struct{ ErrorCode, ErrorMessage string }
	q := r.URL.Query()
	if p := q.Get("Protocol"); !strings.EqualFold(p, "AutodiscoverV1") {
		answer(http.StatusBadRequest, failure{"InvalidProtocol", "The supported protocols are 'AutodiscoverV1'."})
		return
	}
	if _, _, ok := w.account(r, q.Get("Email")); !ok {
		answer(http.StatusNotFound, failure{"UserNotFound", "The e-mail address is not of this server."})
		return
	}
	host, _ := w.host(r)
	answer(http.StatusOK, struct{ Protocol, Url string }{"AutodiscoverV1",
		"https://" + host + "/autodiscover/autodiscover.xml"})
}
