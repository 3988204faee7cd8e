package websession

import (
	"encoding/json"
	"errors"
	"net/http"

	"doublet/directory"
	"doublet/serve/signin"
	"doublet/serve/speech"
)

// problem is how a refusal reads to programs (RFC 7807). Error is a word of ours, for pages.
type problem struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Error  string `json:"error"`
	Detail string `json:"detail"`
	// text and value are Detail for people: a key of the catalogue.
	text, value string
}

func newProblem(status int, word, text, value string) problem {
	return problem{"about:blank", status, word, speech.English(text, value), text, value}
}

// refusal says what becomes of an error.
func refusal(err error) problem {
	var elsewhere *directory.ElsewhereError
	if errors.As(err, &elsewhere) {
		at := elsewhere.Door("web")
		if at == "" {
			at = elsewhere.Server()
		}
		return newProblem(http.StatusForbidden, "elsewhere", "elsewhere", at)
	}
	var codes *signin.CodesError
	if errors.As(err, &codes) {
		return newProblem(http.StatusTooManyRequests, "busy", "factorLater", codes.After.UTC().Format("2006-01-02 15:04 UTC"))
	}
	for _, c := range []struct {
		err    error
		status int
		word   string
		text   string
	}{
		{ErrNobody, http.StatusUnauthorized, "nobody", "nobody"},
		{ErrMalformed, http.StatusUnauthorized, "malformed", "authorizationUnread"},
		{ErrClear, http.StatusForbidden, "clear", "clear"},
		{ErrForeign, http.StatusForbidden, "foreign", "foreign"},
		{signin.ErrCode, http.StatusUnauthorized, "code", "factorCode"},
		{signin.ErrWrongCode, http.StatusUnauthorized, "wrong code", "factorWrong"},
		{signin.ErrApp, http.StatusForbidden, "app password", "appPasswordNot"},
		{signin.ErrCredentials, http.StatusUnauthorized, "credentials", "credentials"},
		{signin.ErrDisabled, http.StatusForbidden, "disabled", "disabled"},
		{signin.ErrBanned, http.StatusTooManyRequests, "banned", "banned"},
		{signin.ErrBusy, http.StatusTooManyRequests, "busy", "busy"},
	} {
		if errors.Is(err, c.err) {
			return newProblem(c.status, c.word, c.text, "")
		}
	}
	return newProblem(http.StatusServiceUnavailable, "unavailable", "tryLater", "")
}

// Why says what becomes of an error for a page: a status, and the word that programs are told in "error".
func Why(err error) (status int, word string) {
	var told *clientError
	if errors.As(err, &told) {
		return told.status, told.word
	}
	p := refusal(err)
	return p.Status, p.Error
}

// comeAgain is after how many seconds who is refused for now is told to come again.
const comeAgain = "10"

// Refuse answers a request that is from nobody. A browser is not asked to ask its person for a password: its
// pages do that, and what it asks for itself it sends to whoever wants it.
//
// Implements: RFC 7235 §3.1 401 Unauthorized
// Implements: RFC 6750 §3 The WWW-Authenticate response header field
func (x *Service) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := refusal(err)
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		if r.Header.Get("Sec-Fetch-Mode") == "" {
			h.Add("WWW-Authenticate", `Basic realm="Doublet", charset="UTF-8"`)
		}
		bearer := `Bearer realm="Doublet"`
		if r.Header.Get("Authorization") != "" {
			bearer += `, error="invalid_token"`
		}
		h.Add("WWW-Authenticate", bearer)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", comeAgain)
	}
	x.logTrouble(r, p, err)
	writeJSON(w, p.Status, "application/problem+json", p)
}

// logTrouble tells of what is the server's own.
func (x *Service) logTrouble(r *http.Request, p problem, err error) {
	if p.Status == http.StatusServiceUnavailable && r.Context().Err() == nil {
		x.env.Log.Error("who a request is from cannot be told", "path", r.URL.Path, "error", err)
	}
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("websession: " + err.Error()) // of a struct of ours
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
