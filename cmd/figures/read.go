package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// module holds the parsed Go files of the module.
type module struct {
	files *token.FileSet
	code  []source // tests excluded
	tests []source
}

// source is one parsed file.
type source struct {
	path  string // below the root, with slashes
	ast   *ast.File
	lines []string
}

// room returns the folder of the file, which is the path of its package below the module.
func (s *source) room() string { return path.Dir(s.path) }

// read parses every Go file below root, except in testdata, node_modules and hidden folders.
func read(root string) (*module, error) {
	m := &module{files: token.NewFileSet()}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != root && (strings.HasPrefix(name, ".") || name == "node_modules" ||
				name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		return m.add(root, p)
	})
	return m, err
}

func (m *module) add(root, p string) error {
	raw, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(m.files, p, raw, parser.ParseComments)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, p)
	if err != nil {
		return err
	}
	s := source{path: filepath.ToSlash(rel), ast: f, lines: strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")}
	if strings.HasSuffix(p, "_test.go") {
		m.tests = append(m.tests, s)
	} else {
		m.code = append(m.code, s)
	}
	return nil
}

// at returns "file:line" of a position.
func (m *module) at(s *source, pos token.Pos) string {
	return s.path + ":" + strconv.Itoa(m.files.Position(pos).Line)
}

// readCeilings reads cmd/figures/ceilings: a line "name number" for each figure that is guarded.
func readCeilings(root string) (map[string]int, error) {
	name := filepath.Join(root, "cmd", "figures", "ceilings")
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	ceilings := map[string]int{}
	for i, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		var figure string
		var n int
		if _, err := fmt.Sscanf(string(line), "%s %d", &figure, &n); err != nil {
			return nil, fmt.Errorf("%s:%d: %q is no name and number", name, i+1, line)
		}
		ceilings[figure] = n
	}
	return ceilings, nil
}
