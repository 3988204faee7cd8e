// Package page writes the report of a study as one page: method, tables, and figures with their data as CSV. The page
// needs nothing from outside, is light or dark, and prints.
package page

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"unicode"

	"doublet/stat/chart"
)

// Figure is a chart that can be drawn and written as a table.
type Figure interface {
	SVG() template.HTML
	CSV() string
}

// Page is a report.
type Page struct {
	Kicker, Title string
	// Method describes in a paragraph how the figures came about.
	Method string
	// Marks warn the reader before the figures.
	Marks    []string
	Tiles    []Tile
	Sections []Section
	// Data are tables beside the figures' own, by the name of the file.
	Data []Data
}

// Tile is a figure in large letters.
type Tile struct{ Value, Label string }

// Section is a part of the page. Each field may be empty.
type Section struct {
	Title, Text string
	List        []string
	Head        []string
	Rows        [][]string
	Figures     []Figure
	Links       []Link
}

// Link is a link to a file beside the page, such as the report of a run, with a remark.
type Link struct{ Path, Text, Note string }

// Data is a table that the page offers as a file.
type Data struct{ Name, Text string }

//go:embed page.html
var pageHTML string

var parsed = template.Must(template.New("page").Parse(pageHTML))

// Style returns the style sheet for the page.
func (p *Page) Style() template.CSS { return chart.Style() }

// Link returns the address of a text as a file within the page.
func (p *Page) Link(text string) template.URL {
	return template.URL("data:text/csv;charset=utf-8;base64," + //nolint:gosec // base64
		base64.StdEncoding.EncodeToString([]byte(text)))
}

// Words reports whether a cell holds words, which are aligned to the left, and not a figure.
func (p *Page) Words(cell string) bool {
	letters := 0
	for _, r := range cell {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return letters > 3 && letters*2 > len(cell)
}

// HTML writes the page.
func (p *Page) HTML(w io.Writer) error {
	if err := parsed.Execute(w, p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}
