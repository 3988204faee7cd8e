// Package sieve parses, checks and prints scripts of the mail filtering language Sieve (RFC 5228). It is pure: package
// mail/rules executes what it has checked.
//
// Parse knows the grammar alone, and returns a tree of nodes. Check compares that tree with the tables of commands and
// tests of this package, and sorts the arguments of each node into tags and positional values.
package sieve

import (
	"fmt"
	"strings"
)

// Limits of a script. A script beyond a limit is refused as a whole.
const (
	MaxSize    = 256 << 10 // bytes
	MaxNodes   = 5000      // commands and tests
	MaxDepth   = 32        // blocks and tests within each other
	MaxStrings = 20_000
	MaxRegexps = 200
	// MaxInstructions is the maximum number of instructions of all regular expressions together, about 40 bytes each.
	MaxInstructions = 20_000
	maxErrors       = 10
)

// Error is a mistake in a script.
type Error struct {
	Line int // from 1
	Text string
}

// Error returns the text with the line, as "line 3: unknown command "foo"".
func (e Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Errors holds the mistakes in a script, in the order of their lines; it is not empty if it is an error.
type Errors []Error

// Error returns one line for each mistake.
func (e Errors) Error() string {
	var b strings.Builder
	for i, one := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(one.Error())
	}
	return b.String()
}

// Script is a parsed script.
type Script struct {
	Commands []*Node
	// Comment holds the comments after the last command, in the form of Node.Comment.
	Comment string
}

// Node is a command, or a test, which has the same form.
type Node struct {
	Name string // lower case
	Line int
	// End is the offset in the script, without a byte order mark, behind the semicolon or the brace that ends a
	// command.
	End int
	// Comment holds the comments before a command and within its arguments and tests, one a line, without their
	// delimiters. Tests have none.
	Comment string
	Args    []Argument
	// Tests are the tests of a test list, which has parentheses (List), or one test.
	Tests []*Node
	List  bool
	// Block holds the commands in braces; Braces is set if there are any.
	Block  []*Node
	Braces bool

	// Tags and Values are set by Check: the value of each tag by its name (the tag itself if it has none), and the
	// positional arguments. Broken is the mistake in a node that "ihave" may keep from being executed.
	Tags   map[string]Argument
	Values []Argument
	Broken string
}

// Kind is the type of an argument.
type Kind uint8

// The types of arguments. A single string may stand for a list of one.
const (
	Tag Kind = 1 << iota
	Number
	String
	StringList
)

// Argument is an argument of a command or a test.
type Argument struct {
	Kind   Kind
	Line   int
	Text   string   // of a tag, in lower case without its colon, or of a string
	Number uint64   // of a number, with its quantifier applied
	List   []string // of a string list
}

// Strings returns the strings of a string list, or of a string.
func (a *Argument) Strings() []string {
	if a.Kind == String {
		return []string{a.Text}
	}
	return a.List
}

// Has reports whether a node has a tag.
func (n *Node) Has(tag string) bool {
	_, ok := n.Tags[tag]
	return ok
}
