package main

import (
	"net"
	"slices"
	"sync"

	"doublet/admin"
)

// doorList lists the open doors. The administration lists them while others are still being opened. It is safe for
// concurrent use, and its zero value is empty.
type doorList struct {
	mu   sync.Mutex
	list []admin.Door
}

// opened adds a door that listens at an address.
func (l *doorList) opened(name string, at net.Addr, startTLS, implicit bool) {
	d := admin.Door{Name: name, Address: at.String()}
	switch {
	case implicit:
		d.TLS = "TLS"
	case startTLS:
		d.TLS = "STARTTLS"
	}
	l.add(d)
}

func (l *doorList) add(d admin.Door) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, d)
}

// all returns a copy of the list, in the order in which the doors were opened.
func (l *doorList) all() []admin.Door {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// address returns the address of an open door, "" if it is closed.
func (l *doorList) address(name string) string {
	for _, d := range l.all() {
		if d.Name == name {
			return d.Address
		}
	}
	return ""
}
