package series

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// read reads CSV text as the file x.csv.
func read(t *testing.T, text string) *Set {
	t.Helper()
	s := NewSet()
	if err := s.ReadCSV(strings.NewReader(text), "x.csv", ""); err != nil {
		t.Fatal(err)
	}
	s.Inspect()
	return s
}

func found(s *Set) string {
	var out []string
	for _, f := range s.Findings() {
		out = append(out, f.String())
	}
	return strings.Join(out, "\n")
}

// rows writes rows of 15 minutes from the beginning of 2 November 2026.
func rows(head string, n int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(head + "\n")
	start := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for i := range n {
		if text := row(i); text != "" {
			fmt.Fprintf(&b, "%s,%s\n", start.Add(time.Duration(i+1)*15*time.Minute).Format(time.RFC3339), text)
		}
	}
	return b.String()
}

// TestCSV reads forms of times, heads, units, rates and counters.
func TestCSV(t *testing.T) {
	t.Parallel()
	s := read(t, "# a comment\ntime;server;users;cpu[min];cpu:Router[ms];messages_total;logins_per_min;spare[%]\r\n"+
		"2026-11-02T08:15:00Z;a;10;1;500;100;2;5\r\n"+
		"2026-11-02 08:30;a;20;2;;150;2;\r\n"+
		"1793609100;a;\"30\";3 min;1500;150;2;nan\r\n")
	f := s.Frame("a")
	for name, want := range map[string][]float64{"users": {10, 20, 30}, "cpu": {60, 120, 180},
		"cpu:Router": {0.5, math.NaN(), 1.5}, "messages": {math.NaN(), 50, 0}, "logins": {math.NaN(), 30, 30},
		"spare": {5, math.NaN(), math.NaN()}} {
		for i, v := range want {
			if got := f.Column(name).At(i); got != v && !(math.IsNaN(got) && math.IsNaN(v)) {
				t.Errorf("%s[%d] = %g, want %g", name, i, got, v)
			}
		}
	}
	if got := f.Time(0); !got.Equal(time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)) || f.Len() != 3 {
		t.Errorf("%d intervals from %s", f.Len(), got)
	}
	if text := found(s); text != "" {
		t.Error(text)
	}
}

// TestShorter sums samples of 5 minutes, and leaves an interval out of which one is missing.
func TestShorter(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("time,cpu,users\n")
	for i := 1; i <= 9; i++ {
		if i != 5 {
			fmt.Fprintf(&b, "2026-11-02T08:%02d:00Z,%d,%d\n", i*5, i, i)
		}
	}
	s := read(t, b.String())
	f := s.Frame("server")
	if f.Column("cpu").At(0) != 6 || !math.IsNaN(f.Column("cpu").At(1)) || f.Column("cpu").At(2) != 24 ||
		f.Column("users").At(1) != 5 {
		t.Errorf("cpu %v, users %v", f.Column("cpu").Values, f.Column("users").Values)
	}
	if text := found(s); !strings.Contains(text, "has 2 of 3 samples of cpu") {
		t.Error(text)
	}
}

// TestBadInput checks that every fault is named with line and column, and what becomes of it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const at = "2026-11-02T08:"
	for name, c := range map[string]struct{ text, want string }{
		"gap": {"time,users\n" + at + "15:00Z,1\n" + at + "30:00Z,1\n2026-11-02T10:30:00Z,1\n", "warning: " +
			"x.csv:4:1: no rows of server for 2h0m0s"},
		"double":       {"time,users\n" + at + "15:00Z,1\n" + at + "15:00Z,1\n", "note: x.csv:3:1: second row for"},
		"other double": {"time,users\n" + at + "15:00Z,1\n" + at + "15:00Z,2\n", "refused: x.csv:3:1: second row for"},
		"clock": {"time,users\n" + at + "15:00Z,1\n" + at + "30:00Z,1\n" + at + "20:00Z,1\n", "warning: " +
			"x.csv:4:1: time goes back"},
		"reset": {"time,cpu_total\n" + at + "15:00Z,100\n" + at + "30:00Z,5\n", "warning: x.csv:3:2: " +
			"counter cpu fell from 100 to 5"},
		"wrap": {"time,messages_total\n" + at + "15:00Z,4294967000\n" + at + "30:00Z,104\n", "note: " +
			"x.csv:3:2: counter messages wrapped"},
		"negative": {"time,cpu\n" + at + "15:00Z,1\n" + at + "30:00Z,-5\n", "warning: x.csv:3:2: cpu is -5"},
		"cell unit": {"time,cpu[s]\n" + at + "15:00Z,1\n" + at + "30:00Z,500 ms\n", "note: x.csv:3:2: cpu is in " +
			"ms here"},
		"hourly": {"time,users\n" + at + "00:00Z,1\n2026-11-02T09:00:00Z,1\n", "refused: x.csv:3:1: rows are " +
			"3600 s apart"},
		"users over": {"time,users,registered\n" + at + "15:00Z,500,20\n", "refused: x.csv:2:2: server, users"},
		"tasks over": {"time,cpu,cpu:Server,cpu:Router\n" + at + "15:00Z,10,90,5\n", "refused: x.csv:2:2: " +
			"server, cpu"},
		"unit " +
			"jump": {rows("time,cpu", 96*8, func(i int) string {
			return fmt.Sprint(50 * math.Pow(1000,
				float64(i/(96*4))))
		}),
			"refused: x.csv:386:2: server, cpu from 2026-11-06T00:00:00Z: values are about 1000"},
		"swapped": {rows("time,users,transactions", 200, func(i int) string {
			return [2]string{"300,9000",
				"9000,300"}[i/150]
		}), "refused: x.csv:152:2: server, users"},
		"server number": {"time,server,users\n" + at + "15:00Z,17,1\n",
			"x.csv:2:2: server is the number 17: swapped"},
		"time swapped": {"time,users\n17," + at + "15:00Z\n", "x.csv:2:1: time 17 is no Unix time"},
		"milliseconds": {"time,users\n1793610900000,1\n",
			"x.csv:2:1: time 1793610900000 is no Unix time in seconds"},
		"no time":  {"time,users\nnan,1\n", "x.csv:2:1: time nan is no Unix time"},
		"overflow": {"time,cpu\n" + at + "15:00Z,1e39\n", "x.csv:2:2: cpu is 1e+39: want less than"},
		"overflow of a unit": {"time,net_bytes[GB]\n" + at + "15:00Z,1e31\n",
			"x.csv:2:2: net_bytes is 9.999999999999999e+39"},
		"unit of another measure": {"time,cpu[MB]\n", "x.csv:1:2: head \"cpu[MB]\": cpu is a time, and MB is a unit"},
		"time of users": {"time,users[ms]\n",
			"x.csv:1:2: head \"users[ms]\": users is a number, and ms is a unit"},
		"unit of another dimension": {"time,spare[s]\n" + at + "15:00Z,5 MB\n", "x.csv:2:2: spare has the unit \"MB\""},
		"counter of a share":        {"time,cpu_total[%]\n", "a share of processors is no counter"},
		"century": {"time,users\n" + at + "15:00Z,1\n2086-11-02T08:15:00Z,1\n2086-11-02T08:30:00Z,1\n", "more " +
			"than 20 years"},
		"other unit": {"time,cpu[s]\n" + at + "15:00Z,5 %\n", "x.csv:2:2: cpu has the unit \"%\" here"},
		"text":       {"time,cpu[s]\n" + at + "15:00Z,many\n", "x.csv:2:2: \"many\" is no number of cpu"},
		"fields":     {"time,cpu\n" + at + "15:00Z,1,2\n", "x.csv:2:2: 3 fields, the head has 2"},
		"no head":    {"users,cpu\n1,2\n", "x.csv:1:1: no column is named time"},
		"twice":      {"time,cpu,cpu[ms]\n", "x.csv:1:3: column cpu is there already"},
		"head unit":  {"time,cpu[parsec]\n", "x.csv:1:2: head \"cpu[parsec]\": unknown unit"},
		"empty":      {"", "x.csv: empty"},
		"long line":  {"time,cpu\n" + strings.Repeat("x", maxLine+1), "x.csv:2: line is over"},
		"infinite":   {"time,cpu\n" + at + "15:00Z,Inf\n", "is no number of cpu"},
	} {
		s := NewSet()
		got := ""
		if err := s.ReadCSV(strings.NewReader(c.text), "x.csv", ""); err != nil {
			got = err.Error()
		} else {
			s.Inspect()
			got = found(s)
			if strings.HasPrefix(c.want, "refused") != (s.Refusal() != nil) {
				t.Errorf("%s: refusal %v", name, s.Refusal())
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s := read(t, "time,messages_total\n"+at+"15:00Z,4294967000\n"+at+"30:00Z,104\n")
	if v := s.Frame("server").Column("messages").At(1); v != 400 {
		t.Errorf("across a wrap: %g", v)
	}
}

// TestClean checks that a plausible month has no finding: no warning fires without its fault.
func TestClean(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	s := read(t, rows("time,users,registered,cpu,cpu:Server,transactions,messages", 96*35, func(i int) string {
		level := 1 + 40*math.Max(0, math.Sin(math.Pi*float64(i%96-28)/48))
		if i/96%7 > 4 {
			level = 1 + level/10
		}
		users := math.Round(8 * level * (1 + 0.1*r.NormFloat64()))
		cpu := 20 + 0.4*users*(1+0.1*r.NormFloat64())
		return fmt.Sprintf("%.0f,900,%.2f,%.2f,%.0f,%.0f", max(1, users), cpu, cpu*0.7, 40*users, 3*users)
	}))
	if text := found(s); text != "" {
		t.Error(text)
	}
}

// TestDaylightSaving reads local times over both changes of the clocks.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err) // the database of time zones is embedded
	}
	for _, c := range []struct {
		day   time.Time
		folds int
	}{{time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC), 0}, {time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 1}} {
		var b strings.Builder
		b.WriteString("time,users\n")
		for i := range 40 {
			fmt.Fprintf(
				&b,
				"%s,%d\n",
				c.day.Add(time.Duration(i)*15*time.Minute).In(zone).Format("2006-01-02 15:04"),
				i,
			)
		}
		s := NewSet()
		s.Zone = zone
		if err := s.ReadCSV(strings.NewReader(b.String()), "x.csv", ""); err != nil {
			t.Fatal(err)
		}
		f := s.Frame("server")
		if f.Len() != 40 {
			t.Errorf("%s: %d intervals", c.day, f.Len())
		}
		for i := range 40 {
			if f.Column("users").At(i) != float64(i) {
				t.Fatalf("%s: interval %d has %g", c.day, i, f.Column("users").At(i))
			}
		}
		if text := found(s); strings.Contains(text, "warning") || strings.Contains(text, "refused") ||
			strings.Count(text, "put back") != c.folds {
			t.Errorf("%s: %s", c.day, text)
		}
	}
}

// TestSadf reads the database form of sysstat.
func TestSadf(t *testing.T) {
	t.Parallel()
	const text = "h;-1;2026-11-02 08:00:01 UTC;LINUX-RESTART\t(4 CPU)\n" +
		"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n" +
		"h;300;2026-11-02 08:05:01 UTC;-1;10.00;0.00;5.00;10.00;0.00;75.00\n" +
		"h;300;2026-11-02 08:05:01 UTC;0;90.00;0.00;5.00;5.00;0.00;0.00\n" +
		"h;300;2026-11-02 08:10:01 UTC;-1;10.00;0.00;5.00;10.00;0.00;75.00\n" +
		"h;300;2026-11-02 08:15:01 UTC;-1;10.00;0.00;5.00;10.00;0.00;75.00\n" +
		"# hostname;interval;timestamp;tps;rtps;wtps;bread/s;bwrtn/s\n" +
		"h;300;2026-11-02 08:05:01 UTC;3;1.00;2.00;1;1\n" +
		"h;300;2026-11-02 08:10:01 UTC;3;1.00;2.00;1;1\n" +
		"h;300;2026-11-02 08:15:01 UTC;3;1.00;2.00;1;1\n" +
		"h;300;2026-11-02 08:20:01 UTC;3;1.00;2.00;1;1\n" +
		"h;300;2026-11-02 08:25:01 UTC;3;1.00;2.00;1;1\n" +
		"h;300;2026-11-02 08:30:01 UTC;3;1.00;2.00;1;1\n"
	s := NewSet()
	if err := s.ReadSadf(strings.NewReader(text), "sa02"); err != nil {
		t.Fatal(err)
	}
	f := s.Frame("h")
	if v := f.Column("cpu").At(0); math.Abs(v-0.15*900*4) > 0.01 {
		t.Errorf("%g processor seconds", v)
	}
	if v := f.Column("disk_writes").At(0); !math.IsNaN(v) {
		t.Errorf("%g writes in an interval whose first sample has no known length", v)
	}
	if v := f.Column("disk_writes").At(1); v != 1800 {
		t.Errorf("%g writes", v)
	}
	for bad, want := range map[string]string{
		strings.SplitAfterN(text, "\n", 2)[1]:       "give --processors",
		strings.Replace(text, "75.00", "75,00", 1):  "sa02:3:10: \"75,00\" is no number",
		strings.Replace(text, "75.00", "-75.00", 1): "shares add up to",
		"h;1;x;y\n":   "before the first line of names",
		"# nothing\n": "no processor or disk rows",
	} {
		if err := NewSet().ReadSadf(strings.NewReader(bad), "sa02"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPrometheus reads range queries.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	const text = `{"status":"success","data":{"resultType":"matrix","result":[
{"metric":{"__name__":"cpu_total","task":"Router","server":"a"},"values":[[1793609100,"10"],[1793610000,"25"]]}]}}`
	s := NewSet()
	if err := s.ReadPrometheus(strings.NewReader(text), "p.json", ""); err != nil {
		t.Fatal(err)
	}
	if v := s.Frame("a").Column("cpu:Router").At(1); v != 15 {
		t.Errorf("increase %g", v)
	}
	for bad, want := range map[string]string{
		"{\n \"status\": 5}":                                              "p.json:2:13: not an answer",
		`{"status":"error","error":"bad query"}`:                          "bad query",
		strings.Replace(text, "matrix", "vector", 1):                      "ask /api/v1/query_range",
		strings.Replace(text, `"__name__":"cpu_total",`, "", 1):           "give one, as users=FILE.json",
		strings.Replace(text, `[1793610000,"25"]`, `["x","25"]`, 1):       "series 1: value 2",
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`: "matched nothing",
	} {
		if err := NewSet().ReadPrometheus(strings.NewReader(bad), "p.json", ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzRead checks that no input ends the program, and that no interval has a negative or infinite amount.
func FuzzRead(f *testing.F) {
	f.Add("time,server,users,cpu_total\n2026-11-02T08:15:00Z,a,1,5\n2026-11-02T08:30:00Z,a,1,\"9\"\n", uint8(0))
	f.Add("# hostname;interval;timestamp;CPU;%idle\nh;300;2026-11-02 08:05:01 UTC;-1;75.00\n", uint8(1))
	f.Add(
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"cpu"},`+"\n"+
			`"values":[[1793609100,"1"]]}]}}`,
		uint8(2),
	)
	f.Fuzz(func(t *testing.T, text string, form uint8) {
		s := NewSet()
		s.Processors = 2
		read := []func() error{
			func() error { return s.ReadCSV(strings.NewReader(text), "f", "") },
			func() error { return s.ReadSadf(strings.NewReader(text), "f") },
			func() error { return s.ReadPrometheus(strings.NewReader(text), "f", "") },
		}[int(form)%3]
		if read() != nil {
			return
		}
		s.Inspect()
		for _, frame := range s.Servers() {
			for _, c := range frame.Columns() {
				for _, v := range c.Values {
					if v < 0 {
						t.Errorf("%s is %g", c.Name, v)
					}
				}
			}
		}
	})
}

// BenchmarkYear reads a year of one server with 50 series: 1.75 million values, a hundredth of the aim of 175 million
// in 60 s and 2 GB. Its bytes are the memory that reading allocates.
func BenchmarkYear(b *testing.B) {
	var text strings.Builder
	text.WriteString("time,users,cpu")
	for k := range 48 {
		fmt.Fprintf(&text, ",cpu:T%d", k)
	}
	text.WriteByte('\n')
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 35040 {
		text.WriteString(start.Add(time.Duration(i+1) * 15 * time.Minute).Format(time.RFC3339))
		fmt.Fprintf(&text, ",%d,%d", 300+i%90, 500+i%70)
		for k := range 48 {
			fmt.Fprintf(&text, ",%.2f", float64(i%50+k)/10)
		}
		text.WriteByte('\n')
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		s := NewSet()
		if err := s.ReadCSV(strings.NewReader(text.String()), "x.csv", ""); err != nil {
			b.Fatal(err)
		}
		s.Inspect()
	}
	b.ReportMetric(float64(35040*50*b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
}

// TestGaps checks that what a counter counted while no rows were written belongs to no interval, and that a sum of
// which a sample is missing is none.
func TestGaps(t *testing.T) {
	t.Parallel()
	at := func(minute int) string {
		return time.Date(2026, 11, 2, 8, minute, 0, 0, time.UTC).Format(time.RFC3339)
	}
	s := read(t, fmt.Sprintf("time,messages_total,cpu\n%s,100,1\n%s,150,2\n%s,950,3\n%s,1000,4\n", at(15), at(30),
		at(75), at(90)))
	for name, want := range map[string][]float64{"messages": {math.NaN(), 50, math.NaN(), math.NaN(), math.NaN(), 50},
		"cpu": {1, 2, math.NaN(), math.NaN(), 3, 4}} {
		for i, v := range want {
			if got := s.Frame("server").Column(name).At(i); got != v && !(math.IsNaN(got) && math.IsNaN(v)) {
				t.Errorf("%s[%d] = %g, want %g", name, i, got, v)
			}
		}
	}
	// One sample of 15 is missing: in the middle of an interval, at its end, or in one column only.
	for name, skip := range map[string]int{"middle": 22, "end": 30, "cell": -22} {
		var b strings.Builder
		b.WriteString("time,cpu,messages_total,users\n")
		for i := 1; i <= 45; i++ {
			switch {
			case i == skip:
			case i == -skip:
				fmt.Fprintf(&b, "%s,,,\n", at(i))
			default:
				fmt.Fprintf(&b, "%s,1,%d,7\n", at(i), 10*i)
			}
		}
		s := read(t, b.String())
		f := s.Frame("server")
		if cpu := f.Column("cpu"); cpu.At(0) != 15 || !math.IsNaN(cpu.At(1)) || cpu.At(2) != 15 {
			t.Errorf("%s: cpu %v", name, cpu.Values)
		}
		if m := f.Column("messages"); !math.IsNaN(m.At(1)) || f.Column("users").At(1) != 7 {
			t.Errorf("%s: messages %v, users %v", name, m.Values, f.Column("users").Values)
		}
		if text := found(s); !strings.Contains(text, "has 14 of 15 samples") {
			t.Errorf("%s: %s", name, text)
		}
	}
	// A row that is two seconds early makes the rows seem 58 s apart, 16 of them in an interval; none is missing.
	var b strings.Builder
	b.WriteString("time,cpu\n")
	for i := range 60 {
		early := 0
		if i == 20 {
			early = 2
		}
		fmt.Fprintf(&b, "%d,1\n", 1793606400+60*(i+1)-early)
	}
	if cpu := read(t, b.String()).Frame("server").Column("cpu"); cpu.At(1) != 15 || cpu.At(2) != 15 {
		t.Errorf("rows that are early: %v", cpu.Values)
	}
}

// TestRefusalIsKept checks that hundreds of warnings do not hide a finding that forbids a result.
func TestRefusalIsKept(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("time,server,users\n")
	for i := range maxFindings + 50 {
		for _, hour := range []int{8, 9, 12} {
			fmt.Fprintf(&b, "2026-11-02T%02d:00:00Z,s%d,5\n", hour, i)
			if hour == 8 {
				fmt.Fprintf(&b, "2026-11-02T08:15:00Z,s%d,5\n", i)
			}
		}
	}
	b.WriteString("2026-11-02T12:00:00Z,s0,5\n2026-11-02T12:15:00Z,s0,5\n2026-11-02T12:15:00Z,s0,6\n")
	s := read(t, b.String())
	if err := s.Refusal(); err == nil || !strings.Contains(err.Error(), "with other values") {
		t.Errorf("refusal %v in %d findings", err, len(s.Findings()))
	}
	if n := len(s.Findings()); n > 3*maxFindings {
		t.Errorf("%d findings", n)
	}
}

// TestSparse checks that small files do not take much memory: many columns with two rows that lie years apart, many
// servers, and more series than anybody has.
func TestSparse(t *testing.T) {
	t.Parallel()
	wide := func(columns int) string {
		var b strings.Builder
		b.WriteString("time,server")
		for i := range columns {
			fmt.Fprintf(&b, ",c%d", i)
		}
		b.WriteByte('\n')
		return b.String()
	}
	row := func(time, server string, columns int) string {
		return time + "," + server + strings.Repeat(",1", columns) + "\n"
	}
	const early, late = "2010-01-01T00:15:00Z", "2026-01-01T00:15:00Z"
	servers, many := wide(1), wide(9000)
	for i := range 200 {
		servers += row(early, fmt.Sprint("s", i), 1) + row(late, fmt.Sprint("s", i), 1)
		many += row(early, fmt.Sprint("s", i), 9000)
	}
	for name, c := range map[string]struct{ text, want string }{
		"columns": {wide(1000) + row(early, "a", 1000) + row(late, "a", 1000), "rows lie too far apart"},
		"earlier": {wide(1000) + row(late, "a", 1000) + row(late[:14]+"30:00Z", "a", 1000), ""},
		"servers": {servers, "rows lie too far apart"}, "series": {many, "more than 262144 series"},
	} {
		s := NewSet()
		err := s.ReadCSV(strings.NewReader(c.text), "x.csv", "")
		if c.want == "" {
			// Another source of the same server begins years before: every column would get room for them.
			err = s.ReadCSV(strings.NewReader("time,other\n"+early+",1\n"), "y.csv", "a")
			c.want = "rows lie too far apart"
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		held, columns := 0, 0
		for _, f := range s.Servers() {
			for _, x := range f.Columns() {
				held, columns = held+len(x.Values), columns+1
			}
		}
		if held > 2*freeCells || columns > maxSeries {
			t.Errorf("%s: %d cells of %d series", name, held, columns)
		}
	}
}
