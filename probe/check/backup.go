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

// Archive is the state of the archive of the transaction log. The zero value stands for a server without one.
type Archive struct {
	// Behind is the age of the oldest change that may not be archived.
	Behind time.Duration
	// Kept is the size of the log that waits, Most its bound; beyond it the archive gets a gap.
	Kept, Most uint64
	// Gaps counts the gaps since the last reading.
	Gaps int
}

// ArchiveLag reports an archive that does not follow.
var ArchiveLag = probe.Check[Archive]{
	Kind: probe.Kind{Type: probe.Backup, Name: "ArchiveLag",
		What:  "age of the oldest change that is not in the archive of the transaction log; failure after a gap",
		Cause: "The target of the archive is full, slow or away.",
		Remedy: "Read the log. Make room at archive.target, or mount it again: the log waits on this server up to " +
			"archive.keep. After a gap `backup moments` shows what can be restored.",
		Every: time.Minute, Clear: time.Hour,
		Limits: []probe.Limit{low((5 * time.Minute).Seconds(), probe.Time), high(time.Hour.Seconds(), probe.Time)}},
	Find: func(a Archive, l probe.Limits) []probe.Finding {
		if a.Gaps > 0 {
			return one(probe.Failure, true, "", "the archive has a gap: the moments up to the next backup are lost")
		}
		s, bad := l.Older(a.Behind)
		return one(s, bad, "", fmt.Sprintf("the archive is %s behind, %s of the log wait (at most %s)", age(a.Behind),
			bytes(a.Kept), bytes(a.Most)))
	},
}
