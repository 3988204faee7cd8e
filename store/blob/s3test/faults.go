package s3test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
)

// Fault is a fault that a proxy between the server and its clients injects into requests.
type Fault int

// The faults.
const (
	// None passes requests on.
	None Fault = iota
	// Unavailable answers 503 and the error SlowDown.
	Unavailable
	// Stall never answers.
	Stall
	// Cut breaks the connection in the middle of an answer.
	Cut
	// Lose passes the request on, and breaks the connection before the answer.
	Lose
	// Wrong changes a byte of the body of the request, and of an object that is sent.
	Wrong
	// Page answers every request with 200 and a page of HTML, as a portal in a network does.
	Page
)

// Fail makes requests fail for which when returns true; nil is every request.
func (s *Server) Fail(f Fault, when func(*http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.when = f, when
}

func (s *Server) faultOf(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.when != nil && !s.when(r) {
		return None
	}
	return s.fault
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	fault := s.faultOf(r)
	switch fault {
	case None:
		s.store(w, r)
		return
	case Unavailable:
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>`)
		return
	case Stall:
		_, _ = io.Copy(io.Discard, r.Body) // the connection is watched only once the body was read
		<-r.Context().Done()
		return
	case Page:
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title><p>Accept the terms of this network.")
		return
	}
	if fault == Wrong {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if len(b) > 0 {
			b[len(b)/2] ^= 1
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	rec := httptest.NewRecorder()
	s.store(rec, r)
	if fault == Lose {
		panic(http.ErrAbortHandler)
	}
	body := rec.Body.Bytes()
	if fault == Wrong && rec.Header().Get("Last-Modified") != "" && len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(rec.Code)
	if fault == Cut {
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}
