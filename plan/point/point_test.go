package point

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestReadTable(t *testing.T) {
	t.Parallel()
	points, err := ReadTable(strings.NewReader("# steps\nrun,users,processors,speed,tpm,cpu_pct,average_ms,memory_mb\n"+
		"a,100,4,20,1200,50,8.5,300\nb,200,,,,,,\n"), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	p := &points[0]
	if p.Run != "a" || p.Line != 3 || p.Load() != 2000 || p.Rate != 20 || p.Use[CPU] != 2 || p.Share() != 50 ||
		p.ITR() != 40 ||
		p.Average != 0.0085 || p.Use[Memory] != 300 ||
		!math.IsNaN(p.P99) {
		t.Errorf("%+v", p)
	}
	if !math.IsNaN(points[1].Share()) || points[1].Speed != 1 {
		t.Errorf("%+v", points[1])
	}
	for text, want := range map[string]string{
		"":                          "no table of steps",
		"users,colour\n":            "t.csv:1:7: unknown column \"colour\"",
		"tpm\n5\n":                  "no column users",
		"users\n":                   "no steps",
		"users\n0\n":                "users is 0",
		"users,tpm\n5,many\n":       "t.csv:2:3: \"many\" is no number of tpm",
		"users,cpu_pct\n5,180\n":    "t.csv:2:3: cpu_pct is 180",
		"users,cpu_pct\n5,NaN\n":    "is no number",
		"users,cpu_pct\n5,1,1\n":    "wrong number of fields",
		"users,cpu_pct\n5,-1\n":     "is no number",
		"users,tpm\n5,Inf\n":        "tpm is Inf: want at most 1e+12",
		"users,tpm\n5,1e300\n":      "t.csv:2:3: tpm is 1e300: want at most 1e+12",
		"users\n1e300\n":            "users is 1e300: want at most 1e+08",
		"users\n5.5\n":              "\"5.5\" is no whole number of users",
		"users,processors\n5,1e9\n": "processors is 1e9: want at most 4096",
		"users,speed\n5,0\n":        "speed is 0: want more than 0",
		"users,guests\n5,4\n":       "t.csv:2: 4 guests with 0 virtual processors: want both or neither",
		"users,virtual\n5,4\n":      "t.csv:2: 0 guests with 4 virtual processors",
		"users,outcome\n5,well\n":   "t.csv:2: outcome \"well\": want measured, unsteady",
	} {
		if _, err := ReadTable(strings.NewReader(text), "t.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestUsable checks that unsteady and driver-bound steps are refused unless they are named.
func TestUsable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcomes string
		use      []string
		want     int
	}{{"measured measured", nil, 2}, {"measured discarded", nil, 1}, {"discarded", nil, 0}, {"measured " +
		"unsteady", nil, 0},
		{"measured driver-bound", nil, 0}, {"measured unsteady", []string{"unsteady"}, 2}, {"measured " +
			"interrupted", nil, 0},
		{"measured discarded", []string{"discarded"}, 2}} {
		var points []Point
		for _, o := range strings.Fields(c.outcomes) {
			points = append(points, Point{Outcome: o, Users: 1})
		}
		got, err := Usable(points, c.use...)
		if len(got) != c.want || (c.want == 0) != errors.Is(err, ErrPoints) {
			t.Errorf("%s with %v: %d, %v", c.outcomes, c.use, len(got), err)
		}
	}
	points, err := Usable([]Point{{Run: "r", Outcome: "unsteady", Reason: "why", Users: 5, Marks: []string{"a"}},
		{Outcome: Measured, Users: 6, Marks: []string{"a"}}}, "unsteady")
	const want = "a; r, 5 users is used although it was unsteady: why"
	if got := strings.Join(Marks(points), "; "); err != nil || got != want {
		t.Errorf("marks %q, %v", got, err)
	}
	if _, err := Usable([]Point{{Outcome: Measured}}, "unstaedy"); !errors.Is(err, ErrPoints) ||
		!strings.Contains(err.Error(), "want unsteady, driver-bound") {
		t.Errorf("an outcome that does not exist: %v", err)
	}
}

// TestSameWork checks that points of other work are refused.
func TestSameWork(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]Point{
		"workload": {Workload: "b", Protocol: "imap", Speed: 1},
		"protocol": {Workload: "a", Protocol: "jmap", Speed: 1},
		"speed":    {Workload: "a", Protocol: "imap", Speed: 20},
	} {
		a := Point{Workload: "a", Protocol: "imap", Speed: 1}
		if err := SameWork([]Point{a, a, b}); !errors.Is(err, ErrPoints) ||
			!strings.Contains(err.Error(), "differ in "+name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := SameWork([]Point{a, a}); err != nil {
			t.Error(err)
		}
	}
}

// TestGuests reads guests, and refuses points of other ones together.
func TestGuests(t *testing.T) {
	t.Parallel()
	points, err := ReadTable(strings.NewReader("users,processors,guests,virtual\n5,4,4,2\n5,4,0,0\n5,4,4,8\n"), "t.csv")
	if err != nil || points[0].Ratio() != 0.5 || points[1].Ratio() != 1 || points[2].Ratio() != 2 {
		t.Fatalf("%v %+v", err, points)
	}
	for i, want := range []string{"differ in guests: 4", "differ in guests: 0", "differ in virtual processors: 8"} {
		if err := SameGuests([]Point{points[i], points[(i+1)%3]}); !errors.Is(err, ErrPoints) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := SameGuests(points[:1]); err != nil {
		t.Error(err)
	}
}

// FuzzReadTable checks that no table ends the program.
func FuzzReadTable(f *testing.F) {
	f.Add("run,users,tpm\na,5,6\n")
	f.Fuzz(func(t *testing.T, text string) {
		points, err := ReadTable(strings.NewReader(text), "f")
		if err == nil && len(points) == 0 {
			t.Error("neither points nor an error")
		}
	})
}
