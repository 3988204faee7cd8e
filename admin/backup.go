package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/stat"
	"doublet/store"
	"doublet/store/backup"
	"doublet/store/blob"
)

// BackupSettings are the settings of backups.
type BackupSettings struct {
	// Dir is the default backup folder. Rate is the maximum number of bytes read per second, 0 for no limit.
	Dir  string
	Rate Size
	// Check is the level at which a new backup is checked; empty means backup.CheckOpen.
	Check backup.Level
	// Recipient is empty, or the public keys to which backups are encrypted: see blob.ParseKeys.
	Recipient string
	// Policy selects the generations that stay after each good backup in a place of Thinned (see backup.ParseKeep).
	// With an empty one all stay.
	Policy  string
	Thinned []string
	// Extra lists files that every backup includes: the configuration.
	Extra []string
	// Keep stores the last good backup across restarts. It may be nil.
	Keep *keep.Table
}

// BackupTake are the arguments of backup.
type BackupTake struct {
	Dir  string `json:"dir" arg:"optional" file:"true" help:"backup folder; without it the setting data.backup_dir"`
	Rate Size   `json:"rate" help:"read at most so much a second (50MB); without it the setting data.backup_rate"`
	// Check is a backup.Level.
	Check string `json:"check" help:"verification: open, full or off (default: data.backup_check)"`
}

// BackupDir are the arguments of backup list.
type BackupDir struct {
	Dir string `json:"dir" arg:"optional" file:"true" help:"backup folder; without it the setting data.backup_dir"`
}

// BackupPrune are the arguments of backup prune.
type BackupPrune struct {
	Dir  string `json:"dir" arg:"optional" file:"true" help:"backup folder; without it the setting data.backup_dir"`
	Keep int    `json:"keep" required:"true" help:"how many generations stay"`
}

// BackupVerify are the arguments of backup verify.
type BackupVerify struct {
	Dir string `json:"dir" arg:"optional" file:"true" help:"backup folder; without it the setting data.backup_dir"`
	At  int    `json:"at" help:"generation; without it the latest"`
	// Identity is read by the server.
	Identity string `json:"identity" file:"true" help:"file with the private key of an encrypted backup"`
}

// BackupThin are the arguments of backup thin.
type BackupThin struct {
	Dir  string `json:"dir" arg:"optional" file:"true" help:"backup folder; without it the setting data.backup_dir"`
	Keep string `json:"keep" help:"generations that stay, such as 7d 4w 12m (default: data.backup_keep)"`
	Dry  bool   `json:"dry_run" help:"remove nothing, and print what would be removed"`
}

// Generation is a backup in the result of backup list.
type Generation struct {
	Number  uint64    `json:"generation"`
	Time    time.Time `json:"time,omitzero"`
	Took    string    `json:"took,omitempty"`
	Bytes   Size      `json:"bytes"`
	Copied  Size      `json:"copied"`
	Files   int       `json:"files"`
	Program string    `json:"program,omitempty"`
	Checked string    `json:"checked"`
	Damage  string    `json:"damage,omitempty"`
}

// Pruned is the result of backup prune.
type Pruned struct {
	Generations []uint64 `json:"removed_generations,omitempty"`
	Files       int      `json:"removed_files"`
	Bytes       Size     `json:"freed"`
	Uncounted   []uint64 `json:"uncounted,omitempty"`
	// Dry means that nothing was removed.
	Dry bool `json:"dry_run,omitempty"`
}

func showPruned(p backup.Pruned, dry bool) Pruned {
	return Pruned{p.Generations, p.Files, Size(p.Bytes), p.Uncounted, dry}
}

// Text returns the result as text for people.
func (p Pruned) Text() string {
	text := "there was nothing to remove\n"
	if len(p.Generations) > 0 || p.Files > 0 {
		text = fmt.Sprintf("removed %d generations, %d files, %s\n", len(p.Generations), p.Files, p.Bytes)
	}
	if p.Dry && len(p.Generations) > 0 {
		text = fmt.Sprintf("would remove the generations %s: %d files, %s, and the archive that only they need\n",
			strings.Trim(fmt.Sprint(p.Generations), "[]"), p.Files, p.Bytes)
	}
	for _, n := range p.Uncounted {
		text += fmt.Sprintf("generation %d does not count: it is damaged or was not checked (doublet backup verify "+
			"--at %d)\n", n, n)
	}
	return text
}

// ShowGeneration converts a generation to the form of the verbs' results.
func ShowGeneration(g backup.Generation) Generation {
	out := Generation{
		Number: g.Number, Time: g.Began, Bytes: Size(g.Bytes), Copied: Size(g.Copied), Files: len(g.Files),
		Program: g.Program,
		Checked: cmp.Or(string(g.Checked.Level), "no"),
	}
	if g.Damage != nil {
		out.Damage = g.Damage.Error()
		return out
	}
	out.Took = g.Took().Round(time.Millisecond).String()
	return out
}

func backups() []*Verb {
	return []*Verb{
		define("backup", "copy the store as it stands at this moment, while the server runs", runBackup,
			changes, yields,
			long("Copies what the backup folder does not have yet; every backup there, a generation, can be "+
				"restored by itself with doublet restore.\n"+
				"One that is interrupted leaves the older ones whole, and the next one takes up what it has copied.\n"+
				"Then it is checked (data.backup_check, --check): one that fails is marked as damaged, doublet "+
				"fails, and backup prune keeps\nolder ones in its place.")),
		define("backup list", "the generations of a backup folder",
			func(ctx context.Context, c *Call, a *BackupDir) ([]Generation, error) {
				dir, err := c.backupDir(a.Dir)
				if err != nil {
					return nil, err
				}
				return rows(ShowGeneration)(backup.List(ctx, c.Env, dir))
			}),
		define("backup prune", "remove old generations, with the files that only they need",
			func(ctx context.Context, c *Call, a *BackupPrune) (Pruned, error) {
				dir, err := c.backupDir(a.Dir)
				if err != nil {
					return Pruned{}, err
				}
				if a.Keep < 1 {
					return Pruned{}, fmt.Errorf("%w: keep at least one generation", ErrUsage)
				}
				p, err := backup.Prune(ctx, c.Env, dir, a.Keep)
				return showPruned(p, false), err
			}, changes),
		define("backup thin", "remove old generations by age, with the files that only they need", backupThin, changes,
			long("Keeps the latest generation of each of the last days, weeks, months and years that have one "+
				"(data.backup_keep, --keep).\nThe latest good generation always stays, and so does the archive from "+
				"the oldest generation that stays on.")),
		define("backup verify", "read a generation, compare it with its checksums and check the store in it",
			backupVerify, yields,
			long("Reads the archive in the folder, too, and says which moments can be restored; it fails if a part of "+
				"the archive\nis damaged or missing.")),
		define("backup moments", "the moments that can be restored with --to", backupMoments),
	}
}

// backupDir returns the backup folder to use: dir, or the default. It rejects a folder inside one of the store's
// folders.
func (c *Call) backupDir(dir string) (string, error) {
	if dir == "" {
		dir = c.Backup.Dir
	}
	if dir == "" {
		return "", fmt.Errorf("%w: name the backup folder, or set data.backup_dir", ErrUsage)
	}
	if blob.IsS3(dir) {
		if err := blob.Check(dir); err != nil {
			return "", fmt.Errorf("%w: %w", ErrUsage, err)
		}
		return dir, nil
	}
	dir = filepath.Clean(dir)
	at := c.Store.Places()
	for _, own := range []string{at.Data, at.Index, at.Segments, at.Log} {
		if inside(dir, filepath.Clean(own)) {
			return "", fmt.Errorf("%w: %s is inside a folder of the store, %s: choose a folder outside of it",
				ErrUsage, dir, own)
		}
	}
	return dir, nil
}

func inside(dir, other string) bool {
	rel, err := filepath.Rel(other, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// ReadKeys returns the keys of recipients, which may be empty, and of an identity file, whose path may be empty.
func ReadKeys(e *env.Env, recipients, identity string) (blob.Keys, error) {
	if identity == "" {
		return blob.ParseKeys(recipients, nil)
	}
	f, _, err := env.OpenRegular(e.FS, identity)
	if err != nil {
		return blob.Keys{}, fmt.Errorf("identity file: %w", err)
	}
	defer f.Close()
	return blob.ParseKeys(recipients, f)
}

func (c *Call) backupOptions(rate Size, keys blob.Keys) backup.Options {
	if rate == 0 {
		rate = c.Backup.Rate
	}
	return backup.Options{Rate: int64(rate), Program: c.Version, Extra: c.Backup.Extra, Check: c.Backup.Check,
		Keys: keys, Indexes: c.Store.Indexes(), Progress: func(p backup.Progress) {
			c.Progress(Progress{Stage: p.Stage, Done: p.Done, Bytes: p.Total, Text: Size(p.Done).String() + " of " +
				Size(p.Total).String()})
		}}
}

func runBackup(ctx context.Context, c *Call, a *BackupTake) (Generation, error) {
	dir, err := c.backupDir(a.Dir)
	if err != nil {
		return Generation{}, err
	}
	keys, err := ReadKeys(c.Env, c.Backup.Recipient, "")
	if err != nil {
		return Generation{}, err
	}
	o := c.backupOptions(a.Rate, keys)
	o.Check = cmp.Or(backup.Level(a.Check), o.Check)
	switch o.Check {
	case "", backup.CheckOff, backup.CheckOpen, backup.CheckFull:
	default:
		return Generation{}, fmt.Errorf("%w: --check is open, full or off, not %q", ErrUsage, a.Check)
	}
	g, err := backup.Take(ctx, c.Env, c.Store, dir, o)
	c.countBackup(g, err)
	if err == nil {
		thinAfter(ctx, c, dir)
	}
	if errors.Is(err, store.ErrBusy) {
		err = fmt.Errorf("%w: a backup is in progress", err)
	}
	return ShowGeneration(g), err
}

// thinAfter thins a configured place after a good backup. An error does not make the backup a failed one, which would
// be repeated.
func thinAfter(ctx context.Context, c *Call, dir string) {
	// A setting may write a folder in another way than backupDir does.
	thinned := slices.ContainsFunc(c.Backup.Thinned, func(p string) bool {
		at, err := c.backupDir(p)
		return p != "" && err == nil && at == dir
	})
	if c.Backup.Policy == "" || !thinned {
		return
	}
	keep, err := backup.ParseKeep(c.Backup.Policy)
	if err == nil {
		_, err = backup.Thin(ctx, c.Env, dir, keep, false)
	}
	if err != nil && ctx.Err() == nil {
		c.Env.Log.Error("backup: cannot thin old backups, will retry after the next one", "error", err)
	}
}

// backupThin implements backup thin.
func backupThin(ctx context.Context, c *Call, a *BackupThin) (Pruned, error) {
	dir, err := c.backupDir(a.Dir)
	if err != nil {
		return Pruned{}, err
	}
	keep, err := backup.ParseKeep(cmp.Or(a.Keep, c.Backup.Policy))
	if err == nil && keep == (backup.Keep{}) {
		err = errors.New("say which backups stay with --keep, or set data.backup_keep")
	}
	if err != nil {
		return Pruned{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	p, err := backup.Thin(ctx, c.Env, dir, keep, a.Dry)
	return showPruned(p, a.Dry), err
}

// countBackup updates the statistics of backups.
func (s *System) countBackup(g backup.Generation, err error) {
	if s.Stats == nil {
		return
	}
	c := backupCounters(s.Stats)
	if err != nil {
		c.failed.Inc()
		if g.Damage != nil {
			c.damaged.Inc()
			s.Env.Log.Error("backup: verification failed; older backups are kept", "generation", g.Number,
				"error", g.Damage)
		}
		return
	}
	c.done.Inc()
	c.copied.Add(g.Copied)
	last := lastBackup{g.Began, g.Ended, g.Bytes, g.Copied}
	if text, err := json.Marshal(last); err == nil {
		s.Backup.Keep.Put(lastBackupKey, string(text))
	}
	s.noteBackup(last)
}

// lastBackup is the stored record of the last good backup, in any folder.
type lastBackup struct {
	Began, Ended  time.Time
	Bytes, Copied uint64
}

// lastBackupKey is the key of lastBackup in BackupSettings.Keep.
const lastBackupKey = "last"

// backupCounts are the counters of backups since the server started.
type backupCounts struct{ done, failed, damaged, copied *stat.Counter }

func backupCounters(t *stat.Tree) backupCounts {
	return backupCounts{
		done:    t.Counter("Backup.Done", "backups made"),
		failed:  t.Counter("Backup.Failed", "backups that failed"),
		damaged: t.Counter("Backup.Damaged", "backups that failed their check after they were taken"),
		copied:  t.Counter("Backup.CopiedBytes", "bytes copied by backups"),
	}
}

// noteBackup sets the gauges of the last good backup. The zero lastBackup means that there is none.
func (s *System) noteBackup(b lastBackup) {
	s.Stats.Gauge("Backup.LastSuccess",
		"when the last good backup began, seconds since 1970; 0 is never").Set(max(b.Began.Unix(), 0))
	s.Stats.Gauge("Backup.LastBytes", "bytes of the last good backup").Set(int64(b.Bytes))
	s.Stats.Gauge("Backup.LastCopiedBytes", "bytes that the last good backup copied").Set(int64(b.Copied))
	s.Stats.Gauge("Backup.LastMilliseconds",
		"how long the last good backup took").Set(b.Ended.Sub(b.Began).Milliseconds())
}

// FindBackup sets the statistics to the last good backup: the stored one, or a later one in the configured folder.
// Without a backup they are 0, so that monitoring finds them in both cases.
func (s *System) FindBackup() {
	if s.Stats == nil {
		return
	}
	backupCounters(s.Stats)
	var last lastBackup
	err := s.Backup.Keep.Each(context.Background(), func(key, value string) {
		if key == lastBackupKey && json.Unmarshal([]byte(value), &last) != nil {
			last = lastBackup{}
		}
	})
	if err != nil {
		s.Env.Log.Warn("backup: last backup is unknown", "error", err)
	}
	if g, ok := s.latestBackup(); ok && g.Began.After(last.Began) {
		last = lastBackup{g.Began, g.Ended, g.Bytes, g.Copied}
	}
	s.noteBackup(last)
}

// latestBackup returns the latest good backup in the configured folder.
func (s *System) latestBackup() (g backup.Generation, ok bool) {
	if s.Backup.Dir == "" || blob.IsS3(s.Backup.Dir) { // the start of a server must not wait for a bucket
		return g, false
	}
	list, err := backup.List(context.Background(), s.Env, s.Backup.Dir)
	if err != nil {
		return g, false // no backups yet
	}
	for _, g := range slices.Backward(list) {
		if g.Damage == nil {
			return g, true
		}
	}
	return g, false
}
