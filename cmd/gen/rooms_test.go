package main

import (
	"strings"
	"testing"
)

func TestRooms(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "mail/b.go", "// Package mail carries letters | and parcels. It is old.\npackage mail\n")
	put(t, root, "mail/a.go", "package mail\n")
	put(t, root, "mail/testdata/x.go", "package x\n")
	put(t, root, "web/node_modules/y.go", "package y\n")
	put(t, root, "test/x_test.go", "// Package test asks.\npackage test\n")
	list, err := rooms(root)
	if err != nil {
		t.Fatal(err)
	}
	got := roomTable(list)
	for _, want := range []string{"| `mail` | carries letters \\| and parcels |\n", "| `test` | asks |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if len(list) != 2 {
		t.Errorf("rooms: %v", list)
	}
	put(t, root, "mute/a.go", "package mute\n")
	if _, err := rooms(root); err == nil || !strings.Contains(err.Error(), "mute") {
		t.Errorf("a package that says nothing: %v", err)
	}
}
