package rules

import (
	"bytes"
	"strings"

	"doublet/mail/fields"
	"doublet/wire/mime"
)

// field is a header field, with its folded text as in the message.
type field struct {
	name  []byte // as written
	raw   []byte
	value []byte
}

// value is a text that tests compare, and its form under i;ascii-casemap when a test has asked for it.
type value struct {
	text   string
	folded string
	fold   bool
}

func (v *value) lower() string {
	if !v.fold {
		v.folded, v.fold = asciiLower(v.text), true
	}
	return v.folded
}

// asciiLower returns a string with its ASCII letters in lower case. It has the same length.
func asciiLower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}

// readHeader reads the fields of the message once.
func (r *run) readHeader() {
	if r.read {
		return
	}
	r.read = true
	raw, end := r.message.Raw, 0
	r.fields = make([]field, 0, 32)
	for f := range mime.Fields(raw[:mime.HeaderEnd(raw)]) {
		if len(r.fields) >= maxFields {
			r.rest = raw[end:f.End]
			continue
		}
		end = f.End
		r.fields = append(r.fields, field{name: f.Name, raw: raw[f.Start:f.End], value: f.Value})
	}
}

// named returns the fields with a name, from the top. index selects one of them, counted from the end if last is set.
//
// Implements: RFC 5260 §6 index
func (r *run) named(name string, at position) []*field {
	r.readHeader()
	r.steps -= len(r.fields) / 16
	var out []*field
	wanted := []byte(name)
	for i := range r.fields {
		if bytes.EqualFold(r.fields[i].name, wanted) {
			out = append(out, &r.fields[i])
		}
	}
	return at.pick(out)
}

// position selects one of several fields; the zero value selects all.
type position struct {
	index int // from 1
	last  bool
}

func (p position) pick(list []*field) []*field {
	if p.index == 0 {
		return list
	}
	i := p.index - 1
	if p.last {
		i = len(list) - p.index
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i : i+1]
}

// values returns the decoded values of the fields with a name.
//
// Implements: RFC 5228 §2.7.2 comparisons are in UTF-8, after decoding
func (r *run) values(name string, at position) []value {
	key := asciiLower(name)
	if at.index == 0 {
		if list, ok := r.cache[key]; ok {
			return list
		}
	}
	found := r.named(name, at)
	list := make([]value, len(found))
	for i, f := range found {
		list[i].text = mime.DecodeWords(mime.Unfold(f.value))
		r.steps -= len(f.value) / 64
	}
	if at.index == 0 {
		if r.cache == nil {
			r.cache = map[string][]value{}
		}
		r.cache[key] = list
	}
	return list
}

// add puts a field into the header. At the top it stays behind Return-Path, which is the envelope's.
//
// Implements: RFC 5293 §4 addheader
func (r *run) add(name, text string, last bool) error {
	r.readHeader()
	r.edits++
	line := name + ": " + fields.Encode(text) + "\r\n"
	if r.editSize += len(line); r.edits > maxEdits || r.editSize > maxEditBytes {
		return errEdits
	}
	f := field{name: []byte(name), raw: []byte(line), value: []byte(line[len(name)+1:])}
	at := len(r.fields)
	if !last {
		for at = 0; at < len(r.fields) && bytes.EqualFold(r.fields[at].name, []byte("Return-Path")); {
			at++
		}
	}
	r.fields = append(r.fields[:at:at], append([]field{f}, r.fields[at:]...)...)
	r.edited, r.cache, r.people = true, nil, nil
	return nil
}

// protected lists fields that a script cannot remove: the trace, and what guards against loops.
var protected = []string{"return-path", "received", "auto-submitted", "delivered-to"}

// header returns the header block after the edits, with its empty line.
func (r *run) header() []byte {
	raw := r.message.Raw
	end := mime.HeaderEnd(raw)
	out := make([]byte, 0, end+r.editSize)
	add := func(raw []byte) {
		if out = append(out, raw...); len(raw) > 0 && raw[len(raw)-1] != '\n' {
			out = append(out, "\r\n"...)
		}
	}
	for i := range r.fields {
		add(r.fields[i].raw)
	}
	add(r.rest)
	return append(out, "\r\n"...)
}

// addresses returns the addresses in the fields with a name.
func (r *run) addresses(name string, at position) ([]mime.Address, error) {
	key := asciiLower(name)
	if list, ok := r.people[key]; ok && at.index == 0 {
		return list, nil
	}
	var list []mime.Address
	for _, f := range r.named(name, at) {
		if err := r.spend(len(f.value)); err != nil {
			return nil, err
		}
		list = append(list, addressesOf(f)...)
	}
	if at.index == 0 {
		if r.people == nil {
			r.people = map[string][]mime.Address{}
		}
		r.people[key] = list
	}
	return list, nil
}

// addressesOf returns the addresses in a field.
func addressesOf(f *field) []mime.Address {
	list := mime.ParseAddressList(f.value)
	out := list[:0]
	for _, a := range list {
		if !a.Group && a.Mailbox != "" {
			out = append(out, a)
		}
	}
	return out
}

// addressPart is one of the address parts.
type addressPart uint8

const (
	partAll addressPart = iota
	partLocal
	partDomain
	partUser
	partDetail
)

// of returns a part of an address. ok is false if the address has no detail and that is wanted.
//
// Implements: RFC 5233 §4 user and detail, separated by "+"
func (p addressPart) of(local, domain string) (s string, ok bool) {
	user, detail, has := strings.Cut(local, "+")
	switch p {
	case partLocal:
		return local, true
	case partDomain:
		return domain, true
	case partUser:
		return user, true
	case partDetail:
		return detail, has
	}
	if domain == "" {
		return local, true
	}
	return local + "@" + domain, true
}
