package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/admin/render"
	"doublet/note"
)

// Command is a command of the console: Domino's name of a verb.
type Command struct {
	Name string `json:"command"`
	// Verb is the verb that the command runs, Args the arguments that come before those of the command line.
	Verb string   `json:"verb"`
	Args []string `json:"args,omitempty"`
	// Usage describes the further arguments.
	Usage string `json:"usage,omitempty"`
	Help  string `json:"help"`
}

// domino holds the commands that have another name on Domino's console than their verb. Every verb is a command under
// its own name too.
var domino = []struct{ name, verb, args string }{
	{"help", "show commands", ""},
	{"show database", "db show", ""},
	{"show directory", "db list", ""},
	{"show diskspace", "show stat", "Disk"},
	{"show inusers", "show users", ""},
	{"show performance", "show stat", "Server.Trans"},
	{"show schedule", "connection list", ""},
	{"show config", "show configuration", ""},
	{"set config", "set configuration", ""},
	{"load", "task load", ""},
	{"tell", "task tell", ""},
	{"restart task", "task restart", ""},
	{"route", "queue route", ""},
	{"replicate", "connection run", ""},
	{"tell router show", "show queue", ""},
	{"tell router retry", "queue retry", ""},
	{"tell router hold", "queue hold", ""},
	{"tell router release", "queue release", ""},
	{"tell router drop", "queue drop", ""},
	{"tell replica show", "connection list", ""},
	{"tell replica run", "connection run", ""},
	{"tell fulltext show", "search status", ""},
	{"tell fulltext rebuild", "search rebuild", ""},
	{"tell certificates show", "certificate show", ""},
	{"tell certificates renew", "certificate renew", ""},
	{"tell reports send", "report send", ""},
}

// consoleVerb is the verb that runs a command of the console. It is no command itself.
const consoleVerb = "console"

// Commands returns the commands of the console in alphabetical order: those with Domino's names, and every verb.
func Commands() []Command {
	list := make([]Command, 0, len(table)+len(domino))
	for _, v := range table {
		if v.Name != consoleVerb {
			list = append(list, Command{Name: v.Name, Verb: v.Name, Usage: v.usage(0), Help: v.Help})
		}
	}
	for _, d := range domino {
		v, _ := Find(d.verb)
		args := strings.Fields(d.args)
		list = append(list, Command{Name: d.name, Verb: d.verb, Args: args, Usage: v.usage(len(args)), Help: v.Help})
	}
	slices.SortFunc(list, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// usage describes the positional arguments of a verb after the first skip ones.
func (v *Verb) usage(skip int) string {
	var words []string
	for _, p := range v.Params {
		switch name := strings.ToUpper(p.Name); p.Arg {
		case "required":
			words = append(words, name)
		case "optional":
			words = append(words, "["+name+"]")
		case "rest", "words":
			words = append(words, "["+name+"…]")
		}
	}
	return strings.Join(words[min(skip, len(words)):], " ")
}

// resolve finds the command at the beginning of words, and returns the words after it. Each word of a command may be
// abbreviated as long as no other word fits: sh ta is show tasks. The longest command that fits is meant.
func resolve(words []string) (Command, []string, error) {
	list := Commands()
	found, n := Command{}, 0
	for depth, word := range words {
		if list = narrowed(list, depth, strings.ToLower(word)); len(list) == 0 {
			break
		}
		longer := func(x Command) bool { return strings.Count(x.Name, " ") > depth }
		ends := slices.DeleteFunc(slices.Clone(list), longer)
		begin := prefixes(list, depth+1)
		switch {
		case len(ends) == 0: // goes on
		case len(begin) == 1 || same(list):
			found, n = ends[0], depth+1
		default:
			return found, nil, fmt.Errorf("%w: %q is ambiguous: %s", ErrUsage, strings.Join(words[:depth+1], " "),
				strings.Join(begin, ", "))
		}
	}
	switch word, _ := first(words); {
	case n > 0:
		return found, words[n:], nil
	case strings.EqualFold(word, "quit"), strings.EqualFold(word, "bye"):
		return found, nil, fmt.Errorf("%w: %s: exit leaves the console, stop stops the server", ErrNoVerb, word)
	case len(list) > 0:
		return found, nil, fmt.Errorf("%w: %q is not complete: %s", ErrUsage, strings.Join(words, " "),
			strings.Join(prefixes(list, len(words)+1), ", "))
	}
	return found, nil, fmt.Errorf("%w: %q: help lists the commands", ErrNoVerb, strings.Join(words, " "))
}

// prefixes returns the different beginnings of commands, at most n words long.
func prefixes(list []Command, n int) (out []string) {
	for _, x := range list {
		words := strings.SplitN(x.Name, " ", n+1)
		if begin := strings.Join(words[:min(n, len(words))], " "); !slices.Contains(out, begin) {
			out = append(out, begin)
		}
	}
	return out
}

// changes reports whether the command's verb changes something.
func (x *Command) changes() bool {
	v, ok := Find(x.Verb)
	return ok && v.Changes
}

// narrowed returns the commands whose word at a depth begins with a word, only those with exactly that word if there
// are any. A command of one word that changes something, such as stop, is not abbreviated.
func narrowed(list []Command, depth int, word string) []Command {
	var begin, exact []Command
	for _, x := range list {
		parts := strings.Split(x.Name, " ")
		switch {
		case len(parts) <= depth:
		case parts[depth] == word:
			exact = append(exact, x)
		case strings.HasPrefix(parts[depth], word) && !(len(parts) == 1 && x.changes()):
			begin = append(begin, x)
		}
	}
	if exact != nil {
		return exact
	}
	return begin
}

// same reports whether commands do the same, such as show config and show configuration.
func same(list []Command) bool {
	return !slices.ContainsFunc(list, func(x Command) bool {
		return x.Verb != list[0].Verb || !slices.Equal(x.Args, list[0].Args)
	})
}

// Output is the result of a verb as text for people.
type Output struct {
	Output string `json:"output"`
	// Failed reports that the verb reports a problem, such as a check that is not clean.
	Failed bool `json:"failed,omitempty"`
}

// Text returns the text.
func (o Output) Text() string { return o.Output }

// Bad reports whether the verb reported a problem, for the exit code.
func (o Output) Bad() bool { return o.Failed }

func rendered(result any) (Output, error) {
	var b strings.Builder
	err := render.Text(&b, result)
	f, ok := result.(interface{ Bad() bool })
	return Output{Output: b.String(), Failed: ok && f.Bad()}, err
}

// runTyped runs a command that somebody typed: it leaves an audit line even if it changes nothing. The verb of c leaves
// none.
func runTyped(ctx context.Context, c *Call, x Command, words []string) (Output, error) {
	c.passed = true
	typed := *c
	typed.audited, typed.passed = true, false
	return runCommand(ctx, &typed, x, words)
}

// runCommand runs the verb of a command with further arguments, as the caller.
func runCommand(ctx context.Context, c *Call, x Command, words []string) (Output, error) {
	v, ok := Find(x.Verb)
	if !ok || v.Name == consoleVerb {
		return Output{}, fmt.Errorf("%w: %s", ErrNoVerb, x.Verb)
	}
	args, err := v.Arguments(append(slices.Clone(x.Args), words...))
	if err != nil {
		c.audit(ctx, c.Who, v, nil, unparsed(err))
		return Output{}, err
	}
	raw, err := c.run(ctx, v.Name, args)
	if err != nil {
		return Output{}, err
	}
	result := v.Result()
	if err := json.Unmarshal(raw, result); err != nil {
		return Output{}, fmt.Errorf("%s: result: %w", v.Name, err)
	}
	return rendered(result)
}

// Command runs a verb as the server itself, with arguments as they stand on a command line, and returns its result as
// text. Tasks that run verbs call it.
func (r *Running) Command(ctx context.Context, verb string, words []string, progress func(Progress)) (Output, error) {
	c := &Call{System: r.System, Who: note.System, Progress: progress, running: r}
	return runCommand(ctx, c, Command{Verb: verb}, words)
}

// ConsoleLine are the arguments of console.
type ConsoleLine struct {
	// Command may hold a secret in a place that is known only after parsing.
	Command string `json:"command" arg:"required" help:"command, such as show tasks" secret:"unasked"`
}

// CommandsShown are the arguments of show commands.
type CommandsShown struct {
	Begin []string `json:"begin" arg:"rest" help:"only commands that begin with these words"`
}

// CommandList is the result of show commands.
type CommandList []Command

// Text returns a line for each command.
func (l CommandList) Text() string {
	var b strings.Builder
	for _, x := range l {
		fmt.Fprintf(&b, "%-40s %s\n", strings.TrimSpace(x.Name+" "+x.Usage), x.Help)
	}
	if len(l) == 0 {
		return "no command begins so\n"
	}
	return b.String()
}

func consoles() []*Verb {
	return []*Verb{
		onServer(consoleVerb, "run a command of the console", runConsole, changes,
			long("Commands are Domino's, and every verb. Words may be abbreviated: sh ta is show tasks.")),
		define("show commands", "the commands of the console", showCommands),
	}
}

// unparsed returns the kind of an error of a command that could not be parsed, for the audit log. The error's text
// quotes words of the command, and any of them may be a secret: which words are secret is known only after parsing.
func unparsed(err error) error {
	if errors.Is(err, ErrNoVerb) {
		return ErrNoVerb
	}
	return ErrUsage
}

func runConsole(ctx context.Context, c *ServerCall, a *ConsoleLine) (Output, error) {
	words, err := Words(a.Command)
	if err == nil && len(words) == 0 {
		err = fmt.Errorf("%w: the command is empty", ErrUsage)
	}
	var x Command
	if err == nil {
		x, words, err = resolve(words)
	}
	if err != nil {
		c.passed = true
		v, _ := Find(consoleVerb)
		c.audit(ctx, c.Who, v, nil, unparsed(err))
		return Output{}, err
	}
	return runTyped(ctx, c.Call, x, words)
}

func showCommands(_ context.Context, c *Call, a *CommandsShown) (CommandList, error) {
	begin := strings.ToLower(strings.Join(a.Begin, " "))
	list := CommandList{}
	for _, x := range Commands() {
		v, _ := Find(x.Verb)
		if strings.HasPrefix(x.Name, begin) && MayRun(c.Who, v) == nil {
			list = append(list, x)
		}
	}
	return list, nil
}
