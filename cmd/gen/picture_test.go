package main

import (
	"strings"
	"testing"
)

// TestPicture checks that a line stands for each import that does not follow from others, tests left out.
func TestPicture(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "note/n.go", "package note\n")
	put(t, root, "store/index/i.go", "package index\nimport _ \"doublet/note\"\n")
	put(t, root, "mail/m.go", "package mail\nimport (\n\t_ \"doublet/note\"\n"+
		"\t_ \"doublet/store/index\"\n\t_ \"fmt\"\n)\n")
	put(t, root, "note/n_test.go", "package note\nimport _ \"doublet/mail\"\n")
	put(t, root, "test/t.go", "package test\nimport _ \"doublet/mail\"\n")
	g, err := imports(root, "doublet")
	if err != nil {
		t.Fatal(err)
	}
	at, _, _ := g.layout()
	if len(at) != 3 || at["mail"].y >= at["store"].y || at["store"].y >= at["note"].y {
		t.Errorf("%v", at)
	}
	if text := string(g.picture()); strings.Count(text, "<path") != 2 || strings.Count(text, "<text") != 3 {
		t.Error(text)
	}
}
