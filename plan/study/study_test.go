package study

import (
	"slices"
	"strings"
	"testing"

	"doublet/stat/chart"
)

// wrong lists every statement of the documents that its own figures contradict, with the recomputed figure.
var wrong = map[string]string{
	"003 table 5: Linux, network B/s":                                                           "+19.77 %",
	"003 table 11: Windows, shared memory MB":                                                   "+13.31 %",
	"003 table 15: z/OS, disk intensity":                                                        "-52.88 %",
	"003 table 15: z/OS, process handles MB":                                                    "-32.56 %",
	"000 configuration: D01MLC96 active of registered users":                                    "35.06 %",
	"000 methodology: the data before the upgrade of D01MLC83 end before it":                    "data until day 12",
	"001 5.2.1: a large discrepancy between the changes of CPU and ITR on the third partition":  "9.2 points",
	"002 figure 9: Linux DWA8 to DWA85, disk MB/s":                                              "20.0 % less",
	"002 conclusion: lite mode improves every platform by 5 percent or more, disk operations/s": "least -0.7 %",
	"002 conclusion: disk operations improved by more than 20 percent":                          "least 9.8 %",
	"002 tables 3 and 4: AIX shared memory of one measurement":                                  "1334 and 1936 MB",
	"002 table 1 and appendix: on-disk structure of 8.5 databases":                              "51 and 53",
	"002 table 2 and captions: release of AIX":                                                  "5.3 and 6.1",
	"003 figure 12: Linux on System z N7Mail to N8Mail, disk reads+writes/s":                    "21.9 % less",
	"003 text of figure 12: Linux on System z N7Mail to N8Mail, disk reads/s":                   "36.3 % less",
	"003 text of figure 12: Linux on System z N7Mail to N8Mail, disk writes/s":                  "7.9 % less",
	"004 scenario 2: CPU and disk rise with more Cluster Replicators":                           "CPU falls",
}

// unsupported lists the conclusions that correct figures do not carry.
var unsupported = []string{"001 5.4: 2:1 virtual processors cost 3 %, more than two runs of four guests differ"}

// TestDocuments recomputes every printed statement. Those that are wrong must be exactly those of the list wrong.
func TestDocuments(t *testing.T) {
	t.Parallel()
	all := Check()
	if len(all) < 200 {
		t.Errorf("only %d statements were recomputed", len(all))
	}
	seen := map[string]bool{}
	for _, c := range all {
		want, bad := wrong[c.Name]
		switch {
		case seen[c.Name]:
			t.Errorf("two statements are named %q", c.Name)
		case c.Verdict == Errs && !bad:
			t.Errorf("%s: printed %s, found %s", c.Name, c.Printed, c.Found)
		case bad && (c.Verdict != Errs || !strings.Contains(c.Found, want)):
			t.Errorf("%s: %s, found %s, want the error %s", c.Name, c.Verdict, c.Found, want)
		case (c.Verdict == Unsupported) != slices.Contains(unsupported, c.Name):
			t.Errorf("%s: %s (%s)", c.Name, c.Verdict, c.Found)
		}
		seen[c.Name] = true
	}
	for name := range wrong {
		if !seen[name] {
			t.Errorf("the error %q was not looked for", name)
		}
	}
}

// TestJudge checks the verdicts on printed figures.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b, printed string
		want          Verdict
	}{
		{"100", "75", "-25", Agrees},
		{"100", "75", "-25.0", Agrees},
		{"100", "75", "-26", Rounded}, // 100.5 to 74.5 is -25.9
		{"100.00", "75.00", "-26", Errs},
		{"792", "902", "13.8", Rounded}, // 13.89, cut off
		{"792.00", "902.00", "13.8", Rounded},
		{"792.00", "902.00", "13.7", Errs},
		{"1.2", "1.17", "-2", Agrees},
		{"43", "32", "-25.8", Rounded},
		{"4.3", "2.9", "-30.0", Errs},
	} {
		got, found := checkChange(Row{"a": c.a, "b": c.b, "change": c.printed}, "change")
		if got != c.want {
			t.Errorf("%s to %s is %.3f, printed %s: %s, want %s", c.a, c.b, found, c.printed, got, c.want)
		}
	}
}

// TestData checks that each file names its source and holds figures, no sentences.
func TestData(t *testing.T) {
	t.Parallel()
	if len(Names()) < 7 {
		t.Errorf("only %d data files", len(Names()))
	}
	for _, name := range Names() {
		if s := Source(name); !strings.Contains(s, "Source:") {
			t.Errorf("%s names no source: %q", name, s)
		}
		if len(Rows(name)) == 0 {
			t.Errorf("%s is empty", name)
		}
		for _, r := range Rows(name) {
			for column, text := range r {
				if strings.Count(text, " ") > 14 {
					t.Errorf("%s, column %s holds a sentence: %q", name, column, text)
				}
			}
		}
	}
	if got := Field("3")["Database.DbCache.OvercrowdingRejections"]; got != 21321 {
		t.Errorf("field case: %g rejections", got)
	}
	if d := Diluted(25, 50); d != 12.5 {
		t.Errorf("diluted %g", d)
	}
}

// TestPages draws the page of each document, with its data.
func TestPages(t *testing.T) {
	t.Parallel()
	for document := range titles {
		s, err := Of(document)
		if err != nil || len(s.Statements) == 0 || !strings.Contains(s.Text(), "recomputed") {
			t.Fatal(err, s)
		}
		p, err := s.Page()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := p.HTML(&b); err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{"http://", "https://", "src=", "<script", "NaN", "Inf", "%!", "ZgotmplZ"} {
			if strings.Contains(b.String(), never) {
				t.Errorf("%s: %q is in a page that opens from disk", document, never)
			}
		}
		for _, x := range p.Sections {
			for _, f := range x.Figures {
				if outside, err := f.(interface{ Outside() ([]string, error) }).Outside(); err != nil ||
					len(outside) > 0 {
					t.Error(document, outside, err)
				}
				bars, ok := f.(*chart.Bars)
				if !ok {
					continue
				}
				for line := range strings.Lines(bars.CSV()) {
					if strings.HasSuffix(line, ",,\n") {
						t.Errorf("%s: a bar without what rounding leaves open: %s", document, line)
					}
				}
				if !strings.Contains(string(bars.SVG()), once+"; whiskers: "+rounding) {
					t.Errorf("%s: %s does not say that nothing was repeated", document, bars.Title)
				}
			}
		}
	}
	if _, err := Of("005"); err == nil {
		t.Error("there is a document 005")
	}
	if _, err := (&Study{}).Page(); err == nil {
		t.Error("a page of no document")
	}
}
