package jmap

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	wire "doublet/wire/jmap"
)

// Blob is the result of an upload.
type Blob struct {
	ID, Type string
	Size     int64
}

// progressing reports each read to the watchdog.
type progressing struct {
	io.Reader
	w *watchdog
}

func (p progressing) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if n > 0 {
		p.w.progress()
	}
	return n, err
}

// Upload streams size octets to an account. A negative size means that it is not known.
//
// Implements: RFC 8620 §6.1 Uploading binary data, as a client
func (c *Client) Upload(ctx context.Context, account, kind string, from io.Reader, size int64) (b Blob, err error) {
	s, err := c.Session(ctx)
	if err != nil {
		return b, err
	}
	if size > s.Limits.Upload {
		return b, &wire.Problem{Type: wire.ProblemLimit, Limit: "maxSizeUpload",
			Detail: fmt.Sprintf("%d octets are more than the server takes.", size)}
	}
	w := c.watch(ctx, c.opt.Timeout)
	defer w.end()
	r, err := c.request(w, http.MethodPost, expand(s.upload, "accountId", account), io.NopCloser(progressing{from, w}))
	if err != nil {
		return b, err
	}
	if r.ContentLength = max(size, -1); size == 0 {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Type", kind)
	v, _, err := c.exchange(w, r)
	if err != nil {
		return b, err
	}
	var ok bool
	if b.ID, ok = v.Get("blobId").Text(); !ok || b.ID == "" {
		return b, fmt.Errorf("%w: an upload without a blobId", ErrProtocol)
	}
	b.Type, _ = v.Get("type").Text()
	if b.Size, ok = v.Get("size").Int(); !ok || size >= 0 && b.Size != size {
		return b, fmt.Errorf("%w: %d octets were uploaded, and it has %d", ErrProtocol, size, b.Size)
	}
	return b, nil
}

// Download streams a blob from an offset to to, so that an interrupted download can be resumed. It returns the number
// of octets received, even with an error. It has no size limit: to limit the size, pass a Writer that fails.
//
// Implements: RFC 8620 §6.2 Downloading binary data, as a client
func (c *Client) Download(ctx context.Context, account, blob, name, kind string, offset int64,
	to io.Writer) (n int64, err error) {
	s, err := c.Session(ctx)
	if err != nil {
		return 0, err
	}
	w := c.watch(ctx, c.opt.Timeout)
	defer w.end()
	r, err := c.request(w, http.MethodGet, expand(s.download, "accountId", account, "blobId", blob, "name", name,
		"type", kind), nil)
	if err != nil {
		return 0, err
	}
	want := http.StatusOK
	if offset > 0 {
		r.Header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
		want = http.StatusPartialContent
	}
	out, err := c.http.Do(r)
	if err != nil {
		return 0, fmt.Errorf("jmap: download: %w", w.why(err))
	}
	defer out.Body.Close()
	switch {
	case out.StatusCode/100 != 2:
		text, err := c.read(out)
		if err != nil {
			return 0, w.why(err)
		}
		return 0, problem(out, text)
	case out.StatusCode != want:
		return 0, fmt.Errorf("%w: a range was asked for, and it answers %d", ErrAbsent, out.StatusCode)
	}
	if n, err = io.Copy(to, progressing{out.Body, w}); err != nil {
		return n, fmt.Errorf("jmap: download: %w", w.why(err))
	}
	return n, nil
}

// Import uploads a message and imports it into an account. fn prints the properties mailboxIds, keywords and
// receivedAt. Import returns the id of the Email.
//
// Implements: RFC 8621 §4.8 Email/import, as a client
func (c *Client) Import(ctx context.Context, account string, message io.Reader, size int64,
	fn func(*wire.Writer)) (string, error) {
	b, err := c.Upload(ctx, account, "message/rfc822", message, size)
	if err != nil {
		return "", err
	}
	r := NewRequest(wire.Mail)
	h := r.Import(account, map[string]func(*wire.Writer){"m": func(w *wire.Writer) { w.Text("blobId", b.ID); fn(w) }})
	out, err := c.Do(ctx, r)
	if err != nil {
		return "", err
	}
	o, err := out.OutcomeOf(h)
	if err != nil {
		return "", err
	}
	return o.Created("m")
}

// Import adds an Email/import of uploaded messages, by creation id.
func (r *Request) Import(account string, emails map[string]func(*wire.Writer)) Handle {
	return r.Call("Email/import", func(w *wire.Writer) {
		w.Text("accountId", account)
		objects(w, "emails", emails)
	})
}
