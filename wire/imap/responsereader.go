package imap

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"

	"doublet/wire/mime"
)

// ResponseLimits limits the memory of one response, in bytes.
type ResponseLimits struct{ Line, Literal, Total int }

// DefaultResponseLimits returns limits for a server that is trusted to some extent.
func DefaultResponseLimits() ResponseLimits {
	return ResponseLimits{Line: 16 << 20, Literal: 64 << 20, Total: 128 << 20}
}

// leftOut is a literal whose data went to a sink.
type leftOut struct {
	at   int // position after its announcement
	size int64
}

// Kind is the kind of a response.
type Kind uint8

// The kinds of responses.
const (
	Untagged Kind = iota
	Tagged
	Continuation
)

// Response is one parsed response of a server.
type Response struct {
	Kind Kind
	Tag  string // of a Tagged response
	// Name is the status (OK, NO, BAD, BYE, PREAUTH) or the name of the data, in upper case: FETCH, EXISTS, LIST. It is
	// "" for a continuation.
	Name string
	// Number is the number before EXISTS, EXPUNGE, FETCH or RECENT.
	Number uint32
	// Code is the response code of a status; Text is the text of a status or continuation.
	Code *Code
	Text string
	// Data holds the parsed data. Its type depends on Name: FETCH and UIDFETCH *FetchData; LIST, LSUB *ListData; STATUS
	// *StatusData; ESEARCH *ESearch; SEARCH and SORT *SearchData; THREAD []ThreadNode; UIDBATCHES *UIDBatchData;
	// VANISHED *Vanished; NAMESPACE *Namespace; ID *ID; FLAGS, CAPABILITY, ENABLED []string; nil otherwise and for
	// unknown names.
	Data any
	// Raw is the response without its CRLF, with literals in place.
	Raw string
}

// Code is a response code.
type Code struct {
	Name string // upper case
	Args string // the text after the name
	// Number is the number of UIDNEXT, UIDVALIDITY, UNSEEN and HIGHESTMODSEQ, or the UIDVALIDITY of APPENDUID and
	// COPYUID.
	Number uint64
	// Source and Target are the sets of COPYUID. APPENDUID has only Target, MODIFIED only Source.
	Source, Target Set
	// Words holds the arguments of PERMANENTFLAGS, CAPABILITY, BADCHARSET and MAILBOXID.
	Words []string
}

// FetchData holds a FETCH response. Has is the set of its items, as 1<<Kind.
type FetchData struct {
	Seq, UID     uint32
	Has          uint32
	Flags        []Flag
	InternalDate time.Time
	Size         int64
	ModSeq       uint64
	// EnvelopeText holds ENVELOPE, StructureText BODYSTRUCTURE or BODY. Envelope and Structure parse them.
	EnvelopeText, StructureText string
	EmailID, ThreadID           string // "" for NIL
	Preview                     string
	SaveDate                    time.Time
	Sections                    []SectionData
}

// SectionData holds the value of BODY[…], BINARY[…], BINARY.SIZE[…] or RFC822…
type SectionData struct {
	Item FetchItem // HasPartial is set with Offset only
	Data string
	Nil  bool
	Size int64 // size of the data, even if it went to a sink; the value of BINARY.SIZE
}

// Envelope parses EnvelopeText.
func (f *FetchData) Envelope() (*mime.Envelope, error) { return parseEnvelopeText(f.EnvelopeText) }

// Structure parses StructureText.
func (f *FetchData) Structure() (*mime.Part, error) { return parseBodyText(f.StructureText) }

// Section returns the first section of a kind, or nil.
func (f *FetchData) Section(kind ItemKind) *SectionData {
	for i := range f.Sections {
		if f.Sections[i].Item.Kind == kind {
			return &f.Sections[i]
		}
	}
	return nil
}

// ResponseReader reads the responses of one server. Like Reader it holds no buffer while it waits.
type ResponseReader struct {
	// Sink, if set, is called for every literal that is the value of a body section. text is the response before the
	// literal. Sink returns a writer for the literal (io.Discard to drop it), or nil to keep the literal in the
	// response. An error of the writer ends the read.
	Sink func(text []byte, size int64) io.Writer

	// UTF8 is set if mailbox names are UTF-8 (IMAP4rev2 or UTF8=ACCEPT enabled) instead of modified UTF-7.
	UTF8 bool

	source
	limits ResponseLimits
}

// NewResponseReader returns a reader of responses from src.
func NewResponseReader(src io.Reader, limits ResponseLimits) *ResponseReader {
	return &ResponseReader{source: source{src: src}, limits: limits}
}

// Reset switches to another source and drops buffered input, as STARTTLS requires.
func (r *ResponseReader) Reset(src io.Reader) {
	r.src, r.r, r.w = src, 0, 0
	r.release()
}

// ResponseError reports a response that could not be parsed. The caller may read the next one.
type ResponseError struct {
	Raw  string
	Text string
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("imap: bad response: %s: %.100q", e.Text, e.Raw)
}

// Read reads one response. After a *ResponseError the next response can be read; any other error is final.
func (r *ResponseReader) Read() (*Response, error) {
	if r.r == r.w {
		r.release()
	}
	text, left, err := r.assemble()
	if r.r == r.w {
		r.release()
	}
	if err != nil {
		return nil, err
	}
	return parseResponse(text, left, r.UTF8)
}

func (r *ResponseReader) assemble() (string, []leftOut, error) {
	if r.r == r.w {
		if err := r.fill(); err != nil {
			return "", nil, err
		}
	}
	chunk := r.buf[r.r:r.w]
	if end := bytes.IndexByte(chunk, '\n'); end >= 0 {
		first := bytes.TrimSuffix(chunk[:end], crlf[:1])
		if _, ok := literalAtEnd(first); !ok {
			r.r += end + 1
			return string(first), nil, nil
		}
	}
	return r.assembleLiterals()
}

func (r *ResponseReader) assembleLiterals() (string, []leftOut, error) {
	var l line
	var left []leftOut
	for {
		if err := r.readLine(&l, r.limits.Line, 0); err != nil {
			return "", nil, err
		}
		if l.over || len(l.text) > r.limits.Total {
			return "", nil, fmt.Errorf("imap: response of more than %d bytes", min(r.limits.Line, r.limits.Total))
		}
		lit, ok := literalAtEnd(l.text)
		if !ok {
			// Safe: only this string refers to the bytes, and they never change.
			return unsafe.String(unsafe.SliceData(l.text), len(l.text)), left, nil
		}
		var w io.Writer
		if r.Sink != nil && isBodyLiteral(l.text[:lit.at]) {
			w = r.Sink(l.text, lit.size)
		}
		l.text = append(l.text, crlf...)
		if w != nil {
			left = append(left, leftOut{len(l.text), lit.size})
			if err := r.copyTo(w, lit.size); err != nil {
				return "", nil, err
			}
			continue
		}
		if lit.size > int64(r.limits.Literal) || int64(len(l.text))+lit.size > int64(r.limits.Total) {
			return "", nil, fmt.Errorf("imap: literal of %d bytes in a response", lit.size)
		}
		// The buffer grows by at most a megabyte ahead: the announced size is not data yet.
		l.text = slices.Grow(l.text, min(int(lit.size)+64, 1<<20))
		var err error
		if l.text, err = r.readLiteral(l.text, int(lit.size)); err != nil {
			return "", nil, err
		}
	}
}

// copyTo copies n bytes to w.
func (r *ResponseReader) copyTo(w io.Writer, n int64) error {
	for n > 0 {
		if r.r == r.w {
			if err := r.fill(); err != nil {
				return unexpected(err)
			}
		}
		k := min(n, int64(r.w-r.r))
		if _, err := w.Write(r.buf[r.r : r.r+int(k)]); err != nil {
			return fmt.Errorf("imap: sink of a literal: %w", err)
		}
		r.r += int(k)
		n -= k
	}
	return nil
}

// isBodyLiteral reports whether the text before a literal ends with the name of a section.
func isBodyLiteral(text []byte) bool {
	n := len(text) - 1
	if n < 1 || text[n] != ' ' {
		return false
	}
	return text[n-1] == ']' || text[n-1] == '>' || bytes.HasSuffix(text[:n], []byte("RFC822")) ||
		bytes.HasSuffix(text[:n], []byte("RFC822.TEXT")) || bytes.HasSuffix(text[:n], []byte("RFC822.HEADER"))
}
