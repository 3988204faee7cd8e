package series

import (
	"errors"
	"fmt"
	"strings"
)

// errSpan means that a time stamp would make the series longer than 20 years.
var errSpan = errors.New(
	"time is more than 20 years from the others: is a column swapped, or the time in milliseconds?",
)

// kind is the way in which values of a shorter or longer sampling become one value of an interval.
type kind int

const (
	gauge  kind = iota // a level: the mean of the samples
	amount             // what happened in the interval: the sum
)

// known are the measures that the analyses read. Others are kept as levels.
var known = map[string]kind{
	"users": gauge, "registered": gauge, "cache_pct": gauge,
	"cpu": amount, "transactions": amount, "messages": amount, "messages_routed": amount, "messages_delivered": amount,
	"replications": amount, "lock_waits": amount, "logins": amount, "disk_reads": amount, "disk_writes": amount,
	"net_bytes": amount,
}

// Measures returns the names that the analyses read, with what they mean.
func Measures() [][2]string {
	return [][2]string{
		{"users", "users active in the interval of 15 minutes (Server.Users.Active15Min); not the connected ones"},
		{"registered", "registered users"},
		{"cpu", "processor seconds of all tasks; cpu:TASK those of a task, as cpu:Router"},
		{"transactions", "transactions; transactions:CLIENT those of a client version"},
		{"messages", "messages routed and delivered"},
		{"replications", "database replications"},
		{"lock_waits", "waits for locks (semaphores); lock_waits:NAME those of a lock"},
		{"cache_pct", "database cache in use, percent of its entries"},
		{"logins", "sign-ins"},
		{"disk_reads, disk_writes, net_bytes", "disk operations, bytes of the network"},
	}
}

// units are the factors to the base unit: processor seconds, or the value itself.
var units = map[string]float64{
	"": 1, "s": 1, "ms": 1e-3, "min": 60, "h": 3600, "k": 1e3, "K": 1e3, "M": 1e6, "KB": 1e3, "MB": 1e6, "GB": 1e9,
	"KiB": 1024,
	"MiB": 1 << 20, "B": 1,
}

// spec describes a column of a source.
type spec struct {
	name    string
	kind    kind
	counter bool    // a running count; the value of an interval is its increase
	perSec  float64 // if above 0, a rate: the amount is the value times the seconds times this
	scale   float64
	unit    string // the unit named in the head
}

// parseSpec reads the head of a column: NAME[:TASK] [UNIT], where NAME may end in _total (a counter), _per_s or
// _per_min (rates). Units stand in brackets: cpu:Router[ms].
func parseSpec(head string) (spec, error) {
	text := strings.TrimSpace(head)
	unit := ""
	if at := strings.IndexByte(text, '['); at >= 0 {
		if !strings.HasSuffix(text, "]") {
			return spec{}, fmt.Errorf("head %q: the unit must end with ]", head)
		}
		unit, text = strings.TrimSpace(text[at+1:len(text)-1]), strings.TrimSpace(text[:at])
	}
	base, task, hasTask := strings.Cut(text, ":")
	s := spec{scale: 1, unit: unit}
	base = strings.ToLower(base)
	switch {
	case strings.HasSuffix(base, "_total"):
		base, s.counter = strings.TrimSuffix(base, "_total"), true
	case strings.HasSuffix(base, "_per_s"):
		base, s.perSec = strings.TrimSuffix(base, "_per_s"), 1
	case strings.HasSuffix(base, "_per_min"):
		base, s.perSec = strings.TrimSuffix(base, "_per_min"), 1.0/60
	}
	if base == "" {
		return spec{}, errors.New("column without a name")
	}
	s.name, s.kind = base, known[base]
	if hasTask {
		s.name += ":" + task
	}
	if s.counter || s.perSec > 0 {
		s.kind = amount
	}
	factor, ok := units[unit]
	switch {
	case ok:
		s.scale = factor
	case base == "cpu" && unit == "%": // of one processor
		s.perSec, s.scale = 1, 0.01
	case base == "cpu" && unit == "cores":
		s.perSec = 1
	case unit == "%":
	default:
		return spec{}, fmt.Errorf("head %q: unknown unit %q (s, ms, min, %%, cores, KB, MB …)", head, unit)
	}
	return s, nil
}
