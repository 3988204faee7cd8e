package meter

import (
	"strconv"
	"strings"
)

// Bounds are the limits of this process; 0 if unknown.
type Bounds struct {
	// Files is the limit of open files, Ports the number of local ports for connections to one address.
	Files, Ports int
}

// Limits returns the limits of this process; ok is false without /proc.
func Limits() (b Bounds, ok bool) { return (&Meter{root: "/"}).limits() }

func (m *Meter) limits() (b Bounds, ok bool) {
	text, err := m.read("proc/self/limits")
	if err != nil {
		return b, false
	}
	for l := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(l, "Max open files"); found {
			if f := strings.Fields(rest); len(f) > 0 {
				b.Files, _ = strconv.Atoi(f[0]) // "unlimited" yields 0
			}
		}
	}
	text, _ = m.read("proc/sys/net/ipv4/ip_local_port_range")
	if f := strings.Fields(string(text)); len(f) == 2 {
		lo, err1 := strconv.Atoi(f[0])
		hi, err2 := strconv.Atoi(f[1])
		if err1 == nil && err2 == nil && hi >= lo {
			b.Ports = hi - lo + 1
		}
	}
	return b, true
}
