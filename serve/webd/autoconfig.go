package webd

import (
	"encoding/xml"
	"net/http"
	"strconv"
)

// clientConfig is Mozilla's configuration format, version 1.1.
type clientConfig struct {
	XMLName  xml.Name `xml:"clientConfig"`
	Version  string   `xml:"version,attr"`
	Provider struct {
		ID       string       `xml:"id,attr"`
		Domain   string       `xml:"domain"`
		Name     string       `xml:"displayName"`
		Short    string       `xml:"displayShortName"`
		Incoming []mailServer `xml:"incomingServer"`
		Outgoing []mailServer `xml:"outgoingServer"`
	} `xml:"emailProvider"`
}

type mailServer struct {
	Type           string `xml:"type,attr"`
	Hostname       string `xml:"hostname"`
	Port           int    `xml:"port"`
	SocketType     string `xml:"socketType"`
	Authentication string `xml:"authentication"`
	Username       string `xml:"username"`
}

// autoconfig serves the configuration for Thunderbird, K-9, Evolution, KMail and others.
//
// The format: autoconfig config file format 1.1
// (https://wiki.mozilla.org/Thunderbird:Autoconfiguration:ConfigFileFormat).
func (w *Server) autoconfig(out http.ResponseWriter, r *http.Request) {
	_, domain, ok := w.account(r, r.URL.Query().Get("emailaddress"))
	if !ok {
		http.NotFound(out, r)
		return
	}
	var c clientConfig
	c.Version = "1.1"
	c.Provider.ID, c.Provider.Domain, c.Provider.Name, c.Provider.Short = domain, domain, domain, domain
	in, sub := w.endpoints()
	list := func(all []endpoint) (list []mailServer) {
		for _, e := range all {
			list = append(list, mailServer{e.kind, e.host, e.port, e.socket(), "password-cleartext", "%EMAILADDRESS%"})
		}
		return list
	}
	c.Provider.Incoming, c.Provider.Outgoing = list(in), list(sub)
	writeXML(out, c)
}

func writeXML(out http.ResponseWriter, v any) {
	body, err := xml.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(out, "the answer cannot be made", http.StatusInternalServerError)
		return
	}
	body = append(append([]byte(xml.Header), body...), '\n')
	out.Header().Set("Content-Type", "text/xml; charset=utf-8")
	out.Header().Set("Content-Length", strconv.Itoa(len(body)))
	out.Header().Set("Cache-Control", "no-store")
	_, _ = out.Write(body)
}
