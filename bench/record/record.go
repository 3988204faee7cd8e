// Package record is the run file of the benchmark: everything that one run measured, and all that a
// report is made from. It is lines of JSON, each written whole and in the order of time, so that a run
// that was cut short is a shorter run, and any program can read it.
//
// Times within a run are offsets from its start. Latencies are histograms (HDR, microseconds, three
// digits) per action and interval, from the moment the user wanted the answer; intervals add up
// without losing percentiles, those of several drivers too.
package record

import (
	"time"
)

// Format is the version of the file that this package writes.
const Format = 1

// Header says what was run, and where.
type Header struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Label   string    `json:"label,omitempty"`
	Started time.Time `json:"started"`
	// Build is the version of the driver.
	Build    string   `json:"build"`
	Workload Workload `json:"workload"`
	Seed     uint64   `json:"seed"`
	// Speed is by how much think times were shortened; 1 is the workload's own time. InitScale is the
	// share of the workload's mailbox that was filled.
	Speed     float64 `json:"speed"`
	InitScale float64 `json:"init_scale"`
	// Target is the server as it was named: its label, and the address of each door.
	Target Target `json:"target"`
	Driver Host   `json:"driver"`
	Server *Host  `json:"server,omitempty"` // nil where nothing metered it
	// Drivers are the machines of the agents, where there are any.
	Drivers []Host `json:"drivers,omitempty"`
	// Agents is how many driver processes took part (1 without agents).
	Agents int `json:"agents"`
	// Marks say in words what keeps the run from being compared with one by the book: "window of 60 s",
	// "10 times the speed".
	Marks []string `json:"marks,omitempty"`
}

// Workload names the workload.
type Workload struct {
	Name string `json:"name"`
	// Hash is that of its text: runs of different hashes are not of the same workload.
	Hash string `json:"hash"`
	// Protocol is the one that carried it, Own the one that it was written for.
	Protocol string `json:"protocol"`
	Own      string `json:"own"`
	// Left are the steps that the protocol cannot carry.
	Left []string `json:"left,omitempty"`
	// Loop is its length at speed 1, Actions how many a user does in an hour at speed 1, by action.
	Loop    Duration           `json:"loop"`
	Actions map[string]float64 `json:"actions_per_hour,omitempty"`
}

// Target is the server under test.
type Target struct {
	Name  string            `json:"name"`
	Doors map[string]string `json:"doors"`
}

// Host are the facts of a machine.
type Host struct {
	Name   string `json:"name"`
	OS     string `json:"os"`
	Kernel string `json:"kernel,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	CPUs   int    `json:"cpus"`
	Memory uint64 `json:"memory"` // bytes
	// Disk is the device and file system under the server's data.
	Disk string `json:"disk,omitempty"`
}

// Outcome is what became of a step.
type Outcome string

// The outcomes. Only a step that is Measured counts and is compared.
const (
	Measured Outcome = "measured"
	// Discarded: the average response was over the workload's limit (document 001: 1 s).
	Discarded Outcome = "discarded"
	// Unsteady: rate or median had not settled when the measuring began.
	Unsteady Outcome = "unsteady"
	// DriverBound: the driver was the bottleneck.
	DriverBound Outcome = "driver-bound"
	// Interrupted: it was not measured to its end.
	Interrupted Outcome = "interrupted"
)

// Step is one number of users, written when it is over.
type Step struct {
	Index int `json:"index"`
	// Users are active, Registered is how many mailboxes there are.
	Users      int `json:"users"`
	Registered int `json:"registered"`
	// Begin is when the first signed in, Steady when the load had settled, From and To bound what was
	// measured.
	Begin   Duration `json:"begin"`
	Steady  Duration `json:"steady"`
	From    Duration `json:"from"`
	To      Duration `json:"to"`
	Outcome Outcome  `json:"outcome"`
	Reason  string   `json:"reason,omitempty"`
}

// Sync is the action that no user does: what a program does by itself to keep up with the server, as a client in the browser does
// when the server pushes. Its bytes and errors count with those of all actions; its latencies do not, nor is it a user action.
const Sync = "sync"

// Phase says what a step was doing.
type Phase string

// The phases.
const (
	Ramp    Phase = "ramp"    // people sign in
	Settle  Phase = "settle"  // until it is steady
	Measure Phase = "measure" // what counts
)

// Interval is what happened to one action in a stretch of time.
type Interval struct {
	Step   int      `json:"step"`
	Phase  Phase    `json:"phase"`
	From   Duration `json:"from"`
	To     Duration `json:"to"`
	Action string   `json:"action"`
	// Latency is from the intended time to the last byte of the answer, Service from the time at which
	// the action began; they differ by what the driver or an earlier action of the user delayed.
	Latency Histogram `json:"latency"`
	Service Histogram `json:"service"`
	// Errors counts failures by what the server said, shortened; they are in no histogram.
	Errors map[string]uint64 `json:"errors,omitempty"`
	// Missed are those that could not begin before the user's next loop.
	Missed   uint64 `json:"missed,omitempty"`
	Sent     uint64 `json:"sent,omitempty"`     // bytes
	Received uint64 `json:"received,omitempty"` // bytes
}

// Sample is what a machine was doing at one moment. The names of values, with their units, are those
// of bench/meter.
type Sample struct {
	At     Duration           `json:"at"`
	Host   string             `json:"host"`            // "server" or "driver"
	Group  string             `json:"group,omitempty"` // of processes, or a device; empty for the whole machine
	Values map[string]float64 `json:"values"`
}

// Event is something that a reader of the report should know.
type Event struct {
	At   Duration `json:"at"`
	Step int      `json:"step"`
	Text string   `json:"text"`
}

// Verdict is what comparing what was acknowledged with what a server has came to, at the end of a run in which
// somebody kept a ledger.
type Verdict struct {
	Server string `json:"server"`
	// Acknowledged is how many things were looked for: messages, and that they were filed, flagged, deleted.
	Acknowledged int `json:"acknowledged"`
	Lost         int `json:"lost"`
	Doubled      int `json:"doubled"`
	Resurrected  int `json:"resurrected"`
	// Named are the first of them, in words.
	Named []string `json:"named,omitempty"`
}

// End is the last line of a run that ended in order.
type End struct {
	At     Duration `json:"at"`
	Reason string   `json:"reason"` // "done", "interrupted", or what failed
}

// Duration is a time within a run; in the file it is seconds with a fraction.
type Duration time.Duration

// Seconds is the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }
