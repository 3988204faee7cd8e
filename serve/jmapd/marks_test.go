package jmapd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// playedElsewhere lists the marked sections that no scenario can play, with the test that covers each. They are not
// requests and responses of the API, or are implemented below it.
var playedElsewhere = map[string]string{
	"RFC 8030 §5":       "TestWebPush",
	"RFC 8620 §7.1":     "TestPushedStates",
	"RFC 8620 §7.3":     "TestEvents",
	"RFC 8621 §1.5":     "TestPushedStates",
	"RFC 8887 §4.1":     "TestRequests",
	"RFC 8887 §4.2":     "TestFrames",
	"RFC 8887 §4.3":     "TestRequests",
	"RFC 8887 §4.3.2":   "TestRequests",
	"RFC 8887 §4.3.3":   "TestRequests",
	"RFC 8887 §4.3.5":   "TestSocketPush",
	"RFC 8887 §4.3.5.2": "TestSocketPush",
}

var (
	markLine = regexp.MustCompile(`^// Implements: RFC (\d+) §([0-9A-Z.]+)`)
	rfcName  = regexp.MustCompile(`RFC (\d+)|§([0-9A-Z][0-9.]*)`)
	testName = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
)

// TestMarksHaveScenarios checks the Implements marks of the JMAP packages against the scenarios. Each marked section
// must be named in a comment of a scenario ("# RFC 8621 §4.6") or in playedElsewhere.
func TestMarksHaveScenarios(t *testing.T) {
	t.Parallel()
	marks, tests := map[string]string{}, map[string]bool{}
	for _, dir := range []string{".", "push", "../../wire/jmap"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
					tests[m[1]] = true
				}
				continue
			}
			for line := range strings.SplitSeq(string(text), "\n") {
				if m := markLine.FindStringSubmatch(line); m != nil {
					marks["RFC "+m[1]+" §"+strings.TrimSuffix(m[2], ".")] = file
				}
			}
		}
	}
	played := playedSections(t)
	for section, file := range marks {
		test, elsewhere := playedElsewhere[section]
		switch {
		case elsewhere && played[section]:
			t.Errorf("%s has a scenario: it need not stand in playedElsewhere", section)
		case elsewhere && !tests[test]:
			t.Errorf("%s: there is no test %s", section, test)
		case !elsewhere && !played[section]:
			t.Errorf("%s (%s) has no scenario", section, file)
		}
	}
	for section := range playedElsewhere {
		if marks[section] == "" {
			t.Errorf("%s is marked nowhere", section)
		}
	}
}

// playedSections returns the sections that comments of the scenarios name. A section belongs to the RFC named last.
func playedSections(t *testing.T) map[string]bool {
	t.Helper()
	played := map[string]bool{}
	var files []string
	for _, pattern := range []string{"testdata/*.txt", "testdata/push/*.txt"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rfc := ""
		for line := range strings.SplitSeq(string(text), "\n") {
			if !strings.HasPrefix(line, "#") {
				continue
			}
			for _, m := range rfcName.FindAllStringSubmatch(line, -1) {
				if m[1] != "" {
					rfc = "RFC " + m[1]
				} else {
					played[rfc+" §"+strings.TrimSuffix(m[2], ".")] = true
				}
			}
		}
	}
	return played
}
