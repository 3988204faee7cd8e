package check

import (
	"context"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/probe"
	"doublet/stat"
	"doublet/store"
)

// fault is a probe with a reading that is a fault, one that is none, and what the fault opens.
type fault struct {
	kind     *probe.Kind
	probe    func(bad *bool) *probe.Probe
	severity probe.Severity
	target   string
	cause    string
}

func faultOf[R any](c *probe.Check[R], bad, good R, severity probe.Severity, target, cause string) fault {
	return fault{&c.Kind, func(is *bool) *probe.Probe {
		return probe.Bind(c, func(context.Context) (R, error) {
			if *is {
				return bad, nil
			}
			return good, nil
		})
	}, severity, target, cause}
}

// faults holds a fault for every probe. The good readings lie just below the lowest threshold.
var faults = []fault{
	faultOf(&QueueLength, []Destination{{Name: "x.example", Waiting: 5000}}, []Destination{{Name: "x.example",
		Waiting: 999}},
		probe.WarningHigh, "x.example", "5000 messages wait for x.example"),
	faultOf(&QueueAge, []Oldest{{"x.example", 50 * time.Hour}}, []Oldest{{"x.example", 11 * time.Hour}},
		probe.WarningHigh, "x.example", "has waited for 2 days"),
	faultOf(&NextHop, []Destination{{Name: "x.example", Failures: 10, Host: "mx", Reply: "timeout"}},
		[]Destination{{Name: "x.example", Failures: 9}}, probe.WarningLow, "x.example", "mx: timeout"),
	faultOf(&DeadMail, 10, 9, probe.WarningLow, "mail.box", "10 dead messages"),
	faultOf(&DeliverTime, Delivered{10, 40 * time.Second}, Delivered{9, 40 * time.Second}, probe.WarningHigh, "",
		"took 40s"),
	faultOf(&TestMail, []Trip{{To: "p@x", Took: time.Hour}}, []Trip{{To: "p@x", Took: time.Second, Arrived: true}},
		probe.Failure, "p@x", "has been under way for 1h"),
	faultOf(&TestMail, []Trip{{To: "p@x", Refused: "no such user"}}, nil, probe.Failure, "p@x", "no such user"),
	faultOf(&CPU, 99, 89, probe.WarningHigh, "", "99 %"),
	faultOf(&Memory, MemoryUse{96 << 20, 100 << 20}, MemoryUse{96 << 20, 0}, probe.WarningLow, "", "of 100"),
	faultOf(&DiskSpace, []Disk{{"/data", 5, 100, false}}, []Disk{{"/data", 11, 100, false}}, probe.WarningHigh, "/data",
		"5.0 %"),
	faultOf(&DiskSpace, []Disk{{"/data", 50, 100, true}}, []Disk{{"/data", 50, 100, false}}, probe.Fatal, "/data",
		"takes nothing new"),
	faultOf(&DiskLatency, 3*time.Second, 400*time.Millisecond, probe.WarningHigh, "transaction log", "waits 3s"),
	faultOf(&Descriptors, Files{990, 1000}, Files{790, 1000}, probe.Failure, "", "990 of 1000"),
	faultOf(&Damage, Damaged{Objects: 1}, Damaged{}, probe.Failure, "store", "1 object"),
	faultOf(&Damage, Damaged{Segments: 2}, Damaged{}, probe.Failure, "segments", "no copy can replace: 2"),
	faultOf(&OutOfService, []DatabaseFact{{Title: "Ada", ID: "1", Out: true}}, []DatabaseFact{{Title: "Ada", ID: "1"}},
		probe.WarningHigh, "Ada (1)", "out of service"),
	faultOf(&Quota, []DatabaseFact{{Title: "Ada", ID: "1", Size: 95, Quota: 100}},
		[]DatabaseFact{{Title: "Ada", ID: "1", Size: 94, Quota: 100}, {Title: "Bo", ID: "2", Size: 1 << 40}},
		probe.WarningLow, "Ada (1)", "holds"),
	faultOf(&DatabaseSize, []DatabaseFact{{Title: "Ada", ID: "1", Size: 1 << 40}}, []DatabaseFact{{Size: 1 << 30}},
		probe.WarningLow, "Ada (1)", "holds"),
	faultOf(&CompactionDebt, 65<<30, 15<<30, probe.WarningHigh, "store", "wait for compactions"),
	faultOf(&FullText, 2*time.Hour, 59*time.Minute, probe.WarningLow, "full-text index", "2h"),
	faultOf(&Names, []Twice{{"ada", []string{"1", "2"}}}, nil, probe.WarningHigh, "ada", "2 documents"),
	faultOf(&Members, []Missing{{"Staff", []string{"1", "2"}}}, []Missing{{"Staff", nil}}, probe.WarningLow, "Staff",
		"2 members of Staff"),
	faultOf(&Assistance, []Unreachable{{"corp", "refused"}}, nil, probe.Failure, "corp",
		"the directory corp cannot be used: refused"),
	faultOf(&SignInRate, SignIns{300, 4}, SignIns{299, 4}, probe.WarningLow, "", "300 sign-ins failed"),
	faultOf(&SignInAttack, []Attack{{Account: "50%d", Failed: 500}}, []Attack{{Account: "50%d", Failed: 49}},
		probe.WarningHigh, "account 50%d", "the account 50%d failed"),
	faultOf(&SignInAttack, []Attack{{Address: "192.0.2.1", Failed: 50}}, nil, probe.WarningLow, "address 192.0.2.1",
		"50 sign-ins from 192.0.2.1"),
	faultOf(&Certificate, []Cert{{"x", -time.Hour, ""}}, []Cert{{"x", 15 * day, ""}}, probe.Failure, "x", "has ended"),
	faultOf(&Certificate, []Cert{{"x", 4 * day, "no answer"}}, nil, probe.WarningHigh, "x", "no answer"),
	faultOf(&Certificate, []Cert{{"x", 0, "no answer"}}, nil, probe.WarningHigh, "x", "there is no certificate"),
	faultOf(&SigningKey, []DKIM{{"x", true, 0}}, []DKIM{{"x", false, day}}, probe.WarningLow, "x", "no DKIM key"),
	faultOf(&OpenRelay, []Relay{{"smtp", "a@b", true}}, []Relay{{"smtp", "a@b", false}}, probe.Fatal, "smtp",
		"strangers"),
	faultOf(&BlockList, []Listed{{"192.0.2.1", "bl.example", "spam"}}, nil, probe.Failure, "192.0.2.1 in "+
		"bl.example", "spam"),
	faultOf(&WeakSetting, []Weak{{"a.b", "c", "d"}}, nil, probe.WarningLow, "a.b", "c"),
	faultOf(&Cluster, []Trouble{{"silent", "two", "no answer since noon"}}, nil, probe.Failure, "silent two", "no "+
		"answer"),
	faultOf(&Cluster, []Trouble{{"no room", "", "full"}}, nil, probe.Failure, "no room", "full"),
	faultOf(&Connection, []Link{{"hub", "no " +
		"route", time.Minute, time.Hour}}, []Link{{"hub", "", 90 * time.Minute, time.Hour}},
		probe.WarningLow, "hub", "no route"),
	faultOf(&Connection, []Link{{"hub", "", 26 * time.Hour, time.Hour}}, nil, probe.WarningHigh, "hub", "26h0m0s ago"),
	faultOf(&WebErrors, []Requests{{"JMAP", 20, 5, 0}}, []Requests{{"JMAP", 19, 19, 0}}, probe.WarningHigh, "JMAP",
		"5 of 20"),
	faultOf(&WebLatency, []Requests{{"JMAP", 20, 0, 3 * time.Second}}, []Requests{{"JMAP", 20, 0, 2 * time.Second}},
		probe.WarningLow, "JMAP", "took 3s"),
	faultOf(&TaskCrash, []Task{{Name: "Router", Crashes: 1, Error: "panic: " +
		"x"}}, []Task{{Name: "Router"}}, probe.Failure,
		"Router", "crashed: panic: x"),
	faultOf(&TaskCrash, []Task{{Name: "Purge", Waiting: true, Error: "no"}}, nil, probe.WarningHigh, "Purge",
		"failed: no"),
	faultOf(&TaskLate, []Task{{Name: "Purge", Late: time.Hour}}, []Task{{Name: "Purge", Late: 9 * time.Minute}},
		probe.WarningLow, "Purge", "1h0m0s overdue"),
	faultOf(&TaskLong, []Task{{Name: "Purge", Running: 25 * time.Hour}}, []Task{{Name: "Purge",
		Running: 5 * time.Hour}},
		probe.WarningHigh, "Purge", "25h"),
	faultOf(&BackupAge, Backups{Age: 31 * day}, Backups{Age: 2 * day}, probe.Failure, "", "31 days old"),
	faultOf(&BackupAge, Backups{Age: 31 * day, Never: true}, Backups{Age: day, Never: true}, probe.WarningHigh, "",
		"there is no backup"),
	faultOf(&BackupCheck, Backups{Damaged: 1, Failed: 1}, Backups{}, probe.Failure, "", "1 backup failed the check"),
	faultOf(&BackupCheck, Backups{Failed: 2}, Backups{}, probe.WarningHigh, "", "2 backups failed"),
	faultOf(&ArchiveLag, Archive{Behind: 2 * time.Hour, Kept: 1 << 30, Most: 4 << 30}, Archive{Behind: time.Minute},
		probe.WarningHigh, "", "1 GB of the log wait"),
	faultOf(&ArchiveLag, Archive{Gaps: 1}, Archive{}, probe.Failure, "", "has a gap"),
	faultOf(&JournalFailure, Journaling{Failures: 1}, Journaling{}, probe.WarningHigh, "", "1 attempt to journal"),
	faultOf(&MailRules, []string{"a: unknown field"}, nil, probe.WarningHigh, "a", "the mail rule a: unknown field"),
	faultOf(&JournalFailure, Journaling{Failures: 1, Missed: 2}, Journaling{}, probe.Failure, "",
		"2 messages delivered without a journal entry"),
}

// TestProbes checks that every probe opens an event on its fault, with the severity, target, cause and a remedy,
// that it
// closes when the fault is over, and that readings below the thresholds open none.
func TestProbes(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	f := env.Test(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := probe.Open(s, f.Env, stat.New(f.Clock))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range faults {
		tested[x.kind.Name] = true
		plan, err := probe.ParsePlan(Kinds(), probe.Settings{Run: x.kind.Name})
		if err != nil {
			t.Fatal(err)
		}
		bad := false
		m := probe.NewMonitor(log, plan, time.Hour, []*probe.Probe{x.probe(&bad)})
		run := func(d time.Duration) []probe.Event {
			for end := f.Clock.Now().Add(d); f.Clock.Now().Before(end); f.Time.Advance(max(probe.Tick, x.kind.Every)) {
				m.Round(context.Background())
			}
			return log.List(probe.Query{State: probe.StateOpen})
		}
		quiet := x.kind.Hold + 3*x.kind.Every
		if list := run(quiet); len(list) != 0 {
			t.Errorf("%s without a fault: %+v", x.kind.Name, list)
		}
		bad = true
		if list := run(quiet); len(list) != 1 {
			t.Errorf("%s on a fault (%s): %+v", x.kind.Name, x.cause, list)
		} else if e := list[0]; e.Severity != x.severity || e.Target != x.target || !strings.Contains(e.Cause,
			x.cause) ||
			e.Remedy == "" || e.Type != x.kind.Type {
			t.Errorf("%s: %+v\nwant %v %q %q", x.kind.Name, e, x.severity, x.target, x.cause)
		}
		bad = false
		if list := run(8*max(x.kind.Clear, x.kind.Every) + 2*x.kind.Every); len(list) != 0 {
			t.Errorf("%s after the fault: %+v", x.kind.Name, list)
		}
	}
	for _, k := range Kinds() {
		if !tested[k.Name] {
			t.Errorf("no fault for the probe %s", k.Name)
		}
		if k.What == "" || k.Cause == "" || k.Remedy == "" || k.Every < probe.Tick || k.Clear <= 0 {
			t.Errorf("probe %s is not described: %+v", k.Name, k)
		}
	}
}
