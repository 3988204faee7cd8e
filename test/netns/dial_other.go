//go:build !linux

package netns

import (
	"errors"
	"net"
	"testing"
	"time"
)

// Dial connects on the host; there are none on this system.
func (h *Host) Dial(string, string, time.Duration) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

func lock(testing.TB, string) {}
