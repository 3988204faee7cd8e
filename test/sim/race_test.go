//go:build race

package sim

// A seed is one thread: the race detector finds little in it, and makes it ten times as slow.
const (
	seeds        = 4
	monthSeeds   = 1
	browserSeeds = 2
	troubleSeeds = 2
)
