package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
)

// TestDoorsListedWhileOpening lists the doors, as the administration does, while others are being opened. Each list
// holds the doors opened before it, in order.
func TestDoorsListedWhileOpening(t *testing.T) {
	t.Parallel()
	h := &server{open: make(chan struct{})}
	const doors = 100
	var all sync.WaitGroup
	all.Go(func() {
		for i := range doors {
			h.doors.opened(fmt.Sprintf("door%03d", i), &net.TCPAddr{Port: 1000 + i}, false, false)
		}
	})
	all.Go(func() {
		for range doors {
			list := h.doors.all()
			names := make([]string, len(list))
			for i, d := range list {
				names[i] = d.Name
			}
			if !slices.IsSorted(names) {
				t.Errorf("%q", names)
			}
		}
	})
	all.Wait()
	if got := h.doors.address("door042"); got != ":1042" || len(h.doors.all()) != doors {
		t.Errorf("%q, %d doors", got, len(h.doors.all()))
	}
	if got := h.doors.address("none"); got != "" {
		t.Errorf("a closed door is at %q", got)
	}
	h.doors.all()[0].Name = "other"
	if h.doors.all()[0].Name != "door000" {
		t.Error("a caller changed the list")
	}
	if err := h.health(t.Context()); !errors.Is(err, errOpening) {
		t.Errorf("before the doors are open: %v", err)
	}
}
