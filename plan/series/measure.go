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

// errSparse means that the rows of a source lie so far apart that most of the memory would hold missing values.
var errSparse = errors.New("rows lie too far apart for so few values: is a time wrong, or are there too many columns?")

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

// dimension is the kind of quantity of a unit. Values convert within a dimension only.
type dimension string

const (
	anything dimension = ""
	duration dimension = "a time"
	size     dimension = "a number of bytes"
	number   dimension = "a number"
	share    dimension = "a share"
)

// unit is a factor to the base unit of a dimension: seconds, bytes, the value itself.
type unit struct {
	factor float64
	of     dimension
}

var units = map[string]unit{
	"": {1, anything}, "s": {1, duration}, "ms": {1e-3, duration}, "min": {60, duration}, "h": {3600, duration},
	"k": {1e3, number}, "K": {1e3, number}, "M": {1e6, number}, "B": {1, size}, "KB": {1e3, size}, "MB": {1e6, size},
	"GB": {1e9, size}, "KiB": {1024, size}, "MiB": {1 << 20, size}, "%": {1, share},
}

// dimensionOf returns the dimension of a measure, anything for one that the analyses do not read.
func dimensionOf(measure string) dimension {
	switch _, ok := known[measure]; {
	case !ok:
		return anything
	case measure == "cpu":
		return duration
	case measure == "net_bytes":
		return size
	case measure == "cache_pct":
		return share
	}
	return number
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
	return s, s.measuredIn(head, base)
}

// measuredIn sets the scale of a column by its unit, which must be one of its measure.
func (s *spec) measuredIn(head, base string) error {
	u, ok := units[s.unit]
	want := dimensionOf(base)
	rate := base == "cpu" && (s.unit == "%" || s.unit == "cores") // of one processor
	switch {
	case rate && s.counter:
		return fmt.Errorf("head %q: a share of processors is no counter: leave _total out, or give seconds", head)
	case rate:
		s.perSec, s.scale = 1, 1
		if s.unit == "%" {
			s.scale = 0.01
		}
	case !ok:
		return fmt.Errorf("head %q: unknown unit %q (s, ms, min, %%, cores, KB, MB …)", head, s.unit)
	case u.of != anything && want != anything && u.of != want:
		return fmt.Errorf("head %q: %s is %s, and %s is a unit of %s", head, base, want, s.unit,
			strings.TrimPrefix(string(u.of), "a "))
	default:
		s.scale = u.factor
	}
	return nil
}
