package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fzipp/gocyclo"
)

// figure is one measured number.
type figure struct {
	name, meaning, aim string
	value              int
	places             []string // the places that it counts, the worst first
}

const (
	maxMethods    = 40
	maxCyclomatic = 25
	maxLine       = 120
	maxErrorText  = 100
)

// Sessions and parsers have a method per verb, or per production of a grammar, so their number of methods means
// nothing.
var manyMethods = map[string]string{
	"client/imap.Client":  "a method per command",
	"mail/rules.compiler": "a method per command and test of Sieve",
	"serve/imapd.session": "a method per command",
	"serve/jmapd.call":    "a method per method of JMAP",
	"serve/lite.visit":    "a method per page",
	"serve/pop3d.session": "a method per command",
	"serve/smtpd.session": "a method per command",
	"wire/imap.parser":    "a method per production",
}

// measure returns every figure of the module, in the order of the table.
func measure(m *module) []figure {
	return slices.Concat(size(m), methods(m), functions(m), depth(m), wording(m), lines(m))
}

func size(m *module) []figure {
	count := func(sources []source) (n int) {
		for i := range sources {
			n += len(sources[i].lines)
		}
		return n
	}
	var lengths []int
	var long []string
	for i := range m.code {
		s := &m.code[i]
		lengths = append(lengths, len(s.lines))
		if len(s.lines) > 400 {
			long = append(long, fmt.Sprintf("%5d %s", len(s.lines), s.path))
		}
	}
	worst(long)
	return []figure{
		{name: "lines", meaning: "lines of Go without tests", aim: "fewer", value: count(m.code)},
		{name: "test-lines", meaning: "lines of Go in tests", aim: "–", value: count(m.tests)},
		{name: "file-p90", meaning: "lines of a file, 90th percentile", aim: "400", value: percentile(lengths, 90),
			places: long},
	}
}

func methods(m *module) []figure {
	count := map[string]int{}
	for i := range m.code {
		for _, d := range m.code[i].ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				count[m.code[i].room()+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	var places []string
	for name, n := range count {
		if n > maxMethods && manyMethods[name] == "" {
			places = append(places, fmt.Sprintf("%5d %s", n, name))
		}
	}
	worst(places)
	return []figure{{name: "types", meaning: "types with over 40 methods, but for sessions and parsers", aim: "0",
		value: len(places), places: places}}
}

func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

func functions(m *module) []figure {
	var stats gocyclo.Stats
	var lengths, complexities []int
	for i := range m.code {
		stats = gocyclo.AnalyzeASTFile(m.code[i].ast, m.files, stats)
		for _, d := range m.code[i].ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				lengths = append(lengths, m.files.Position(f.End()).Line-m.files.Position(f.Pos()).Line+1)
			}
		}
	}
	var places []string
	above := 0
	for _, s := range stats {
		complexities = append(complexities, s.Complexity)
		if s.Complexity > 15 {
			places = append(places, fmt.Sprintf("%5d %s.%s %s:%d", s.Complexity, s.PkgName, s.FuncName, s.Pos.Filename,
				s.Pos.Line))
		}
		if s.Complexity > maxCyclomatic {
			above++
		}
	}
	worst(places)
	return []figure{
		{name: "function-p50", meaning: "lines of a function, median", aim: "–", value: percentile(lengths, 50)},
		{name: "function-p99", meaning: "lines of a function, 99th percentile", aim: "–",
			value: percentile(lengths, 99)},
		{name: "cyclomatic-p99", meaning: "cyclomatic complexity of a function, 99th percentile", aim: "< 15",
			value: percentile(complexities, 99)},
		{name: "cyclomatic-25", meaning: "functions of a cyclomatic complexity over 25", aim: "0", value: above,
			places: places[:above]},
		{name: "cyclomatic-15", meaning: "functions of a cyclomatic complexity over 15", aim: "–", value: len(places),
			places: places},
	}
}

// depth measures the longest chain of imports within the module.
func depth(m *module) []figure {
	imports := map[string][]string{}
	for i := range m.code {
		s := &m.code[i]
		for _, spec := range s.ast.Imports {
			if p, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "doublet/"); ok {
				imports[s.room()] = append(imports[s.room()], p)
			}
		}
	}
	longest := map[string][]string{}
	var walk func(room string) []string
	walk = func(room string) []string {
		if chain, ok := longest[room]; ok {
			return chain
		}
		var best []string
		for _, next := range imports[room] {
			if chain := walk(next); len(chain) > len(best) {
				best = chain
			}
		}
		longest[room] = append([]string{room}, best...)
		return longest[room]
	}
	var best []string
	for room := range imports {
		if chain := walk(room); len(chain) > len(best) || len(chain) == len(best) && chain[0] < best[0] {
			best = chain
		}
	}
	return []figure{{name: "depth", meaning: "packages in the longest chain of imports", aim: "11", value: len(best),
		places: best}}
}

func lines(m *module) []figure {
	var places []string
	for _, sources := range [][]source{m.code, m.tests} {
		for i := range sources {
			for n, line := range sources[i].lines {
				if width := utf8.RuneCountInString(line) + 3*leadingTabs(line); width > maxLine {
					places = append(places, fmt.Sprintf("%5d %s:%d", width, sources[i].path, n+1))
				}
			}
		}
	}
	worst(places)
	return []figure{{name: "columns", meaning: "lines of over 120 columns, a tab being four", aim: "0",
		value: len(places), places: places}}
}

func leadingTabs(line string) int { return len(line) - len(strings.TrimLeft(line, "\t")) }

// percentile returns the p-th percentile of values, 0 if there are none.
func percentile(values []int, p int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*p/100]
}

// worst sorts places that begin with a right-aligned number, the greatest first.
func worst(places []string) {
	slices.SortFunc(places, func(a, b string) int { return strings.Compare(b, a) })
}
