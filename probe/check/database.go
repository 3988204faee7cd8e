package check

import (
	"fmt"
	"strconv"
	"time"

	"doublet/probe"
)

// Damaged counts the damage that the store has met since it opened.
type Damaged struct {
	// Files are tables of the store that cannot be read, Objects is the number of damaged objects.
	Files   int
	Objects uint64
	// Segments is the number of damaged segments of objects that no copy can replace now.
	Segments int
}

// Damage reports damage that the store has met.
var Damage = probe.Check[Damaged]{
	Kind: probe.Kind{Type: probe.Database, Name: "Damage",
		What: "damaged tables and objects that the store has met since the start, and damaged segments that no " +
			"copy at data.segments_archive can replace",
		Cause: "The disk or the memory is faulty, or somebody changed the files.",
		Remedy: "`doublet check` says which databases are concerned; the task Fixup (`load fixup DATABASE`) repairs. " +
			"In a cluster, damaged replicas are replaced from a mate; else restore from the last backup. Examine the " +
			"disk. The event closes after the next start.",
		Every: time.Minute, Clear: time.Minute},
	Find: func(d Damaged, _ probe.Limits) []probe.Finding {
		list := one(probe.Failure, d.Files > 0 || d.Objects > 0, "store",
			fmt.Sprintf("%s and %s are damaged", plural(d.Files, "table"), plural(int(d.Objects), "object")))
		if d.Segments > 0 {
			list = append(list, probe.Finding{Target: "segments", Severity: probe.Failure,
				Cause: "damaged segments that no copy can replace: " + strconv.Itoa(d.Segments),
				Remedy: "The log has their numbers, and `doublet check --deep` the messages with parts in them. " +
					"Restore these from a backup, and remove them. In a cluster, a part that is read comes from a " +
					"mate. Examine the disk. The event closes when nothing refers to what is damaged any more."})
		}
		return list
	},
}

// DatabaseFact is a database as the catalog and the store describe it.
type DatabaseFact struct {
	Title, ID   string
	Size, Quota uint64 // bytes; Quota 0: none
	Out         bool   // out of service
}

func (d *DatabaseFact) name() string { return d.Title + " (" + d.ID + ")" }

// OutOfService reports databases that are out of service.
var OutOfService = probe.Check[[]DatabaseFact]{
	Kind: probe.Kind{Type: probe.Database, Name: "OutOfService",
		What:  "databases that are out of service",
		Cause: "An administrator took the database out of service, or it is damaged.",
		Remedy: "`check DATABASE --repair`, then `db in-service DATABASE`. Close the event permanently if it is " +
			"meant to stay so.",
		Every: 5 * time.Minute, Hold: 30 * time.Minute, Clear: 5 * time.Minute},
	Find: func(list []DatabaseFact, _ probe.Limits) (out []probe.Finding) {
		for i := range list {
			if d := &list[i]; d.Out {
				out = append(out, one(probe.WarningHigh, true, d.name(), d.name()+" is out of service")...)
			}
		}
		return out
	},
}

// Quota reports databases that are nearly at their quota.
var Quota = probe.Check[[]DatabaseFact]{
	Kind: probe.Kind{Type: probe.Database, Name: "Quota",
		What:   "databases near their quota, as the task Catalog saw them last",
		Cause:  "The mail file fills up; at the quota, mail for it is rejected or waits.",
		Remedy: "Tell the person, or raise the quota (`user set --quota`).",
		Every:  6 * time.Hour, Clear: time.Minute,
		Limits: []probe.Limit{low(95, probe.Percent)}},
	Find: func(list []DatabaseFact, l probe.Limits) (out []probe.Finding) {
		for i := range list {
			d := &list[i]
			s, bad := l.Above(percent(float64(d.Size), float64(d.Quota)))
			out = append(out, one(s, bad, d.name(), d.name()+" holds "+bytes(d.Size)+" of "+bytes(d.Quota))...)
		}
		return out
	},
}

// DatabaseSize reports very large databases.
var DatabaseSize = probe.Check[[]DatabaseFact]{
	Kind: probe.Kind{Type: probe.Database, Name: "DatabaseSize",
		What:   "size of a database, as the task Catalog saw it last",
		Cause:  "The database grows without a bound.",
		Remedy: "Set a quota, archive or remove old mail.",
		Every:  6 * time.Hour, Clear: time.Minute,
		Limits: []probe.Limit{low(256<<30, probe.Bytes)}},
	Find: func(list []DatabaseFact, l probe.Limits) (out []probe.Finding) {
		for i := range list {
			d := &list[i]
			s, bad := l.Above(float64(d.Size))
			out = append(out, one(s, bad, d.name(), d.name()+" holds "+bytes(d.Size))...)
		}
		return out
	},
}

// CompactionDebt reports work that the store puts off. The reading is in bytes.
var CompactionDebt = probe.Check[uint64]{
	Kind: probe.Kind{Type: probe.Database, Name: "CompactionDebt",
		What:   "bytes that compactions of the store still have to move",
		Cause:  "More is written than the disk can sort.",
		Remedy: "Wait until a bulk load has ended. Otherwise use a faster device for data.index_dir.",
		Every:  5 * time.Minute, Hold: time.Hour, Clear: 15 * time.Minute,
		Limits: []probe.Limit{low(16<<30, probe.Bytes), high(64<<30, probe.Bytes)}},
	Find: func(n uint64, l probe.Limits) []probe.Finding {
		s, bad := l.Above(float64(n))
		return one(s, bad, "store", bytes(n)+" wait for compactions")
	},
}

// FullText reports a full-text index that is behind. The reading is the time for which it has been behind.
var FullText = probe.Check[time.Duration]{
	Kind: probe.Kind{Type: probe.Database, Name: "FullText",
		What:   "time for which the full-text index has been behind the store",
		Cause:  "The index is being rebuilt, or more mail arrives than it may index (search.share).",
		Remedy: "Wait for the end of a rebuild (`show stat FullText`); raise search.share; `load updall` rebuilds it.",
		Every:  time.Minute, Hold: time.Minute, Clear: 5 * time.Minute,
		Limits: []probe.Limit{low(time.Hour.Seconds(), probe.Time), high((12 * time.Hour).Seconds(), probe.Time)}},
	Find: func(d time.Duration, l probe.Limits) []probe.Finding {
		s, bad := l.Older(d)
		return one(s, bad, "full-text index", "the index has been behind for "+age(d))
	},
}
