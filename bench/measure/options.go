// Package measure lets simulated people work at a site, in steps, and writes what it measures into a run file.
package measure

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"doublet/bench"
)

// Options are the settings of a job.
type Options struct {
	// Target is the name of the measured server and Label a word, both for reports; Build is the version of this
	// program.
	Target, Label, Build string
	// Partitions is the number of servers of the site that share its machine and no data, 0 if there are not several.
	Partitions int
	// Guests is the number of servers of the site that run in a control group of their own, which stands in for a
	// guest, 0 for none. Quota is the number of processors that each group gives.
	Guests int
	Quota  float64
	// StartTLS starts TLS at doors that are plain; Insecure accepts any certificate. Timeout is the time after which an
	// answer counts as failed.
	StartTLS, Insecure bool
	Timeout            time.Duration
	// Registered is the number of people; those who are not active only receive mail. 0 means the largest step.
	Registered int
	Seed       uint64
	// InitScale is the share of the workload's mailbox that is filled, 1 for all of it. Workers mailboxes are filled at
	// one time, over the protocol FillOver.
	InitScale float64
	Workers   int
	FillOver  string

	// The other fields are for runs.

	// Speed shortens all times; LoginRate is the number of people who sign in each minute.
	Speed, LoginRate float64
	// Window is the time for which a step is measured. Interval is the length of an interval of the record, 0 for a
	// twelfth of the window (1 s to 10 s). Settle is the time that a step may take to become steady, 0 for four loops.
	Window, Interval, Settle time.Duration
	// Over is the protocol, "" for the workload's own.
	Over string
	// Set are changes of the workload's parameters, NAME=NUMBER.
	Set []string
	// MaxFailed is the share of the actions that may fail or be missed; a step with more is discarded.
	MaxFailed float64
	// Repeat is the number of times that each step is run, in random order; 0 means once.
	Repeat int
	// Keep leaves the mailboxes as the step before has left them. Cold makes every browser load all files of a client.
	Keep, Cold bool
	// Agents are addresses of agents that drive shares of the people, who know Secret.
	Agents []string
	Secret string
	// Live is the address of a page with the current figures, "" for none.
	Live string
	// FailIf are thresholds.
	FailIf []string
	// Out is the folder for the run file.
	Out string
}

// order returns the steps with each of them Repeat times. With repeats they are in a random order that depends on Seed,
// so that drift of a machine does not look like a difference between steps.
func (o *Options) order(steps []int) []int {
	if o.Repeat <= 1 {
		return steps
	}
	var out []int
	for range o.Repeat {
		out = append(out, steps...)
	}
	r := rand.New(rand.NewPCG(o.Seed, uint64(len(out))))
	r.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}

// ParseSteps parses the numbers of users of a run: "400", or "200..1000" with a step.
func ParseSteps(users string, step int) ([]int, error) {
	lo, hi, ranged := strings.Cut(users, "..")
	if !ranged {
		hi = lo
	}
	from, err1 := strconv.Atoi(lo)
	to, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil || from < 1 || to < from || to > 1_000_000 {
		return nil, bench.Usage("--users %s: give a number of people, or a range such as 200..1000", users)
	}
	if from == to {
		return []int{from}, nil
	}
	if step < 1 {
		return nil, bench.Usage("range of users needs --step")
	}
	var out []int
	for n := from; n <= to; n += step {
		out = append(out, n)
	}
	return out, nil
}
