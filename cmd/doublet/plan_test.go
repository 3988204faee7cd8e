package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/bench/record"
)

// written writes a file into the test's folder and returns its path.
func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// seriesOf makes 12 weeks of a server whose users cost a quarter less from the middle on.
func seriesOf(columns string, row func(users, cpu float64) string) string {
	var b strings.Builder
	b.WriteString("time," + columns + "\n")
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i := range 84 * 96 {
		users := math.Round(5 + 300*math.Max(0, math.Sin(math.Pi*float64(i%96-26)/48))*(1+0.02*math.Sin(float64(i))))
		cost := 0.4 * (1 + 0.02*math.Sin(float64(i*7)))
		if i >= 42*96 {
			cost *= 0.75
		}
		fmt.Fprintf(
			&b,
			"%s,%s\n",
			start.Add(time.Duration(i+1)*15*time.Minute).Format(time.RFC3339),
			row(users, cost*users),
		)
	}
	return b.String()
}

func TestPlanProduction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := written(t, dir, "mail1.csv", seriesOf("users,cpu[s]", func(users, cpu float64) string {
		return fmt.Sprintf("%.0f,%.3f", users, cpu)
	}))
	page := filepath.Join(dir, "mail1.html")
	code, out, errs := command(t, "", "plan", "production", input, "--changed", "2026-02-16", "--html", page)
	if code != 0 || !strings.Contains(out, "mail1: cheaper") ||
		!strings.Contains(out, "change   of an active user -2") {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "5. CPU of an active user") {
		t.Error(err)
	}
	code, out, _ = command(t, "", "plan", "production", input, "--changed", "2026-02-16", "--json")
	var got struct {
		Servers []struct {
			Decision string `json:"decision"`
			Change   struct{ Value, Low, High float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Servers[0].Decision != "cheaper" {
		t.Errorf("%d %v %s", code, err, out)
	}
	bad := written(t, dir, "bad.csv", "time,users,cpu\n2026-01-05T09:00:00Z,12,lots\n")
	for want, args := range map[string][]string{
		bad + ":2:3: \"lots\" is no number":     {bad},
		"want a day as 2026-03-01":              {input, "--changed", "soon"},
		"want hours as 8-16":                    {input, "--shift", "late"},
		"--shift \"8-16x\": want hours":         {input, "--shift", "8-16x"},
		"--min-users 0: want 1 or more":         {input, "--min-users", "0"},
		"--zone \"Atlantis\"":                   {input, "--zone", "Atlantis"},
		"no server \"other\"":                   {input, "--server", "other"},
		"no such file":                          {filepath.Join(dir, "none.csv")},
		"usage: doublet plan production INPUT…": nil,
	} {
		code, _, errs := command(t, "", append([]string{"plan", "production"}, args...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: %d %s, want %s", args, code, errs, want)
		}
	}
}

// TestPlanSources joins users from Prometheus with processor time from sysstat.
func TestPlanSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	var sar, values strings.Builder
	sar.WriteString("mail1;-1;2026-03-02 07:59:01 UTC;LINUX-RESTART\t(4 CPU)\n" +
		"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n")
	for i := range 32 {
		at := start.Add(time.Duration(i+1) * 15 * time.Minute)
		fmt.Fprintf(
			&sar,
			"mail1;900;%s UTC;-1;20.00;0.00;5.00;5.00;0.00;70.00\n",
			at.Add(time.Second).Format(time.DateTime),
		)
		fmt.Fprintf(&values, ",[%d,\"300\"]", at.Unix())
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query_range" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(
			w,
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":`+
				`{"server":"mail1"},"values":[%s]}]}}`,
			values.String()[1:],
		)
	}))
	defer web.Close()
	cpu := written(t, dir, "sa02", sar.String())
	code, out, errs := command(t, "", "plan", "production", cpu, "users="+web.URL+"/api/v1/query_range?query=x")
	// 25 % of 4 processors are 900 s in 15 minutes, by 300 users.
	if code != 0 || !strings.Contains(out, "1 days, 300 active users, CPU of an active user in 15 minutes 3.0000") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, _, errs := command(t, "", "plan", "production", web.URL+"/elsewhere"); code != exitUsage ||
		!strings.Contains(errs, "is it /api/v1/query_range") {
		t.Errorf("%d %s", code, errs)
	}
	// The password of an address is in no message: not of an answer, an address that is none, or a server that is away.
	secret := strings.Replace(web.URL, "http://", "http://me:swordfish@", 1)
	for _, address := range []string{secret + "/elsewhere", secret + "bad/x", "http://me:swordfish@127.0.0.1:1/",
		secret + "/api/v1/query_range?query=x"} {
		code, out, errs := command(t, "", "plan", "production", address)
		if code != exitUsage || strings.Contains(out+errs, "swordfish") {
			t.Errorf("%s: %d %s %s", address, code, out, errs)
		}
	}
}

// runFile writes a run file of steps with 2 processors: 0.1 cores and 0.002 a user.
func runFile(t *testing.T, dir, name string, outcome record.Outcome, users ...int) string {
	t.Helper()
	r := &record.Run{Header: record.Header{Workload: record.Workload{Name: "n8mail", Protocol: "imap"}, Speed: 1,
		Target: record.Target{Name: "doublet"}, Server: &record.Host{CPUs: 2}}}
	for i, n := range users {
		from, to := record.Duration(time.Duration(i)*time.Minute), record.Duration(time.Duration(i+1)*time.Minute)
		r.Steps = append(r.Steps, record.Step{Index: i, Users: n, From: from, To: to, Outcome: outcome})
		x := record.Interval{Step: i, Phase: record.Measure, Action: "read", From: from, To: to, Sent: uint64(n) * 1000}
		for range n {
			x.Latency.Add(10 * time.Millisecond)
		}
		r.Intervals = append(r.Intervals, x)
		chance := 1 + 0.01*float64((i+len(name))%3-1)
		r.Samples = append(r.Samples, record.Sample{At: from + (to-from)/2, Host: "server", Group: "doublet",
			Values: map[string]float64{"cpu": (0.1 + 0.002*float64(n)) * chance, "pss": 2e8 + 1e5*float64(n)}})
	}
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPlanRuns scales, compares and sizes from run files, and refuses those that were unsteady.
func TestPlanRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := runFile(t, dir, "a.run", record.Measured, 100, 200, 400, 800)
	b := runFile(t, dir, "bb.run", record.Measured, 100, 200, 400, 800)
	page := filepath.Join(dir, "page.html")
	for want, args := range map[string][]string{
		"USL over users":              {"scaling", a, b, "--html", page},
		"2 to 4 partitions: CPU":      {"scaling", a + "=2", b + "=4"},
		"Resource usage at 800 users": {"compare", a, b, "--html", page},
		"1 servers for 1000 people":   {"size", a, b, "--html", page},
		"\"servers\": {":              {"size", a, b, "--json"},
		"223 statements recomputed":   {"study"},
		"Document 004: Clusters":      {"study", "004", "--html", page},
		"database cache at its " +
			"limit": {"cluster", "diagnose", written(t, dir, "s.txt", "Database.DbCache.OvercrowdingRejections = 5\n")},
		"no such file or directory":          {"size", filepath.Join(dir, "none.run")},
		"was unsteady":                       {"size", runFile(t, dir, "u.run", record.Unsteady, 100, 200, 300)},
		"1 different numbers of users":       {"size", runFile(t, dir, "one.run", record.Measured, 100)},
		"needs --replicas 2":                 {"size", a, "--survive", "1"},
		"need each other":                    {"size", a, "--config2", a},
		"cost of a replica: steps cannot be": {"size", a, "--config2", b, "--config4", b},
		"no document \"7\"":                  {"study", "7"},
		"differ in users":                    {"cluster", "roles", a, a, a, a},
		"unknown column \"colour\"":          {"scaling", written(t, dir, "t.csv", "users,colour\n")},
		"no statistics: want lines such as":  {"cluster", "diagnose", written(t, dir, "e.txt", "")},
		"no rule knows these statistics":     {"cluster", "diagnose", written(t, dir, "o.txt", "node_load1 0.5\n")},
		"not checked at s: disk saturated":   {"cluster", "diagnose", filepath.Join(dir, "s.txt")},
		"want unsteady, driver-bound":        {"size", a, "--use", "unstaedy"},
		"--think is -1":                      {"scaling", a, "--think", "-1"},
	} {
		code, out, errs := command(t, "", append([]string{"plan"}, args...)...)
		if !strings.Contains(out+errs, want) || (code != 0 && code != exitUsage) || (code != 0) != (out == "") {
			t.Errorf("%v: %d %s %s, want %s", args, code, out, errs, want)
		}
	}
	for _, args := range [][]string{{"size"}, {"scaling"}, {"compare", a}} {
		u := runFile(t, dir, "u.run", record.Unsteady, 100, 200, 400)
		args = append(append([]string{"plan"}, args...), u, "--use", "unsteady")
		if code, out, errs := command(t, "", args...); code != 0 ||
			!strings.Contains(out, "u.run, 100 users is used although it was unsteady") {
			t.Errorf("%v: unsteady steps that were named: %d %s %s", args, code, out, errs)
		}
	}
}

// TestPlanCompare refuses run files that bench compare refuses, and marks them if told to go on.
func TestPlanCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := runFile(t, dir, "old.run", record.Measured, 100, 200)
	other := runFile(t, dir, "other.run", record.Measured, 100, 200)
	for name, change := range map[string]func(*record.Run){
		"they differ in workload":           func(r *record.Run) { r.Header.Workload.Hash = "other" },
		"they differ in registered people":  func(r *record.Run) { r.Steps[1].Registered = 5000 },
		"only one is marked: window of 30s": func(r *record.Run) { r.Header.Marks = []string{"window of 30s"} },
	} {
		r, err := record.ReadFile(other)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		path := filepath.Join(dir, "changed.run")
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"plan", "bench"} {
			if code, out, errs := command(t, "", kind, "compare", old, path); code != exitUsage ||
				!strings.Contains(errs, name) {
				t.Errorf("%s: %d %s %s, want %s", kind, code, out, errs, name)
			}
		}
		code, out, errs := command(t, "", "plan", "compare", old, path, "--anyway")
		if code != 0 || !strings.Contains(out, "marked: "+name) {
			t.Errorf("anyway: %d %s %s, want %s", code, out, errs, name)
		}
	}
}

// TestPlanWithoutAverage draws a page of steps of which one has no response time: it ends.
func TestPlanWithoutAverage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	steps := written(t, dir, "steps.csv", "users,etr,cpu_pct,average_ms\n10,1,5,3\n20,2,10,\n40,4,20,9\n")
	page := filepath.Join(dir, "page.html")
	code, out, errs := command(t, "", "plan", "scaling", steps, "--html", page, "--json")
	if code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if text, err := os.ReadFile(page); err != nil || len(text) > 1<<20 || strings.Contains(string(text), "NaN") {
		t.Errorf("page of %d bytes, %v", len(text), err)
	}
}
