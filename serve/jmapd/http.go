package jmapd

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"doublet/serve/listen"
	"doublet/wire/jmap"
)

// activity counts what a session has in progress.
type activity struct{ requests, uploads int }

// enter counts a request or an upload of the session. leave ends it. enter fails if the session has too many in
// progress.
func (s *Server) enter(c *Caller, upload bool) (leave func(), problem *jmap.Problem) {
	key := string(c.Who.Person[:]) + c.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.active[key]
	if a == nil {
		a = &activity{}
		s.active[key] = a
	}
	n, most, name := &a.requests, s.opt.Limits.ConcurrentRequests, "maxConcurrentRequests"
	if upload {
		n, most, name = &a.uploads, s.opt.Limits.ConcurrentUploads, "maxConcurrentUpload"
	}
	if *n >= most {
		return nil, &jmap.Problem{Type: jmap.ProblemLimit, Status: http.StatusTooManyRequests, Limit: name,
			Detail: "Too much is under way already."}
	}
	*n++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if *n--; *a == (activity{}) {
			delete(s.active, key)
		}
	}, nil
}

// refuse responds with a problem (RFC 7807).
func (s *Server) refuse(w http.ResponseWriter, p *jmap.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(p.Append([]byte{'{'}), '}'))
}

// api serves the API endpoint.
//
// Implements: RFC 8620 §3.1 Making an API request
func (s *Server) api(w http.ResponseWriter, r *http.Request, c *Caller) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && charset != "utf-8" &&
		charset != "UTF-8" {
		s.stats.problems.Inc()
		s.refuse(w, &jmap.Problem{Type: jmap.ProblemNotJSON, Status: 400,
			Detail: "The content type is not application/json."})
		return
	}
	m := s.memoryOf(c)
	defer m.give()
	body, problem := m.read(listen.Paced(s.env, w, r.Body), r.ContentLength, s.opt.Limits.Request, "maxSizeRequest")
	if problem != nil {
		s.stats.problems.Inc()
		s.refuse(w, problem)
		return
	}
	answer, problem := s.Call(r.Context(), c, body)
	if problem != nil {
		s.refuse(w, problem)
		return
	}
	defer answer.Release()
	m.give() // the request body is no longer needed
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(answer.JSON)))
	_ = listen.WritePaced(s.env, w, answer.JSON)
}

// pieceSize is the initial size of the buffer for a body.
const pieceSize = 64 << 10

// read reads a body of at most most octets. It reserves memory as the body arrives.
func (m *memory) read(from io.Reader, length, most int64, limit string) ([]byte, *jmap.Problem) {
	tooLarge := &jmap.Problem{Type: jmap.ProblemLimit, Status: http.StatusRequestEntityTooLarge, Limit: limit,
		Detail: "The body is too large."}
	if length > most {
		return nil, tooLarge
	}
	// Do not trust Content-Length: a client that announces much and sends nothing must not occupy much memory.
	size := int64(pieceSize)
	if length >= 0 {
		size = min(size, length)
	}
	if !m.take(size + 1) {
		return nil, busy()
	}
	buf := make([]byte, 0, size+1)
	for {
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > most:
			return nil, tooLarge
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusBadRequest, Title: "Bad Request",
				Detail: "The body could not be read."}
		case len(buf) == cap(buf):
			to := min(2*int64(cap(buf)), most+1)
			if length >= 0 {
				to = min(to, length+1)
			}
			// The old buffer remains in memory until it is copied.
			old := int64(cap(buf))
			if to = max(to, int64(len(buf))+1); !m.take(to) {
				return nil, busy()
			}
			buf = append(make([]byte, 0, to), buf...)
			m.drop(old)
		}
	}
}
