package main

import (
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
