package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"doublet/wire/size"
)

// Param is one argument of a verb, derived from a field of its argument struct. The tag json names it. The tag arg
// makes it positional instead of a flag: "required", "optional", "rest" for all further arguments, or "words" for all
// further words, flags too. The tag help describes it; secret keeps it out of the log. A pointer field is an argument
// that may be left out to keep the current value.
type Param struct {
	Name string `json:"name"`
	Help string `json:"help"`
	// Kind is text, list, number, size or switch.
	Kind     string `json:"kind"`
	Arg      string `json:"arg,omitempty"`
	Default  string `json:"default,omitempty"`
	Required bool   `json:"required,omitempty"`
	Secret   bool   `json:"secret,omitempty"`
	// Unasked marks a secret for which the command line does not prompt if it is missing.
	Unasked bool `json:"unasked,omitempty"`
	// Value marks an argument NAME=VALUE of which the value alone is secret.
	Value bool `json:"value,omitempty"`
	// File marks the path of a file on the server's machine.
	File bool `json:"file,omitempty"`
}

// Size is a number of bytes, written with a unit (10MB, 1.5GB). Units are powers of 1,024.
type Size uint64

// String formats the size with at most one decimal digit.
func (s Size) String() string { return size.Rounded(uint64(s)) }

// Limit is a Size where 0 means no limit.
type Limit Size

// String formats the limit like a Size, or as "none".
func (l Limit) String() string {
	if l == 0 {
		return "none"
	}
	return Size(l).String()
}

// UnmarshalJSON accepts a number of bytes, or a string with a unit.
func (s *Size) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	v, err := size.Parse(text)
	if err == nil {
		*s = Size(v)
	}
	return err
}

// params derives the parameters from the fields of an argument struct. It panics on a field that cannot be an argument,
// which is a programming error.
func params[A any]() []Param {
	t := reflect.TypeFor[A]()
	var positional, flags []Param
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := Param{
			Name: name, Help: f.Tag.Get("help"), Kind: kindOf(f.Type), Arg: f.Tag.Get("arg"),
			Default: f.Tag.Get("default"), Secret: f.Tag.Get("secret") != "", Unasked: f.Tag.Get("secret") == "unasked",
			Value: f.Tag.Get("secret") == "value", File: f.Tag.Get("file") != "",
		}
		p.Required = p.Arg == "required" || f.Tag.Get("required") != ""
		if name == "" || p.Kind == "" || p.Help == "" {
			panic("admin: " + t.Name() + "." + f.Name + " cannot be an argument")
		}
		if p.Arg != "" {
			positional = append(positional, p)
		} else {
			flags = append(flags, p)
		}
	}
	return append(positional, flags...)
}

func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Size]():
		return "size"
	case t == reflect.TypeFor[[]string]():
		return "list"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "switch"
	case t.Kind() == reflect.Int:
		return "number"
	}
	return ""
}

// decode decodes arguments strictly: unknown and missing arguments are errors.
func decode[A any](v *Verb, raw json.RawMessage) (*A, error) {
	a := new(A)
	if len(bytes.TrimSpace(raw)) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(a); err != nil {
			return nil, fmt.Errorf("%w of %s: %w", ErrUsage, v.Name, err)
		}
	}
	value := reflect.ValueOf(a).Elem()
	for i := range value.NumField() {
		f, tag := value.Field(i), value.Type().Field(i).Tag
		if text := tag.Get("default"); text != "" && f.IsZero() {
			f.SetString(text)
		}
		if (tag.Get("arg") == "required" || tag.Get("required") != "") && f.IsZero() {
			name, _, _ := strings.Cut(tag.Get("json"), ",")
			return nil, fmt.Errorf("%w of %s: %s is missing", ErrUsage, v.Name, name)
		}
	}
	return a, nil
}

// redact returns the arguments as text for the log, without secrets and without the values of unknown arguments: a
// mistyped name may stand before a secret.
func redact(v *Verb, raw json.RawMessage) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return ""
	}
	for name := range m {
		if !slices.ContainsFunc(v.Params, func(p Param) bool { return p.Name == name }) {
			m[name] = json.RawMessage(`"…"`)
		}
	}
	for _, p := range v.Params {
		if raw, there := m[p.Name]; there && p.Secret {
			shown := "…"
			if p.Value {
				var text string
				_ = json.Unmarshal(raw, &text) // without a name, nothing of it is shown
				if name, _, ok := strings.Cut(text, "="); ok {
					shown = name + "=…"
				}
			}
			m[p.Name], _ = json.Marshal(shown)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(out[:min(len(out), 2000)])
}
