package config

import (
	"errors"

	"doublet/store/backup"
	"doublet/store/blob"
)

// checkBackups validates the settings of backups, of the archive and of copies of segments. at returns where a key was
// set.
func (c *Config) checkBackups(at func(key string) string) (bad []error) {
	wrong := func(key string, err error) {
		if err != nil {
			bad = append(bad, &Error{at(key), key, err})
		}
	}
	wrong("data.backup_dir", blob.Check(c.Data.BackupDir))
	wrong("archive.target", blob.Check(c.Archive.Target))
	wrong("data.segments_archive", blob.Check(c.Data.SegmentsArchive))
	_, err := blob.ParseKeys(c.Data.BackupRecipient, nil)
	wrong("data.backup_recipient", err)
	_, err = backup.ParseKeep(c.Data.BackupKeep)
	wrong("data.backup_keep", err)
	if c.Data.BackupRecipient != "" && c.Data.BackupCheck == string(backup.CheckFull) {
		wrong("data.backup_check", errors.New("full needs the private key: choose open, and verify with "+
			"doublet backup verify --identity"))
	}
	return bad
}
