// Package study holds the figures of the five documents as data, and recomputes each percentage, ratio and conclusion
// that they print. Where a document errs, Check returns the difference.
package study

import (
	"embed"
	"encoding/csv"
	"fmt"
	"path"
	"strconv"
	"strings"
)

//go:embed data/*.csv
var files embed.FS

// Names lists the data files.
func Names() []string {
	entries, err := files.ReadDir("data")
	if err != nil {
		panic(err) // embedded
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// File returns a data file as it is: comment lines with the source, a line of names, and rows.
func File(name string) ([]byte, error) { return files.ReadFile(path.Join("data", name)) }

// Row is one row of a data file: the printed text by column.
type Row map[string]string

// Number returns a figure of the row. The data files are tested, so that it panics on a text that is no number.
func (r Row) Number(column string) float64 {
	v, err := strconv.ParseFloat(r[column], 64)
	if err != nil {
		panic(fmt.Sprintf("study: column %s: %v", column, err))
	}
	return v
}

// Rows returns the rows of a data file. It panics if there is no such file.
func Rows(name string) []Row {
	raw, err := File(name)
	if err != nil {
		panic(err)
	}
	in := csv.NewReader(strings.NewReader(string(raw)))
	in.Comment = '#'
	records, err := in.ReadAll()
	if err != nil {
		panic(fmt.Sprintf("study: %s: %v", name, err))
	}
	out := make([]Row, 0, len(records)-1)
	for _, rec := range records[1:] {
		r := make(Row, len(rec))
		for i, column := range records[0] {
			r[column] = rec[i]
		}
		out = append(out, r)
	}
	return out
}

// Source returns the comment at the head of a data file.
func Source(name string) string {
	raw, err := File(name)
	if err != nil {
		panic(err)
	}
	var words []string
	for line := range strings.Lines(string(raw)) {
		text, comment := strings.CutPrefix(line, "#")
		if !comment {
			break
		}
		words = append(words, strings.TrimSpace(text))
	}
	return strings.Join(words, " ")
}

// Fact returns a single figure of facts.csv. It panics if there is none of that name.
func Fact(name string) float64 {
	for _, r := range Rows("facts.csv") {
		if r["name"] == name {
			return r.Number("value")
		}
	}
	panic("study: no fact " + name)
}
