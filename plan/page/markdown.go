package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"doublet/stat/chart"
)

// SaveMarkdown writes the page as dir/NAME.md, with its figures as files dir/NAME-….svg beside it. It removes pictures
// of an earlier page of that name. Links to files beside the page are left out.
func (p *Page) SaveMarkdown(dir, name string) error {
	old, err := filepath.Glob(filepath.Join(dir, name+"-*.svg"))
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("page: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documents
		return fmt.Errorf("page: %w", err)
	}
	save := func(name, text string) error {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // documents
			return fmt.Errorf("page: %w", err)
		}
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", plain(p.Title), p.Method)
	list(&b, "Marks of the runs", p.Marks)
	n := 0
	for i := range p.Sections {
		s := &p.Sections[i]
		if len(s.Figures)+len(s.Rows)+len(s.List) == 0 && s.Text == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", plain(s.Title))
		if s.Text != "" {
			fmt.Fprintf(&b, "\n%s\n", s.Text)
		}
		for _, line := range s.List {
			fmt.Fprintf(&b, "\n- %s", plain(line))
		}
		if len(s.List) > 0 {
			b.WriteByte('\n')
		}
		s.table(&b)
		for _, f := range s.Figures {
			n++
			picture := fmt.Sprintf("%s-%02d.svg", name, n)
			if err := save(picture, chart.Picture(string(f.SVG()))); err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n![%s](%s)\n", strings.NewReplacer("[", "(", "]", ")").Replace(plain(titleOf(f))), picture)
		}
	}
	return save(name+".md", b.String())
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

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n\n", title)
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
