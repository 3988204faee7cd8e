package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/admin"
	"doublet/bench"
	"doublet/bench/drive"
	"doublet/env"
)

// FileName is the name of the file in a lab's folder that describes the lab.
const FileName = "lab.json"

// Password is the password of every user.
const Password = "bench"

const domain = "lab.example"

// Lab is a configuration that was set up.
type Lab struct {
	Name      string    `json:"name"`
	Clustered bool      `json:"clustered"`
	Abroad    bool      `json:"abroad,omitempty"`
	Pairs     bool      `json:"pairs,omitempty"`
	People    int       `json:"people"`
	Servers   []*Server `json:"servers"`
	// Program is the path of the program that its servers run.
	Program string `json:"program"`

	dir    string
	config Configuration
	env    *env.Env
}

// Options change a configuration.
type Options struct {
	// Dir is the lab's folder. It must be empty or absent.
	Dir    string
	People int
	// Replicators is the number of Cluster Replicators for each mate; 0 is the default.
	Replicators int
	// SlowDisk and Cache replace the values of roles that have one. Negative values remove them; nil leaves them.
	SlowDisk *time.Duration
	Cache    *int
	// Acknowledge is the acknowledgement mode of the mail files; "" means local.
	Acknowledge string
	// Settings are further settings of every server. They must not be among those that the lab sets itself.
	Settings Settings
	// Rules are mail rules of the domain, in their order.
	Rules []Rule
	// CPUs are the processors that the servers may use, as taskset writes them (0,2-3); "" means all.
	CPUs string
	// Quota is the number of processors that a control group of its own gives each server, such as 0.5, 0 for no limit.
	// The groups stand in for guests (virtual machines).
	Quota float64
	// Program is the path of the program that the servers run, "" for the builder's. Its store must have the same
	// format.
	Program string
}

// Settings are the settings of a server, by key, that differ from those of the demo.
type Settings map[string]string

// Builder sets up labs.
type Builder struct {
	Env *env.Env
	// Program is the path of the program doublet.
	Program string
	// Check refuses settings that the program does not know.
	Check func(s Settings) error
	// Make creates the data folder of a first server, Join that of a server that joins a cluster.
	Make func(ctx context.Context, s Settings, first admin.UserAdd) error
	Join func(ctx context.Context, s Settings, name, token string) error
	// Progress is called with a message for each step.
	Progress func(last bool, format string, args ...any)
}

// ErrNotEmpty means that the lab's folder has content.
var ErrNotEmpty = errors.New("lab: the folder is not empty")

// Build sets up a configuration and returns when every mail file is on its servers. If it fails, it stops the servers
// that it has started.
func (b *Builder) Build(ctx context.Context, c Configuration, o Options) (l *Lab, err error) {
	if err := b.check(&o); err != nil {
		return nil, err
	}
	if list, err := os.ReadDir(o.Dir); err == nil && len(list) > 0 {
		return nil, fmt.Errorf("%w: %s (name another with --dir, or remove it)", ErrNotEmpty, o.Dir)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	l = &Lab{Name: c.Name, Clustered: c.Clustered, Abroad: c.Abroad, Pairs: c.Pairs, People: o.People,
		Program: cmp.Or(o.Program, b.Program), dir: dir, config: c, env: b.Env}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
		}
	}()
	for i := range c.Roles {
		b.Progress(false, "lab: starting %s", c.Roles[i].Name)
		if err := b.server(ctx, l, i, o); err != nil {
			return l, err
		}
	}
	if !c.Clustered {
		if err := l.connect(ctx); err != nil {
			return l, err
		}
	}
	if err := l.rules(ctx, o.Rules); err != nil {
		return l, err
	}
	if err := b.people(ctx, l, o); err != nil {
		return l, err
	}
	b.Progress(false, "lab: mail files go to their places")
	if err := l.place(ctx, b.Progress); err != nil {
		return l, err
	}
	b.Progress(true, "lab: %s stands, %d people", c.Name, o.People)
	return l, l.save()
}

// check refuses options before anything begins.
func (b *Builder) check(o *Options) error {
	for name := range o.Settings {
		group, _, _ := strings.Cut(name, ".")
		if slices.Contains([]string{"data", "server", "doors"}, group) || slices.Contains([]string{"cluster.direct",
			"cluster.routes", "cluster.advertise", "cluster.replicas", "cluster.replicators"}, name) {
			return bench.Usage("--setting %s: the lab sets it itself", name)
		}
	}
	if err := b.Check(o.Settings); err != nil {
		return bench.Usage("--setting: %w", err)
	}
	if err := errors.Join(checkCPUs(o.CPUs), checkQuota(o.Quota)); err != nil {
		return err
	}
	if o.Program != "" {
		if _, err := exec.LookPath(o.Program); err != nil {
			return bench.Usage("--program: %w", err)
		}
	}
	return nil
}

// checkCPUs refuses a list of processors that taskset does not understand; "" means all.
func checkCPUs(list string) error {
	if list == "" {
		return nil
	}
	if !cpuList.MatchString(list) {
		return bench.Usage("--cpus %q: want numbers of processors, such as 0,2-3", list)
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		return bench.Usage("--cpus needs taskset (util-linux): %w", err)
	}
	return nil
}

var cpuList = regexp.MustCompile(`^\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*$`)

// replaced returns the option in place of a role's value, if the role has a value and the option is set.
func replaced[T int | time.Duration](value T, option *T) T {
	if value > 0 && option != nil {
		return *option
	}
	return value
}

// server creates and starts server number i.
func (b *Builder) server(ctx context.Context, l *Lab, i int, o Options) error {
	role := &l.config.Roles[i]
	ports, err := freePorts(8)
	if err != nil {
		return err
	}
	s := &Server{
		Name: role.Name, Data: filepath.Join(l.dir, role.Name), Domain: domain, env: b.Env, program: l.Program,
		CPUs: o.CPUs, Quota: o.Quota,
		Doors: map[string]string{
			"imap": ports[0], "submission": ports[1], "smtp": ports[2], "lmtp": ports[3], "pop3": ports[4],
			"jmap": ports[5],
		}}
	if !l.Clustered && len(l.config.Roles) > 1 {
		s.Domain = role.Name + "." + domain
	}
	slow, cache := replaced(role.Disk, o.SlowDisk), replaced(role.Cache, o.Cache)
	set := l.settings(s, ports[6:], o.Replicators, cache)
	maps.Copy(set, o.Settings)
	s.Arguments = []string{"serve", "--data", s.Data}
	if slow > 0 {
		s.Slow = slow.String()
	}
	if i == 0 || !l.Clustered {
		err = b.Make(ctx, set, admin.UserAdd{Name: "Administrator", Short: "admin", Role: []string{"Admin"},
			Password: Password})
	} else {
		var token admin.JoinToken
		if token, err = ask[admin.JoinToken](ctx, l.Servers[0], "cluster token",
			admin.ClusterToken{Expires: "1h"}); err == nil {
			err = b.Join(ctx, set, s.Name, token.Token)
		}
	}
	if err != nil {
		return fmt.Errorf("lab: make %s: %w", s.Name, err)
	}
	l.Servers = append(l.Servers, s)
	if err := s.Start(ctx); err != nil {
		return err
	}
	if i == 0 && l.Clustered {
		_, err = ask[admin.ClusterMember](ctx, s, "cluster init", admin.ClusterInit{Name: "lab"})
	}
	return err
}

// SlowDown restarts the servers that have a slow disk, with the delay. Build and the filling of mailboxes run before,
// at the machine's own speed.
func (l *Lab) SlowDown(ctx context.Context) error {
	for _, s := range l.Servers {
		if s.Slow == "" {
			continue
		}
		if err := s.stop(); err != nil {
			return err
		}
		s.Arguments, s.Slow = append(s.Arguments, "--slow-disk", s.Slow), ""
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return errors.Join(l.Settle(ctx), l.save())
}

// settings returns the settings of a server with its own ports. bus holds the two addresses at which mates reach it.
func (l *Lab) settings(s *Server, bus []string, replicators, cache int) Settings {
	const off = "off"
	set := Settings{
		"data.dir": s.Data, "server.name": s.Name, "server.domain": s.Domain,
		"doors.smtp": s.Doors["smtp"], "doors.submission": s.Doors["submission"], "doors.submissions": off,
		"doors.lmtp": s.Doors["lmtp"], "doors.imap": s.Doors["imap"], "doors.imaps": off,
		"doors.pop3": s.Doors["pop3"], "doors.pop3s": off, "doors.sieve": off, "doors.ldap": off, "doors.ldaps": off,
		"doors.http": s.Doors["jmap"], "doors.https": off,
		"limits.connections": "100000", "router.send": "true",
	}
	if cache > 0 {
		set["store.db_cache_entries"] = strconv.Itoa(cache)
	}
	if !l.Clustered {
		return set
	}
	set["cluster.direct"], set["cluster.routes"], set["cluster.advertise"] = bus[0], bus[1], "127.0.0.1"
	set["cluster.replicas"] = "0" // one on every server
	if l.Pairs {
		set["cluster.replicas"] = "2"
	}
	if replicators > 0 {
		set["cluster.replicators"] = strconv.Itoa(replicators)
	}
	return set
}

// freePorts returns free addresses on loopback. They are below the range of ephemeral ports (from 32768 on), so that no
// outgoing connection takes the port of a server that is down.
func freePorts(n int) (out []string, err error) {
	const first, end = 10_000, 32_768
	for tries := 0; len(out) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first)))
		switch {
		case err == nil:
			defer l.Close()
			out = append(out, l.Addr().String())
		case tries >= 100*n:
			return nil, err
		}
	}
	return out, nil
}

// connect adds routes between servers that are not in a cluster.
func (l *Lab) connect(ctx context.Context) error {
	for _, s := range l.Servers {
		for _, to := range l.Servers {
			if to == s {
				continue
			}
			if _, err := ask[admin.Route](ctx, s, "route add",
				admin.RouteAdd{Pattern: to.Domain, Host: to.Doors["smtp"], TLS: "none"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Users returns the lab's users in the form that the benchmark needs.
func (l *Lab) Users() []drive.User {
	out := make([]drive.User, l.People)
	for i := range out {
		name, home := fmt.Sprintf("mail%d", i+1), l.config.home(i)
		out[i] = drive.User{Index: i, Name: name, Password: Password, Address: name + "@" + l.Servers[home].Domain,
			Known: title(i), Server: home}
	}
	return out
}

func (l *Lab) save() error {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.dir, FileName), append(text, '\n'), 0o600)
}

// Load reads a lab that another process has set up.
func Load(e *env.Env, dir string) (*Lab, error) {
	text, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return nil, fmt.Errorf("lab: %w (doublet bench lab NAME --dir %s sets one up)", err, dir)
	}
	l := &Lab{dir: dir, env: e}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("lab: %s: %w", filepath.Join(dir, FileName), err)
	}
	if l.config, err = Named(l.Name); err == nil && len(l.Servers) != len(l.config.Roles) {
		err = fmt.Errorf("lab: %s: %d servers, and %s has %d", dir, len(l.Servers), l.Name, len(l.config.Roles))
	}
	for _, s := range l.Servers {
		s.env, s.program = e, l.Program
	}
	return l, err
}

// server returns the server with the given name.
func (l *Lab) server(name string) (*Server, error) {
	for _, s := range l.Servers {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("lab: no server %q", name)
}

// Live returns the servers that run.
func (l *Lab) Live() []*Server {
	var out []*Server
	for _, s := range l.Servers {
		if s.Running() {
			out = append(out, s)
		}
	}
	return out
}

// Stop stops all servers cleanly and concurrently, also those that another process has started.
func (l *Lab) Stop() error {
	errs := make(chan error, len(l.Servers))
	for _, s := range l.Servers {
		l.env.Go("lab stop "+s.Name, func() { errs <- s.stop() })
	}
	var all error
	for range l.Servers {
		all = errors.Join(all, <-errs)
	}
	return all
}

// Show prints the addresses of the servers.
func (l *Lab) Show(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", l.Name, l.config.Title)
	for i, s := range l.Servers {
		n := 0
		for p := range l.People {
			if l.config.home(p) == i {
				n++
			}
		}
		what := fmt.Sprintf("%d people", n)
		if n == 0 {
			what = "standby"
		}
		fmt.Fprintf(w, "  %-6s %-11s imap %s  submission %s  http://%s/  data %s\n", s.Name, what, s.Doors["imap"],
			s.Doors["submission"], s.Doors["jmap"], s.Data)
	}
	last := l.Users()[l.People-1]
	fmt.Fprintf(w, "  people mail1 to %s, password %s; /admin/ as admin, the same password\n", last.Name, Password)
}

// Sweep stops the servers that a lab or a script has left in a folder, also those of one that was not finished, and
// removes the folder.
func Sweep(e *env.Env, dir string) error {
	if err := sweepScript(e, dir); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		if f.IsDir() {
			s := &Server{Name: f.Name(), Data: filepath.Join(path, f.Name()), env: e}
			err = errors.Join(err, s.stop())
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(path)
}
