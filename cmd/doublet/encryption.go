package main

import (
	"fmt"
	"path/filepath"

	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/stat"
	"doublet/store"
	"doublet/store/backup"
	"doublet/store/crypt"

	"github.com/spf13/cobra"
)

// encrypted returns the environment for the store of a configuration, in which the files of the store and of the
// full-text index are encrypted. The file system is nil if the settings have no key file; then the environment is e.
// stats may be nil.
func encrypted(e *env.Env, cfg *config.Config, stats *stat.Tree) (*env.Env, *crypt.FS, error) {
	dir := cfg.Data.Dir
	if cfg.Data.EncryptionKeyFile == "" {
		return e, nil, crypt.CheckPlain(e.FS, dir)
	}
	at := store.PlacesOf(e.FS, dir, storeOptions(e, cfg, nil))
	files, err := crypt.Open(e, crypt.Options{
		Dir:       dir,
		Folders:   []string{at.Index, at.Segments, at.Log, searchDir(cfg), filepath.Join(dir, backup.ScratchName)},
		Transient: []string{filepath.Join(at.Index, store.CheckpointName), filepath.Join(dir, backup.ScratchName)},
		KeyFile:   cfg.Data.EncryptionKeyFile, Rate: int64(cfg.Data.EncryptionRate), Stats: stats,
	})
	if err != nil {
		return nil, nil, err
	}
	inside := *e
	inside.FS = files
	return &inside, files, nil
}

// openAlone opens the store without the rooms above it.
func openAlone(e *env.Env, cfg *config.Config) (*store.Store, error) {
	e, _, err := encrypted(e, cfg, nil)
	if err != nil {
		return nil, err
	}
	return openStore(e, cfg, nil, nil)
}

// encryptionAdvice is the output of encryption key.
const encryptionAdvice = `Set in doublet.toml, then restart the server:

[data]
encryption_key_file = %q

Keep a copy away from the server and from its disks. Without it, nobody can read the store any more: not
the mail, not the directory. Backups do not need it; they are encrypted by data.backup_recipient alone.
`

// encryptionKeyCommand makes a key file for encryption at rest. It needs no server.
func (a *app) encryptionKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "make a key file for encryption at rest", Args: count(1, 1),
		Long: "Writes a new key into FILE, which must not exist. A key on the disk that it protects is no " +
			"protection: let\nFILE be on a device of its own, or be provided at boot by the service manager.",
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			e := world(&config.Config{}, a.err)
			line, err := crypt.NewKey(e)
			if err != nil {
				return err
			}
			err = writeNewFile(e.FS, path, "# encryption keys of a Doublet server, the newest first\n"+line)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, encryptionAdvice, path)
			return err
		},
	}
}
