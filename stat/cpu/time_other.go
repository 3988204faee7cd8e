//go:build !unix

package cpu

import "time"

// processTime is not known on this platform: no time is divided.
func processTime() time.Duration { return 0 }
