package check

import (
	"fmt"
	"time"

	"doublet/probe"
)

// Backups is the state of backups.
type Backups struct {
	// Age is the age of the last good backup or, without one, the time since the server's store was made.
	Age   time.Duration
	Never bool
	// Failed and Damaged count the backups that failed, or failed their check, since the last good one.
	Failed, Damaged int
}

// BackupAge reports backups that are too old.
var BackupAge = probe.Check[Backups]{
	Kind: probe.Kind{Type: probe.Backup, Name: "BackupAge",
		What:  "age of the last good backup",
		Cause: "Nothing makes backups, or they fail.",
		Remedy: "Run `doublet backup` daily, by cron or a systemd timer (doc/operate.md). On a server that needs " +
			"none: probes.run = \"all -BackupAge\".",
		Every: 10 * time.Minute, Clear: time.Minute,
		Limits: []probe.Limit{low((3 * day).Seconds(), probe.Time), high((7 * day).Seconds(), probe.Time),
			failure((30 * day).Seconds(), probe.Time)}},
	Find: func(b Backups, l probe.Limits) []probe.Finding {
		s, bad := l.Older(b.Age)
		text := "the last good backup is " + age(b.Age) + " old"
		if b.Never {
			s, text = min(s, probe.WarningHigh), "there is no backup, "+age(b.Age)+" after the store was made"
		}
		return one(s, bad, "", text)
	},
}

// BackupCheck reports backups that failed, or that failed their check.
var BackupCheck = probe.Check[Backups]{
	Kind: probe.Kind{Type: probe.Backup, Name: "BackupCheck",
		What:  "backups that failed, or whose check failed, since the last good one and the start",
		Cause: "The backup folder is full or cannot be written, or the device there is faulty.",
		Remedy: "`doublet backup list` and the log have the reason. A damaged backup does not count for `backup " +
			"prune`.",
		Every: time.Minute, Clear: time.Minute},
	Find: func(b Backups, _ probe.Limits) []probe.Finding {
		if b.Damaged > 0 {
			return one(probe.Failure, true, "", plural(b.Damaged, "backup")+" failed the check")
		}
		return one(probe.WarningHigh, b.Failed > 0, "", fmt.Sprintf("%s failed", plural(b.Failed, "backup")))
	},
}
