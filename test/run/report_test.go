package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReport checks that failures are printed with their output and passes are not, and that the figures count both and
// every skip.
func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(`
{"Action":"build-output","ImportPath":"doublet/broken","Output":"x.go:1: undefined\n"}
{"Action":"output","Package":"doublet/a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"doublet/a","Test":"TestGood","Elapsed":3}
{"Action":"output","Package":"doublet/a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"doublet/a","Test":"TestBad","Output":"    a_test.go:7: it broke\n"}
{"Action":"fail","Package":"doublet/a","Test":"TestBad","Elapsed":1}
{"Action":"output","Package":"doublet/a","Test":"TestSkip","Output":"    a_test.go:9: mutt is missing\n"}
{"Action":"skip","Package":"doublet/a","Test":"TestSkip","Elapsed":0}
{"Action":"output","Package":"doublet/a","Test":"TestHung","Output":"waits\n"}
{"Action":"output","Package":"doublet/a","Output":"panic: timed out\n"}
{"Action":"output","Package":"doublet/a","Output":"run: processor seconds 2.50\n"}
{"Action":"fail","Package":"doublet/a","Elapsed":9}
{"Action":"output","Package":"doublet/b","Output":"PASS\n"}
{"Action":"output","Package":"doublet/b","Output":"run: processor seconds 0.25\n"}
{"Action":"output","Package":"doublet/b","Output":"ok  \tdoublet/b\t1s\n"}
{"Action":"pass","Package":"doublet/b","Elapsed":1}
{"Action":"output","Package":"doublet/c","Output":"run: processor seconds 7.00\n"}
{"Action":"output","Package":"doublet/c","Output":"ok  \tdoublet/c\t(cached)\n"}
{"Action":"pass","Package":"doublet/c","Elapsed":0}
`)); err != nil {
		t.Fatal(err)
	}
	r.figures(20*time.Second, 8*time.Second)
	got := out.String()
	for _, want := range []string{
		"x.go:1: undefined", "a_test.go:7: it broke", "TestHung did not end:\nwaits\n", "panic: timed out",
		"ok     1.0 s     0.2 s of processor  b\n",
		"3 tests of 2 packages in 20 s, 8 s of processor with builds; packages unchanged 1; skipped 1; failed 2",
		"package     9.0 s     2.5 s of processor  a\n",
		"test        3.0 s  a TestGood\n",
		"skipped (mutt is missing): a TestSkip\n",
		"FAILED  a TestBad\n", "FAILED  a TestHung\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "quiet") || strings.Contains(got, "7.0 s of processor") {
		t.Errorf("output of a test that passed, or figures of one that did not run:\n%s", got)
	}
}

// TestRun runs a module of one package through the whole program. The exit code is that of go test, and the processor
// time of the tests is measured.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "run")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n",
		"m_test.go": "package m\nimport (\"os\"; \"testing\")\nvar sum int\nfunc TestSpin(t *testing.T) {\n" +
			"for i := range 300_000_000 { sum += i & sum }\nif os.Getenv(\"BAD\") != \"\" { t.Fatal(\"as asked\") }\n" +
			"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "1"} {
		c := exec.Command(program, "-metered", ".")
		c.Dir, c.Env = dir, append(os.Environ(), "BAD="+bad, "GOFLAGS=")
		out, err := c.CombinedOutput()
		if (err != nil) != (bad != "") || strings.Contains(string(out), "as asked") != (bad != "") {
			t.Errorf("BAD=%s: %v\n%s", bad, err, out)
		}
		if !strings.Contains(string(out), "1 tests of 1 packages") ||
			!strings.Contains(string(out), " s of processor  m\n") {
			t.Errorf("BAD=%s: figures are missing:\n%s", bad, out)
		}
	}
}

// TestWithoutStacks checks that the engine of test-race records no stacks, and otherwise is the one of go.mod.
func TestWithoutStacks(t *testing.T) {
	t.Chdir("../..")
	path, remove, err := withoutStacks()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	out, err := exec.Command("go", "list", "-modfile", path, "-f", "{{.Dir}}",
		engine+"/internal/invariants").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "invariants.go"))
	if err != nil || !strings.Contains(string(raw), switchOff) || strings.Contains(string(raw), switchOn) {
		t.Errorf("%s: %v\n%s", out, err, raw)
	}
	if err := turnOff(filepath.Join(filepath.Dir(path), "engine", switchFile)); err == nil {
		t.Error("an engine without the switch was taken")
	}
}
