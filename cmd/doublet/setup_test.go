package main

import "testing"

func TestLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "localhost:5": true, ":5": false,
		"0.0.0.0:5": false, "10.1.2.3:5": false, "x": false} {
		if loopbackName(address) != want {
			t.Errorf("%s", address)
		}
	}
}
