package webd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// clientPolicy is the Content-Security-Policy of the browser client: its own scripts, styles and fonts, connections to
// this server, and images in messages. It allows nothing from elsewhere, and no inline scripts or styles.
const clientPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src " +
	"'self'; connect-src 'self'; frame-src 'self'; " +
	"worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// The document into which the client puts HTML messages, with their style. Its policy never allows scripts. It allows
// styles and images of this server and, with pictures=1 at the reader's request, images from elsewhere.
const (
	framePath   = "/mail-frame"
	framePolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' blob: data:; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'self'; sandbox allow-same-origin allow-popups " +
		"allow-popups-to-escape-sandbox"
	framePictures = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' blob: data: https: http:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-same-origin allow-popups " +
		"allow-popups-to-escape-sandbox"
	frameText = `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">` +
		`<title>Message</title><body></body>`
)

// file is a file of the client. It is compressed at the first request.
type file struct {
	body            []byte
	kind, etag      string
	keep            bool // the name contains a hash of the content
	once            sync.Once
	gzip, zstandard []byte
}

func (f *file) pack() {
	if strings.HasPrefix(f.kind, "font/") {
		return // already compressed
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // cannot fail with this level
	_, err := z.Write(f.body)
	if err = errors.Join(err, z.Close()); err == nil {
		f.gzip = b.Bytes()
	}
	if e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithEncoderConcurrency(1)); err == nil {
		f.zstandard = e.EncodeAll(f.body, nil)
		_ = e.Close()
	}
}

// kinds maps extensions to media types. mime.TypeByExtension is not used, because its result depends on the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2", ".webmanifest": "application/manifest+json",
}

// Files calls fn with the handler of each file of the browser client.
func Files(files fs.FS, fn func(name string, h http.Handler)) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		f := &file{body: body, kind: kinds[path.Ext(name)], etag: `"` + hex.EncodeToString(sum[:8]) + `"`,
			keep: strings.HasPrefix(name, "assets/")}
		fn(name, http.HandlerFunc(f.serve))
		return nil
	})
}

// client registers the browser client. The status page is then at /status.
func (w *Server) client(files fs.FS) error {
	err := Files(files, func(name string, h http.Handler) {
		pattern := "GET /" + name
		if name == "index.html" {
			// The same page is the mail client and, at /admin/, the administration. The client decides by its address.
			// Below /mail/ the address names a folder, below /calendar/ a view and its day, below /contacts/ a list.
			pattern = "GET /{$}"
			w.mux.Handle("GET /admin/{$}", w.people(h.ServeHTTP))
			for _, page := range []string{"mail", "calendar", "contacts"} {
				w.mux.Handle("GET /"+page+"/{place...}", w.people(h.ServeHTTP))
			}
			w.mux.Handle("GET /admin", http.RedirectHandler("/admin/", http.StatusMovedPermanently))
		}
		w.mux.Handle(pattern, w.people(h.ServeHTTP))
	})
	w.mux.Handle("GET "+framePath, w.people(serveFrame))
	return err
}

func (f *file) serve(out http.ResponseWriter, r *http.Request) {
	h := out.Header()
	h.Set("Content-Security-Policy", clientPolicy)
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.etag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if f.keep {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	f.once.Do(f.pack)
	body, accepts := f.body, r.Header.Get("Accept-Encoding")
	switch {
	case f.zstandard != nil && strings.Contains(accepts, "zstd"):
		body = f.zstandard
		h.Set("Content-Encoding", "zstd")
	case f.gzip != nil && strings.Contains(accepts, "gzip"):
		body = f.gzip
		h.Set("Content-Encoding", "gzip")
	}
	if r.Header.Get("If-None-Match") == f.etag {
		out.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = out.Write(body)
}

func serveFrame(out http.ResponseWriter, r *http.Request) {
	h := out.Header()
	h.Set("Content-Security-Policy", framePolicy)
	if r.URL.Query().Get("pictures") == "1" {
		h.Set("Content-Security-Policy", framePictures)
	}
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=3600")
	_, _ = out.Write([]byte(frameText))
}
