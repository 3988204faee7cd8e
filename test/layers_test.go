// Package test holds the tests of the whole module: the order of its rooms (top-level packages with their sub-packages)
// here, scenarios and tests of several rooms in the folders beside.
package test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module       = "doublet"
	maxFileLines = 800
	maxFuncLines = 100
)

// order is the order of the rooms: a room imports only rooms of earlier lines, and its own sub-rooms. To change it,
// change this list, the documents and the code in one commit.
var order = [][]string{
	{"note"},
	{"wire", "stat", "env", "web"},
	{"client"},
	{"store"},
	{"catalog", "collect", "probe"},
	{"bus"},
	{"directory"},
	{"search"},
	{"mailbox"},
	{"mail"},
	{"calendar", "contact"},
	{"groupware"},
	{"scheduling"},
	{"replica", "transfer"},
	{"cluster"},
	{"admin"},
	{"serve", "task"},
	{"lab"},
	{"cmd"},
}

// workbench lists rooms that are not part of the server: they import nothing after client in the order, and only the
// rooms of benchmarks import them.
var workbench = []string{"bench", "plan"}

// benchmarks lists the rooms that join the workbench to this server: cmd has the commands, lab starts real servers and
// places people on them.
var benchmarks = []string{"cmd", "lab"}

// wireMay lists the wire formats that may import another one. Any other such import is an error, because formats have
// no dependencies.
var wireMay = map[string][]string{
	"wire/imap": {"wire/mime"}, // BODYSTRUCTURE and ENVELOPE print what mime has parsed
	"wire/mbox": {"wire/mime"}, // the date of a From line has the forms of a Date field
}

// doorsMay lists the rooms that doors (protocol servers) share and that are no doors themselves.
var doorsMay = []string{"serve/listen", "serve/signin", "serve/certs", "serve/forward", "serve/proxied", "serve/speech",
	"serve/websession", "serve/condition"}

// ownedImports lists foreign modules (by a prefix of their path) and the only rooms, or sub-rooms, that may import
// them. The first line that matches an import decides.
var ownedImports = []struct {
	path  string
	rooms []string
	tests bool // tests everywhere may import it too
	why   string
}{
	{"github.com/cockroachdb/pebble/v2/vfs", []string{"store", "env"}, true, "use env.FS"},
	{"github.com/cockroachdb/pebble", []string{"store", "search/index"}, false,
		"the storage engine is the store's alone, and the index's: ask the store"},
	{"github.com/nats-io", []string{"bus"}, false, "the message bus is bus's alone: send through bus"},
}

var badNames = []string{"util", "utils", "common", "lib", "helper", "helpers", "misc"}

// worldRooms may use the clock, goroutines and files of the system directly, because they are at the edge of the
// program.
var worldRooms = []string{"env", "cmd", "test", "bench", "lab"}

// worldAllowed lists exceptions for rooms or files that are not at the edge; the value is the reason.
var worldAllowed = map[string]string{
	"client/dns/zone": "a name server for tests and rehearsals, with sockets and goroutines of its own",
	"bus/bustest":     "what every implementation of the bus is held to: a test, in a package that tests share",
}

// worldCalls are the functions of the system that env.Env wraps.
var worldCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"os": {"Chmod", "Chown", "Chtimes", "Create", "CreateTemp", "DirFS", "Link", "Lstat", "Mkdir", "MkdirAll",
		"MkdirTemp",
		"NewFile", "Open", "OpenFile", "OpenInRoot", "OpenRoot", "ReadDir", "ReadFile", "Readlink", "Remove",
		"RemoveAll",
		"Rename", "Stat", "Symlink", "Truncate", "WriteFile"},
	"net":         {"Dial", "DialTimeout", "DialTCP", "DialUnix", "Listen", "ListenTCP", "ListenUnix", "ListenPacket"},
	"crypto/rand": {"Read", "Text", "Int", "Prime"},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, problem := range survey(t, "..") {
		t.Error(problem)
	}
}

// survey reads the Go files below root and returns the violations of the rules.
func survey(t *testing.T, root string) []string {
	t.Helper()
	var problems []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root &&
				(name[0] == '.' || slices.Contains([]string{"testdata", "node_modules", "web", "bin", "data"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		problems = append(problems, inspect(filepath.ToSlash(rel), src)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// source is one Go file under inspection.
type source struct {
	file   string // relative to the root of the module, with slashes
	pkg    string // its folder
	room   string // the first element of pkg
	test   bool
	tree   *ast.File
	set    *token.FileSet
	failed []string
}

func (s *source) fail(at token.Pos, format string, args ...any) {
	place := s.file
	if at.IsValid() {
		place += ":" + strconv.Itoa(s.set.Position(at).Line)
	}
	s.failed = append(s.failed, place+": "+fmt.Sprintf(format, args...))
}

func inspect(file string, src []byte) []string {
	s := &source{file: file, pkg: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), set: token.NewFileSet()}
	s.room, _, _ = strings.Cut(s.pkg, "/")
	s.test = s.test || s.room == "test"
	var err error
	s.tree, err = parser.ParseFile(s.set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{fmt.Sprintf("%s: does not parse: %v", file, err)}
	}
	if rank(s.room) < 0 && !slices.Contains(workbench, s.room) && s.room != "test" {
		s.fail(token.NoPos, "the room %q has no place in the house: put the file into a room, or give the room its "+
			"place in test/layers_test.go", s.room)
		return s.failed
	}
	s.checkNames()
	s.checkImports()
	if !ast.IsGenerated(s.tree) {
		s.checkSizes(src)
	}
	s.checkWorld()
	return s.failed
}

func rank(room string) int {
	return slices.IndexFunc(order, func(line []string) bool { return slices.Contains(line, room) })
}

func (s *source) checkNames() {
	for _, n := range []string{strings.TrimSuffix(s.tree.Name.Name, "_test"), path.Base(s.pkg)} {
		if slices.Contains(badNames, n) {
			s.fail(s.tree.Name.Pos(), "a package named %s says nothing: name it after what it knows", n)
			return
		}
	}
}

func (s *source) checkImports() {
	for _, spec := range s.tree.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			s.fail(spec.Pos(), "%v", err)
			continue
		}
		if own, ok := strings.CutPrefix(to, module+"/"); ok {
			if why := s.mayNot(own); why != "" {
				s.fail(spec.Pos(), "%s must not import %s: %s", s.pkg, own, why)
			}
			continue
		}
		s.foreign(spec, to)
	}
}

func (s *source) foreign(spec *ast.ImportSpec, to string) {
	for _, o := range ownedImports {
		if to != o.path && !strings.HasPrefix(to, o.path+"/") {
			continue
		}
		if !slices.Contains(o.rooms, s.room) && !slices.Contains(o.rooms, s.pkg) && !(o.tests && s.test) {
			s.fail(spec.Pos(), "only %s imports %s: %s", strings.Join(o.rooms, " and "), o.path, o.why)
		}
		return
	}
}

// mayNot returns the reason why s must not import our package to, or "".
func (s *source) mayNot(to string) string {
	room, _, _ := strings.Cut(to, "/")
	if room == "test" {
		if s.test {
			return ""
		}
		return "test/ is for tests"
	}
	if s.room == "test" || to == s.pkg {
		return ""
	}
	if s.test && (room == "env" || room == "stat") {
		return "" // fixtures: the fake clock and file system
	}
	if room == s.room {
		return s.sideways(to)
	}
	if slices.Contains(workbench, room) {
		if slices.Contains(benchmarks, s.room) {
			return ""
		}
		return "the workbench is a black box: only " + strings.Join(benchmarks, " and ") + " import it"
	}
	if slices.Contains(workbench, s.room) {
		if rank(room) >= 0 && rank(room) <= rank("client") {
			return ""
		}
		return "the workbench knows a server only through client, so that it can measure any"
	}
	switch {
	case rank(room) < 0:
		return "that room has no place in the house (test/layers_test.go)"
	case rank(room) == rank(s.room):
		return "the two stand side by side; let the room above bring them together (an interface, a function handed " +
			"over)"
	case rank(room) > rank(s.room):
		return "that goes up; be handed what you need (an interface, a function), and let cmd wire it"
	}
	return ""
}

// sideways checks an import between sub-rooms of one room.
func (s *source) sideways(to string) string {
	switch s.room {
	case "wire":
		if s.test || slices.Contains(wireMay[s.pkg], to) || strings.HasPrefix(to, s.pkg+"/") {
			return ""
		}
		return "wire formats stand alone; if the one is made of the other, say so in wireMay of test/layers_test.go"
	case "serve":
		if slices.Contains(doorsMay, to) || strings.HasPrefix(to, s.pkg+"/") || strings.HasPrefix(s.pkg, to+"/") {
			return ""
		}
		return "doors never import doors: what they share belongs to a room below, or to serve/listen"
	}
	return ""
}

func (s *source) checkSizes(src []byte) {
	lines := bytes.Count(src, []byte("\n"))
	if lines > maxFileLines {
		s.fail(token.NoPos, "%d lines, at most %d: cut it where the subject changes", lines, maxFileLines)
	}
	if s.test {
		return
	}
	for _, d := range s.tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; n > maxFuncLines {
			s.fail(f.Pos(), "%s has %d lines, at most %d: give its steps names", f.Name.Name, n, maxFuncLines)
		}
	}
}

// checkWorld finds direct uses of the system's clock, goroutines, files, sockets or randomness.
func (s *source) checkWorld() {
	if s.test || slices.Contains(worldRooms, s.room) || worldAllowed[s.room] != "" || worldAllowed[s.pkg] != "" ||
		worldAllowed[s.file] != "" {
		return
	}
	names := map[string]string{} // as written in the file → import path
	for _, spec := range s.tree.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil || worldCalls[to] == nil {
			continue
		}
		name := path.Base(to)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = to
	}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			s.fail(n.Pos(), "a go statement: start it with env.Env.Go, which tests and the simulation replace")
		case *ast.SelectorExpr:
			// A function value (f = time.Now) counts as a use, like a call.
			id, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			if to := names[id.Name]; to != "" && slices.Contains(worldCalls[to], n.Sel.Name) {
				s.fail(n.Pos(),
					"%s.%s: take it from env.Env (Clock, FS, Dial, Listen, Rand), which tests and the simulation "+
						"replace", to, n.Sel.Name)
			}
		}
		return true
	})
}

// TestSurveyFindsMistakes builds modules with one mistake each.
func TestSurveyFindsMistakes(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("\n", n) }
	for _, c := range []struct{ file, src, want string }{
		{"store/a.go", `package store; import _ "doublet/note"`, ""},
		{"store/a.go", `package store; import _ "doublet/store/layout"`, ""},
		{"store/a.go", `package store; import _ "doublet/mailbox"`, "that goes up"},
		{"store/a_test.go", `package store; import _ "doublet/mailbox"`, "that goes up"},
		{"note/a.go", `package note; import _ "doublet/env"`, "that goes up"},
		{"note/a_test.go", `package note; import _ "doublet/env"`, ""},
		{"stat/a.go", `package stat; import _ "doublet/env"`, "side by side"},
		{"serve/smtpd/a.go", `package smtpd; import _ "doublet/task"`, "side by side"},
		{"serve/smtpd/a.go", `package smtpd; import _ "doublet/serve/imapd"`, "doors never"},
		{"serve/smtpd/a.go", `package smtpd; import _ "doublet/serve/listen"`, ""},
		{"wire/imap/a.go", `package imap; import _ "doublet/wire/mime"`, ""},
		{"wire/smtp/a.go", `package smtp; import _ "doublet/wire/imap"`, "stand alone"},
		{"bench/a.go", `package bench; import _ "doublet/client/imap"`, ""},
		{"bench/a.go", `package bench; import _ "doublet/store"`, "workbench knows"},
		{"plan/a.go", `package plan; import _ "doublet/bench"`, "black box"},
		{"admin/a.go", `package admin; import _ "doublet/plan"`, "black box"},
		{"cmd/doublet/a.go", `package main; import _ "doublet/bench"`, ""},
		{"lab/a.go", `package lab; import _ "doublet/bench"`, ""},
		{"lab/a.go", `package lab; import _ "doublet/admin"`, ""},
		{"lab/a.go", `package lab; import _ "doublet/cmd/doublet/config"`, "that goes up"},
		{"bench/a.go", `package bench; import _ "doublet/lab"`, "workbench knows"},
		{"admin/a.go", `package admin; import _ "doublet/lab"`, "that goes up"},
		{"mail/a.go", `package mail; import _ "doublet/test/scenario"`, "test/ is for tests"},
		{"mail/a_test.go", `package mail; import _ "doublet/test/scenario"`, ""},
		{"mail/a.go", `package mail; import _ "doublet/attic"`, "no place"},
		{"attic/a.go", `package attic`, "no place in the house"},
		{"mail/a.go", `package mail; import _ "github.com/cockroachdb/pebble/v2"`, "storage engine"},
		{"mail/a_test.go", `package mail; import _ "github.com/cockroachdb/pebble/v2"`, "storage engine"},
		{"mail/a.go", `package mail; import _ "github.com/cockroachdb/pebble/v2/vfs"`, "use env.FS"},
		{"mail/a_test.go", `package mail; import _ "github.com/cockroachdb/pebble/v2/vfs"`, ""},
		{"store/view/a.go", `package view; import _ "github.com/cockroachdb/pebble/v2/sstable"`, ""},
		{"search/index/a.go", `package index; import _ "github.com/cockroachdb/pebble/v2"`, ""},
		{"search/a.go", `package search; import _ "github.com/cockroachdb/pebble/v2"`, "storage engine"},
		{"mail/a.go", `package mail; import _ "github.com/nats-io/nats.go"`, "message bus"},
		{"bus/a.go", `package bus; import _ "github.com/nats-io/nats.go"`, ""},
		{"mail/util/a.go", `package util`, "says nothing"},
		{"mail/helper/a_test.go", `package helper_test`, "says nothing"},
		{"mail/a.go", `package mail; import "time"; var x = time.Now()`, "time.Now"},
		{"mail/a.go", `package mail; import clock "time"; var x = clock.Now`, "time.Now"},
		{"mail/a.go", `package mail; import "time"; var x = time.Second`, ""},
		{"mail/a.go", `package mail; import "os"; var x, _ = os.ReadFile("x")`, "os.ReadFile"},
		{"mail/a.go", `package mail; import "os"; var x = os.ErrNotExist`, ""},
		{"mail/a.go", `package mail; func f() { go f() }`, "go statement"},
		{"mail/a_test.go", `package mail; func f() { go f() }`, ""},
		{"cmd/doublet/a.go", `package main; func f() { go f() }`, ""},
		{"mail/a.go", "package mail" + long(801), "801 lines"},
		{"mail/a_test.go", "package mail" + long(801), "801 lines"},
		{"mail/a.go", "// Code generated by x. DO NOT EDIT.\n\npackage mail" + long(801), ""},
		{"mail/a.go", "package mail\nfunc f() {" + long(101) + "}", "f has 102 lines"},
		{"mail/a_test.go", "package mail\nfunc f() {" + long(101) + "}", ""},
		{"mail/a.go", "package", "does not parse"},
	} {
		root := t.TempDir()
		file := filepath.Join(root, filepath.FromSlash(c.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.src), 0o644); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(survey(t, root), "\n")
		if c.want == "" && got != "" || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s: %.80q gives %q, want %q", c.file, c.src, got, c.want)
		}
	}
}

// TestAllowedIsUsed checks that the exceptions still have a reason.
func TestAllowedIsUsed(t *testing.T) {
	t.Parallel()
	for place, why := range worldAllowed {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(place))); err != nil || why == "" {
			t.Errorf("worldAllowed[%q]: %v, reason %q", place, err, why)
		}
	}
}

// TestModule checks that the survey covers this module, and that each direct dependency has a comment with its reason.
func TestModule(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	why, err := os.ReadFile("../doc/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(bytes.NewReader(raw))
	if !scan.Scan() || scan.Text() != "module "+module {
		t.Errorf("go.mod begins with %q", scan.Text())
	}
	for scan.Scan() {
		words := strings.Fields(strings.TrimPrefix(scan.Text(), "require "))
		if len(words) != 2 || !strings.Contains(words[0], "/") || words[1][0] != 'v' {
			continue // an indirect one has its comment after it
		}
		if !bytes.Contains(why, []byte("`"+words[0]+"`")) {
			t.Errorf("doc/dependencies.md does not say why %s was chosen", words[0])
		}
	}
}
