package jmapd

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/store"
	"doublet/wire/jmap"
)

// upload serves uploads of blobs.
//
// Implements: RFC 8620 §6.1 Uploading binary data
func (s *Server) upload(w http.ResponseWriter, r *http.Request, c *Caller) {
	b := &batch{s: s, ctx: r.Context(), caller: c}
	if p := s.refresh(r.Context(), c); p != nil {
		s.refuse(w, p)
		return
	}
	a, err := b.find(r.PathValue("accountId"))
	if err != nil || a == nil || c.Database == 0 {
		s.failed(w, r, err, http.StatusNotFound, "There is no such account.")
		return
	}
	leave, problem := s.enter(c, true)
	if problem != nil {
		s.refuse(w, problem)
		return
	}
	defer leave()
	kind := r.Header.Get("Content-Type")
	if _, _, err := mime.ParseMediaType(kind); err != nil || len(kind) > 255 {
		kind = "application/octet-stream"
	}
	m := s.memoryOf(c)
	defer m.give()
	body, problem := m.read(listen.Paced(s.env, w, r.Body), r.ContentLength, s.opt.Limits.Upload, "maxSizeUpload")
	if problem != nil {
		s.refuse(w, problem)
		return
	}
	ref, err := s.keep(r.Context(), c, body, kind)
	if err != nil {
		s.failed(w, r, err, http.StatusServiceUnavailable, "The blob cannot be stored now.")
		return
	}
	o := jmap.NewWriter(nil)
	o.Text("accountId", a.ID)
	o.Text("blobId", ref.String())
	o.Text("type", kind)
	o.Uint("size", uint64(len(body)))
	out := o.End()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(out)
}

// keep stores an upload. It is always stored in the caller's own mail file, even if it was sent to another account.
func (s *Server) keep(ctx context.Context, c *Caller, content []byte, kind string) (blobRef, error) {
	l := &s.opt.Limits
	u, err := s.own(c).File.Uploads().Put(ctx, content, kind, l.UploadAge, l.Uploads)
	if err == nil {
		s.stats.uploads.Inc()
	}
	return blobRef{letter: letterUpload, unid: u}, err
}

// failed responds to an upload or download that failed.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error, status int, detail string) {
	trouble, known := condition.Of(err)
	switch {
	case errors.Is(err, errNoBlob), errors.Is(err, mailbox.ErrNoMessage):
		status, detail = http.StatusNotFound, "There is no such blob."
	case errors.Is(err, store.ErrDenied):
		status, detail = http.StatusForbidden, "That is not allowed."
	case known && trouble != condition.Damaged:
		status, detail = trouble.HTTP, trouble.IMAPText+"."
	case err != nil && r.Context().Err() == nil:
		s.env.Log.Error("jmap: transfer failed", "path", r.URL.Path, "error", err)
	}
	s.refuse(w, &jmap.Problem{Type: jmap.ProblemBlank, Status: status, Title: http.StatusText(status), Detail: detail})
}

// downloadPiece is the size of the buffer for downloads.
const downloadPiece = 256 << 10

// download serves a blob, or a range of it.
//
// Implements: RFC 8620 §6.2 Downloading binary data
// Implements: RFC 9110 §14 range requests for one range
func (s *Server) download(w http.ResponseWriter, r *http.Request, c *Caller) {
	if p := s.refresh(r.Context(), c); p != nil {
		s.refuse(w, p)
		return
	}
	x := &call{batch: &batch{s: s, ctx: r.Context(), caller: c, mem: s.memoryOf(c)}}
	defer x.mem.give()
	a, err := x.find(r.PathValue("accountId"))
	if err != nil || a == nil {
		s.failed(w, r, err, http.StatusNotFound, "There is no such account.")
		return
	}
	id := r.PathValue("blobId")
	b, err := x.openBlob(a, id)
	if err != nil {
		s.failed(w, r, err, http.StatusServiceUnavailable, "The blob cannot be read now.")
		return
	}
	h := w.Header()
	kind := r.URL.Query().Get("accept")
	if _, _, err := mime.ParseMediaType(kind); err != nil || strings.ContainsAny(kind, "\r\n") {
		if kind = b.kind; kind == "" {
			kind = "application/octet-stream"
		}
	}
	// Anybody may have sent the content. A browser must not run it as a page of this server.
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	disposition := "attachment"
	if kind == "application/pdf" && r.URL.Query().Get("preview") == "1" {
		// The browser's own viewer does not start in a sandbox of ours. It has one of its own, apart from this origin.
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; "+
			"frame-ancestors 'self'")
		disposition = "inline"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": r.PathValue("name")}))
	h.Set("Cache-Control", "private, immutable, max-age=31536000")
	h.Set("Accept-Ranges", "bytes")
	etag := `"` + id + `"`
	h.Set("ETag", etag)
	if match := r.Header.Get("If-None-Match"); match == etag || match == "*" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	from, to, status := int64(0), b.size, http.StatusOK
	if ranged := r.Header.Get("Range"); ranged != "" {
		if again := r.Header.Get("If-Range"); again == "" || again == etag {
			var ok bool
			if from, to, ok = oneRange(ranged, b.size); !ok {
				h.Set("Content-Range", "bytes */"+strconv.FormatInt(b.size, 10))
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			if to-from != b.size {
				status = http.StatusPartialContent
				h.Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(to-1, 10)+"/"+
					strconv.FormatInt(b.size, 10))
			}
		}
	}
	h.Set("Content-Length", strconv.FormatInt(to-from, 10))
	w.WriteHeader(status)
	s.stats.downloads.Inc()
	if err := s.send(w, s.memoryOf(c), b, from, to); err != nil && r.Context().Err() == nil {
		s.env.Log.Warn("jmap: download interrupted", "person", c.Name, "error", err)
	}
}

// send writes a range of a blob in pieces.
func (s *Server) send(w http.ResponseWriter, m memory, b *blob, from, to int64) error {
	if from >= to {
		return nil
	}
	defer m.give()
	size := min(downloadPiece, to-from)
	m.take(size) // Send even if this fails: the buffer is small, and the response has begun.
	buf := make([]byte, 0, size)
	control := http.NewResponseController(w)
	for from < to {
		var err error
		if buf, err = b.read(buf[:0], from, min(size, to-from)); err != nil {
			return err
		}
		if len(buf) == 0 {
			return io.ErrUnexpectedEOF
		}
		_ = control.SetWriteDeadline(s.env.Clock.Now().Add(listen.Patience))
		if _, err := w.Write(buf); err != nil {
			return err
		}
		from += int64(len(buf))
	}
	return nil
}

// oneRange parses a Range field with one range. It returns the whole blob for several ranges or another unit. ok is
// false if the range begins after the end.
func oneRange(field string, size int64) (from, to int64, ok bool) {
	spec, isBytes := strings.CutPrefix(strings.TrimSpace(field), "bytes=")
	first, last, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !isBytes || !dash || strings.Contains(spec, ",") {
		return 0, size, true
	}
	if first == "" { // suffix range: the last n octets
		n, isNumber := position(last)
		if !isNumber {
			return 0, size, true
		}
		return size - min(n, size), size, n > 0 && size > 0
	}
	from, isNumber := position(first)
	if !isNumber {
		return 0, size, true
	}
	to = size
	if last != "" {
		n, isNumber := position(last)
		if !isNumber || n < from {
			return 0, size, true
		}
		to = min(n, size-1) + 1
	}
	return from, to, from < size
}

// position parses a position of a Range field, which is decimal. A value above math.MaxInt64 returns math.MaxInt64,
// which is also past the end.
func position(s string) (n int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange) // on ErrRange n is math.MaxInt64
}
