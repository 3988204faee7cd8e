package lab

import (
	"slices"
	"testing"

	"doublet/bench/workload"
)

// TestConfigurations checks that users and mail files are on the servers where document 004 places them.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		servers  int
		homes    []int // of the first people
		replicas [][]int
	}{
		{"config1", 1, []int{0, 0, 0}, [][]int{{0}, {0}}},
		{"config2", 2, []int{0, 1, 0, 1}, [][]int{{0}, {1}}},
		{"config3", 2, []int{0, 0, 0}, [][]int{{0, 1}, {0, 1}}},
		{"config4", 2, []int{0, 1, 0, 1}, [][]int{{0, 1}, {1, 0}}},
		{"replicators-2", 3, []int{0, 0}, [][]int{{0, 1, 2}}},
		{"replicators-4", 5, []int{0, 0}, [][]int{{0, 1, 2, 3, 4}}},
		{"replicators-5", 6, []int{0, 0}, [][]int{{0, 1, 2, 3, 4, 5}}},
		{"partitions-2", 2, []int{0, 1, 0}, [][]int{{0}, {1}}},
		{"partitions-3", 3, []int{0, 1, 2, 0}, [][]int{{0}, {1}, {2}}},
		{"partitions-4", 4, []int{0, 1, 2, 3, 0}, [][]int{{0}, {1}, {2}, {3}}},
		{"pulse", 5, []int{0, 0}, [][]int{{0, 1, 2, 3, 4}}},
		{"field", 3, []int{0, 0, 1, 0, 0, 1}, [][]int{{0, 2}, {0, 2}, {1, 2}}},
	} {
		x, err := Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Roles) != c.servers || x.Title == "" || x.Words == "" || x.Users == 0 {
			t.Errorf("%s: %+v", c.name, x)
		}
		if _, err := workload.ByName(x.Workload); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i, want := range c.homes {
			if got := x.home(i); got != want {
				t.Errorf("%s: person %d is at home on %d, want %d", c.name, i, got, want)
			}
		}
		for i, want := range c.replicas {
			if got := x.replicas(i); !slices.Equal(got, want) {
				t.Errorf("%s: the mail file of person %d is on %v, want %v", c.name, i, got, want)
			}
		}
	}
	for name, want := range map[string]int{"config1": 0, "config2": 0, "config4": 0, "partitions-3": 3} {
		c, _ := Named(name)
		l := &Lab{Clustered: c.Clustered, Abroad: c.Abroad, Servers: make([]*Server, len(c.Roles))}
		if got := l.Partitions(); got != want {
			t.Errorf("%s: %d partitions, want %d", name, got, want)
		}
	}
	if len(All()) != 12 {
		t.Errorf("%d configurations, not all of them are looked at", len(All()))
	}
	if _, err := Named("config5"); err == nil {
		t.Error("config5")
	}
	field, _ := Named("field")
	if field.Roles[2].Disk == 0 || field.Roles[2].Cache == 0 || field.Roles[0].Disk != 0 {
		t.Errorf("the field case: %+v", field.Roles)
	}
}
