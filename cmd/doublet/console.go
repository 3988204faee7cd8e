package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/admin"
	"doublet/admin/render"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const consoleHelp = `Type the commands of Domino's console to the running server: show, load, tell, drop, set
configuration, route, replicate, help. Every verb of this program is a command too, and words may be
abbreviated: sh ta is show tasks.

On a terminal there are line editing, a history (arrow keys) and completion (tab); exit, or Ctrl-D, leaves the
console. Otherwise each line of standard input is a command, and the exit code is that of the last one that failed.
Every command leaves a line in the audit log.`

func (a *app) consoleCommand() *cobra.Command {
	var commands []string
	var follow bool
	cmd := &cobra.Command{
		Use: "console", Short: "type commands to the running server, as on Domino's console", Args: count(0, 0),
		Long: consoleHelp,
		Example: "  doublet console -c 'show tasks' -c 'tell router show'\n" +
			"  doublet console --follow",
	}
	cmd.Flags().StringArrayVarP(&commands, "command", "c", nil, "run this command and end; may be repeated")
	cmd.Flags().BoolVar(&follow, "follow", false, "show the server's log as it grows")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		v, _ := admin.Find("console")
		caller, done, err := a.caller(v)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		c := &console{app: a, caller: caller}
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		in, isFile := a.in.(*os.File)
		switch {
		case len(commands) > 0:
			return c.each(ctx, slices.Values(commands))
		case isFile && isTerminal(in) && isTerminal(a.out):
			return c.interact(ctx, in, follow)
		case follow:
			go c.each(ctx, c.lines)
			return c.follow(ctx, a.out)
		}
		return c.each(ctx, c.lines)
	}
	return cmd
}

// console is a session at the console of a running server.
type console struct {
	*app
	caller admin.Caller
	// writing is held while a command or a line of the log is written.
	writing sync.Mutex
}

// lines yields the lines of standard input.
func (c *console) lines(yield func(string) bool) {
	for s := bufio.NewScanner(c.in); s.Scan(); {
		if !yield(s.Text()) {
			return
		}
	}
}

// each runs commands until exit, and returns the error of the last one that failed. It prints the errors of the others.
func (c *console) each(ctx context.Context, lines func(func(string) bool)) (last error) {
	for line := range lines {
		line = strings.TrimSpace(line)
		if leaves(line) || ctx.Err() != nil {
			break
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if last != nil {
			c.complain(c.err, last)
		}
		if err := c.run(ctx, line); err != nil {
			last = err
		}
	}
	return last
}

// leaves reports whether a line ends the session.
func leaves(line string) bool { return strings.EqualFold(line, "exit") }

func (c *console) complain(w io.Writer, err error) {
	var quiet quietError
	if !errors.As(err, &quiet) {
		fmt.Fprintln(w, "doublet:", err)
	}
}

// run runs one command and prints its result.
func (c *console) run(ctx context.Context, line string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	args, err := json.Marshal(admin.ConsoleLine{Command: line})
	if err != nil {
		return err
	}
	raw, err := c.caller.Call(ctx, "console", args, c.progress())
	if err != nil {
		return err
	}
	var out admin.Output
	if err := json.Unmarshal(raw, &out); err != nil {
		return fmt.Errorf("console: the server answered something else: %w", err)
	}
	if _, err := io.WriteString(c.out, out.Output); err != nil {
		return err
	}
	if out.Bad() {
		return quietError{exitFailed}
	}
	return nil
}

// interact reads commands from a terminal.
func (c *console) interact(ctx context.Context, in *os.File, follow bool) error {
	raw := func() (restore func(), err error) {
		state, err := term.MakeRaw(int(in.Fd()))
		return func() { _ = term.Restore(int(in.Fd()), state) }, err
	}
	restore, err := raw()
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() { restore() }()
	t := c.terminal(ctx, struct {
		io.Reader
		io.Writer
	}{in, c.out})
	if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
		_ = t.SetSize(width, height)
	}
	if follow {
		go func() { _ = c.follow(ctx, t) }()
	}
	for ctx.Err() == nil {
		line, err := t.ReadLine()
		line = strings.TrimSpace(line)
		switch {
		case errors.Is(err, io.EOF) || leaves(line):
			return nil
		case err != nil && !errors.Is(err, term.ErrPasteIndicator):
			return err
		case line == "":
			continue
		}
		restore() // while the command runs, Ctrl-C ends it, and the console
		if err := c.run(ctx, line); err != nil && ctx.Err() == nil {
			c.complain(c.out, err)
		}
		if restore, err = raw(); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
	}
	return nil
}

// terminal returns a line editor whose tab key completes commands and the names of tasks.
func (c *console) terminal(ctx context.Context, rw io.ReadWriter) *term.Terminal {
	t := term.NewTerminal(rw, "> ")
	words := c.words(ctx)
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' || pos != len(line) {
			return line, pos, false
		}
		longer, choices := complete(line, words)
		if longer == line && len(choices) > 1 {
			fmt.Fprintln(t, strings.Join(choices, "  "))
		}
		return longer, len(longer), true
	}
	return t
}

// words returns the commands that a completion may write, those that take a task with the name of each task.
func (c *console) words(ctx context.Context) (list []string) {
	tasks, _ := admin.Do[[]admin.Task](ctx, c.caller, "show tasks", nil) // without them, commands are completed alone
	for _, x := range admin.Commands() {
		list = append(list, x.Name)
		if strings.HasPrefix(x.Verb, "task ") && strings.HasPrefix(x.Usage, "NAME") {
			for _, t := range tasks {
				list = append(list, x.Name+" "+strings.ToLower(t.Name))
			}
		}
	}
	return append(list, "exit")
}

// complete returns the line, continued as far as all commands that begin with it agree, and the choices for its last
// word.
func complete(line string, commands []string) (longer string, choices []string) {
	begin := strings.ToLower(line)
	longer = line
	first, goesOn := true, false
	for _, x := range commands {
		if !strings.HasPrefix(x, begin) {
			continue
		}
		end := len(begin) // the choice ends with the word that the line is in
		for end < len(x) && x[end] != ' ' {
			end++
		}
		goesOn = goesOn || end < len(x)
		choice := x[:end]
		if first {
			longer, first = line+choice[len(begin):], false
		}
		for !strings.HasPrefix(strings.ToLower(choice), strings.ToLower(longer)) {
			longer = longer[:len(longer)-1]
		}
		word := choice[strings.LastIndexByte(begin, ' ')+1:]
		if !slices.Contains(choices, word) {
			choices = append(choices, word)
		}
	}
	if len(choices) == 1 && goesOn {
		longer += " "
	}
	return longer, choices
}

// followEvery is the interval at which follow looks for new lines of the log.
const followEvery = time.Second

// follow writes the lines of the server's log that are new from now on, until ctx ends. The server keeps
// its newest 2,000 lines: where more come within a second, the older ones are not shown.
func (c *console) follow(ctx context.Context, w io.Writer) error {
	at, err := admin.Do[admin.Log](ctx, c.caller, "show log", admin.ShowLog{Lines: 1, Level: "info"})
	if err != nil {
		return err
	}
	for seq := at.Last; ; {
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return nil
		}
		next, err := admin.Do[admin.Log](ctx, c.caller, "show log",
			admin.ShowLog{Lines: 2000, After: int(seq), Level: "info"})
		if err != nil {
			continue // the server may be starting again; its log then begins anew
		}
		if next.Last < seq {
			seq = 0
			continue
		}
		seq = next.Last
		if len(next.Lines) > 0 {
			c.writing.Lock()
			err = render.Text(w, &next)
			c.writing.Unlock()
			if err != nil {
				return err
			}
		}
	}
}
