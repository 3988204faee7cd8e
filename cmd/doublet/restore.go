package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"doublet/admin"
	"doublet/admin/render"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/store/backup"
	"doublet/store/blob"
	"doublet/store/check"

	"github.com/spf13/cobra"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	at                      int
	replace, list, deep, no bool
	database, as            string
	to, folder, identity    string
}

// restoring restores the backup folder dir.
type restoring struct {
	*app
	dir string
	restoreFlags
	keys blob.Keys
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use: "restore DIR", Short: "put a backup into a data folder", Args: count(1, 1),
		Long: "Put a generation of the backup folder DIR into the data folder of --data, whose server is stopped. " +
			"It is compared with\n" +
			"its checksums while it is copied beside what is there, and then replaces it. Then the store is " +
			"checked. The settings\n" +
			"come from doublet.toml in the data folder, or from the backup where there is none.\n\n" +
			"DIR is a folder, or a bucket: s3://BUCKET/PREFIX?endpoint=https://HOST&credentials=FILE. An encrypted " +
			"backup needs --identity.\n\n" +
			"With --to it is restored as of any moment that the archive in DIR has (doublet backup moments DIR).\n\n" +
			"With --database one database alone comes out of the backup, while the server runs or is stopped: see " +
			"doublet db restore.",
	}
	cmd.Flags().IntVar(&f.at, "at", 0, "generation; without it the latest")
	cmd.Flags().StringVar(&f.database, "database", "",
		"restore this database alone: its id or title in the backup, or its owner's name")
	cmd.Flags().StringVar(&f.to, "to", "",
		"moment to restore from the archive in DIR: 14:03:07, or 2026-11-26 14:03:07")
	cmd.Flags().StringVar(&f.identity, "identity", "", "file with the private key of an encrypted backup")
	cmd.Flags().StringVar(&f.folder, "folder", "",
		"with --database: restore this folder alone, with the folders in it, into the mail file that is there")
	cmd.Flags().StringVar(&f.as, "as", "",
		"with --database: title of a copy beside what is there, in place of what is there")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "replace a store that is there")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the generations and do nothing")
	cmd.Flags().BoolVar(&f.deep, "deep", false, "read every message in the check")
	cmd.Flags().BoolVar(&f.no, "no-check", false, "leave out the check")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := absolute(args[0])
		if err != nil {
			return err
		}
		if err := blob.Check(dir); err != nil {
			return &exitError{exitUsage, err}
		}
		if f.at < 0 {
			return &exitError{exitUsage, errors.New("--at is the number of a generation")}
		}
		if f.at != 0 && f.to != "" {
			return &exitError{exitUsage, errors.New("--at or --to, not both")}
		}
		r := restoring{app: a, dir: dir, restoreFlags: f}
		if f.database != "" {
			return r.one(cmd.Context())
		}
		if f.as != "" || f.folder != "" {
			return &exitError{exitUsage, errors.New("--as and --folder need --database")}
		}
		cfg, _, err := a.load(config.Default(), nil)
		if err != nil {
			return err
		}
		e := world(&cfg, a.err)
		if r.keys, err = admin.ReadKeys(e, "", f.identity); err != nil {
			return &exitError{exitUsage, err}
		}
		if f.list {
			return r.listGenerations(cmd.Context(), e)
		}
		return r.whole(cmd.Context(), e)
	}
	return cmd
}

// one restores one database from the backup into the running server or the stopped store.
func (r *restoring) one(ctx context.Context) error {
	if r.replace || r.deep || r.no {
		return &exitError{exitUsage,
			errors.New("--replace, --deep and --no-check are for the whole store: doublet check looks at one that " +
				"is there")}
	}
	identity := r.identity
	if identity != "" {
		var err error
		if identity, err = filepath.Abs(identity); err != nil {
			return err
		}
	}
	verbs := admin.Verbs()
	i := slices.IndexFunc(verbs, func(v *admin.Verb) bool { return v.Name == "db restore" })
	raw, err := json.Marshal(admin.RestoreDatabase{Name: r.database, Dir: r.dir, At: r.at, To: r.to,
		Folder: r.folder, As: r.as, Identity: identity})
	if err != nil {
		return err
	}
	return r.call(ctx, verbs[i], raw)
}

func (r *restoring) listGenerations(ctx context.Context, e *env.Env) error {
	list, err := backup.List(ctx, e, r.dir)
	if err != nil {
		return err
	}
	rows := make([]admin.Generation, 0, len(list))
	for _, g := range list {
		rows = append(rows, admin.ShowGeneration(g))
	}
	return render.Text(r.out, &rows)
}

// whole restores the whole data folder, and checks it.
func (r *restoring) whole(ctx context.Context, e *env.Env) error {
	cfg, err := r.settings(ctx, e)
	if err != nil {
		return err
	}
	if answers(e, cfg.Data.Dir) {
		return &exitError{exitInUse, fmt.Errorf("server of %s is running: stop it first", cfg.Data.Dir)}
	}
	if e, _, err = encrypted(e, &cfg, nil); err != nil {
		return err
	}
	to, err := admin.ParseMoment(r.to, e.Clock.Now())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	o := backup.RestoreOptions{Options: backup.Options{Extra: []string{config.FileName},
		Keys: r.keys}, At: uint64(r.at), To: to,
		Replace: r.replace, Store: storeOptions(e, &cfg, nil)}
	if o.Store.Tier, err = tierOptions(e, &cfg); err != nil {
		return err
	}
	tell := r.progress()
	o.Progress = func(p backup.Progress) {
		tell(admin.Progress{Stage: p.Stage, Done: p.Done, Text: "of " + admin.Size(p.Total).String()})
	}
	g, err := backup.Restore(ctx, e, r.dir, cfg.Data.Dir, o)
	switch {
	case errors.Is(err, backup.ErrNotEmpty):
		return &exitError{exitFailed, fmt.Errorf("%w: --replace restores over it", err)}
	case err != nil:
		return err
	}
	what := "of " + g.Began.Format(time.RFC3339)
	if !to.IsZero() {
		what = "and the archive as of " + to.Format(time.RFC3339Nano)
	}
	fmt.Fprintf(r.err, "restored generation %d %s into %s: %s\n", g.Number, what, cfg.Data.Dir, admin.Size(g.Bytes))
	if r.no {
		return nil
	}
	return r.check(ctx, e, cfg)
}

// settings returns the settings of the data folder. If the folder has no configuration file, settings first restores
// the one of the backup.
func (r *restoring) settings(ctx context.Context, e *env.Env) (config.Config, error) {
	cfg, _, err := r.load(config.Default(), nil)
	if err != nil || r.configFile != "" {
		return cfg, err
	}
	path := filepath.Join(cfg.Data.Dir, config.FileName)
	if _, err := os.Stat(path); err == nil {
		return cfg, nil
	}
	text, err := backup.Extra(ctx, e, r.dir, r.keys, uint64(r.at), config.FileName)
	if errors.Is(err, backup.ErrNotFound) || len(text) == 0 && err == nil {
		return cfg, nil
	}
	if err != nil {
		return cfg, err
	}
	if err := os.MkdirAll(cfg.Data.Dir, 0o700); err != nil {
		return cfg, err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return cfg, err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return cfg, err
	}
	cfg, _, err = r.load(config.Default(), nil)
	return cfg, err
}

// check checks the restored store, and shows the result.
func (r *restoring) check(ctx context.Context, e *env.Env, cfg config.Config) (err error) {
	s, err := openStore(e, &cfg, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rep, err := check.Run(ctx, s, check.Options{Deep: r.deep})
	if err != nil {
		return err
	}
	result := admin.ShowCheck(rep)
	if err := render.Text(r.out, &result); err != nil {
		return err
	}
	if result.Bad() {
		return quietError{exitFailed}
	}
	return nil
}
