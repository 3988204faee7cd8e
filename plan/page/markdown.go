package page

import (
	"fmt"
	"strings"
	"unicode"

	"doublet/stat/chart"
)

// Markdown returns the page as NAME.md, with its figures as NAME-….svg beside it: the texts of files by their names.
// Links to files beside the page are left out.
func (p *Page) Markdown(name string) map[string]string {
	files := map[string]string{}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", plain(p.Title), p.Method)
	if len(p.Marks) > 0 {
		b.WriteString("\nMarks of the runs:\n")
		list(&b, p.Marks)
	}
	for i := range p.Sections {
		s := &p.Sections[i]
		if len(s.Figures)+len(s.Rows)+len(s.List) == 0 && s.Text == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", plain(s.Title))
		if s.Text != "" {
			fmt.Fprintf(&b, "\n%s\n", s.Text)
		}
		list(&b, s.List)
		s.table(&b)
		for _, f := range s.Figures {
			picture := fmt.Sprintf("%s-%02d.svg", name, len(files)+1)
			files[picture] = chart.Picture(string(f.SVG()))
			title := strings.NewReplacer("[", "(", "]", ")").Replace(plain(titleOf(f)))
			fmt.Fprintf(&b, "\n![%s](%s)\n", title, picture)
		}
	}
	files[name+".md"] = b.String()
	return files
}

// titleOf returns the title of a figure.
func titleOf(f Figure) string {
	switch x := f.(type) {
	case *chart.Chart:
		return x.Title
	case *chart.Bars:
		return x.Title
	}
	return "figure"
}

// list writes the lines of a list, if there are some.
func list(b *strings.Builder, lines []string) {
	if len(lines) > 0 {
		b.WriteByte('\n')
	}
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", plain(line))
	}
}

// table writes the rows of a section, if it has some.
func (s *Section) table(b *strings.Builder) {
	if len(s.Rows) == 0 {
		return
	}
	b.WriteByte('\n')
	line := func(cells []string) {
		b.WriteByte('|')
		for _, c := range cells {
			fmt.Fprintf(b, " %s |", plain(c))
		}
		b.WriteByte('\n')
	}
	line(s.Head)
	b.WriteString(strings.Repeat("|---", len(s.Head)) + "|\n")
	for _, row := range s.Rows {
		line(row)
	}
}

// plain returns a text that Markdown shows as it is, on one line and within a cell.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.NewReplacer("\\", `\\`, "|", `\|`, "*", `\*`, "<", "&lt;", "`", "'", "_", `\_`).Replace(s))
}
