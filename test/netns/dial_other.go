//go:build !linux

package netns

import (
	"errors"
	"net"
	"testing"
	"time"
)

// Dial returns an error, because this system has no hosts.
func (h *Host) Dial(string, string, time.Duration) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

func lock(testing.TB, string, bool) {}
