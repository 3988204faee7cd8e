package dump

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// printer prints records: a kind and named values, in the order given. As text, a record is a line, indented by depth.
// As JSON, it is an object on a line of its own, with the kind first.
type printer struct {
	w    *bufio.Writer
	json bool
	buf  bytes.Buffer
	enc  *json.Encoder
}

func newPrinter(w io.Writer, o Options) *printer {
	p := &printer{w: bufio.NewWriter(w), json: o.JSON}
	p.enc = json.NewEncoder(&p.buf)
	p.enc.SetEscapeHTML(false)
	return p
}

// hexBytes is printed as hex digits.
type hexBytes []byte

// seconds are Unix seconds, printed as RFC 3339 in UTC.
type seconds int64

func (s seconds) String() string { return time.Unix(int64(s), 0).UTC().Format(time.RFC3339) }

// record prints one record. pairs holds names and values. Empty strings and lists, zeros and false are left out.
func (p *printer) record(depth int, kind string, pairs ...any) {
	if p.json {
		p.object(kind, pairs)
		return
	}
	// The writer keeps the first error, and done returns it.
	_, _ = p.w.WriteString(strings.Repeat("  ", depth) + kind)
	for i := 0; i+1 < len(pairs); i += 2 {
		if v := pairs[i+1]; !empty(v) {
			_, _ = fmt.Fprintf(p.w, " %s=%s", pairs[i], text(v))
		}
	}
	_ = p.w.WriteByte('\n')
}

func (p *printer) object(kind string, pairs []any) {
	_, _ = p.w.WriteString(`{"kind":`)
	p.value(kind)
	for i := 0; i+1 < len(pairs); i += 2 {
		v := pairs[i+1]
		if empty(v) {
			continue
		}
		_ = p.w.WriteByte(',')
		p.value(pairs[i])
		_ = p.w.WriteByte(':')
		switch v := v.(type) {
		case hexBytes:
			p.value(hex.EncodeToString(v))
		case json.RawMessage:
			p.value(v)
		case fmt.Stringer:
			p.value(v.String())
		default:
			p.value(v)
		}
	}
	_, _ = p.w.WriteString("}\n")
}

func (p *printer) value(v any) {
	p.buf.Reset()
	if err := p.enc.Encode(v); err != nil {
		p.buf.Reset()
		_ = p.enc.Encode(fmt.Sprint(v))
	}
	_, _ = p.w.Write(bytes.TrimRight(p.buf.Bytes(), "\n"))
}

func (p *printer) done() error { return p.w.Flush() }

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int:
		return v == 0
	case uint32:
		return v == 0
	case uint64:
		return v == 0
	case seconds:
		return v == 0
	case hexBytes:
		return len(v) == 0
	case []string:
		return len(v) == 0
	case json.RawMessage:
		return len(v) == 0
	}
	return false
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return quoted(v)
	case hexBytes:
		return hex.EncodeToString(v)
	case json.RawMessage:
		return string(v)
	case []string:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = quoted(v[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

// quoted quotes s if it is not a plain word.
func quoted(s string) string {
	if s == "" || strings.ContainsFunc(s,
		func(r rune) bool { return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
