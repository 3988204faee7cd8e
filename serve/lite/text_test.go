package lite

import "testing"

// TestFitWords checks that a cut text ends at a word, even if the cut takes away exactly as many bytes as the ellipsis
// has, and that a text that fits stays as it is.
func TestFitWords(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		text string
		most int
		want string
	}{
		{"alpha beta gamma", 16, "alpha beta gamma"},
		{"alpha beta gamma", 14, "alpha beta…"},
		{"alpha beta gamma", 13, "alpha beta…"}, // it loses three bytes
		{"alphabetagamma", 11, "alphabetagam"[:11] + "…"},
		{"alpha beta end…", 15, "alpha beta end…"},
		{"alpha beta \xff…", 13, "alpha beta \ufffd…"}, // it fits, though mending it made it longer
	} {
		if got := fitWords(x.text, x.most, 1000); got != x.want {
			t.Errorf("%q at %d: %q, want %q", x.text, x.most, got, x.want)
		}
	}
}
