//go:build !race

package sim

// seeds is how many of them TestSim runs where nobody says otherwise.
const seeds = 40
