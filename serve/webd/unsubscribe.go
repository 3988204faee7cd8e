package webd

import (
	"bytes"
	"errors"
	"net/http"

	"doublet/mail"
	"doublet/serve/speech"
	"doublet/web"
)

// unsubscribeText is the page that asks for confirmation or shows the result. The form posts to the page's own address.
const unsubscribeText = `<!DOCTYPE html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport"
content="width=device-width, initial-scale=1"><title>{{.Title}}</title>
<style></style></head>
<body><main><h1>{{.Title}}</h1><section><p>{{.Text}}</p>{{if .Ask}}<form method="post"><button
name="List-Unsubscribe" value="One-Click">{{.T "listLeave"}}</button></form>{{end}}</section></main></body></html>
`

var unsubscribePage, unsubscribePolicy = web.Page(unsubscribeText, "'self'")

type unsubscribeData struct {
	*speech.Speech
	Title, Text string
	Ask         bool
}

// lists registers the paths to which mailing lists link.
func (w *Server) lists() {
	w.mux.HandleFunc("GET /list/unsubscribe", w.askUnsubscribe)
	w.mux.HandleFunc("POST /list/unsubscribe", w.unsubscribe)
}

// askUnsubscribe shows a button. It changes nothing, because mail scanners follow links.
//
// Implements: RFC 8058 §3.1 Only POST ends the membership
func (w *Server) askUnsubscribe(out http.ResponseWriter, r *http.Request) {
	p := speech.Of(r, w.env.Clock.Now())
	g, address, err := w.system.Mail.Lists.Membership(r.Context(), r.URL.Query())
	if err != nil {
		w.unsubscribeError(out, p, g.Name, err)
		return
	}
	w.showUnsubscribe(out, http.StatusOK, unsubscribeData{p, p.T("listLeaveAsk", g.Name),
		p.T("listNoMore", address), true})
}

// unsubscribe removes a member from a list.
//
// Implements: RFC 8058 §3.2 One-click unsubscription by POST
func (w *Server) unsubscribe(out http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(out, r.Body, 4096)
	p := speech.Of(r, w.env.Clock.Now())
	g, address, err := w.system.Mail.Lists.Unsubscribe(r.Context(), r.URL.Query())
	if err != nil {
		w.unsubscribeError(out, p, g.Name, err)
		return
	}
	w.showUnsubscribe(out, http.StatusOK, unsubscribeData{p, p.T("listLeft", g.Name), p.T("listNone", address), false})
}

func (w *Server) unsubscribeError(out http.ResponseWriter, p *speech.Speech, list string, err error) {
	switch {
	case errors.Is(err, mail.ErrNotMember):
		// Already unsubscribed: a second click is not an error.
		w.showUnsubscribe(out, http.StatusOK, unsubscribeData{p, p.T("listNotOn", list), p.T("listNothing"), false})
	case errors.Is(err, mail.ErrBadLink):
		w.showUnsubscribe(out, http.StatusForbidden, unsubscribeData{p, p.T("linkBad"), p.T("linkWhole"), false})
	default:
		w.env.Log.Error("unsubscribe failed", "error", err)
		w.showUnsubscribe(out, http.StatusServiceUnavailable,
			unsubscribeData{p, p.T("notNow"), p.T("laterPlease"), false})
	}
}

func (w *Server) showUnsubscribe(out http.ResponseWriter, status int, d unsubscribeData) {
	var b bytes.Buffer
	if err := unsubscribePage.Execute(&b, d); err != nil {
		w.env.Log.Error("page failed", "error", err)
		http.Error(out, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "text/html; charset=utf-8")
	out.Header().Set("Cache-Control", "no-store")
	out.Header().Set("Content-Security-Policy", unsubscribePolicy)
	out.WriteHeader(status)
	_, _ = out.Write(b.Bytes())
}
