package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/admin"
	"doublet/plan/series"
)

// collectInput begins an input of plan production that is the statistics database of a server. The data folder may
// follow; without it, the flag --data names it.
const collectInput = "collect:"

// collectedMeasures are the measures that the statistics database holds, with the statistic of each.
var collectedMeasures = [][2]string{
	{"users", "Server.Users.Active15Min"},
	{"cpu_total", "Platform.Process.CPU.Seconds"},
	{"transactions_total", "Server.Trans.Total"},
	{"messages_total", "Mail.Delivered"},
}

// The statistics of tasks: taskCPU + NAME + taskCPUEnd.
const taskCPU, taskCPUEnd = "Server.CPU.", ".Seconds"

// collectedSince is the age of the oldest reports that are read: all that the server keeps.
const collectedSince = "1830d"

// readCollected reads the statistics database of the server of a data folder, whether or not it runs.
func (p planner) readCollected(ctx context.Context, set *series.Set, folder string) (err error) {
	a := *p.app
	if folder != "" {
		a.data = filepath.Clean(folder)
	}
	v, _ := admin.Find("show stat")
	c, done, err := a.caller(v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	server, err := admin.Do[admin.Server](ctx, c, "show server", nil)
	if err != nil {
		return err
	}
	text, err := collectedCSV(ctx, c)
	if err != nil {
		return err
	}
	return set.ReadCSV(strings.NewReader(text), collectInput+folder, server.Name)
}

// collectedCSV returns the stored statistics that the planner reads as a CSV file.
func collectedCSV(ctx context.Context, c admin.Caller) (string, error) {
	columns := slices.Clone(collectedMeasures)
	now, err := admin.Do[admin.Statistics](ctx, c, "show stat", admin.ShowStat{Pattern: taskCPU + "*"})
	if err != nil && admin.Kind(err) != "not found" { // no task has been sampled yet
		return "", err
	}
	for _, s := range now {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(s.Name, taskCPU), taskCPUEnd); ok {
			columns = append(columns, [2]string{"cpu_total:" + name, s.Name})
		}
	}
	rows := map[time.Time][]string{}
	for i, column := range columns {
		list, err := admin.Do[admin.Statistics](ctx, c, "show stat",
			admin.ShowStat{Pattern: column[1], History: true, Since: collectedSince})
		if err != nil && admin.Kind(err) != "not found" {
			return "", err
		}
		for _, s := range list {
			if s.Name != column[1] {
				continue // below the name
			}
			at := s.Time.Truncate(time.Minute) // the end of an interval; a report is a moment later
			if rows[at] == nil {
				rows[at] = make([]string, len(columns))
			}
			rows[at][i] = strconv.FormatFloat(s.Value, 'f', -1, 64)
		}
	}
	if len(rows) == 0 {
		return "", errors.New("statistics database is empty: the task Collect fills it every 15 minutes")
	}
	var b strings.Builder
	b.WriteString("time")
	for _, column := range columns {
		b.WriteString("," + column[0])
	}
	for _, at := range slices.SortedFunc(maps.Keys(rows), time.Time.Compare) {
		fmt.Fprintf(&b, "\n%s,%s", at.UTC().Format(time.RFC3339), strings.Join(rows[at], ","))
	}
	return b.String() + "\n", nil
}
