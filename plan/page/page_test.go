package page

import (
	"encoding/base64"
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
