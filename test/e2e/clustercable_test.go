package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/mail/trace"
	"doublet/store"
	"doublet/store/layout"
	"doublet/test/external"
	"doublet/test/netns"
	"doublet/test/program"
	"doublet/test/sim"
)

// cabled is a cluster in which each member is a host of its own. A member reaches another through a socket of this
// machine that stands for the cable between the two. The connection arrives from an address by which the other
// identifies it:
//
//	one, 198.51.100.11 -> (198.51.100.22) -> 198.51.100.12, two, which sees 198.51.100.21
//
// So each host's packet filter can drop the packets of one other member alone, and a cable can be slow.
type cabled struct {
	t       *testing.T
	network string // the addresses without their last number
	members []*member
	hosts   []*netns.Host
	slow    atomic.Int64 // delay in nanoseconds of the last member's cables
}

func (c *cabled) host(i int) string     { return fmt.Sprint(c.network, 11+i) }
func (c *cabled) cableEnd(i int) string { return fmt.Sprint(c.network, 21+i) }

// newCabled creates a cluster with people, in a network of that name and with addresses such as 198.51.100.
func newCabled(t *testing.T, name, network string, names []string, people ...string) *cabled {
	t.Helper()
	netns.Need(t)
	external.Need(t, "nft")
	c := &cabled{t: t, network: network}
	wire := netns.New(t, name, network+"1/24")
	for i, name := range names {
		wire.Address(t, c.cableEnd(i)+"/24")
		c.hosts = append(c.hosts, wire.Plug(t, name, c.host(i)+"/24"))
	}
	for i := range names {
		m := newMember(t)
		m.program = c.hosts[i].Line(mustBinary(t))
		m.addresses = []string{"--direct", "0.0.0.0:" + m.Port["direct"], "--routes", "0.0.0.0:" + m.Port["routes"],
			"--advertise", c.cableEnd(i)}
		for _, door := range []string{"direct", "routes"} {
			c.cable(i, len(names)-1, m.Port[door])
		}
		for _, door := range []string{"smtp", "imap", "pop3", "http", "submission"} {
			// The doors are on the loopback of the host, where signing in needs no TLS.
			at := "127.0.0.1:" + m.Port[door]
			dial := func(net.Addr) (net.Conn, error) { return c.hosts[i].Dial("tcp", at, 5*time.Second) }
			netns.Forward(t, at, dial, func(net.Addr) time.Duration { return 0 })
		}
		c.members = append(c.members, m)
	}
	one := c.members[0]
	one.founds("test", people...)
	for i, m := range c.members[1:] {
		one.takesIn(m, names[i+1])
	}
	return c
}

// cable relays connections of the other members to a port of a member. Those of the last member can be slow.
func (c *cabled) cable(to, last int, port string) {
	caller := func(from net.Addr) int {
		host, _, _ := net.SplitHostPort(from.String())
		for i := range last + 1 {
			if c.host(i) == host {
				return i
			}
		}
		return -1
	}
	netns.Forward(c.t, net.JoinHostPort(c.cableEnd(to), port), func(from net.Addr) (net.Conn, error) {
		i := caller(from)
		if i < 0 {
			return nil, fmt.Errorf("a stranger calls: %s", from)
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.cableEnd(i))}, Timeout: 5 * time.Second}
		return d.Dial("tcp", net.JoinHostPort(c.host(to), port))
	}, func(from net.Addr) time.Duration {
		if to == last || caller(from) == last {
			return time.Duration(c.slow.Load())
		}
		return 0
	})
}

// lose makes every member drop a percentage of the packets from the others.
func (c *cabled) lose(percent int) {
	for _, h := range c.hosts {
		h.Filter(c.t, fmt.Sprintf("ip saddr %s-%s numgen random mod 100 < %d", c.cableEnd(0),
			c.cableEnd(len(c.hosts)-1), percent))
	}
}

// deaf makes a member drop all packets of certain others.
func (c *cabled) deaf(i int, from ...int) {
	var rules []string
	for _, f := range from {
		rules = append(rules, "ip saddr "+c.cableEnd(f))
	}
	c.hosts[i].Filter(c.t, rules...)
}

// cutOff separates a member from all others, and waits until they have detected it.
func (c *cabled) cutOff(i int) {
	c.t.Helper()
	var others []int
	for k := range c.hosts {
		if k != i {
			others = append(others, k)
			c.deaf(k, i)
		}
	}
	c.deaf(i, others...)
	c.hears(i, 0)
	for _, k := range others {
		c.hears(k, len(others)-1)
	}
}

// heal repairs all cables. Each filter must have dropped packets; otherwise it had no effect.
func (c *cabled) heal() {
	c.t.Helper()
	for i, h := range c.hosts {
		for _, n := range h.Dropped(c.t) {
			if n == 0 {
				c.t.Errorf("no packet to member %d was dropped", i+1)
			}
		}
		h.Filter(c.t)
	}
}

// hears waits until a member reaches the given number of others, itself not counted.
func (c *cabled) hears(i, others int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("member %d hears %d others", i+1, others), func() string {
		st := c.members[i].status()
		n := -1 // itself
		for _, m := range st.Members {
			if m.Alive {
				n++
			}
		}
		if n != others {
			return fmt.Sprintf("it hears %d", n)
		}
		return ""
	})
}

// clusterStatus is the output of show cluster.
type clusterStatus struct {
	Serving           bool
	Homeless, Waiting int
	Members           []struct {
		Name           string
		Self           bool
		Alive, Serving bool
	}
}

func (m *member) status() (st clusterStatus) {
	m.T.Helper()
	if err := json.Unmarshal([]byte(m.Doublet("show", "cluster", "--json")), &st); err != nil {
		m.T.Fatal(err)
	}
	return st
}

// counter returns a numeric statistic of a member.
func (m *member) counter(name string) (n float64) {
	m.T.Helper()
	for _, line := range strings.Split(m.Doublet("show", "stat", name), "\n") {
		if _, err := fmt.Sscanf(strings.TrimSpace(line), name+" = %g", &n); err == nil {
			return n
		}
	}
	return 0
}

// work drives people at all members with a ledger, as doublet bench does in a lab. It returns when the measurement has
// begun; wait returns when the ledger has been compared with every member.
func (c *cabled) work(people int, window string) (wait func() labResult) {
	c.t.Helper()
	dir := c.t.TempDir()
	type server struct {
		Name   string            `json:"name"`
		Data   string            `json:"data"`
		Domain string            `json:"domain"`
		Doors  map[string]string `json:"doors"`
	}
	var servers []server
	for i, m := range c.members {
		doors := map[string]string{}
		for door, as := range map[string]string{"imap": "imap", "submission": "submission", "smtp": "smtp",
			"pop3": "pop3", "http": "jmap"} {
			doors[as] = "127.0.0.1:" + m.Port[door]
		}
		servers = append(servers, server{[]string{"one", "two", "three"}[i], m.Data, "cluster.example", doors})
	}
	text, err := json.Marshal(map[string]any{"name": "field", "clustered": true, "people": people, "servers": servers})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "lab.json"), text, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	out, said := &program.Output{}, &program.Output{}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	cmd := exec.CommandContext(ctx, mustBinary(c.t), "bench", "run", "r6mail", "--lab", dir, "--users",
		fmt.Sprint(people), "--out", dir, "--json", "--ledger",
		"--speed", "300", "--init-scale", "2%", "--window", window, "--interval", "1s", "--max-settle", "2s",
		"--login-rate", "6000")
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.t.Cleanup(cancel)
	eventually(c.t, "people work", func() string {
		if strings.Contains(said.String(), ": measure") {
			return ""
		}
		return "it says " + said.String()
	})
	return func() (r labResult) {
		c.t.Helper()
		if err := <-ended; err != nil {
			c.t.Fatalf("the benchmark: %v\n%s\n%s", err, said, out)
		}
		_, text, _ := strings.Cut(out.String(), "{\n")
		if err := json.Unmarshal([]byte("{\n"+text), &r); err != nil {
			c.t.Fatalf("%v in %s", err, out)
		}
		return r
	}
}

// equal compares all replicas of databases that a cluster shares, at stopped members.
func equal(t *testing.T, members []*member, shared []placed) {
	t.Helper()
	want := map[string]int{}
	for _, d := range shared {
		want[d.ID] = len(d.Replicas)
	}
	type replica struct{ member, picture string }
	first, count := map[string]replica{}, map[string]int{}
	for i, m := range members {
		name := fmt.Sprintf("member %d", i+1)
		m.inspect(func(st *store.Store) {
			list, err := st.Databases()
			if err != nil {
				t.Fatal(name, err)
			}
			for _, d := range list {
				id := d.ID.String()
				if want[id] == 0 {
					continue // the server's own
				}
				p, err := sim.Picture(context.Background(), st, d.ID)
				if err != nil || d.State != layout.InService {
					t.Errorf("%s: %s is in state %v: %v", name, d.Title, d.State, err)
					continue
				}
				if f, ok := first[id]; !ok {
					first[id] = replica{name, p}
				} else if f.picture != p {
					t.Errorf("%s differs:\n%s", d.Title, sim.Difference(f.member, f.picture, name, p))
				}
				count[id]++
			}
		})
	}
	for _, d := range shared {
		if count[d.ID] != want[d.ID] || count[d.ID] < 2 {
			t.Errorf("%s lies on %d members, and %d are to have it: %+v", d.Title, count[d.ID], want[d.ID], d)
		}
	}
}

// inspect opens the store of a stopped member.
func (m *member) inspect(fn func(*store.Store)) {
	m.T.Helper()
	e := env.Real(slog.New(slog.DiscardHandler))
	st, err := store.Open(e, m.Data, store.Options{Indexes: slices.Concat(directory.Indexes(), session.Indexes(),
		trace.Indexes())})
	if err != nil {
		m.T.Fatal(err)
	}
	fn(st)
	if err := st.Close(); err != nil {
		m.T.Fatal(err)
	}
}

// TestClusterCables: three members are hosts of their own, the last one far away. While people work at them the first
// is killed, then packets are lost, a cable carries in one direction only, and the first is cut off. No acknowledged
// mail may be lost, doubled or resurrected, and all replicas must become equal. It runs before the parallel tests:
// beside browsers it would wait for their end.
func TestClusterCables(t *testing.T) {
	const people = 12
	began := time.Now() // for the log
	var list []string
	for i := range people {
		list = append(list, fmt.Sprintf("mail%d:bench", i+1))
	}
	c := newCabled(t, "cable", "198.51.100.", []string{"one", "two", "three"}, list...)
	one, two := c.members[0], c.members[1]
	for i := range c.members {
		c.hears(i, 2)
	}
	at := func(what string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), what) }
	c.slow.Store(int64(15 * time.Millisecond))
	ended := c.work(people, "20s") // long enough for a second one to run at its end

	at("people work; one is killed")
	one.Stop(syscall.SIGKILL)
	c.hears(1, 1)
	time.Sleep(time.Second)
	one.serve()
	c.hears(1, 2)

	at("packets are lost")
	c.lose(5)
	time.Sleep(3 * time.Second)
	c.heal()

	at("two hears nothing of one")
	c.deaf(1, 0) // two hears nothing from one, while one hears two
	c.hears(1, 1)
	time.Sleep(2 * time.Second)
	c.heal()
	c.hears(1, 2)

	at("one is cut off")
	tookOver := one.counter("Server.Cluster.TakeOvers") + two.counter("Server.Cluster.TakeOvers")
	c.cutOff(0)
	time.Sleep(2 * time.Second)
	tookOver = one.counter("Server.Cluster.TakeOvers") + two.counter("Server.Cluster.TakeOvers") - tookOver
	c.heal()
	for i := range c.members {
		c.hears(i, 2)
	}

	at("all are well again")
	r := ended()
	at("the ledger was held against all")
	if tookOver == 0 {
		t.Error("nobody took over while the cluster was split")
	}
	if len(r.Ledger) != len(c.members) || len(r.Steps) != 1 || r.Steps[0].Completed < 50 {
		t.Errorf("the run: %+v", r)
	}
	for _, v := range r.Ledger {
		t.Logf("%s: %d acknowledged", v.Server, v.Acknowledged)
		if v.Acknowledged < 100 || v.Lost+v.Doubled+v.Resurrected > 0 {
			t.Errorf("%+v", v)
		}
	}
	eventually(t, "all is quiet", func() string {
		for i, m := range c.members {
			if st := m.status(); !st.Serving || st.Homeless+st.Waiting > 0 {
				return fmt.Sprintf("member %d: %+v", i+1, st)
			}
		}
		return ""
	})
	shared := one.shared()
	if len(shared) < people+2 {
		t.Errorf("the cluster shares %d databases: %+v", len(shared), shared)
	}
	at("all are killed at once, and compared")
	for _, m := range c.members { // all at once, so that no member sees another leave
		_ = m.Cmd.Process.Kill()
	}
	for _, m := range c.members {
		m.Stop(syscall.SIGKILL)
	}
	equal(t, c.members, shared)
	at("done")
}
