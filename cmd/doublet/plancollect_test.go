package main

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/admin"
	"doublet/plan/series"
	"doublet/stat"
)

// collected is a server with stored statistics: name, and its value at each quarter of an hour.
type collected map[string][]float64

var collectedFrom = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func (x collected) Call(_ context.Context, verb string, raw json.RawMessage, _ func(admin.Progress)) (json.RawMessage,
	error) {
	var a admin.ShowStat
	if err := json.Unmarshal(raw, &a); err != nil || verb != "show stat" {
		return nil, err
	}
	out := admin.Statistics{}
	for name, values := range x {
		if !stat.Match(a.Pattern, name) {
			continue
		}
		if !a.History {
			out = append(out, admin.Statistic{Entry: stat.Entry{Name: name, Kind: stat.KindCounter}})
			continue
		}
		for i, v := range values {
			out = append(out, admin.Statistic{Entry: stat.Entry{Name: name, Kind: stat.KindCounter, Value: v},
				Time: collectedFrom.Add(time.Duration(i)*15*time.Minute + 2*time.Second)})
		}
	}
	if len(out) == 0 {
		return nil, &admin.RemoteError{Kind: "not found", Text: "no statistic"}
	}
	return json.Marshal(out)
}

// TestPlanCollected checks that the planner reads users as levels and processor seconds as what each interval used.
func TestPlanCollected(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	text, err := collectedCSV(ctx, collected{
		"Server.Users.Active15Min":     {10, 20, 30},
		"Platform.Process.CPU.Seconds": {100, 160, 250},
		"Server.CPU.Router.Seconds":    {10, 16, 25},
		"Server.Trans.Total":           {0, 5, 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	set := series.NewSet()
	if err := set.ReadCSV(strings.NewReader(text), "collect:", "mail1"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	f := set.Frame("mail1")
	if f == nil {
		t.Fatalf("no server in\n%s", text)
	}
	for name, want := range map[string][]float64{"users": {20, 30}, "cpu": {60, 90}, "cpu:Router": {6, 9},
		"transactions": {5, 2}} {
		c := f.Column(name)
		if c == nil {
			t.Errorf("no %s in\n%s", name, text)
			continue
		}
		var got []float64
		for i, v := range c.Values {
			if f.Time(i).Before(collectedFrom) || math.IsNaN(float64(v)) {
				continue // before the first report, which has no interval
			}
			got = append(got, float64(v))
		}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: %v, want %v\n%s", name, got, want, text)
		}
	}
	if _, err := collectedCSV(ctx, collected{}); err == nil {
		t.Error("an empty database was accepted")
	}
}

// TestPlanCollectInput reads the statistics database of a stopped server, which has too few days to tell anything.
func TestPlanCollectInput(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	made(t, data)
	code, _, errs := command(t, "", "plan", "production", "collect:"+data)
	if code == 0 || !strings.Contains(errs, "statistics database is empty") {
		t.Errorf("%d %s", code, errs)
	}
}
