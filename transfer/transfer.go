// Package transfer copies mail and people into this server and out of it: mbox files, Maildirs, mail files on other
// IMAP servers, exports of one person, tables of people, and one database out of a backup.
package transfer

import (
	"errors"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// ErrInvalid rejects arguments, and files that are not of the kind that the arguments name.
var ErrInvalid = errors.New("bad arguments")

// Service runs imports and exports.
type Service struct {
	env       *env.Env
	store     *store.Store
	directory *directory.Directory
	mailbox   *mailbox.Service
	memory    *memory
}

// New returns a service over an open store.
func New(e *env.Env, s *store.Store, d *directory.Directory, m *mailbox.Service) *Service {
	return &Service{env: e, store: s, directory: d, mailbox: m, memory: newMemory()}
}

// Job is one import or export.
type Job struct {
	*Service
	who      note.Who
	progress func(Progress)
}

// Job returns a job that changes the directory as who, and reports its progress to progress.
func (s *Service) Job(who note.Who, progress func(Progress)) *Job { return &Job{s, who, progress} }

// Progress is the progress of a job.
type Progress struct {
	Stage string
	Done  uint64
	Bytes uint64
	Text  string
	// Line is a line of the result of a trial run.
	Line string
}

// Result counts the messages of an import or export.
type Result struct {
	Messages, Bytes uint64
	Folders         int
	// Present counts messages from an earlier run. Flags counts those of them with changed flags.
	Present, Flags uint64
	// Skipped lists the folders and roles that were skipped, with the reason.
	Skipped []string
	Failed  int
	Errors  []string
	Took    time.Duration
}

// PerSecond returns the number of messages a second.
func (r *Result) PerSecond() float64 {
	if s := r.Took.Seconds(); s > 0 {
		return float64(int64(float64(r.Messages) / s))
	}
	return 0
}
