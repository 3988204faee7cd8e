package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Entry describes one setting for documentation.
type Entry struct {
	Key     string // in the file: "limits.message_size"
	Env     string // environment variable: "DOUBLET_LIMITS_MESSAGE_SIZE"
	Type    string // "text", "number", "switch", "size", "duration", "address"
	Default string
	Demo    string
	Doc     string
	Allowed string // "64KB to 2GB", "debug, info, warn or error", or empty
	Secret  bool   // the value must not be shown
}

// Section describes one table of the file.
type Section struct {
	Name, Doc string
}

// field is a setting of the struct Config: its key, tags, index and type.
type field struct {
	key   string
	tag   reflect.StructTag
	index [2]int
	typ   reflect.Type
}

var fields = findFields()

func findFields() []field {
	var all []field
	root := reflect.TypeFor[Config]()
	for i := range root.NumField() {
		section := root.Field(i)
		for j := range section.Type.NumField() {
			f := section.Type.Field(j)
			all = append(all, field{
				key:   section.Tag.Get("toml") + "." + f.Tag.Get("toml"),
				tag:   f.Tag,
				index: [2]int{i, j},
				typ:   f.Type,
			})
		}
	}
	return all
}

func fieldOf(key string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

func (f field) env() string {
	return "DOUBLET_" + strings.ToUpper(strings.ReplaceAll(f.key, ".", "_"))
}

func (f field) in(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().Field(f.index[0]).Field(f.index[1])
}

// parse sets the setting in c from text in the form of an environment variable or a flag.
func (f field) parse(c *Config, text string) error {
	to := f.in(c)
	switch p := to.Addr().Interface().(type) {
	case *string:
		*p = text
	case *Size:
		return p.UnmarshalText([]byte(text))
	case *Duration:
		return p.UnmarshalText([]byte(text))
	case *int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = v
	case *bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*p = v
	default:
		panic("config: no parser for the type of " + f.key)
	}
	return nil
}

// text returns the setting's value in c, in the form that parse reads.
func (f field) text(c *Config) string {
	switch v := f.in(c).Interface().(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case fmt.Stringer:
		return v.String()
	}
	panic("config: no printer for the type of " + f.key)
}

func (f field) typeName() string {
	switch {
	case strings.HasPrefix(f.key, "doors."):
		return "address"
	case f.typ == reflect.TypeFor[Size]():
		return "size"
	case f.typ == reflect.TypeFor[Duration]():
		return "duration"
	case f.typ.Kind() == reflect.Int:
		return "number"
	case f.typ.Kind() == reflect.Bool:
		return "switch"
	}
	return "text"
}

func (f field) allowed() string {
	if words := strings.Fields(f.tag.Get("oneof")); len(words) > 1 {
		last := len(words) - 1
		return strings.Join(words[:last], ", ") + " or " + words[last]
	}
	if low, ok := f.tag.Lookup("min"); ok {
		return low + " to " + f.tag.Get("max")
	}
	return ""
}

// check validates the value in c against the tags oneof, min and max.
func (f field) check(c *Config) error {
	v := f.in(c)
	if words := strings.Fields(f.tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, v.String()) {
		return fmt.Errorf("%q is not one of %s", v.String(), f.allowed())
	}
	if _, ok := f.tag.Lookup("min"); ok {
		var low, high Config
		if err := f.parse(&low, f.tag.Get("min")); err != nil {
			panic("config: min of " + f.key + ": " + err.Error())
		}
		if err := f.parse(&high, f.tag.Get("max")); err != nil {
			panic("config: max of " + f.key + ": " + err.Error())
		}
		if n := number(v); n < number(f.in(&low)) || n > number(f.in(&high)) {
			return fmt.Errorf("%s is not within %s", f.text(c), f.allowed())
		}
	}
	return nil
}

func number(v reflect.Value) int64 {
	if d, ok := v.Interface().(Duration); ok {
		return int64(d.Duration)
	}
	return v.Int()
}

// preset returns a Config filled from the given tag, or from the tag "default" for a setting without it.
func preset(tag string) Config {
	var c Config
	for _, f := range fields {
		text, ok := f.tag.Lookup(tag)
		if !ok {
			text = f.tag.Get("default")
		}
		if err := f.parse(&c, text); err != nil {
			panic("config: preset of " + f.key + ": " + err.Error())
		}
	}
	return c
}

// Describe returns every setting in the order of the file.
func Describe() []Entry {
	normal, demo := Default(), Demo()
	all := make([]Entry, 0, len(fields))
	for _, f := range fields {
		all = append(all, Entry{
			Key: f.key, Env: f.env(), Type: f.typeName(),
			Default: f.text(&normal), Demo: f.text(&demo),
			Doc: docs[f.key], Allowed: f.allowed(), Secret: f.tag.Get("secret") != "",
		})
	}
	return all
}

// Sections returns the tables of the file in order.
func Sections() []Section {
	root := reflect.TypeFor[Config]()
	all := make([]Section, 0, root.NumField())
	for i := range root.NumField() {
		f := root.Field(i)
		all = append(all, Section{Name: f.Tag.Get("toml"), Doc: docs[f.Tag.Get("toml")]})
	}
	return all
}

// Get returns the value of a setting as text, false if no setting has the key.
func (c Config) Get(key string) (string, bool) {
	f, ok := fieldOf(key)
	if !ok {
		return "", false
	}
	return f.text(&c), true
}

// Put sets a setting from text in the form of an environment variable. It fails if the key or the value is bad.
func (c *Config) Put(key, value string) error {
	f, ok := fieldOf(key)
	if !ok {
		return &Error{"setting", key, unknown(key)}
	}
	next := *c
	err := f.parse(&next, value)
	if err == nil {
		err = f.check(&next)
	}
	if err != nil {
		return &Error{"setting", key, err}
	}
	*c = next
	return nil
}

// MapDoors replaces the address of every open door with the result of change.
func (c *Config) MapDoors(change func(address string) string) {
	for _, f := range fields {
		if at := f.in(c); strings.HasPrefix(f.key, "doors.") && at.String() != Off {
			at.SetString(change(at.String()))
		}
	}
}

// Keys returns the keys of settings; "verify.*" stands for all settings of a section. It panics if a key does not
// exist.
func Keys(names ...string) []string {
	var keys []string
	for _, name := range names {
		section, all := strings.CutSuffix(name, "*")
		found := false
		for _, f := range fields {
			if f.key == name || all && strings.HasPrefix(f.key, section) {
				keys, found = append(keys, f.key), true
			}
		}
		if !found {
			panic("config: no setting " + name)
		}
	}
	return keys
}

// Differ returns the keys of the settings that differ between two configurations, in the order of the file.
func (c Config) Differ(other Config) []string {
	var keys []string
	for _, f := range fields {
		if f.in(&c).Interface() != f.in(&other).Interface() {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// Take copies the value of one setting from another configuration. An unknown key does nothing.
func (c *Config) Take(key string, from *Config) {
	if f, ok := fieldOf(key); ok {
		f.in(c).Set(f.in(from))
	}
}
