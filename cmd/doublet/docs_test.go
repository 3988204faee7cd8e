package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// documentedLine is a command line of a document. A typed one stands in a code block. Another one stands in a sentence
// and may name a command without its arguments.
type documentedLine struct {
	place, text string
	typed       bool
}

var (
	inCode    = regexp.MustCompile("`([^`]*)`")
	shown     = regexp.MustCompile(`^(?:\$ )?(?:bin/)?doublet ([a-z].*)$`)
	separator = regexp.MustCompile(`; | ; | && | \| | > | 2>| &$`)
	comment   = regexp.MustCompile(`\s+#.*`)
	word      = regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s"']+`)
)

// documentedLines returns the commands of doublet that a document shows.
func documentedLines(name, text string) []documentedLine {
	var lines []documentedLine
	text = strings.ReplaceAll(text, "\\\n", " ")
	for i, l := range strings.Split(text, "\n") {
		code, typed := strings.CutPrefix(l, "    ")
		parts := []string{strings.TrimSpace(comment.ReplaceAllString(code, ""))}
		if !typed {
			parts = nil
			for _, m := range inCode.FindAllStringSubmatch(l, -1) {
				parts = append(parts, m[1])
			}
		}
		for _, p := range parts {
			for _, one := range separator.Split(p, -1) {
				if m := shown.FindStringSubmatch(strings.TrimSpace(one)); m != nil {
					lines = append(lines, documentedLine{fmt.Sprintf("%s:%d", name, i+1), m[1], typed})
				}
			}
		}
	}
	return lines
}

// documentedRoot returns the commands of the program, without input and output.
func documentedRoot() *cobra.Command {
	a := &app{streams: streams{strings.NewReader(""), io.Discard, io.Discard}}
	root := a.root()
	root.InitDefaultHelpCmd()
	return root
}

// wrong returns the reason why the program would reject a documented command line, or nil. It skips an ellipsis.
func (d documentedLine) wrong(root *cobra.Command) error {
	var args []string
	for _, w := range word.FindAllString(d.text, -1) {
		if w != "…" {
			args = append(args, strings.Trim(w, `"'`))
		}
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if !d.typed || slices.Contains(args, "--help") {
		return unknownFlag(cmd, rest)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return missingWords(cmd, cmd.Flags().Args())
}

// unknownFlag returns an error for a flag that a command does not have.
func unknownFlag(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		name, long := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if long && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}

// missingWords returns an error if the words after a command are too few or too many.
func missingWords(cmd *cobra.Command, words []string) error {
	if cmd.HasSubCommands() && cmd.Args == nil {
		return fmt.Errorf("%s is only a group of commands", cmd.CommandPath())
	}
	return cmd.ValidateArgs(words)
}

// TestDocumentedCommands parses the commands in the documents as the program would.
func TestDocumentedCommands(t *testing.T) {
	paths := []string{"../../README.md"}
	for _, pattern := range []string{"../../doc/*.md", "../../doc/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	root, count := documentedRoot(), 0
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range documentedLines(filepath.Base(path), string(b)) {
			count++
			if err := l.wrong(root); err != nil {
				t.Errorf("%s: doublet %s: %v", l.place, l.text, err)
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d commands found in the documents", count)
	}
}

// TestDocumentedCommandsWrong checks that TestDocumentedCommands finds mistakes.
func TestDocumentedCommandsWrong(t *testing.T) {
	for line, good := range map[string]bool{
		"ban remove --address 192.0.2.7": true,
		"ban remove 192.0.2.7":           false,
		"user list":                      true,
		"user lst":                       false,
		"user":                           false,
		"queue list --sender ada":        false,
		"queue show":                     false,
		"frobnicate":                     false,
	} {
		lines := documentedLines("x.md", "    $ doublet "+line+"   # comment\n")
		if len(lines) != 1 {
			t.Fatalf("%s: %d lines", line, len(lines))
		}
		if err := lines[0].wrong(documentedRoot()); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}
