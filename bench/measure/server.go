package measure

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"doublet/bench"
	"doublet/bench/drive"
	"doublet/bench/meter"
	"doublet/bench/run"
	"doublet/bench/watch"
)

// Server is a site of one server, a Doublet or any other.
type Server struct {
	// Doors are the addresses of the doors; nil means those of the running Doublet.
	Doors map[string]string
	// Accounts is the CSV file of the people. If it is "", the names of person number n are made from the patterns User
	// and Address, where n replaces %d, and everybody has the same password.
	Accounts, User, Password, Address string
	// Processes select what is metered; by default it is the Doublet.
	Processes watch.Options
	Doublet   Doublet
	// Named means that flags name the socket of Doublet, so that it is the server under test, also behind other doors.
	Named bool
	// Ledger records what is acknowledged over IMAP and SMTP, or over JMAP, and compares it with the mail after each
	// step.
	Ledger bool

	audit *audit // nil if no ledger is kept
	// own means that the doors are those of Doublet. Those that flags name may be another server's, and then Doublet is
	// not what is measured, also if it runs.
	own bool
}

// Doublet is the Doublet server of this machine, as far as a benchmark needs it.
type Doublet interface {
	// Doors returns the addresses of its open doors by name.
	Doors(ctx context.Context) (map[string]string, error)
	// Adder returns a function that creates a person who does not exist yet, or nil if there is no Doublet: the people
	// of other servers have to exist.
	Adder() (func(context.Context, *drive.User) error, error)
	// Statistics returns a function that reads its statistics, nil if no Doublet runs.
	Statistics() func(context.Context) (map[string]float64, error)
	// PIDFile returns the path of the file with its process ID. The file exists while the server runs.
	PIDFile() (string, error)
}

// doors lists the doors that a benchmark can drive, each with the door of a Doublet for the same protocol. A door of
// the running Doublet is used only if instead, its alternative without TLS or for submission, is not open.
var doors = []struct{ name, door, instead string }{
	{"imap", "imap", ""}, {"imaps", "imaps", "imap"}, {"submission", "submission", ""},
	{"submissions", "submissions", "submission"},
	{"smtp", "smtp", "submission"}, {"lmtp", "lmtp", ""}, {"pop3", "pop3", ""}, {"pop3s", "pop3s", "pop3"},
	{"jmap", "http", ""}, {"jmaps", "https", "jmap"},
}

// DoorNames returns the names of the doors that a benchmark can drive.
func DoorNames() []string {
	var out []string
	for _, d := range doors {
		out = append(out, d.name)
	}
	return out
}

// choose returns the doors to drive, of the open doors of a Doublet.
func choose(open map[string]string) map[string]string {
	out := map[string]string{}
	for _, d := range doors {
		if at := open[d.door]; at != "" && (d.instead == "" || out[d.instead] == "") {
			out[d.name] = reachable(at)
		}
	}
	return out
}

// owns reports whether one of the doors is an open door of a Doublet.
func owns(open, doors map[string]string) bool {
	for _, at := range doors {
		for _, door := range open {
			if reachable(door) == reachable(strings.Replace(at, "localhost:", "127.0.0.1:", 1)) {
				return true
			}
		}
	}
	return false
}

// reachable replaces the address of a door that listens on all interfaces by loopback, which a client can connect to.
func reachable(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsUnspecified() {
		return address
	}
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort("127.0.0.1", port)
}

// Enter implements [Site].
func (s *Server) Enter(ctx context.Context, j *Job, most int) ([]drive.User, []*drive.World, error) {
	at := s.Doors
	open, err := s.Doublet.Doors(ctx)
	if at == nil {
		if err != nil {
			return nil, nil, err
		}
		at = choose(open)
	}
	s.own = err == nil && (s.Named || owns(open, at))
	users, err := s.people(max(most, j.Registered))
	if err == nil {
		err = s.add(ctx, j, users)
	}
	w := j.World(users, at)
	if s.Ledger && err == nil {
		s.audit, err = newAudit(j, w)
	}
	return users, []*drive.World{w}, err
}

// add creates the people who do not exist yet.
func (s *Server) add(ctx context.Context, j *Job, users []drive.User) error {
	add, err := s.Doublet.Adder()
	if err != nil || add == nil {
		return err
	}
	for i := range users {
		u := &users[i]
		u.Known = "Bench " + u.Name
		if err := add(ctx, u); err != nil {
			return fmt.Errorf("make %s: %w", u.Name, err)
		}
		if i%50 == 49 {
			j.Console.Note(false, "people: %d of %d", i+1, len(users))
		}
	}
	j.Console.Note(true, "people: %d", len(users))
	return nil
}

// people returns the simulated users, from the CSV file or from the patterns for names.
func (s *Server) people(n int) ([]drive.User, error) {
	if s.Accounts != "" {
		return readPeople(s.Accounts, n)
	}
	out := make([]drive.User, n)
	for i := range out {
		number := strconv.Itoa(i + 1)
		out[i] = drive.User{Index: i, Name: strings.Replace(s.User, "%d", number, 1), Password: s.Password,
			Address: strings.Replace(s.Address, "%d", number, 1)}
	}
	return out, nil
}

// readPeople reads the people of a CSV file, of whom n are needed.
func readPeople(path string, n int) ([]drive.User, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	column := map[string]int{}
	if len(rows) == 0 {
		rows = [][]string{nil}
	}
	for i, name := range rows[0] {
		column[strings.TrimSpace(name)] = i
	}
	for _, name := range []string{"name", "password", "address"} {
		if _, ok := column[name]; !ok {
			return nil, bench.Usage("%s: the first line must name the columns name, password and address", path)
		}
	}
	var out []drive.User
	for _, row := range rows[1:] {
		out = append(out, drive.User{Index: len(out), Name: row[column["name"]], Password: row[column["password"]],
			Address: row[column["address"]]})
	}
	if len(out) < n {
		return nil, bench.Usage("%s names %d people, %d active ones requested", path, len(out), n)
	}
	return out, nil
}

// Audits implements [Site].
func (s *Server) Audits() bool { return s.Ledger }

// Adapt implements [Site]; the plan of a run is for one server. It adds the ledger.
func (s *Server) Adapt(p *run.Plan) {
	if s.audit != nil {
		s.audit.adapt(p)
	}
}

// Watch implements [Site]. It meters a monitor's machine, the named groups of processes, or the Doublet if its doors
// are driven.
func (s *Server) Watch(j *Job) (*watch.Watch, error) {
	var own []watch.Statistics
	if s.Processes.Metrics != "" {
		own = []watch.Statistics{{Read: func(ctx context.Context) (map[string]float64, error) {
			return watch.Scrape(ctx, s.Processes.Metrics)
		}}}
	} else if read := s.Doublet.Statistics(); s.own && read != nil {
		own = []watch.Statistics{{Read: read}}
	}
	if s.Processes.MonitorAt != "" {
		return watch.Remote(j.Env, s.Processes.MonitorAt, own...)
	}
	groups, err := watch.Groups(s.Processes.Groups)
	if err != nil {
		return nil, err
	}
	dir := ""
	if len(groups) == 0 && !s.own {
		j.Console.Note(true, "nothing is metered: name the server's processes with --monitor, or --monitor-at")
	}
	if len(groups) == 0 && s.own {
		pid, err := s.Doublet.PIDFile()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(pid); err == nil { // else no server of ours is here, and nothing is metered
			groups, dir = []meter.Group{{Name: "doublet", PIDFile: pid}}, filepath.Dir(pid)
		}
	}
	w, err := watch.New(j.Env, groups, dir, own...)
	if errors.Is(err, meter.ErrUnsupported) {
		fmt.Fprintln(j.Console.Out, err)
		err = nil
	}
	return w, err
}
