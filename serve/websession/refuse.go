package websession

import (
	"encoding/json"
	"errors"
	"net/http"

	"doublet/directory"
	"doublet/directory/assist"
	"doublet/serve/signin"
	"doublet/serve/speech"
)

// problem is a problem details object (RFC 7807). Error is an additional member that identifies the error for pages.
type problem struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Error  string `json:"error"`
	Detail string `json:"detail"`
	// text and value are the key and value of Detail in the texts for users.
	text, value string
}

func newProblem(status int, word, text, value string) problem {
	return problem{"about:blank", status, word, speech.English(text, value), text, value}
}

// refusal converts an error into a problem.
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
		return newProblem(http.StatusTooManyRequests, "busy", "factorLater",
			codes.After.UTC().Format("2006-01-02 15:04 UTC"))
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
		{signin.ErrPasskey, http.StatusUnauthorized, "passkey", "passkeyWrong"},
		{signin.ErrIssuer, http.StatusUnauthorized, "issuer", "openIDWrong"},
		{signin.ErrStranger, http.StatusForbidden, "stranger", "openIDNobody"},
		{signin.ErrNotAgain, http.StatusForbidden, "not again", "openIDNotAgain"},
		{signin.ErrOther, http.StatusForbidden, "other", "openIDOther"},
		{signin.ErrLate, http.StatusUnauthorized, "late", "tookLong"},
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

// Why returns the HTTP status of an error, and the value of the member "error" of the problem.
func Why(err error) (status int, word string) {
	var told *clientError
	if errors.As(err, &told) {
		return told.status, told.word
	}
	p := refusal(err)
	return p.Status, p.Error
}

// comeAgain is the Retry-After of temporary errors, in seconds.
const comeAgain = "10"

// Refuse responds to a request without valid credentials. It does not send a Basic challenge to a browser's page: the
// browser would ask for a password itself, and then also send it with requests that other sites cause.
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

// logTrouble logs internal errors.
func (x *Service) logTrouble(r *http.Request, p problem, err error) {
	if p.Status == http.StatusServiceUnavailable && r.Context().Err() == nil && !errors.Is(err, assist.ErrAway) {
		x.env.Log.Error("cannot authenticate a request", "path", r.URL.Path, "error", err)
	}
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("websession: " + err.Error()) // only our own types are marshaled
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
