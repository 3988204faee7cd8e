// Package render prints the results of administrative verbs for people: a list as a table, a struct as lines.
package render

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
)

// Text prints the result of a verb as text: by its method Text if it has one, a list as a table, a struct as lines.
func Text(w io.Writer, result any) error {
	w = printable{w}
	if t, ok := result.(interface{ Text() string }); ok {
		_, err := io.WriteString(w, t.Text())
		return err
	}
	v := reflect.Indirect(reflect.ValueOf(result))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	switch v.Kind() {
	case reflect.Slice:
		printRows(tw, v, "")
		if v.Len() == 0 {
			fmt.Fprintln(tw, "none")
		}
	case reflect.Struct:
		printStruct(tw, v)
	default:
		fmt.Fprintln(tw, v.Interface())
	}
	return tw.Flush()
}

// column returns the heading of a field, "" for a field that is not shown.
func column(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.ReplaceAll(name, "_", " ")
}

func isRows(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// always reports whether a field is shown even if it is zero, such as a count that users look for.
func always(f reflect.StructField) bool { return f.Tag.Get("show") == "always" }

// printRows prints the columns in which any row has a value. Fields that are lists of structs are left to show verbs.
func printRows(w io.Writer, rows reflect.Value, indent string) {
	if rows.Len() == 0 {
		return
	}
	t := rows.Type().Elem()
	var fields []int
	for i := range t.NumField() {
		for r := range rows.Len() {
			if !isRows(t.Field(i).Type) && (always(t.Field(i)) || !rows.Index(r).Field(i).IsZero()) {
				fields = append(fields, i)
				break
			}
		}
	}
	line := func(cell func(field int) string) {
		cells := make([]string, len(fields))
		for i, f := range fields {
			cells[i] = cell(f)
		}
		fmt.Fprintln(w, indent+strings.TrimRight(strings.Join(cells, "\t"), "\t "))
	}
	line(func(f int) string { return strings.ToUpper(column(t.Field(f))) })
	for r := range rows.Len() {
		line(func(f int) string { return cell(rows.Index(r).Field(f)) })
	}
}

func printStruct(w io.Writer, v reflect.Value) {
	t := v.Type()
	if t.NumField() == 1 && t.Field(0).Type.Kind() == reflect.String {
		fmt.Fprintln(w, v.Field(0).String())
		return
	}
	for i := range t.NumField() {
		f := v.Field(i)
		if !t.Field(i).IsExported() || f.IsZero() && f.Kind() != reflect.Bool && !always(t.Field(i)) {
			continue
		}
		switch {
		case t.Field(i).Anonymous: // its fields are shown as fields of the whole
			printStruct(w, f)
		case isRows(f.Type()):
			fmt.Fprintln(w, column(t.Field(i))+":")
			printRows(w, f, "  ")
		case f.Kind() == reflect.Slice:
			for j := range f.Len() {
				name := column(t.Field(i)) + ":"
				if j > 0 {
					name = ""
				}
				fmt.Fprintf(w, "%s\t%s\n", name, cell(f.Index(j)))
			}
		case f.Kind() == reflect.String && strings.Contains(f.String(), "\n"):
			fmt.Fprintf(w, "%s:\n%s\n", column(t.Field(i)), f.String())
		default:
			fmt.Fprintf(w, "%s:\t%s\n", column(t.Field(i)), cell(f))
		}
	}
}

// oneCell escapes the characters that would end the cell of a table.
var oneCell = strings.NewReplacer("\n", `\u{a}`, "\r", `\u{d}`, "\t", `\u{9}`)

func cell(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return ""
		}
		return x.UTC().Format("2006-01-02 15:04:05")
	case bool:
		if x {
			return "yes"
		}
		return "no"
	case []string:
		return strings.Join(x, ", ")
	case fmt.Stringer:
		return x.String()
	case string:
		return plainText(oneCell.Replace(x))
	default:
		return fmt.Sprint(x)
	}
}
