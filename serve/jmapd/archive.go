package jmapd

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/wire/mbox"
)

// The paths of archives, which the server creates while it sends them: several blobs as a ZIP file, and the messages of
// a mailbox as an mbox file.
const (
	PathZip    = "/jmap/zip/{accountId}/{name}"
	PathExport = "/jmap/export/{accountId}/{mailboxId}/{name}"
)

// Limits on a ZIP file: its members, and the octets of all.
const (
	maxZipMembers = 200
	maxZipBytes   = 1 << 30
)

// paced is a response body whose client must keep reading.
type paced struct {
	s *Server
	w http.ResponseWriter
}

func (p paced) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.w).SetWriteDeadline(p.s.env.Clock.Now().Add(listen.Patience))
	return p.w.Write(b)
}

// begin starts the response of an archive.
func (p paced) begin(kind, name string) {
	h := p.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Cache-Control", "no-store")
	p.s.stats.downloads.Inc()
}

// reading returns a call that reads an account for a path, or responds to the request.
func (s *Server) reading(w http.ResponseWriter, r *http.Request, c *Caller) (*call, *Account) {
	if p := s.refresh(r.Context(), c); p != nil {
		s.refuse(w, p)
		return nil, nil
	}
	x := &call{batch: &batch{s: s, ctx: r.Context(), caller: c, mem: s.memoryOf(c)}}
	a, err := x.find(r.PathValue("accountId"))
	if err != nil || a == nil {
		s.failed(w, r, err, http.StatusNotFound, "There is no such account.")
		return nil, nil
	}
	return x, a
}

// zip serves blobs of an account as a ZIP file. The parameters blob are their ids, and as, as many, their names.
func (s *Server) zip(w http.ResponseWriter, r *http.Request, c *Caller) {
	x, a := s.reading(w, r, c)
	if x == nil {
		return
	}
	defer x.mem.give()
	q := r.URL.Query()
	ids, names := q["blob"], q["as"]
	if len(ids) == 0 || len(ids) > maxZipMembers || len(names) != len(ids) {
		s.failed(w, r, nil, http.StatusBadRequest, "An archive has 1 to 200 blobs, each with a name.")
		return
	}
	// Every blob is opened before the response begins: one that cannot be read is an error, and not a broken archive.
	var total int64
	for _, id := range ids {
		b, err := x.openBlob(a, id)
		if err != nil {
			s.failed(w, r, err, http.StatusServiceUnavailable, "A blob cannot be read now.")
			return
		}
		total += b.size
		b.close()
	}
	if total > maxZipBytes {
		s.failed(w, r, nil, http.StatusRequestEntityTooLarge, "The archive would be larger than 1 GB.")
		return
	}
	out := paced{s, w}
	out.begin("application/zip", r.PathValue("name"))
	z := zip.NewWriter(out)
	taken := map[string]bool{}
	for i, id := range ids {
		if err := x.zipOne(z, a, id, memberName(names[i], taken)); err != nil {
			s.interrupted(r, c, err)
			panic(http.ErrAbortHandler) // so that the client does not take the part for the whole
		}
	}
	if err := z.Close(); err != nil {
		s.interrupted(r, c, err)
	}
}

func (s *Server) interrupted(r *http.Request, c *Caller, err error) {
	if r.Context().Err() == nil {
		s.env.Log.Warn("jmap: archive interrupted", "person", c.Name, "error", err)
	}
}

func (c *call) zipOne(z *zip.Writer, a *Account, id, name string) error {
	b, err := c.openBlob(a, id)
	if err != nil {
		return err
	}
	defer b.close()
	member, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: c.s.env.Clock.Now()})
	if err != nil {
		return err
	}
	buf := make([]byte, 0, min(downloadPiece, b.size))
	for from := int64(0); from < b.size; from += int64(len(buf)) {
		if buf, err = b.read(buf[:0], from, min(downloadPiece, b.size-from)); err != nil {
			return err
		}
		if len(buf) == 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := member.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// memberName returns a name for a member of a ZIP file that no other member has, without folders and characters that
// names of files cannot have.
func memberName(name string, taken map[string]bool) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if name = strings.TrimLeft(name, ". "); name == "" {
		name = "file"
	}
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "")
	}
	stem, ext := name, ""
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		stem, ext = name[:dot], name[dot:]
	}
	for n := 2; taken[strings.ToLower(name)]; n++ {
		name = stem + " (" + strconv.Itoa(n) + ")" + ext
	}
	taken[strings.ToLower(name)] = true
	return name
}

// export serves the messages of a mailbox as an mbox file (RFC 4155, with quoted From lines).
func (s *Server) export(w http.ResponseWriter, r *http.Request, c *Caller) {
	x, a := s.reading(w, r, c)
	if x == nil {
		return
	}
	defer x.mem.give()
	u, _ := parseID(letterFolder, r.PathValue("mailboxId"))
	list, err := a.File.Folders(r.Context())
	if err != nil {
		s.failed(w, r, err, http.StatusServiceUnavailable, "The mailbox cannot be read now.")
		return
	}
	var folder *mailbox.Folder
	for i := range list {
		if list[i].UNID == u && list[i].Rights&note.Read != 0 {
			folder = &list[i]
		}
	}
	if folder == nil {
		s.failed(w, r, nil, http.StatusNotFound, "There is no such mailbox.")
		return
	}
	view, _, err := a.File.Open(r.Context(), folder.Name, true)
	if err != nil {
		s.failed(w, r, err, http.StatusServiceUnavailable, "The mailbox cannot be read now.")
		return
	}
	out := paced{s, w}
	out.begin("application/mbox", r.PathValue("name"))
	var written bytes.Buffer
	to := mbox.NewWriter(&written)
	var raw []byte
	held := int64(0)
	err = view.Fetch(r.Context(), mailbox.Set{{Start: 1, Stop: 0}}, false, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			if more := m.Size() - held; more > 0 {
				if !x.mem.take(more) {
					return false, errBusyNow
				}
				held += more
			}
			body, err := m.Body()
			if err != nil {
				return false, err
			}
			if raw, err = body.AppendRange(raw[:0], 0, body.Size()); err != nil {
				return false, err
			}
			err = to.Write("", m.Date().In(time.UTC), raw)
			return written.Len() >= downloadPiece, err
		}, func() error {
			err := to.Flush()
			if err == nil {
				_, err = written.WriteTo(out)
			}
			return err
		})
	if err != nil {
		s.interrupted(r, c, err)
		panic(http.ErrAbortHandler) // so that the client does not take the part for the whole
	}
}

var errBusyNow = errors.New("jmapd: no memory for a message now")
