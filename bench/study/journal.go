package study

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"doublet/bench"
)

// JournalName is the name of the file in a study's folder that lists its runs.
const JournalName = "study.jsonl"

// Entry is a finished run of a study.
type Entry struct {
	// Index numbers the configuration, Repeat its runs, both from 0; Name is that of the configuration.
	Index  int    `json:"index"`
	Repeat int    `json:"repeat"`
	Name   string `json:"name"`
	// File is the path of the run file, relative to the study's folder.
	File string `json:"file"`
	// Quarantined is the reason why the run does not count, "" for one that does.
	Quarantined string `json:"quarantined,omitempty"`
}

// journal is the list of the finished runs. Each line is durable before the next run begins, so that a crash loses no
// run that was finished.
type journal struct {
	file    *os.File
	Entries []Entry
}

type first struct {
	Study string `json:"study"`
}

// Runs returns the runs in the folder of a study. It changes nothing there, so that the study may be under way.
func (s *Study) Runs(dir string) ([]Entry, error) {
	j, whole, err := readJournal(dir, s)
	if err == nil && whole == 0 {
		return nil, bench.Usage("%s: no runs of the study", dir)
	}
	if err != nil {
		return nil, err
	}
	return j.Entries, nil
}

// readJournal reads the journal of a folder, and returns the length of its whole lines: a crash may have cut the last
// one off. It refuses that of another study. A run whose file is not there is not listed: a power cut may keep the line
// and lose the file, or its new name.
func readJournal(dir string, s *Study) (j *journal, whole int, err error) {
	path := filepath.Join(dir, JournalName)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	j = &journal{}
	if whole = bytes.LastIndexByte(text, '\n') + 1; whole > 0 {
		if err := j.parse(text[:whole], s); err != nil {
			return nil, 0, bench.Usage("%s: %w", path, err)
		}
	}
	j.Entries = slices.DeleteFunc(j.Entries, func(e Entry) bool {
		_, err := os.Stat(filepath.Join(dir, e.File))
		return errors.Is(err, fs.ErrNotExist)
	})
	return j, whole, nil
}

// openJournal opens the journal of a folder, or begins it.
func openJournal(dir string, s *Study) (*journal, error) {
	j, whole, err := readJournal(dir, s)
	if err != nil {
		return nil, err
	}
	if j.file, err = os.OpenFile(filepath.Join(dir, JournalName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = j.file.Truncate(int64(whole)); err == nil {
		_, err = j.file.Seek(int64(whole), 0)
	}
	if err == nil && whole == 0 {
		err = j.put(first{s.Hash})
	}
	if err != nil {
		return nil, errors.Join(err, j.file.Close())
	}
	return j, nil
}

// parse reads the whole lines of a journal.
func (j *journal) parse(text []byte, s *Study) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			var head first
			if err := json.Unmarshal(lines.Bytes(), &head); err != nil || head.Study != s.Hash {
				return errors.New("it is of another study, or of the file before it was changed: name another --out")
			}
			continue
		}
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if e.Index < 0 || e.Index >= len(s.cells) || e.Repeat < 0 || e.Repeat >= s.Repeat || !filepath.IsLocal(e.File) {
			return fmt.Errorf("line %d: no run of this study", n)
		}
		j.Entries = append(j.Entries, e)
	}
	return lines.Err()
}

// add adds a run. It is durable when add returns.
func (j *journal) add(e Entry) error {
	if err := j.put(e); err != nil {
		return err
	}
	j.Entries = append(j.Entries, e)
	return nil
}

func (j *journal) put(line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	return err
}

// attempts returns the number of runs of a job, and reports whether one of them counts.
func (j *journal) attempts(job *Job) (n int, counts bool) {
	for _, e := range j.Entries {
		if e.Index == job.Index && e.Repeat == job.Repeat {
			n++
			counts = counts || e.Quarantined == ""
		}
	}
	return n, counts
}

// aside moves run files that are not in the journal to the others that do not count: a crash or an interruption has
// ended their runs.
func (j *journal) aside(dir string) error {
	list, err := os.ReadDir(filepath.Join(dir, runs))
	if err != nil {
		return err
	}
	for _, f := range list {
		name := f.Name()
		listed := slices.ContainsFunc(j.Entries, func(e Entry) bool { return filepath.Base(e.File) == name })
		if filepath.Ext(name) == ".run" && !listed {
			err = errors.Join(err, os.Rename(filepath.Join(dir, runs, name), filepath.Join(dir, quarantine, name)))
		}
	}
	return err
}
