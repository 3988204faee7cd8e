package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFeatures checks that each row of the table of features in doc/web.md names tests that exist. A row's tests are
// separated by commas and semicolons: "search.test *words*" is a test in test/e2e/web/search.test.mjs whose name has
// the words, *words* alone one in the same file, `room` TestName a test of that room, TestName one of test/e2e, and
// `room` name.txt a scenario of the room. "–" stands where the feature does not exist.
func TestFeatures(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../doc/web.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(raw), "\n| feature | here | test |\n|---|---|---|\n")
	if !ok {
		t.Fatal("doc/web.md has no table of features")
	}
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if rows++; len(cells) != 3 {
			t.Errorf("%q has not three cells", line)
			continue
		}
		feature, here, tests := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if tests == "–" {
			if !strings.HasPrefix(here, "no") {
				t.Errorf("%s: has no test", feature)
			}
			continue
		}
		file := ""
		for _, named := range testNames.FindAllString(tests, -1) {
			var problem string
			if file, problem = namedTest(file, strings.TrimSpace(named)); problem != "" {
				t.Errorf("%s: %s: %s", feature, named, problem)
			}
		}
	}
	if rows < 50 {
		t.Errorf("the table has %d rows", rows)
	}
}

var (
	// testNames splits a cell; commas within asterisks separate nothing.
	testNames  = regexp.MustCompile(`(?:\*[^*]*\*|[^,;*])+`)
	ofBrowser  = regexp.MustCompile(`^([a-z]+\.(?:test|mjs))(?: \*([^*]+)\*)?$`)
	ofRoom     = regexp.MustCompile("^(?:`([a-z/]+)` )?(Test[A-Za-z]+|[a-z-]+\\.txt)$")
	testInFile = regexp.MustCompile("\\btest\\([\"`]([^\n]*?)[\"`], ")
)

// namedTest returns the file of a test of the browser client, and a problem if the test does not exist. file is that of
// the test before.
func namedTest(file, name string) (of, problem string) {
	if strings.HasPrefix(name, "*") && file != "" {
		name = file + " " + name
	}
	if m := ofBrowser.FindStringSubmatch(name); m != nil {
		text, err := os.ReadFile("e2e/web/" + strings.TrimSuffix(m[1], ".mjs") + ".mjs")
		if err != nil {
			return m[1], err.Error()
		}
		for _, found := range testInFile.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[1], m[2]) {
				return m[1], ""
			}
		}
		return m[1], "no such test"
	}
	m := ofRoom.FindStringSubmatch(name)
	if m == nil {
		return "", "names no test"
	}
	room := m[1]
	if room == "" {
		room = "test/e2e"
	}
	found := false
	err := filepath.WalkDir(filepath.Join("..", room), func(path string, d fs.DirEntry, err error) error {
		if err != nil || found || d.IsDir() {
			return err
		}
		if found = d.Name() == m[2]; !found && strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			found = strings.Contains(string(text), "\nfunc "+m[2]+"(")
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err.Error()
	case !found:
		return "", "no such test"
	}
	return "", ""
}
