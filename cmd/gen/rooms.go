package main

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// room is one folder with a package, and the first sentence of its package comment.
type room struct{ path, says string }

// rooms returns every folder below root that holds a package. A package without a comment is an error.
func rooms(root string) (list []room, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (name[0] == '.' ||
			slices.Contains([]string{"testdata", "node_modules", "bin", "data"}, name)) {
			return filepath.SkipDir
		}
		says, there, err := synopsis(path)
		if err != nil || !there {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if says == "" {
			return fmt.Errorf("package in %s has no package comment", rel)
		}
		list = append(list, room{filepath.ToSlash(rel), says})
		return nil
	})
	return list, err
}

// synopsis returns the first sentence of a folder's package comment; there reports whether the folder has Go files.
func synopsis(dir string) (says string, there bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false, err
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return "", true, err
		}
		there = true
		if f.Doc != nil && says == "" {
			says = new(doc.Package).Synopsis(f.Doc.Text())
		}
	}
	return says, there, nil
}

// roomTable returns the text of doc/rooms.md.
func roomTable(list []room) string {
	var b strings.Builder
	b.WriteString("# Rooms\n\nMade by `make gen` from the first sentence of each package: do not edit. " +
		"[architecture.md](architecture.md) says how they\nstand to each other.\n\n| room | what it is |\n|---|---|\n")
	for _, r := range list {
		says := strings.TrimPrefix(strings.TrimPrefix(r.says, "Package "), "Command ")
		if _, rest, ok := strings.Cut(says, " "); ok {
			says = rest // without the package's name
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.path, strings.ReplaceAll(strings.TrimSuffix(says, "."), "|", "\\|"))
	}
	return b.String()
}
