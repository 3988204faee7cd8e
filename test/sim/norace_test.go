//go:build !race

package sim

const (
	// seeds is how many of them TestSim runs where nobody says otherwise.
	seeds        = 40
	monthSeeds   = 4
	browserSeeds = 6  // of each scenario of browsers
	troubleSeeds = 12 // of TestBrowserTrouble
)
