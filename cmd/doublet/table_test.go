package main

import (
	"strings"
	"testing"

	"doublet/admin"
)

// TestShowEmbedded: what a result embeds is shown line by line, as its own.
func TestShowEmbedded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := show(&b, admin.RestoredDatabase{Database: admin.Database{Title: "Ada", Kind: "mail"}, Generation: 7}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"title:", "Ada", "generation:", "7"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in\n%s", line, b.String())
		}
	}
	if strings.ContainsAny(b.String(), "{}") {
		t.Errorf("a struct is printed as Go has it:\n%s", b.String())
	}
}
