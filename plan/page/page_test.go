package page

import (
	"encoding/base64"
	"encoding/xml"
	"strings"
	"testing"

	"doublet/stat/chart"
)

// TestPage checks that a page escapes texts, holds its data, and needs nothing from outside.
func TestPage(t *testing.T) {
	t.Parallel()
	bars := &chart.Bars{Title: "b", Groups: []string{"g"}, Series: []chart.Bar{{Name: "s", Values: []float64{1}}}}
	p := &Page{Title: "<script>", Marks: []string{"a & b"}, Tiles: []Tile{{"1", "one"}},
		Sections: []Section{{Title: "t", List: []string{"l"}, Head: []string{"h"},
			Rows: [][]string{{"1,234", "many words"}}, Figures: []Figure{bars}}}, Data: []Data{{"d.csv", "x,y\n1,2\n"}}}
	var b strings.Builder
	if err := p.HTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"&lt;script&gt;", "a &amp; b", "<td>1,234</td>", `<td class="words">many words</td>`,
		base64.StdEncoding.EncodeToString([]byte("x,y\n1,2\n")),
		base64.StdEncoding.EncodeToString([]byte(bars.CSV()))} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, never := range []string{"<script", "http://", "src=", "ZgotmplZ"} {
		if strings.Contains(text, never) {
			t.Errorf("%q is in the page", never)
		}
	}
}

// TestMarkdown checks that a page becomes a document with its pictures, which need nothing else.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	bars := &chart.Bars{Title: "Cores [all]", Groups: []string{"g"},
		Series: []chart.Bar{{Name: "s", Values: []float64{1}}}}
	line := &chart.Chart{Title: "Rate", Lines: []chart.Line{
		{Name: "l", Points: []chart.Point{{X: 1, Y: 2}, {X: 2, Y: 3}}}}}
	p := &Page{Title: "A * study", Method: "The method.", Marks: []string{"window of 20s"}, Sections: []Section{
		{Title: "Figures", Figures: []Figure{bars, line}},
		{Title: "Table", Head: []string{"users", "cpu_pct"}, Rows: [][]string{{"10", "a|b\nc"}}, List: []string{"one"}},
		{Title: "Links", Links: []Link{{"x.html", "x", ""}}}}}
	files := p.Markdown("s")
	if len(files) != 3 || files["s-02.svg"] == "" {
		t.Errorf("%d files", len(files))
	}
	want := "# A \\* study\n\nThe method.\n\nMarks of the runs:\n\n- window of 20s\n\n## Figures\n\n" +
		"![Cores (all)](s-01.svg)\n\n![Rate](s-02.svg)\n\n## Table\n\n- one\n\n" +
		"| users | cpu\\_pct |\n|---|---|\n| 10 | a\\|b c |\n"
	if files["s.md"] != want {
		t.Errorf("%q\nwant\n%q", files["s.md"], want)
	}
	picture := files["s-01.svg"]
	if !strings.HasPrefix(picture, `<svg xmlns="http://www.w3.org/2000/svg" viewBox=`) ||
		!strings.Contains(picture, "prefers-color-scheme") {
		t.Errorf("%.300s", picture)
	}
	if err := xml.Unmarshal([]byte(picture), new(struct{})); err != nil {
		t.Error(err)
	}
}
