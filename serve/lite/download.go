package lite

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"doublet/store"
)

// rasters lists the image formats that are shown. None of them can contain a script.
var rasters = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true,
	"image/avif": true}

// part serves a part of a message, to save or as an image to show. Anybody may have sent the content, so a browser must
// not run it as a page of this server.
func (v *visit) part() error {
	l, err := v.named(false)
	if err != nil {
		return err
	}
	p := l.partAt(v.form.Get("s"))
	if p == nil {
		return errNotFound
	}
	c, err := l.content(v.form.Get("s"))
	if err != nil {
		return err
	}
	kind, disposition := "application/octet-stream", "attachment"
	if k := p.Type + "/" + p.Subtype; rasters[k] && v.form.Get("show") != "" {
		kind, disposition = k, "inline"
	} else if _, _, err := mime.ParseMediaType(k); err == nil && p.Type != "text" {
		kind = k
	}
	v.foreign(kind, mime.FormatMediaType(disposition, map[string]string{"filename": fileName(p)}), c.Size)
	return v.send(c.Size, c.Append)
}

// source serves the source of a message.
func (v *visit) source() error {
	l, err := v.named(false)
	if err != nil {
		return err
	}
	if err := l.body.Reach(0, l.body.Size()); err != nil {
		return err
	}
	kind, disposition := "text/plain; charset=utf-8", "inline"
	if v.form.Get("save") != "" {
		kind, disposition = "message/rfc822", mime.FormatMediaType("attachment",
			map[string]string{"filename": "message.eml"})
	}
	v.foreign(kind, disposition, l.body.Size())
	return v.send(l.body.Size(),
		func(dst []byte, off, n int64) ([]byte, error) { return l.body.AppendRange(dst, off, n) })
}

func (v *visit) foreign(kind, disposition string, n int64) {
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", disposition)
	h.Set("Content-Security-Policy", policyForeign)
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	h.Set("Cache-Control", "private, max-age=3600")
}

// downloadPiece is the size of the buffer for downloads.
const downloadPiece = 256 << 10

func (v *visit) send(size int64, read func(dst []byte, off, n int64) ([]byte, error)) error {
	control := http.NewResponseController(v.w)
	var buf []byte
	for at := int64(0); at < size; at += int64(len(buf)) {
		var err error
		if buf, err = read(buf[:0], at, min(downloadPiece, size-at)); err == nil && len(buf) == 0 {
			err = fmt.Errorf("%w: a message is shorter than it was", store.ErrDamaged)
		}
		if err != nil {
			v.s.env.Log.Warn("lite: download interrupted", "person", v.id.Name, "error", err)
			panic(http.ErrAbortHandler) // Content-Length is already sent
		}
		_ = control.SetWriteDeadline(v.s.env.Clock.Now().Add(30 * time.Second))
		if _, err := v.w.Write(buf); err != nil {
			return nil // the client has disconnected
		}
	}
	return nil
}
