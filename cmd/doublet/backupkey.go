package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"doublet/cmd/doublet/config"
	"doublet/env"

	"filippo.io/age"
	"github.com/spf13/cobra"
)

// keyAdvice is the output of backup key.
const keyAdvice = `Set in doublet.toml, then restart the server:

[data]
backup_recipient = %q

%s holds the private key. Keep two copies away from the server and from the backups, one of them
on paper or on a device that is not connected. Without it, no backup can be restored. With it, every
message in them can be read: do not leave it on the server.
`

// backupKeyCommand makes a pair of keys for encrypted backups. It needs no server.
func (a *app) backupKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "make the pair of keys of encrypted backups", Args: count(1, 1),
		Long: "Writes a private key into FILE, which must not exist, in the format of age, and prints the public " +
			"key.\nMake it on another machine: backups need the public key alone, a restore needs FILE.",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := age.GenerateX25519Identity()
			if err != nil {
				return err
			}
			if err := writeIdentity(world(&config.Config{}, a.err).FS, args[0], id); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, keyAdvice, id.Recipient(), args[0])
			return err
		},
	}
}

// writeIdentity writes a private key into a new file that only its owner can read, durably.
func writeIdentity(files env.FS, path string, id *age.X25519Identity) error {
	return writeNewFile(files, path, fmt.Sprintf("# private key of Doublet backups\n# public key: %s\n%s\n",
		id.Recipient(), id))
}

// writeNewFile writes a file that must not exist and that only its owner can read, durably. files is the file system of
// this machine.
func writeNewFile(files env.FS, path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = env.SyncDir(files, filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
