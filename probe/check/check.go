// Package check holds the rules of the probes, one file for each type. Each rule is a pure function of a reading and of
// thresholds: it knows no server. The readings are made where the rooms meet.
package check

import (
	"fmt"
	"strconv"
	"time"

	"doublet/probe"
	"doublet/wire/size"
)

const day = 24 * time.Hour

// Kinds returns the kinds of all probes, by type.
func Kinds() []*probe.Kind {
	return []*probe.Kind{
		&QueueLength.Kind, &QueueAge.Kind, &NextHop.Kind, &DeadMail.Kind, &DeliverTime.Kind, &TestMail.Kind,
		&JournalFailure.Kind, &MailRules.Kind,
		&CPU.Kind, &Memory.Kind, &DiskSpace.Kind, &DiskLatency.Kind, &Descriptors.Kind,
		&Damage.Kind, &OutOfService.Kind, &Quota.Kind, &DatabaseSize.Kind, &CompactionDebt.Kind, &FullText.Kind,
		&Names.Kind, &Members.Kind, &Assistance.Kind,
		&SignInRate.Kind, &SignInAttack.Kind, &Certificate.Kind, &SigningKey.Kind, &OpenRelay.Kind, &BlockList.Kind,
		&WeakSetting.Kind,
		&Cluster.Kind, &Connection.Kind,
		&WebErrors.Kind, &WebLatency.Kind,
		&TaskCrash.Kind, &TaskLate.Kind, &TaskLong.Kind,
		&BackupAge.Kind, &BackupCheck.Kind, &ArchiveLag.Kind,
	}
}

// one returns the finding that a severity means, none if bad is false.
func one(severity probe.Severity, bad bool, target, cause string) []probe.Finding {
	if !bad {
		return nil
	}
	return []probe.Finding{{Target: target, Severity: severity, Cause: cause}}
}

// age formats a time to the second, or to the hour if it is long.
func age(d time.Duration) string {
	switch {
	case d >= 2*day:
		return strconv.Itoa(int(d/day)) + " days"
	case d >= time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

func bytes(n uint64) string { return size.Rounded(n) }

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// low, high and failure return thresholds of these severities.
func low(v float64, u probe.Unit) probe.Limit { return probe.Limit{Name: "low", Default: v, Unit: u} }

func high(v float64, u probe.Unit) probe.Limit { return probe.Limit{Name: "high", Default: v, Unit: u} }

func failure(v float64, u probe.Unit) probe.Limit {
	return probe.Limit{Name: "failure", Default: v, Unit: u}
}
