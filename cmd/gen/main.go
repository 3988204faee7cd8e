// Command gen writes the documents that are generated from the code: doc/protocols.md from the marks
// `// Implements: RFC 5321 §4.1.1.4 DATA` in Go files, doc/config.md from the configuration's struct, doc/probes.md
// from the kinds of probes, doc/rooms.md from package comments, and doc/pictures/rooms.svg from imports. `make gen`
// runs it in the root of the module.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"doublet/cmd/doublet/config"
	"doublet/probe/check"
	"doublet/serve/condition"
)

func main() {
	root := flag.String("root", ".", "root of the module")
	flag.Parse()
	if err := generate(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate writes every generated document below root/doc. The same code yields the same bytes on every machine.
func generate(root string) error {
	marks, err := collect(root)
	if err != nil {
		return err
	}
	if err := write(root, "protocols.md", protocols(marks, notes(root))); err != nil {
		return err
	}
	list, err := rooms(root)
	if err != nil {
		return err
	}
	if err := write(root, "rooms.md", roomTable(list)); err != nil {
		return err
	}
	g, err := imports(root, "doublet")
	if err != nil {
		return err
	}
	if err := write(root, "pictures/rooms.svg", string(g.picture())); err != nil {
		return err
	}
	if err := write(root, "replies.md", condition.Markdown()); err != nil {
		return err
	}
	if err := write(root, "probes.md", check.Markdown()); err != nil {
		return err
	}
	return write(root, "config.md", config.Markdown())
}

func write(root, name, text string) error {
	file := filepath.Join(root, "doc", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// notes returns the hand-written remarks on protocols (deviations and their reasons), doc/deviations.md. They become
// the end of doc/protocols.md. The file may be absent.
func notes(root string) string {
	raw, err := os.ReadFile(filepath.Join(root, "doc", "deviations.md"))
	if err != nil {
		return ""
	}
	return string(raw)
}
