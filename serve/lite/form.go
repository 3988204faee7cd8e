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

// form is what a browser sent.
type form struct {
	url.Values
	files []file
	mem   listen.Share
	taken int64
	// left is how many bytes there may be more; what comes beyond is passed over, so that the browser gets to hear of it.
	left int64
}

// file is one that was uploaded.
type file struct {
	name, kind string
	content    []byte
}

// Bounds of a form: fields and files.
const (
	maxFields = 2000
	maxFiles  = 1000
)

// room takes memory for n more bytes: they are held as they came, in the message, and as the store has it.
func (f *form) room(n int64) bool { return f.hold(3 * n) }

// hold takes n bytes of memory until the form is released.
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

// share is the memory that a request of somebody may take; of nobody, where id is nil.
func (s *Server) share(id *websession.Identity) listen.Share {
	if id == nil {
		return s.opt.Memory.Of(note.UNID{})
	}
	return s.opt.Memory.Of(id.Who.Person)
}

// readForm reads a form of either kind, into memory that it takes as the bytes come, of the share of its sender. What it has read is given with an error
// too.
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
				f.left = 0 // files that are passed over cost nothing
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
			continue // the empty field of a form without a file
		}
		f.files = append(f.files, file{p.FileName(), p.Header.Get("Content-Type"), raw})
	}
}

// formError tells a body that is too large from one that is broken.
func formError(err error) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return errLarge
	}
	return errForm
}

// take reads a part, of at most so many bytes where that is 0 or more.
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

// check refuses what is no text, and brings lines into one form.
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

// line is a field that is one line.
func (f *form) line(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, f.Get(name)))
}
