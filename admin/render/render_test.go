package render_test

import (
	"strings"
	"testing"

	"doublet/admin"
	"doublet/admin/render"
)

// TestShowEmbedded checks that the fields of an embedded struct are shown like the struct's own.
func TestShowEmbedded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := render.Text(&b, admin.RestoredDatabase{Database: admin.Database{Title: "Ada", Kind: "mail"},
		Generation: 7}); err != nil {
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

// TestShowStrangers checks that text from strangers neither moves the cursor nor changes the direction of a line.
func TestShowStrangers(t *testing.T) {
	t.Parallel()
	rows := []struct {
		Name string `json:"name"`
	}{{"\x1b]0;owned\x07Ann\r\u009b2J"}, {"\u202egpj.exe\u2066"}, {"Größe 台北 \xff"}}
	var b strings.Builder
	if err := render.Text(&b, &rows); err != nil {
		t.Fatal(err)
	}
	want := "NAME\n\\u{1b}]0;owned\\u{7}Ann\\u{d}\\u{9b}2J\n\\u{202e}gpj.exe\\u{2066}\nGröße 台北 \\xff\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
	b.Reset()
	if err := render.Text(&b, &plain{"one\r\ntwo\tthree\n"}); err != nil || b.String() != "one\r\ntwo\tthree\n" {
		t.Errorf("%q %v", b.String(), err)
	}
}

// plain is a result with a text of its own.
type plain struct{ text string }

func (p plain) Text() string { return p.text }

// TestUnexported checks that fields that are not exported are not shown.
func TestUnexported(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := render.Text(&b, &struct {
		Name, Kind string
		hidden     string
	}{"one", "two", "three"})
	if got := b.String(); err != nil || strings.Contains(got, "three") || !strings.Contains(got, "one") {
		t.Error(got, err)
	}
}
