//go:build !unix

package program

// lockPort reserves nothing: test packages that run at the same time may choose the same port here.
func lockPort(int) (free bool, err error) { return true, nil }
