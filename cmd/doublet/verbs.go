package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doublet/admin"
	"doublet/admin/render"
	"doublet/cmd/doublet/config"
	"doublet/store/blob"

	"github.com/spf13/cobra"
)

// groupHelp describes the groups of verbs that have more than one word.
var groupHelp = map[string]string{
	"user": "people", "user app-password": "passwords of single programs",
	"user send-as": "who may write under whose address", "list": "mailing lists", "group": "groups",
	"domain": "local domains", "domain key": "keys that mail is signed with (DKIM)",
	"domain token": "tokens with which servers join the domain", "dns": "what to publish in DNS",
	"mailin": "databases that receive mail", "server": "servers of the domain", "db": "databases",
	"import": "bring mail and people in", "show": "what the server is and does",
	"queue": "mail that waits in mail.box", "route": "where mail for other domains goes",
	"rules":     "conditions and actions for all mail of the domain",
	"retention": "how long mail is kept",
	"search":    "the full-text index", "cluster": "servers that stand in for each other",
	"connection": "scheduled replication with other servers", "replica": "copies of databases elsewhere",
	"ban": "addresses that may not sign in for a while", "session": "browsers that are signed in",
	"user totp": "second factors", "user passkey": "passkeys", "certificate": "certificates of the doors",
	"dump": "write parts of the store as text", "task": "server tasks",
	"set": "settings of the running server", "journal": "the mail journal",
	"junk": "the junk filter that learns", "assistance": "other directories: LDAP, Active Directory",
	"calendar":      "calendars and address books of people",
	"calendar feed": "calendars that show feeds of other servers",
	"calendar link": "links by which everyone reads a calendar",
	"deleted":       "deleted messages that can be restored",
	"event":         "events that probes raised",
	"report":        "what other servers report about mail and its way here",
	"room":          "rooms and other resources",
	"sieve":         "the filter scripts of people",
}

// addVerbs adds a command for every verb in admin's table.
func (a *app) addVerbs(root *cobra.Command) {
	parents := map[string]*cobra.Command{"": root}
	for _, v := range admin.Verbs() {
		if v.Name == "console" {
			continue // consoleCommand reads its lines
		}
		words := strings.Split(v.Name, " ")
		path := ""
		for _, w := range words[:len(words)-1] {
			parent := parents[path]
			path = strings.TrimSpace(path + " " + w)
			if i := slices.IndexFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == w }); i >= 0 {
				parents[path] = parent.Commands()[i]
			} else {
				parents[path] = &cobra.Command{Use: w, Short: groupHelp[path], RunE: unknownWord}
				parent.AddCommand(parents[path])
			}
		}
		cmd := a.verbCommand(v, words[len(words)-1])
		parents[path].AddCommand(cmd)
		parents[v.Name] = cmd // a verb may be the parent of others: backup, backup list
	}
}

// unknownWord runs a command that has only subcommands: it shows the help or rejects an unknown word.
func unknownWord(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return &exitError{exitUsage, fmt.Errorf("unknown command %q for %q: see %s --help", args[0], cmd.CommandPath(),
		cmd.CommandPath())}
}

// count returns a check of the number of arguments of a command.
func count(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return &exitError{exitUsage, fmt.Errorf("usage: %s", cmd.UseLine())}
		}
		return nil
	}
}

// flagName returns the flag for an argument's name.
func flagName(name string) string { return strings.ReplaceAll(name, "_", "-") }

func (a *app) verbCommand(v *admin.Verb, use string) *cobra.Command {
	least, most := 0, 0
	for _, p := range v.Params {
		switch p.Arg {
		case "required":
			use += " " + strings.ToUpper(p.Name)
			least, most = least+1, most+1
		case "optional":
			use += " [" + strings.ToUpper(p.Name) + "]"
			most++
		case "rest", "words":
			use += " [" + strings.ToUpper(p.Name) + "…]"
			most = 1 << 20
		}
	}
	cmd := &cobra.Command{Use: use, Short: v.Help, Long: strings.TrimSpace(sentence(v.Help) + "\n\n" +
		positionalHelp(v) + v.Long), Args: count(least, most)}
	for _, p := range v.Params {
		if p.Arg == "words" {
			cmd.Flags().SetInterspersed(false) // flags after the first word belong to the words
		}
		if p.Arg != "" {
			continue
		}
		name, help := flagName(p.Name), p.Help
		switch p.Kind {
		case "switch":
			cmd.Flags().Bool(name, false, help)
		case "number":
			cmd.Flags().Int(name, 0, help)
		case "list":
			cmd.Flags().StringArray(name, nil, help)
		default:
			cmd.Flags().String(name, p.Default, help)
		}
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print the result as JSON")
	watched := false
	if strings.HasPrefix(v.Name, "show ") && !v.Changes {
		cmd.Flags().BoolVar(&watched, "watch", false, "show it anew every two seconds, until Ctrl-C")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		raw, err := a.arguments(cmd, v, args)
		if err != nil {
			return err
		}
		if watched {
			return a.watchVerb(cmd.Context(), v, raw)
		}
		return a.call(cmd.Context(), v, raw)
	}
	return cmd
}

// showEvery is the interval at which watchVerb repeats a verb.
const showEvery = 2 * time.Second

// watchVerb repeats a verb until it is interrupted. On a terminal each result replaces the one before. An error ends it
// only in the first run, because the server may restart later.
func (a *app) watchVerb(ctx context.Context, v *admin.Verb, args json.RawMessage) error {
	screen := isTerminal(a.out) && !a.json
	for first := true; ; first = false {
		if screen {
			fmt.Fprintf(a.out, "\x1b[H\x1b[2J%s  %s\n\n", v.Name, time.Now().Format(time.TimeOnly))
		}
		var bad quietError
		err := a.call(ctx, v, args)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.As(err, &bad) && first:
			return err
		case err != nil && !errors.As(err, &bad):
			fmt.Fprintln(a.err, "doublet:", err)
		}
		select {
		case <-time.After(showEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

func positionalHelp(v *admin.Verb) string {
	var b strings.Builder
	for _, p := range v.Params {
		if p.Arg != "" {
			fmt.Fprintf(&b, "%s: %s\n", strings.ToUpper(p.Name), p.Help)
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// missing returns the error for a required flag that is not set.
func missing(cmd *cobra.Command, name, help string) error {
	return &exitError{exitUsage, fmt.Errorf("--%s is missing (%s): see %s --help", name, help, cmd.CommandPath())}
}

// resolve makes a path among arguments absolute: the server has another working folder. An empty one stays empty.
func resolve(m map[string]any, name string) (err error) {
	if path, ok := m[name].(string); ok && path != "" {
		m[name], err = absolute(path)
	}
	return err
}

// absolute returns an absolute path, or text itself if it is the URL of a bucket.
func absolute(text string) (string, error) {
	if blob.IsS3(text) {
		return text, nil
	}
	return filepath.Abs(text)
}

// arguments returns the arguments of a command line as a JSON object. It omits flags that are not set.
func (a *app) arguments(cmd *cobra.Command, v *admin.Verb, args []string) (json.RawMessage, error) {
	m := map[string]any{}
	for _, p := range v.Params {
		var err error
		switch {
		case p.Arg == "rest" || p.Arg == "words":
			m[p.Name], args = args, nil
		case p.Arg != "":
			if len(args) == 0 {
				continue
			}
			m[p.Name], args = args[0], args[1:]
		case p.Name == "lines" && a.json:
			m[p.Name] = true
		case !cmd.Flags().Changed(flagName(p.Name)):
			if p.Required {
				return nil, missing(cmd, flagName(p.Name), p.Help)
			}
			if p.Secret && !p.Unasked {
				m[p.Name], err = a.askSecret(p.Name)
			}
		default:
			m[p.Name], err = flagValue(cmd, flagName(p.Name), p.Kind)
		}
		if err == nil && p.File {
			err = resolve(m, p.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(m)
}

// flagValue returns the value of a flag for a parameter of a kind.
func flagValue(cmd *cobra.Command, flag, kind string) (any, error) {
	switch kind {
	case "switch":
		return cmd.Flags().GetBool(flag)
	case "number":
		return cmd.Flags().GetInt(flag)
	case "list":
		return cmd.Flags().GetStringArray(flag)
	}
	return cmd.Flags().GetString(flag)
}

// askSecret reads a password: without echo from a terminal, else the first line of the input.
func (a *app) askSecret(name string) (string, error) {
	if f, ok := a.in.(*os.File); ok && isTerminal(f) {
		return readUnseen(a.err, f, name+": ")
	}
	line, err := bufio.NewReader(io.LimitReader(a.in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// caller returns a connection to the running server of the data folder, or the store itself if none runs.
func (a *app) caller(v *admin.Verb) (c admin.Caller, done func() error, err error) {
	cfg, _, err := a.load(config.Default(), nil)
	if err != nil {
		return nil, nil, err
	}
	e := world(&cfg, a.err)
	client, err := admin.Dial(e, filepath.Join(cfg.Data.Dir, admin.SocketName))
	if err == nil {
		return client, func() error { return nil }, nil
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, nil, &exitError{exitPermission,
			fmt.Errorf("server of %s runs under another account: run this as that account", cfg.Data.Dir)}
	}
	if _, err := os.Stat(filepath.Join(cfg.Data.Dir, "LOCK")); err != nil {
		return nil, nil,
			&exitError{exitFailed,
				fmt.Errorf("no store in %s: set the data folder with --data, or create one with doublet setup or "+
					"doublet init", cfg.Data.Dir)}
	}
	if v.Server {
		return nil, nil, &exitError{exitFailed, fmt.Errorf("no server runs in %s", cfg.Data.Dir)}
	}
	cfg.Server.Domain = ""  // only init and serve create a domain
	cfg.Log.Level = "error" // the result reports what is wrong
	h, err := open(world(&cfg, a.err), cfg)
	if err != nil {
		return nil, nil, err
	}
	return admin.Direct{Runner: h.system}, h.close, nil
}

// call runs a verb and prints its result.
func (a *app) call(ctx context.Context, v *admin.Verb, args json.RawMessage) (err error) {
	c, done, err := a.caller(v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	answer, err := c.Call(ctx, v.Name, args, a.progress())
	if err != nil {
		return err
	}
	result := v.Result()
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("%s: the server answered something else: %w", v.Name, err)
	}
	if _, own := result.(*admin.Dumped); own {
		return nil
	}
	if a.json {
		if _, err := a.out.Write(append(answer, '\n')); err != nil {
			return err
		}
	} else if err := render.Text(a.out, result); err != nil {
		return err
	}
	if f, ok := result.(interface{ Bad() bool }); ok && f.Bad() {
		return quietError{exitFailed}
	}
	return nil
}

// progress returns a function that writes a verb's output, and on a terminal shows the progress of a long verb.
func (a *app) progress() func(admin.Progress) {
	told := isTerminal(a.err) && !a.json
	var last time.Time
	return func(p admin.Progress) {
		if p.Output != "" {
			_, _ = io.WriteString(a.out, p.Output) // if the reader has gone, SIGPIPE ends us
			return
		}
		if now := time.Now(); told && now.Sub(last) > 200*time.Millisecond {
			last = now
			fmt.Fprintf(a.err, "\r\x1b[K%s\r", p)
		}
	}
}
