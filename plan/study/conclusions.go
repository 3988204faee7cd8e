package study

import (
	"fmt"
	"math"
	"slices"
)

// Conclusions recomputes what the documents conclude from several figures.
func Conclusions() []Checked {
	out := production()
	out = append(out, scaling()...)
	out = append(out, releases()...)
	return append(out, clusters()...)
}

// agreesIf returns Agrees if ok.
func agreesIf(ok bool) Verdict {
	if ok {
		return Agrees
	}
	return Errs
}

func production() []Checked {
	var out []Checked
	for _, server := range []string{"D01MLC83", "D01MLC96"} {
		sum := 0.0
		for _, template := range []string{"Notes 6", "Notes 5", "Notes 4.5", "other"} {
			sum += Fact("template share " + server + " " + template)
		}
		out = append(out, Checked{"000 configuration: shares of mail templates of " + server, "all users",
			fmt.Sprintf("%g %%", sum), agreesIf(sum == 100)})
	}
	diluted := Diluted(Fact("benchmark saving"), Fact("share of tasks that gain"))
	upgraded := Fact("day of December 2004 of the first upgrade of D01MLC83")
	until := Fact("day of December 2004 before which its 6.5 data end")
	return append(out,
		Checked{"000 conclusion: saving diluted by other tasks", fmt.Sprintf("%g %%",
			Fact("saving on the whole server")), fmt.Sprintf("%g %%", diluted),
			agreesIf(diluted == Fact("saving on the whole server"))},
		Checked{"000 methodology: the data before the upgrade of D01MLC83 end before it",
			fmt.Sprintf("upgraded on day %g", upgraded), fmt.Sprintf("data until day %g", until),
			agreesIf(until <= upgraded)})
}

// Diluted returns the saving of a whole server in percent if the tasks that use share percent of its processor time
// save saving percent and the others save nothing.
func Diluted(saving, share float64) float64 { return saving * share / 100 }

// reciprocal returns the change of ITR in percent that follows from a change of CPU in percent at the same ETR.
func reciprocal(cpu float64) float64 { return (1/(1+cpu/100) - 1) * 100 }

func scaling() []Checked {
	var out []Checked
	// At the same ETR, the changes of CPU and ITR are the same fact. A percent of difference in ETR is the workload's.
	for _, x := range []string{"NRPC %s change 2 to 3", "NRPC %s change 2 to 4", "NRPC 6.5 %s change 1 to 2",
		"NRPC 6.5 %s change 1 to 3", "DWA %s change 2 to 4"} {
		cpu, itr := Fact("partitions "+fmt.Sprintf(x, "CPU")), Fact("partitions "+fmt.Sprintf(x, "ITR"))
		etr := ((1+cpu/100)*(1+itr/100) - 1) * 100
		out = append(out, Checked{"001 partitions: CPU and ITR, " + fmt.Sprintf(x, "both"),
			fmt.Sprintf("CPU %+g %%, ITR %+g %%", cpu, itr),
			fmt.Sprintf(
				"ITR %+.1f %% at the same ETR; ETR %+.1f %%",
				reciprocal(cpu),
				etr,
			), agreesIf(math.Abs(etr) < 1)})
	}
	gap := Fact("partitions NRPC 6.5 CPU change 1 to 3") + Fact("partitions NRPC 6.5 ITR change 1 to 3")
	out = append(
		out,
		Checked{"001 5.2.1: a large discrepancy between the changes of CPU and ITR on the third partition",
			"CPU and ITR disagree", fmt.Sprintf("they are reciprocal: %.1f points apart by arithmetic alone, %.1f "+
				"of them "+
				"printed", Fact("partitions NRPC 6.5 CPU change 1 to 3")+
				reciprocal(Fact("partitions NRPC 6.5 CPU change 1 to 3")), gap), Errs},
	)
	native := Fact("guest NRPC ITR one of four processors") / (1 + Fact("guest NRPC ITR change with 4 processors")/100)
	four := Change(native, Fact("guests NRPC ITR four"))
	// 19 % is printed without decimals: the native ITR lies within half a percent.
	low := Change(Fact("guest NRPC ITR one of four processors")/0.805, Fact("guests NRPC ITR four"))
	high := Change(Fact("guest NRPC ITR one of four processors")/0.815, Fact("guests NRPC ITR four"))
	out = append(out, Checked{"001 5.3.2: four guests against native", "-15 %", fmt.Sprintf("%.1f %%", four),
		judge("-15", -15, four, min(low, high), max(low, high))})
	dwa := Change(
		Fact("guest DWA ITR native"),
		Fact("guest DWA ITR one")*(1+Fact("guests DWA ITR change one to four")/100),
	)
	out = append(out, Checked{"001 5.3.4: four DWA guests against native", "-4.3 %", fmt.Sprintf("%.2f %%", dwa),
		judge("-4.3", Fact("guests DWA ITR change native to four"), dwa, dwa-0.05, dwa+0.05)})
	base := Fact("guest NRPC ITR fewer with 1 processor") / -Fact("guest NRPC ITR change with 1 processor") * 100
	perTwo := Fact("scaling NRPC 2 to 4 processors")
	noise := Change(Fact("guests NRPC ITR four"), Fact("guests ITR four at 1:1"))
	effect := -Change(Fact("guests ITR four at 1:1"), Fact("guests ITR four at 2:1"))
	return append(out,
		Checked{"001 5.1.1: NRPC scales worse than both reference curves", "1.7 is below 1.89", fmt.Sprintf(
			"%.0f %% of OLTP-T", perTwo/Fact("scaling OLTP-T 2 to 4 processors")*100),
			agreesIf(perTwo < Fact("scaling OLTP-T 2 to 4 processors"))},
		Checked{"001 5.3.1: ITR of one processor from 30 fewer and 14.3 %", "native 210, guest 180",
			fmt.Sprintf("native %.0f, guest %.0f", base, base-30), agreesIf(math.Abs(base-210) < 1)},
		Checked{"001 5.4: 2:1 virtual processors cost 3 %, more than two runs of four guests differ",
			"548 and 564 in two sections", fmt.Sprintf("the two runs differ by %.1f %%, the effect is %.1f %%", noise,
				effect), supportedIf(effect > 1.5*noise)})
}

// supportedIf returns Unsupported unless ok.
func supportedIf(ok bool) Verdict {
	if ok {
		return Agrees
	}
	return Unsupported
}

func releases() []Checked {
	var out []Checked
	worst := map[string]float64{}
	for _, r := range Rows("changes.csv") {
		saving := -Change(r.Number("a"), r.Number("b"))
		full := r["document"] == "002" && r["from"] == "DWA8"
		lite := r["document"] == "002" && r["from"] == "DWA85"
		switch {
		case lite && slices.Contains([]string{"cpu %", "disk operations/s", "network MB/s"}, r["resource"]):
			if key := "lite " + r["resource"]; worst[key] == 0 || saving < worst[key] {
				worst[key] = saving
			}
		case full && r["resource"] == "disk operations/s":
			if worst["full"] == 0 || saving < worst["full"] {
				worst["full"] = saving
			}
		}
	}
	for _, resource := range []string{"cpu %", "disk operations/s", "network MB/s"} {
		least := worst["lite "+resource]
		out = append(out, Checked{"002 conclusion: lite mode improves every platform by 5 percent or more, " + resource,
			"5 % or more", fmt.Sprintf("least %.1f %%", least),
			agreesIf(least >= Fact("summary improvement lite at least")-0.5)})
	}
	out = append(out, Checked{"002 conclusion: disk operations improved by more than 20 percent", "more than 20 %",
		fmt.Sprintf(
			"least %.1f %%",
			worst["full"],
		), agreesIf(worst["full"] > Fact("summary I/O improvement more than"))})
	x, y := Fact("AIX shared memory with DWA85 in table 3"), Fact("AIX shared memory with DWA85 in table 4")
	out = append(out, Checked{"002 tables 3 and 4: AIX shared memory of one measurement", "the same",
		fmt.Sprintf("%g and %g MB", x, y), agreesIf(x == y)})
	for _, r := range Rows("changes.csv") {
		if r["document"] != "002" || r["from"] != "DWA85" || r["resource"] == "shared memory MB" {
			continue
		}
		if _, b := find("002", r["platform"], "DWA8", "cpu %"); r["resource"] == "cpu %" {
			out = append(out, Checked{"002: CPU with DWA85 is the same in both tables, " + r["platform"], r["a"],
				fmt.Sprint(b), agreesIf(b == r.Number("a"))})
		}
	}
	for _, r := range Rows("changes.csv") {
		if r["document"] != "002" || r["resource"] != "disk operations/s" {
			continue
		}
		reads, _ := find("002", r["platform"], r["from"], "disk reads/s")
		writes, _ := find("002", r["platform"], r["from"], "disk writes/s")
		out = append(out, Checked{"002 " + r["place"] + ": reads and writes add up to the operations", r["a"],
			fmt.Sprint(reads + writes), agreesIf(math.Abs(reads+writes-r.Number("a")) <= 1)})
	}
	body, appendix := Fact("ODS of 8.5 databases in table 1"), Fact("ODS of 8.5 databases in the appendix")
	out = append(out, Checked{"002 table 1 and appendix: on-disk structure of 8.5 databases", "the same",
		fmt.Sprintf("%g and %g", body, appendix), agreesIf(body == appendix)})
	first, second := Fact("AIX release in table 2"), Fact("AIX release in the captions of tables 3 and 4")
	out = append(out, Checked{"002 table 2 and captions: release of AIX", "the same",
		fmt.Sprintf("%g and %g", first, second), agreesIf(first == second)})
	a, b := find("003", "Windows", "N7Mail", "disk reads+writes/s")
	return append(out, Checked{"003 table 11: Windows reads and writes fall by more than half", "more than 50 %",
		fmt.Sprintf(
			"%.1f %%",
			-Change(a, b),
		), agreesIf(-Change(a, b) > Fact("Windows reads and writes reduced by more than"))})
}

func clusters() []Checked {
	var out []Checked
	for _, r := range Rows("roles.csv") {
		sum := r.Number("routing") + r.Number("initiating") + r.Number("receiving")
		both := r.Number("both")
		// Document 004: the sum is "approximately equal", for which 5 percent is taken, except of heavy users, whose
		// disk was saturated.
		additive := math.Abs(Change(both, sum)) < 5
		name := "004 scenario 1: configuration 4 is the sum of its parts, " + r["users"]
		if r["users"] == "heavy" {
			name, additive = "004 scenario 1: configuration 4 of heavy users is less than the sum of its "+
				"parts", sum > both
		}
		out = append(out, Checked{name, fmt.Sprintf("%g %%", both), fmt.Sprintf("%.1f %%", sum), agreesIf(additive)})
	}
	rises := true
	for _, r := range Rows("changes.csv") {
		rises = rises && !(r["document"] == "004" && r.Number("b") < r.Number("a"))
	}
	stat := Field("1")
	hard := math.Floor(stat["Database.DbCache.MaxEntries"] * Fact("hard limit of the database cache over its maximum"))
	minutes := stat["Replica.Cluster.SecondsOnQueue.Avg"] / 60
	return append(out,
		Checked{"004 scenario 2: CPU and disk rise with more Cluster Replicators", "they rise",
			"with two standby servers CPU falls, and so does the standby's disk use", agreesIf(rises)},
		Checked{"004 sidebar 4: the database cache stopped at its hard limit", "1084", fmt.Sprintf("%.0f", hard),
			agreesIf(hard == stat["Database.DbCache.HighWaterMark"])},
		Checked{"004 sidebar 4: almost 30 minutes on the queue", "30 minutes", fmt.Sprintf("%.0f minutes", minutes),
			judge("30", Fact("minutes on the queue"), minutes, minutes-5, minutes+5)},
		Checked{"004 workloads: reads in a loop of 15 minutes", "160 a day in 32 loops", fmt.Sprintf("%g",
			Fact("reads a day")/Fact("loops a day")), agreesIf(Fact("reads a day")/Fact("loops a day") == 5)})
}

// Field returns the statistics of a server in document 004's field case.
func Field(server string) map[string]float64 {
	out := map[string]float64{}
	for _, r := range Rows("field.csv") {
		if r["server"] == server {
			out[r["statistic"]] = r.Number("value")
		}
	}
	return out
}
