package lite

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/websession"
)

// form holds a form that a browser sent.
type form struct {
	url.Values
	files []file
	mem   listen.Share
	taken int64
	// left is the number of bytes that may still be read. What exceeds it is discarded, so that the browser reads the
	// error page.
	left int64
}

// file is an uploaded file.
type file struct {
	name, kind string
	content    []byte
}

// Bounds of a form.
const (
	maxFields = 2000
	maxFiles  = 1000
)

// room reserves memory for n more bytes, three times: as received, in the composed message, and in the store.
func (f *form) room(n int64) bool { return f.hold(3 * n) }

// hold reserves n bytes of memory until the form is released.
func (f *form) hold(n int64) bool {
	if !f.mem.Take(n) {
		return false
	}
	f.taken += n
	return true
}

func (f *form) release() {
	if f.taken > 0 {
		f.mem.Give(f.taken)
	}
	f.taken, f.files = 0, nil
}

// share returns the memory share of the user who sent a request. All requests without a user (id is nil) have one share
// together.
func (s *Server) share(id *websession.Identity) listen.Share {
	if id == nil {
		return s.opt.Memory.Of(note.UNID{})
	}
	return s.opt.Memory.Of(id.Who.Person)
}

// readForm reads a form of either encoding. It reserves memory from the sender's share as the bytes arrive. It returns
// what it has read even with an error.
func (s *Server) readForm(w http.ResponseWriter, r *http.Request, id *websession.Identity, most int64) (*form, error) {
	f := &form{Values: url.Values{}, mem: s.share(id), left: most}
	body := http.MaxBytesReader(w, io.NopCloser(listen.Paced(s.env, w, r.Body)), 4*most)
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return f, errForm
	case kind == "application/x-www-form-urlencoded":
		raw, err := f.take(body, maxForm)
		if err == nil {
			if f.Values, err = url.ParseQuery(string(raw)); err != nil || len(f.Values) > maxFields {
				f.Values, err = url.Values{}, errForm
			}
		}
		if err == nil {
			err = f.check()
		}
		return f, err
	case kind == "multipart/form-data" && params["boundary"] != "":
		if err := f.parts(multipart.NewReader(body, params["boundary"])); err != nil {
			return f, err
		}
		return f, f.check()
	}
	return f, errForm
}

func (f *form) parts(m *multipart.Reader) error {
	var over error
	for n := 0; ; n++ {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return over
		}
		if err != nil || n > maxFields+maxFiles {
			return formError(err)
		}
		name := p.FormName()
		if p.FileName() == "" && name != "upload" {
			raw, err := f.take(p, maxForm)
			if err != nil {
				return err
			}
			f.Add(name, string(raw))
			continue
		}
		raw, err := f.take(p, -1)
		if errors.Is(err, errLarge) || errors.Is(err, listen.ErrMemory) {
			if over = err; f.left < 0 {
				f.left = 0 // discarded files use no memory
			}
			if _, err = io.Copy(io.Discard, p); err != nil {
				return formError(err)
			}
			continue
		}
		if err != nil {
			return err
		}
		if p.FileName() == "" && len(raw) == 0 || len(f.files) >= maxFiles {
			continue // a file input without a selected file
		}
		f.files = append(f.files, file{p.FileName(), p.Header.Get("Content-Type"), raw})
	}
}

// formError distinguishes a body that is too large from a malformed one.
func formError(err error) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return errLarge
	}
	return errForm
}

// take reads a part, at most most bytes unless that is negative.
func (f *form) take(from io.Reader, most int64) ([]byte, error) {
	var out []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if f.left -= int64(n); f.left < 0 {
				return nil, errLarge
			}
			if !f.room(int64(n)) {
				return nil, listen.ErrMemory
			}
			out = append(out, buf[:n]...)
		}
		switch {
		case most >= 0 && int64(len(out)) > most:
			return nil, errLarge
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, formError(err)
		}
	}
}

// check rejects invalid UTF-8 and NUL, and converts line ends to LF.
func (f *form) check() error {
	for _, list := range f.Values {
		for i, s := range list {
			if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
				return errForm
			}
			list[i] = strings.ReplaceAll(s, "\r\n", "\n")
		}
	}
	return nil
}

// line returns a field as a single line.
func (f *form) line(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, f.Get(name)))
}
