package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// found creates a cluster with a member for each name. The first one has people: anna, and those of more.
func found(t *testing.T, names []string, more ...string) []*member {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	return foundBy(t, path, names, more...)
}

// foundBy does the work of found with another program.
func foundBy(t *testing.T, path string, names []string, more ...string) []*member {
	t.Helper()
	one := newMember(t)
	one.program = []string{path}
	one.founds("test", more...)
	all := []*member{one}
	for _, name := range names[1:] {
		all = append(all, one.admitsWith(one.program, name))
	}
	return all
}

// founds creates the member's data folder with people, anna and those of more (name, or name:password), starts it, and
// founds a cluster.
func (m *member) founds(cluster string, more ...string) {
	t := m.T
	t.Helper()
	own := func(stdin string, args ...string) {
		t.Helper()
		program.Run(t, stdin, m.env, m.program[0], append(append(slices.Clone(m.program[1:]), args...), "--data",
			m.Data)...)
	}
	own("secret\n", "init", "--domain", "cluster.example")
	csv := "fullname,shortname,password\nAnna,anna,secret\n"
	for _, p := range more {
		name, password, given := strings.Cut(p, ":")
		if !given {
			password = "secret"
		}
		csv += strings.ToUpper(name[:1]) + name[1:] + "," + name + "," + password + "\n"
	}
	file := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(file, []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	own("", "user", "import", file)
	settings := []string{"config", "set"}
	for i := 0; i+1 < len(m.addresses); i += 2 {
		settings = append(settings, "cluster."+strings.TrimPrefix(m.addresses[i], "--"), m.addresses[i+1])
	}
	own("", settings...)
	m.serve()
	own("", "cluster", "init", cluster)
}

// admits makes another member join, and starts it.
func (m *member) admits(name string, verb ...string) *member {
	m.T.Helper()
	path, err := program.Path()
	if err != nil {
		m.T.Fatal(err)
	}
	return m.admitsWith([]string{path}, name, verb...)
}

// admitsWith does the work of admits for a member that runs another program.
func (m *member) admitsWith(program []string, name string, verb ...string) *member {
	m.T.Helper()
	x := newMember(m.T)
	x.program = program
	m.takesIn(x, name, verb...)
	return x
}

// takesIn makes an existing member object join, and starts it.
func (m *member) takesIn(x *member, name string, verb ...string) {
	m.T.Helper()
	if len(verb) == 0 {
		verb = []string{"cluster", "join"}
	}
	token := strings.Fields(m.Doublet("cluster", "token"))[1]
	program.Run(m.T, "", x.env, x.program[0], append(append(append(slices.Clone(x.program[1:]), verb...), token,
		"--name", name, "--data", x.Data), x.addresses...)...)
	x.serve()
}

// placed is a row of show cluster databases.
type placed struct {
	ID, Title, Kind, Home string
	Replicas              []struct{ Server, State string }
}

// placed returns the mail files.
func (m *member) placed() []placed {
	m.T.Helper()
	return slices.DeleteFunc(m.shared(), func(d placed) bool { return d.Kind != "mail" })
}

// shared returns all databases that the cluster replicates.
func (m *member) shared() []placed {
	m.T.Helper()
	var out struct{ Databases []placed }
	if err := json.Unmarshal([]byte(m.Doublet("show", "cluster", "databases", "--json")), &out); err != nil {
		m.T.Fatal(err)
	}
	return out.Databases
}

// eventually calls wrong until it returns "", for at most a minute.
func eventually(t *testing.T, what string, wrong func() string) {
	t.Helper()
	last := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if last = wrong(); last == "" {
			return
		}
	}
	t.Fatalf("%s: %s", what, last)
}

// TestClusterOperated: a server that joins receives its share of replicas automatically. On request of an administrator
// homes move to less busy servers, at their next open. A member that is removed first hands over its replicas, and no
// mail is lost.
func TestClusterOperated(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	people := []string{"bert", "cora", "dora", "emil", "fritz"}
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	list := found(t, []string{"one", "two"}, people...)
	one, two := list[0], list[1]
	people = append([]string{"anna"}, people...)
	whole := func(on ...string) func() string {
		return func() string {
			count := map[string]int{}
			all := one.placed()
			for _, d := range all {
				if len(d.Replicas) != 2 {
					return fmt.Sprintf("%+v", d)
				}
				for _, r := range d.Replicas {
					if r.State != "in service" {
						return fmt.Sprintf("%+v", d)
					}
					count[r.Server]++
				}
			}
			for _, name := range on {
				if count[name] < len(all)*2/len(on)-1 {
					return fmt.Sprintf("%s has %d of %d: %v", name, count[name], len(all), count)
				}
			}
			if len(count) != len(on) || len(all) < len(people) {
				return fmt.Sprint(count, len(all))
			}
			return ""
		}
	}
	var status struct{ Server string }
	if err := json.Unmarshal([]byte(one.Doublet("show", "cluster", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	name := status.Server
	eventually(t, "two replicas of everything", whole(name, "two"))
	three := one.admits("three")
	eventually(t, "the third fills itself", whole(name, "two", "three"))

	// All people work, and all homes are at the first server.
	for range 12 {
		for _, p := range people {
			program.Run(t, "", nil, curl, "-s", "-m", "20", "-u", p+":secret", "imap://127.0.0.1:"+one.Port["imap"]+
				"/INBOX?ALL")
		}
	}
	var b struct {
		Servers []struct {
			Server              string
			Homes               int
			HomesThen           int `json:"homes_then"`
			Activity, Databases int
			ActivityThen        int `json:"activity_then"`
			Bytes               int
		}
		Moves []struct{ Title, What, From, To string }
	}
	ask := func(more ...string) string {
		text := one.Doublet(append([]string{"cluster", "balance"}, more...)...)
		if !slices.Contains(more, "--json") {
			return text
		}
		b.Servers, b.Moves = nil, nil
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		return text
	}
	program.Want(t, ask(), "OPERATIONS A DAY", "home", "nothing was changed")
	ask("--json")
	if len(b.Moves) == 0 {
		t.Fatalf("nothing is to be moved: %+v", b)
	}
	if again := ask("--json"); len(b.Moves) == 0 {
		t.Fatalf("a plan that is shown changes something: %s", again)
	}
	ask("--apply", "--json")
	moved := b.Moves
	eventually(t, "homes go at the next open", func() string {
		for _, p := range people {
			program.Run(t, "", nil, curl, "-s", "-m", "20", "-u", p+":secret", "imap://127.0.0.1:"+one.Port["imap"]+
				"/INBOX?ALL")
		}
		homes := map[string]string{}
		for _, d := range one.placed() {
			homes[d.Title] = d.Home
		}
		for _, m := range moved {
			if m.What == "home" && homes[m.Title] != m.To {
				return fmt.Sprintf("%s is at %s, not at %s", m.Title, homes[m.Title], m.To)
			}
		}
		return ""
	})
	eventually(t, "it comes to rest", func() string {
		if text := ask("--apply"); !strings.Contains(text, "it is even") {
			return text
		}
		return ""
	})

	// One database has three replicas; then the second server leaves.
	one.Doublet("cluster", "replicas", "anna", "3")
	eventually(t, "three replicas", func() string {
		for _, d := range one.placed() {
			if d.Title == "Anna" && len(d.Replicas) == 3 {
				return ""
			}
		}
		return fmt.Sprint(one.placed())
	})
	one.Doublet("cluster", "replicas", "anna", "0") // no fixed number any more: the replicas stay
	three.deliver("before")
	one.Doublet("cluster", "replicas", "anna", "2")
	eventually(t, "two again", whole(name, "two", "three"))
	two.deliver("by-two")
	if out, err := program.Command(path, "cluster", "remove", "two", "--data", one.Data); err != nil {
		t.Fatalf("remove: %v %s\n%s\n%s\n%s\n%s", err, out, one.Doublet("show", "cluster", "databases", "--json"),
			one.Out, two.Out, three.Out)
	}
	eventually(t, "it is no member any more", func() string {
		if out := one.Doublet("show", "cluster"); strings.Contains(out, "two") {
			return out
		}
		return ""
	})
	two.Stop(syscall.SIGTERM)
	eventually(t, "everything is on the others", whole(name, "three"))
	three.sees(curl, "before", "by-two")
	one.sees(curl, "before", "by-two")
	for _, m := range []*member{one, three} {
		m.Stop(syscall.SIGTERM)
		if out, err := program.Command(path, "check", "--data", m.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
}
