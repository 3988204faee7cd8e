// Package record reads and writes the run file of the benchmark: all measurements of one run, from which reports are
// made. The file is lines of JSON, each written whole and in the order of time. So a run that was interrupted is a
// shorter run, and any program can read it.
//
// Times within a run are offsets from its start. Latencies are histograms (HDR, microseconds, three digits) per action
// and interval, counted from the moment the user wanted the answer. Intervals add up without loss of percentiles, also
// across drivers.
package record

import (
	"slices"
	"time"
)

// Format is the version of the file that this package writes.
const Format = 1

// Header describes the run and its machines.
type Header struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Label   string    `json:"label,omitempty"`
	Started time.Time `json:"started"`
	// Build is the version of the driver.
	Build    string   `json:"build"`
	Workload Workload `json:"workload"`
	Seed     uint64   `json:"seed"`
	// Speed is the factor by which think times were shortened; 1 is the workload's own time. InitScale is the share of
	// the workload's mailbox that was filled.
	Speed     float64 `json:"speed"`
	InitScale float64 `json:"init_scale"`
	// Target is the server as named by the user: its label, and the address of each door.
	Target Target `json:"target"`
	Driver Host   `json:"driver"`
	Server *Host  `json:"server,omitempty"` // nil if it was not metered
	// Drivers are the machines of the agents, if there are any.
	Drivers []Host `json:"drivers,omitempty"`
	// Agents is the number of driver processes (1 without agents).
	Agents int `json:"agents"`
	// Settings are the settings of the driver by name that change what is measured, such as the window; runs with
	// others are not compared.
	Settings map[string]string `json:"settings,omitempty"`
	// Messages are the sizes of the messages that the workload fills mailboxes with and sends.
	Messages []MessageSize `json:"messages,omitempty"`
	// Marks describe the deviations that make the run incomparable with a regular one: "window of 60 s", "10 times the
	// speed".
	Marks []string `json:"marks,omitempty"`
}

// Workload identifies the workload.
type Workload struct {
	Name string `json:"name"`
	// Hash is the hash of its text. Runs with different hashes have different workloads.
	Hash string `json:"hash"`
	// Protocol is the protocol of the run, Own the one that the workload was written for.
	Protocol string `json:"protocol"`
	Own      string `json:"own"`
	// Left are the actions that the protocol cannot carry.
	Left []string `json:"left,omitempty"`
	// Loop is the length of a loop at speed 1. Actions is the number of each action per user and hour at speed 1.
	Loop Duration `json:"loop"`
	// Limit is the average response above which a step is discarded.
	Limit Duration `json:"limit,omitempty"`
	// Unknown names the facts that the sources of the workload do not have. Its runs are not compared with others.
	Unknown string             `json:"unknown,omitempty"`
	Actions map[string]float64 `json:"actions_per_hour,omitempty"`
}

// MessageSize is one size of a profile of the workload. Sizes are in bytes.
type MessageSize struct {
	Profile string  `json:"profile"`
	Percent float64 `json:"percent"`
	// Body and Attachment are what the workload names: the text, and the file before its encoding.
	Body       int64 `json:"body"`
	Attachment int64 `json:"attachment,omitempty"`
	// Whole is the size of a message as it travels. Compressed is the share of it that DEFLATE leaves.
	Whole      int64   `json:"whole"`
	Compressed float64 `json:"compressed"`
}

// Shared reports whether a driver runs on the server's machine, so that both use the same processors.
func (h *Header) Shared() bool {
	if h.Server == nil {
		return false
	}
	return h.Server.Name == h.Driver.Name && len(h.Drivers) == 0 ||
		slices.ContainsFunc(h.Drivers, func(d Host) bool { return d.Name == h.Server.Name })
}

// Target is the server under test.
type Target struct {
	Name  string            `json:"name"`
	Doors map[string]string `json:"doors"`
	// Partitions is the number of servers on its machine that share no data, 0 for one server or a cluster.
	Partitions int `json:"partitions,omitempty"`
	// Guests is the number of its servers that have a control group each, which stands in for a guest (a virtual
	// machine), 0 for none. Quota is the number of processors that each of the groups gives.
	Guests int     `json:"guests,omitempty"`
	Quota  float64 `json:"quota,omitempty"`
	// StartTLS means that the sessions at plain doors started TLS.
	StartTLS bool `json:"start_tls,omitempty"`
}

// Host holds the facts of a machine.
type Host struct {
	Name   string `json:"name"`
	OS     string `json:"os"`
	Kernel string `json:"kernel,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	CPUs   int    `json:"cpus"`
	// Allowed is the number of processors that the measured server may use (its affinity), 0 for all of the machine's.
	Allowed int    `json:"allowed,omitempty"`
	Memory  uint64 `json:"memory"` // bytes
	// Disk is the device and file system of the server's data.
	Disk string `json:"disk,omitempty"`
}

// Processors returns the number of processors that the measured server may use, 0 if it is unknown.
func (h *Host) Processors() int {
	if h.Allowed > 0 {
		return h.Allowed
	}
	return h.CPUs
}

// Outcome is the outcome of a step.
type Outcome string

// The outcomes. Only a Measured step is compared.
const (
	Measured Outcome = "measured"
	// Discarded: the average response time exceeded the workload's limit (document 001: 1 s), or no action succeeded.
	Discarded Outcome = "discarded"
	// Unsteady: rate or median had not settled when the measurement began.
	Unsteady Outcome = "unsteady"
	// DriverBound: the driver was the bottleneck.
	DriverBound Outcome = "driver-bound"
	// Interrupted: the measurement did not reach its end.
	Interrupted Outcome = "interrupted"
)

// Step is the part of a run with one number of users. It is written at its end.
type Step struct {
	Index int `json:"index"`
	// Users is the number of active users, Registered the number of mailboxes.
	Users      int `json:"users"`
	Registered int `json:"registered"`
	// Begin is the time of the first sign-in, Steady the time at which the load had settled. From and To bound the
	// measured part.
	Begin   Duration `json:"begin"`
	Steady  Duration `json:"steady"`
	From    Duration `json:"from"`
	To      Duration `json:"to"`
	Outcome Outcome  `json:"outcome"`
	Reason  string   `json:"reason,omitempty"`
}

// Sync is the action of a program that keeps up with the server by itself, as a client in the browser does when the
// server pushes. Its bytes and errors count with those of all actions. Its latencies do not, and it is not a user
// action.
const Sync = "sync"

// Phase is a phase of a step.
type Phase string

// The phases.
const (
	Ramp    Phase = "ramp"    // users sign in
	Settle  Phase = "settle"  // until the load is steady
	Measure Phase = "measure" // the measured part
)

// Interval sums up one action over a period of time.
type Interval struct {
	Step   int      `json:"step"`
	Phase  Phase    `json:"phase"`
	From   Duration `json:"from"`
	To     Duration `json:"to"`
	Action string   `json:"action"`
	// Latency counts from the intended time to the last byte of the answer, Service from the beginning of the action.
	// They differ by the delay that the driver or an earlier action of the user caused.
	Latency Histogram `json:"latency"`
	Service Histogram `json:"service"`
	// Errors counts failures by the server's reply, shortened. Failures are in no histogram.
	Errors map[string]uint64 `json:"errors,omitempty"`
	// Missed counts the actions that could not begin before the user's next loop, or that found the user not signed
	// in.
	Missed uint64 `json:"missed,omitempty"`
	// Pending counts the actions without an answer at the end of the measurement. They are in Latency, with the time
	// from the intended one to the end: each took at least so long.
	Pending uint64 `json:"pending,omitempty"`
	// Nothing counts the actions for which there was nothing to do, such as to read a message in an empty folder.
	Nothing  uint64 `json:"nothing,omitempty"`
	Sent     uint64 `json:"sent,omitempty"`     // bytes
	Received uint64 `json:"received,omitempty"` // bytes
}

// Statistics is the host of samples that hold the servers' own statistics.
const Statistics = "statistics"

// Sample holds measurements of a machine at one moment. The names of values, with their units, are those of
// bench/meter.
type Sample struct {
	At     Duration           `json:"at"`
	Host   string             `json:"host"`            // "server", "driver", "statistics" or "probe"
	Group  string             `json:"group,omitempty"` // group of processes, or device; empty for the machine
	Values map[string]float64 `json:"values"`
}

// Event is a remark for the reader of the report.
type Event struct {
	At   Duration `json:"at"`
	Step int      `json:"step"`
	Text string   `json:"text"`
	// Mark is a short name for the time axes of figures, "" for none.
	Mark string `json:"mark,omitempty"`
}

// Verdict is the result of a comparison of the ledger with the mail of a server, at the end of a step with a ledger.
type Verdict struct {
	Step   int    `json:"step,omitempty"`
	Server string `json:"server"`
	// Acknowledged is the number of expectations: messages, and that they were filed, flagged, deleted.
	Acknowledged int `json:"acknowledged"`
	// Invitations and Answers count those among the acknowledged messages, once for each recipient.
	Invitations int `json:"invitations,omitempty"`
	Answers     int `json:"answers,omitempty"`
	Lost        int `json:"lost"`
	Doubled     int `json:"doubled"`
	Resurrected int `json:"resurrected"`
	// Named describes the first discrepancies.
	Named []string `json:"named,omitempty"`
}

// Of returns the verdict with the number of its step.
func (v Verdict) Of(s Step) Verdict {
	v.Step = s.Index
	return v
}

// End is the last line of a run that ended cleanly.
type End struct {
	At     Duration `json:"at"`
	Reason string   `json:"reason"` // "done", "interrupted", or an error
}

// Duration is a time within a run; the file holds it as seconds with a fraction.
type Duration time.Duration

// Seconds returns the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }
