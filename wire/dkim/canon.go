package dkim

import (
	"bytes"
	"crypto/sha256"
	"hash"
)

// appendField appends a header field in canonical form, with its final CRLF.
//
// Implements: RFC 6376 §3.4.1 "simple" and §3.4.2 "relaxed" header canonicalization
func appendField(dst, raw []byte, relaxed bool) []byte {
	if !relaxed {
		return append(dst, raw...)
	}
	name, value, found := bytes.Cut(raw, []byte{':'})
	for _, c := range bytes.TrimRight(name, " \t\r\n") {
		dst = append(dst, lower(c))
	}
	if found {
		dst = append(dst, ':')
	}
	blank, start := false, len(dst)
	for _, c := range value {
		switch c {
		case '\r', '\n':
		case ' ', '\t':
			blank = true
		default:
			if blank && len(dst) > start {
				dst = append(dst, ' ')
			}
			blank = false
			dst = append(dst, c)
		}
	}
	return append(dst, '\r', '\n')
}

// bodyHash returns the hash of the body. It computes it once for each canonicalization.
func (m *Message) bodyHash(relaxed bool) *bodyHash {
	i := 0
	if relaxed {
		i = 1
	}
	if m.hashes[i] == nil {
		w := writer{to: sha256.New()}
		if relaxed {
			w.relaxed(m.body)
		} else {
			w.simple(m.body)
		}
		w.flush()
		h := &bodyHash{length: w.length}
		w.to.Sum(h.sum[:0])
		m.hashes[i] = h
	}
	return m.hashes[i]
}

// writer buffers small writes to the hash.
type writer struct {
	to     hash.Hash
	length int64
	n      int
	buf    [4096]byte
}

func (w *writer) write(p []byte) {
	w.length += int64(len(p))
	if w.n+len(p) > len(w.buf) {
		w.flush()
		if len(p) > len(w.buf)/2 {
			w.to.Write(p)
			return
		}
	}
	w.n += copy(w.buf[w.n:], p)
}

func (w *writer) flush() {
	w.to.Write(w.buf[:w.n])
	w.n = 0
}

var crlf = []byte("\r\n")

// simple writes the body with empty lines at its end removed and one line break there.
//
// Implements: RFC 6376 §3.4.3 "simple" body canonicalization
func (w *writer) simple(body []byte) {
	for len(body) >= 2 && body[len(body)-2] == '\r' && body[len(body)-1] == '\n' {
		body = body[:len(body)-2]
	}
	w.write(body)
	w.write(crlf)
}

// relaxed removes blanks at line ends and replaces each other run of blanks with a space.
//
// Implements: RFC 6376 §3.4.4 "relaxed" body canonicalization
func (w *writer) relaxed(body []byte) {
	empty := 0
	for at := 0; at < len(body); {
		end := lineEnd(body, at)
		line := body[at:end]
		at = end
		n := len(line)
		if n > 0 && line[n-1] == '\n' {
			if n--; n > 0 && line[n-1] == '\r' {
				n--
			}
		}
		for n > 0 && (line[n-1] == ' ' || line[n-1] == '\t') {
			n--
		}
		if n == 0 {
			empty++
			continue
		}
		for ; empty > 0; empty-- {
			w.write(crlf)
		}
		w.collapsed(line[:n])
		w.write(crlf)
	}
}

// collapsed writes a line that does not end with a blank.
func (w *writer) collapsed(line []byte) {
	from := 0
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c != ' ' && c != '\t' {
			continue
		}
		if c == ' ' && line[i+1] != ' ' && line[i+1] != '\t' {
			continue
		}
		w.write(line[from:i])
		w.write(space)
		for line[i+1] == ' ' || line[i+1] == '\t' {
			i++
		}
		from = i + 1
	}
	w.write(line[from:])
}

var space = []byte{' '}
