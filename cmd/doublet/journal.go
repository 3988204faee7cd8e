package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"doublet/admin"
	"doublet/admin/render"
	"doublet/mail/journal"

	"filippo.io/age"
	"github.com/spf13/cobra"
)

// journalCommands extends the commands of the verbs of the mail journal.
type journalCommands struct{ *app }

// extend makes the commands ask for the password of --as, decrypt with the keys of people, which never leave them, and
// verify archives without a server.
func (a journalCommands) extend(root *cobra.Command) {
	extend := func(name string, fn func(cmd *cobra.Command, v *admin.Verb, run runner) runner) {
		v, ok := admin.Find("journal " + name)
		cmd, _, err := root.Find([]string{"journal", name})
		if !ok || err != nil {
			panic("no verb journal " + name)
		}
		cmd.RunE = fn(cmd, v, cmd.RunE)
	}
	extend("export", func(_ *cobra.Command, _ *admin.Verb, run runner) runner { return a.withPassword(run) })
	extend("show", func(cmd *cobra.Command, v *admin.Verb, run runner) runner {
		return a.withPassword(a.withIdentity(cmd, v, run, a.showWith))
	})
	extend("search", func(cmd *cobra.Command, v *admin.Verb, run runner) runner {
		return a.withPassword(a.withIdentity(cmd, v, run, a.searchWith))
	})
	extend("verify", func(cmd *cobra.Command, _ *admin.Verb, run runner) runner {
		signer := cmd.Flags().String("signer", "", "for an archive: the key that signed it, as journal keys shows")
		return func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
				return a.verifyArchive(args[0], *signer)
			}
			return run(cmd, args)
		}
	})
}

// runner runs a command.
type runner = func(cmd *cobra.Command, args []string) error

// withPassword asks for the password of the person whom --as names.
func (a journalCommands) withPassword(run runner) runner {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("as") && !cmd.Flags().Changed("password") {
			password, err := a.askSecret("password")
			if err == nil {
				err = cmd.Flags().Set("password", password)
			}
			if err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
}

// asker runs verbs for a command that decrypts their results.
type asker struct {
	args map[string]any
	keys []age.Identity
}

// ask runs a verb with arguments.
func (k *asker) ask(ctx context.Context, c admin.Caller, verb string, args map[string]any, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	answer, err := c.Call(ctx, verb, raw, func(admin.Progress) {})
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

// withIdentity adds the flag --identity, with which fn runs in place of the verb.
func (a journalCommands) withIdentity(cmd *cobra.Command, v *admin.Verb, run runner,
	fn func(ctx context.Context, c admin.Caller, k *asker) (any, error)) runner {
	path := cmd.Flags().String("identity", "", "file with private keys of age; messages are decrypted here")
	return func(cmd *cobra.Command, args []string) (err error) {
		if *path == "" {
			return run(cmd, args)
		}
		k := &asker{}
		if k.keys, err = readIdentities(*path); err != nil {
			return err
		}
		raw, err := a.arguments(cmd, v, args)
		if err == nil {
			err = json.Unmarshal(raw, &k.args)
		}
		if err != nil {
			return err
		}
		c, done, err := a.caller(v)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		result, err := fn(cmd.Context(), c, k)
		if err != nil {
			return err
		}
		if a.json {
			return json.NewEncoder(a.out).Encode(result)
		}
		return render.Text(a.out, result)
	}
}

func readIdentities(path string) ([]age.Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	keys, err := age.ParseIdentities(f)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s: %w", path, err)}
	}
	return keys, nil
}

// showWith is journal show.
func (a journalCommands) showWith(ctx context.Context, c admin.Caller, k *asker) (any, error) {
	k.args["sealed"] = true
	var e admin.JournalEntry
	err := k.ask(ctx, c, "journal show", k.args, &e)
	if err != nil {
		return nil, err
	}
	details, raw, err := journal.Unseal(e.Sealed, k.keys...)
	e.Details, e.Message, e.Sealed = details, string(raw), nil
	return &e, err
}

// searchWith is journal search: it asks for the entries by what is readable, and opens them one by one. The audit log
// names each that it opens.
func (a journalCommands) searchWith(ctx context.Context, c admin.Caller, k *asker) (any, error) {
	text, _ := k.args["text"].(string)
	number := func(name string, otherwise int) int {
		if n, ok := k.args[name].(float64); ok && n > 0 {
			return int(n)
		}
		return otherwise
	}
	limit, most := number("limit", 100), number("most", 1000)
	delete(k.args, "text")
	delete(k.args, "most")
	if k.args["limit"] = limit; text != "" {
		k.args["limit"] = most
	}
	var found, out admin.JournalFound
	if err := k.ask(ctx, c, "journal search", k.args, &found); err != nil || text == "" {
		return &found, err
	}
	out.Entries, out.More = []admin.JournalEntry{}, found.More
	progress := a.progress()
	for i := range found.Entries {
		if len(out.Entries) == limit {
			out.More = true
			break
		}
		e := &found.Entries[i]
		args := map[string]any{"database": e.Database, "number": fmt.Sprint(e.Number), "sealed": true}
		for _, name := range []string{"reason", "as", "password"} {
			if v, ok := k.args[name]; ok {
				args[name] = v
			}
		}
		var whole admin.JournalEntry
		if err := k.ask(ctx, c, "journal show", args, &whole); err != nil {
			return nil, err
		}
		_, raw, err := journal.Unseal(whole.Sealed, k.keys...)
		switch {
		case errors.Is(err, journal.ErrKey):
			out.Locked++
		case err != nil:
			return nil, fmt.Errorf("entry %d of journal %s: %w", e.Number, e.Database, err)
		case journal.Contains(raw, text):
			out.Entries = append(out.Entries, *e)
			fallthrough
		default:
			out.Opened++
		}
		progress(admin.Progress{Stage: "opened", Done: uint64(i + 1), Text: fmt.Sprintf("of %d", len(found.Entries))})
	}
	return &out, nil
}

// verifyArchive verifies a file that journal export wrote.
func (a journalCommands) verifyArchive(path, signer string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := journal.VerifyArchive(f, signer, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r := admin.JournalReportOf(v.Manifest.Database, &v.Report, &v.Manifest)
	if a.json {
		err = json.NewEncoder(a.out).Encode(r)
	} else {
		err = render.Text(a.out, &r)
	}
	if err == nil && r.Bad() {
		return quietError{exitFailed}
	}
	return err
}
