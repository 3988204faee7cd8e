package mime

import "testing"

func TestShownName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Ada Lovelace": "Ada Lovelace", "": "", "\u202emoc.knab@ecivres\u202c": "moc.knab@ecivres",
		"A\u200bd\u2060a\ufeff":    "Ada",
		"\u2066\u200e\u200b\u3164": "", " a\r\nb\x00\x1b[1m ": "a  b[1m", "نام\u200cها": "نام\u200cها",
		"👩\u200d🔬": "👩\u200d🔬", "\U000e0041x": "x",
	} {
		if got := ShownName(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
