package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Schema describes the format of a file, from the fields themselves.
func Schema() string {
	var b strings.Builder
	b.WriteString("A workload is a TOML file. Times are such as \"90s\" or \"15m\", ranges \"10s..20s\", sizes " +
		"\"500B\", \"50KB\" or \"10MB\".\n\n")
	fields(&b, reflect.TypeFor[Workload](), "")
	b.WriteString("\nWhat can be done (do), and which protocols carry it today:\n")
	for _, v := range slices.Sorted(maps.Keys(verbs)) {
		carried := "none yet"
		if len(verbs[v].carried) > 0 {
			carried = strings.Join(verbs[v].carried, ", ")
		}
		fmt.Fprintf(&b, "  %-12s %s (%s)\n", v, verbs[v].words, carried)
	}
	return b.String()
}

// fields writes the fields of a table, and after them those of its inner tables.
func fields(b *strings.Builder, t reflect.Type, table string) {
	var inner []func()
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("toml")
		if name == "" {
			continue
		}
		fmt.Fprintf(b, "  %-12s %-16s %s\n", name, typeName(f.Type), f.Tag.Get("doc"))
		at, kind := f.Type, "["+table+name+"]"
		switch at.Kind() {
		case reflect.Map:
			at, kind = at.Elem(), "["+table+name+".NAME]"
			if at.Kind() == reflect.Slice {
				at, kind = at.Elem(), "["+table+name+"] NAME = [{ … }, …]"
			}
		case reflect.Slice:
			at, kind = at.Elem(), "[["+table+name+"]]"
		}
		if at.Kind() == reflect.Struct && at != reflect.TypeFor[Span]() {
			inner = append(inner, func() {
				fmt.Fprintf(b, "\n%s: %s\n", kind, f.Tag.Get("doc"))
				fields(b, at, "")
			})
		}
	}
	for _, fn := range inner {
		fn()
	}
}

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Span]():
		return "time or range"
	case reflect.TypeFor[Duration]():
		return "time"
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[Verb]():
		return "word"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Float64:
		return "number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "tables"
		}
		return "list of words"
	case reflect.Map, reflect.Struct:
		return "table"
	}
	return "text"
}
