package test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// inlineLink matches a Markdown link or picture, image the source of an HTML picture.
var (
	inlineLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	image      = regexp.MustCompile(`<img src="([^"]+)"`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
)

// documents returns the Markdown files for readers: README.md and those of doc.
func documents(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../doc/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("no documents")
	}
	return append(paths, "../README.md")
}

// prose returns the lines of a Markdown document with empty lines in place of code blocks, so that line numbers stay.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, l := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(l), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced || strings.HasPrefix(l, "    ") {
			lines[i] = ""
		}
	}
	return lines
}

// anchor returns the fragment by which GitHub links to a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// anchors returns the fragments of all headings of a document. Equal headings are numbered.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, l := range prose(text) {
		level := len(l) - len(strings.TrimLeft(l, "#"))
		if level == 0 || level > 6 || !strings.HasPrefix(l[level:], " ") {
			continue
		}
		a := anchor(strings.TrimSpace(l[level:]))
		free := a
		for n := 1; all[free]; n++ {
			free = fmt.Sprintf("%s-%d", a, n)
		}
		all[free] = true
	}
	return all
}

// brokenLinks returns the relative links of a document that lead to no file or no heading, with their lines.
func brokenLinks(path, text string) []string {
	var broken []string
	for i, l := range prose(text) {
		l = codeSpan.ReplaceAllString(l, "")
		for _, m := range append(inlineLink.FindAllStringSubmatch(l, -1), image.FindAllStringSubmatch(l, -1)...) {
			if why := linkError(path, text, m[1]); why != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", path, i+1, m[1], why))
			}
		}
	}
	return broken
}

// linkError returns the reason why a link of a document is broken, or "". It does not check links to other sites.
func linkError(path, text, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	if u.Path != "" {
		target := filepath.Join(filepath.Dir(path), u.Path)
		b, err := os.ReadFile(target)
		if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
			return ""
		}
		if err != nil {
			return "no such file"
		}
		text = string(b)
	}
	if u.Fragment != "" && !anchors(text)[u.Fragment] {
		return "no such heading"
	}
	return ""
}

// TestLinks follows every relative link of the documents to its file and heading.
func TestLinks(t *testing.T) {
	for _, path := range documents(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, broken := range brokenLinks(path, string(b)) {
			t.Error(broken)
		}
	}
}

// TestLinksBroken checks that TestLinks finds broken links and accepts good ones.
func TestLinksBroken(t *testing.T) {
	text := "# A head: it's `one`\n\n# Again\n\n## Again\n\n    # no heading\n\n```\n# nor this\n```\n"
	for link, want := range map[string]string{
		"#a-head-its-one":          "",
		"#again":                   "",
		"#again-1":                 "",
		"#again-2":                 "no such heading",
		"#no-heading":              "no such heading",
		"#nor-this":                "no such heading",
		"nowhere.md":               "no such file",
		"operate.md#1-install":     "",
		"operate.md#2-install":     "no such heading",
		"../doc":                   "",
		"https://example.org/#no":  "",
		"mailto:admin@example.org": "",
	} {
		broken := brokenLinks("../doc/x.md", text+"\nA [link]("+link+") and `[code](nowhere.md)`.\n")
		switch {
		case want == "" && len(broken) != 0:
			t.Errorf("%s: %v", link, broken)
		case want != "" && (len(broken) != 1 || !strings.HasSuffix(broken[0], want)):
			t.Errorf("%s: got %v, want %q", link, broken, want)
		}
	}
}
