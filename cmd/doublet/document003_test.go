package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/cmd/doublet/config"
)

// platformNames are statistics of machines with /proc.
var platformNames = []string{"Platform.System.PctCombinedCpuUtil", "Platform.Memory.RAM.TotalMBytes",
	"Platform.Memory.RAM.AvailMBytes", "Platform.Memory.PagesPerSec", "Platform.Network.Total.NetworkBytesPerSec",
	"Platform.LogicalDisk.TotalNumOfDisks", "Mem.Free"}

// TestDocument003 starts a server that is configured as document 003 says, with every task and switch on, and looks for
// each statistic that the documents name: first a server alone, then a member of a cluster.
func TestDocument003(t *testing.T) {
	t.Parallel()
	data, log, archive := t.TempDir(), t.TempDir(), t.TempDir()
	text, err := os.ReadFile("testdata/document003/doublet.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, config.FileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	ports := freeAddresses(t, 2)
	environ := []string{"DOUBLET_DATA_WAL_DIR=" + log, "DOUBLET_ARCHIVE_TARGET=" + archive,
		"DOUBLET_CLUSTER_ROUTES=" + ports[0], "DOUBLET_CLUSTER_DIRECT=" + ports[1]}
	alone, clustered := documentNames(t)
	_, stop := startDemo(t, data, environ...)
	defer func() { stop() }()
	for _, words := range [][]string{
		{"rules", "add", "all", `{"do":{"journal":true}}`},
		{"collect"}, {"updall"}, {"catalog"}, {"purge"},
	} {
		if code, out, errs := command(t, "", append(words, "--data", data)...); code != 0 {
			t.Errorf("%v: %s %s", words, out, errs)
		}
	}
	values := shownStatistics(t, data)
	for _, name := range alone {
		if _, there := values[name]; !there {
			t.Errorf("show stat has no %s", name)
		}
	}
	awaitSampleMail(t, data)
	code, out, errs := command(t, "", "show", "tasks", "--data", data)
	for _, task := range []string{"Replica", "Router", "Update", "Sched", "RnRMgr", "Collect", "Catalog", "UpdAll",
		"Event"} {
		if code != 0 || !strings.Contains(out, "\n"+task+" ") {
			t.Errorf("no task %s: %s", task, errs)
		}
	}
	stop()
	stop = func() {}
	if code, out, errs := command(t, "", "cluster", "init", "Acme", "--data", data); code != 0 {
		t.Fatalf("cluster init: %s %s", out, errs)
	}
	// The line of the listing as it is: names of tasks that do not exist here are no error.
	_, stop = startDemo(t, data, append(environ, "DOUBLET_TASKS_RUN=Replica,Router,Update,AMgr,Adminp,Sched,CalConn,"+
		"RnRMgr,LDAP")...)
	values = shownStatistics(t, data)
	for _, name := range append(alone, clustered...) {
		if _, there := values[name]; !there {
			t.Errorf("show stat of a member of a cluster has no %s", name)
		}
	}
}

// awaitSampleMail waits until the sample mail of the demo has passed the router, the journal, the object store and the
// full-text index, and the task Stats has run: these go on after the start.
func awaitSampleMail(t *testing.T, data string) {
	t.Helper()
	counted := []string{"Mail.Delivered", "Mail.TotalRouted", "Mail.MaximumSizeDelivered", "Journal.Entries",
		"Database.DAOS.Objects.RawBytes", "FullText.Notes.Indexed", "Mem.Allocated", "Disk.Data.Free",
		"Database.DbCache.HighWaterMark"}
	for by := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		values := shownStatistics(t, data)
		zero := slices.IndexFunc(counted, func(name string) bool {
			v, err := strconv.ParseFloat(values[name], 64)
			return err != nil || v <= 0
		})
		if zero < 0 {
			return
		}
		if time.Now().After(by) {
			t.Fatalf("%s = %q", counted[zero], values[counted[zero]])
		}
	}
}

// shownStatistics returns what show stat prints, by name.
func shownStatistics(t *testing.T, data string) map[string]string {
	t.Helper()
	code, out, errs := command(t, "", "show", "stat", "--data", data)
	if code != 0 {
		t.Fatal(errs)
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			values[name] = value
		}
	}
	return values
}

// documentNames reads the names of testdata/document003/statistics.txt: those of every server, and those of a member of
// a cluster.
func documentNames(t *testing.T) (alone, clustered []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/document003/statistics.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "#":
			continue
		case seen[f[0]] || len(f) < 2:
			t.Errorf("statistics.txt: %q", line)
		case len(f) == 3 && f[2] == "cluster":
			clustered = append(clustered, f[0])
		default:
			alone = append(alone, f[0])
		}
		seen[f[0]] = true
	}
	if runtime.GOOS == "linux" {
		alone = append(alone, platformNames...)
	}
	return alone, clustered
}

// TestSwitchesDocument checks that doc/switches.md names each statistic of the documents, and only settings that exist.
func TestSwitchesDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../doc/switches.md")
	if err != nil {
		t.Fatal(err)
	}
	alone, clustered := documentNames(t)
	for _, name := range slices.Concat(alone, clustered) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("doc/switches.md does not name %s", name)
		}
	}
	sections, settings := map[string]bool{}, config.Default()
	for _, s := range config.Sections() {
		sections[s.Name] = true
	}
	for i, word := range strings.Split(string(text), "`") {
		section, rest, dotted := strings.Cut(word, ".")
		if i%2 == 0 || !dotted || !sections[section] {
			continue
		}
		key, _, _ := strings.Cut(rest, "=")
		if _, exists := settings.Get(section + "." + strings.TrimSpace(key)); !exists {
			t.Errorf("doc/switches.md: no setting %s", word)
		}
	}
}
