package main

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"doublet/cmd/doublet/config"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// beside is the memory of the process that Go does not count, mostly the pages of the program itself.
const beside = 32 << 20

// memoryBound returns the memory that the process may use, 0 for no bound, and whether the runtime's limit follows from
// it. If GOMEMLIMIT is set and server.memory is not, that is the bound and the runtime has it already.
func memoryBound(cfg *config.Config) (bound config.Size, set bool) {
	if cfg.Server.Memory > 0 {
		return cfg.Server.Memory, true
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return config.Size(limit), false
	}
	return config.Size(shareOfMachine(memlimit.FromCgroup, memlimit.FromSystem)), true
}

// shareOfMachine returns half of the machine's memory, or 80 % of what the control group allows if that is less: a
// control group with a limit was made for this process. It returns 0 if neither is known.
func shareOfMachine(group, system memlimit.Provider) int64 {
	out := int64(0)
	if n, err := system(); err == nil && n < math.MaxInt64 {
		out = int64(n / 2)
	}
	if n, err := group(); err == nil && n < math.MaxInt64 {
		if allowed := int64(n / 5 * 4); out == 0 || allowed < out {
			out = allowed
		}
	}
	if out == 0 {
		return 0
	}
	return max(out, int64(config.MinMemory))
}

// boundMemory sets the runtime's limit, and returns the configuration that fits into the bound.
func boundMemory(cfg config.Config) config.Config {
	bound, set := memoryBound(&cfg)
	if set && bound > 0 {
		debug.SetMemoryLimit(int64(bound) - beside)
	}
	return cfg.Within(bound)
}

// returnFrom is the memory in bytes that is too little to be returned.
const returnFrom = 32 << 20

// returner returns memory to the machine when the server is quiet. After load, Go keeps room for as much garbage as
// there was at the last collection, and a quiet server hardly collects.
type returner struct {
	cycles uint64 // collections up to the run before
	left   uint64 // the memory that was left when some was returned last
}

// Run is one run of the task. The server is quiet if the collector ran at most once since the run before: Run then
// collects and returns what is free, unless little was taken since the last time.
func (r *returner) Run(context.Context) error {
	quiet := readMetric(collections)-r.cycles <= 1
	if quiet && unreturned() > r.left+r.left/4+returnFrom {
		debug.FreeOSMemory()
		r.left = unreturned()
	}
	r.cycles = readMetric(collections)
	return nil
}

const collections = "/gc/cycles/total:gc-cycles"

// unreturned is the memory in bytes that Go has from the machine.
func unreturned() uint64 {
	return readMetric("/memory/classes/total:bytes") - readMetric("/memory/classes/heap/released:bytes")
}

func readMetric(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
