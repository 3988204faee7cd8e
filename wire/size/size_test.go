package size

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "50MB": 50 << 20, "50 mb": 50 << 20, "1.5GB": 3 << 29, "64KiB": 64 << 10,
		"2T": 2 << 40, "8B": 8, " 10 B ": 10, ".5k": 512, "1.": 1, "9007199254740993": 9007199254740993,
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v", text, got, err)
		}
		if back, err := Parse(Exact(got)); err != nil || back != got {
			t.Errorf("%q prints as %q", text, Exact(got))
		}
	}
	for _, text := range []string{"", "MB", "-1", "-1MB", "1e9", "1XB", "1IB", "1I", "1BB", "1BI", "1KIIB",
		"0x10", "Inf",
		"NaN", "9999999TB", "99999999999999999999", "1 2MB", "MB50", "1..5KB", "."} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d", text, got)
		}
	}
}

func TestRounded(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1 KB", 1536: "1.5 KB", 10 << 20: "10 MB",
		1<<30 - 1: "1024 MB", 5 << 40: "5 TB", 1<<20 + 1<<16: "1.1 MB"} {
		if got := Rounded(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("50MB")
	f.Add("1.5 GiB")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(text)
		if err != nil {
			return
		}
		if back, err := Parse(Exact(v)); v < 0 || err != nil || back != v {
			t.Errorf("%q is %d, printed %q", text, v, Exact(v))
		}
	})
}
