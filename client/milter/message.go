package milter

import (
	"bytes"
	"fmt"
	"strings"

	wire "doublet/wire/milter"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Changes are the changes to a message that a filter requests.
type Changes struct {
	Headers []HeaderChange
	// Body is the new body if Replaced is set.
	Body     []byte
	Replaced bool
	Add, Del []smtp.Path
	From     *smtp.Path
	// Quarantine is the reason for holding the message, or empty if the filter does not ask for it.
	Quarantine string

	size int // bytes of the header changes
}

// maxHeaderChanges is the maximum number of bytes of names and values that a filter may add to a message's header.
const maxHeaderChanges = 1 << 20

// HeaderChange is one change of the header. The changes apply in their order.
type HeaderChange struct {
	Code        wire.Code // AddHeader, InsertHeader, ChangeHeader
	Index       uint32
	Name, Value string
}

// any reports whether the changes modify the header or the body.
func (c *Changes) any() bool { return len(c.Headers) > 0 || c.Replaced }

// Message sends a whole message to the filter, and returns its verdict and the changes that it requests.
func (s *Session) Message(message []byte, macros ...string) (Verdict, *Changes, error) {
	ch := &Changes{}
	if s.steps&wire.NoData == 0 {
		s.out = wire.Append(s.out, wire.Data)
		if v, err := s.step(wire.NoReplyData); err != nil || v.Decision != Continue {
			return v, ch, err
		}
	}
	end := mime.HeaderEnd(message)
	if v, err := s.header(message[:end]); err != nil || v.Decision != Continue {
		return v, ch, err
	}
	if v, err := s.body(message[end:]); err != nil || v.Decision != Continue {
		return v, ch, err
	}
	s.macros(wire.EndBody, macros)
	s.out = wire.Append(s.out, wire.EndBody)
	if err := s.flush(s.f.opt.Message); err != nil {
		return Verdict{}, ch, err
	}
	v, err := s.end(ch)
	return v, ch, err
}

func (s *Session) header(header []byte) (Verdict, error) {
	if s.steps&wire.NoHeaders == 0 {
		for f := range mime.Fields(header) {
			if len(f.Name) == 0 {
				continue
			}
			value := strings.ReplaceAll(string(f.Value), "\r\n", "\n")
			if s.steps&wire.LeadingSpace == 0 {
				value = strings.TrimPrefix(value, " ")
			}
			s.out = wire.AppendStrings(s.out, wire.Header, string(f.Name), value)
			if v, err := s.step(wire.NoReplyHeader); err != nil || v.Decision != Continue {
				return v, err
			}
		}
	}
	if s.steps&wire.NoEndHeader != 0 {
		return Verdict{}, nil
	}
	s.out = wire.Append(s.out, wire.EndHeader)
	return s.step(wire.NoReplyEndHeader)
}

func (s *Session) body(body []byte) (Verdict, error) {
	if s.steps&wire.NoBody != 0 {
		return Verdict{}, nil
	}
	for len(body) > 0 {
		n := min(len(body), wire.MaxChunk)
		s.out = wire.Append(s.out, wire.Body, body[:n])
		body = body[n:]
		if s.steps&wire.NoReplyBody != 0 {
			if err := s.flush(s.f.opt.Command); err != nil {
				return Verdict{}, err
			}
			continue
		}
		c, data, err := s.ask(s.f.opt.Command)
		if err != nil {
			return Verdict{}, err
		}
		a, err := wire.ParseAnswer(c, data)
		if err != nil {
			return Verdict{}, fmt.Errorf("%w: %w", ErrFilter, err)
		}
		if a.Code == wire.Skip {
			return Verdict{}, nil
		}
		if v, err := verdict(&a); err != nil || v.Decision != Continue {
			return v, err
		}
	}
	return Verdict{}, nil
}

// end reads the filter's changes, up to its verdict.
func (s *Session) end(ch *Changes) (Verdict, error) {
	bad := func(text string) error { return fmt.Errorf("%w: %s", ErrFilter, text) }
	last := s.f.env.Clock.Now().Add(2 * s.f.opt.Message)
	for n := 0; ; n++ {
		c, data, err := s.read()
		if err != nil {
			return Verdict{}, err
		}
		a, err := wire.ParseAnswer(c, data)
		if err != nil {
			return Verdict{}, bad(err.Error())
		}
		if n > s.f.opt.MaxChanges+s.f.opt.MaxBody/1024 {
			return Verdict{}, bad("it makes too many changes")
		}
		var needs wire.Actions
		switch a.Code {
		case wire.Progress:
			if err := s.more(s.f.opt.Message, last); err != nil {
				return Verdict{}, err
			}
		case wire.AddHeader, wire.InsertHeader:
			needs = wire.MayAddHeaders
		case wire.ChangeHeader:
			needs = wire.MayChangeHeaders
		case wire.ReplaceBody:
			needs = wire.MayChangeBody
		case wire.AddRcpt:
			needs = wire.MayAddRcpt
		case wire.AddRcptArgs:
			needs = wire.MayAddRcptArgs
		case wire.DeleteRcpt:
			needs = wire.MayDeleteRcpt
		case wire.ChangeFrom:
			needs = wire.MayChangeFrom
		case wire.Quarantine:
			needs = wire.MayQuarantine
		default:
			return verdict(&a)
		}
		if s.may&needs != needs {
			return Verdict{}, bad(fmt.Sprintf("it does %q, which it did not ask for", byte(a.Code)))
		}
		if err := s.change(ch, &a); err != nil {
			return Verdict{}, err
		}
	}
}

func (s *Session) change(ch *Changes, a *wire.Answer) error {
	switch a.Code {
	case wire.AddHeader, wire.InsertHeader, wire.ChangeHeader:
		ch.size += len(a.Name) + len(a.Value)
		if len(ch.Headers) >= s.f.opt.MaxChanges || !fieldName(a.Name) || ch.size > maxHeaderChanges {
			return fmt.Errorf("%w: header %.60q", ErrFilter, a.Name)
		}
		ch.Headers = append(ch.Headers, HeaderChange{a.Code, a.Index, a.Name, a.Value})
	case wire.ReplaceBody:
		if len(ch.Body)+len(a.Body) > s.f.opt.MaxBody {
			return fmt.Errorf("%w: a body of more than %d bytes", ErrFilter, s.f.opt.MaxBody)
		}
		ch.Body, ch.Replaced = append(ch.Body, a.Body...), true
	case wire.AddRcpt, wire.AddRcptArgs, wire.DeleteRcpt, wire.ChangeFrom:
		text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(a.Value), "<"), ">")
		var p smtp.Path
		if text != "" || a.Code != wire.ChangeFrom {
			var err error
			if p, err = smtp.ParsePath(text); err != nil {
				return fmt.Errorf("%w: address %.80q", ErrFilter, a.Value)
			}
		}
		switch {
		case len(ch.Add)+len(ch.Del) >= s.f.opt.MaxChanges:
			return fmt.Errorf("%w: it changes too many recipients", ErrFilter)
		case a.Code == wire.ChangeFrom:
			ch.From = &p
		case a.Code == wire.DeleteRcpt:
			ch.Del = append(ch.Del, p)
		default:
			ch.Add = append(ch.Add, p)
		}
	case wire.Quarantine:
		if ch.Quarantine = a.Value; a.Value == "" {
			ch.Quarantine = "a filter asked for it"
		}
	}
	return nil
}

func fieldName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == ':' {
			return false
		}
	}
	return s != ""
}

// Apply returns the message with the changes of its header and body. Without such changes it returns message itself,
// not a copy.
func (c *Changes) Apply(message []byte) []byte {
	if !c.any() {
		return message
	}
	end := mime.HeaderEnd(message)
	header, body := message[:end], message[end:]
	var fields [][]byte
	for f := range mime.Fields(header) {
		fields = append(fields, header[f.Start:f.End])
	}
	for i := range c.Headers {
		fields = c.Headers[i].apply(fields)
	}
	if c.Replaced {
		body = mime.AppendCRLF(nil, bytes.ReplaceAll(c.Body, []byte{0}, []byte{0x80})) // a message must not contain NUL
	}
	size := len(body) + 2
	for _, f := range fields {
		size += len(f) + 2
	}
	out := make([]byte, 0, size)
	for _, f := range fields {
		out = append(out, f...)
		if !bytes.HasSuffix(f, []byte("\n")) {
			out = append(out, "\r\n"...)
		}
	}
	return append(append(out, "\r\n"...), body...)
}

func (h *HeaderChange) apply(fields [][]byte) [][]byte {
	named := func(f []byte) bool {
		i := bytes.IndexByte(f, ':')
		return i > 0 && strings.EqualFold(strings.TrimRight(string(f[:i]), " \t"), h.Name)
	}
	switch h.Code {
	case wire.InsertHeader:
		at := min(int(h.Index), len(fields))
		return append(fields[:at:at], append([][]byte{h.field()}, fields[at:]...)...)
	case wire.ChangeHeader:
		n := uint32(0)
		for i, f := range fields {
			if !named(f) {
				continue
			}
			if n++; n < h.Index {
				continue
			}
			if h.Value == "" {
				return append(fields[:i:i], fields[i+1:]...)
			}
			fields[i] = h.field()
			return fields
		}
		if h.Value == "" {
			return fields
		}
	}
	return append(fields, h.field())
}

// field returns the field as text. Continuation lines of the value that do not begin with a blank get a tab, since
// otherwise they would be fields of their own.
func (h *HeaderChange) field() []byte {
	v := strings.TrimRight(strings.ReplaceAll(h.Value, "\r\n", "\n"), "\n")
	v = strings.ReplaceAll(v, "\r", " ")
	var b bytes.Buffer
	b.WriteString(h.Name + ":")
	if !strings.HasPrefix(v, " ") && !strings.HasPrefix(v, "\t") && v != "" {
		b.WriteByte(' ')
	}
	for i, l := range strings.Split(v, "\n") {
		if i > 0 && strings.TrimSpace(l) == "" {
			continue // an empty line would end the header
		}
		if i > 0 {
			b.WriteString("\r\n")
			if l[0] != ' ' && l[0] != '\t' {
				b.WriteByte('\t')
			}
		}
		b.WriteString(l)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}
