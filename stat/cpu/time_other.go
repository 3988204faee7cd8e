//go:build !unix

package cpu

import "time"

// ProcessTime is not known on this platform: no time is divided.
func ProcessTime() time.Duration { return 0 }
