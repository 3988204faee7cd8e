package agent

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/run"
	"doublet/bench/workload"
	"doublet/env"
)

const script = "name='tick'\ntitle='a poll every second'\nprotocol='imap'\nloop='1s'\n[[action]]\ndo='poll'\n"

// mailServer answers OK to every command, and counts the users who signed in, each once.
func mailServer(t *testing.T) (address string, logins *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logins = new(atomic.Int64)
	var known sync.Map
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewScanner(conn)
				for _, _ = io.WriteString(conn, "* OK\r\n"); in.Scan(); {
					tag, rest, _ := strings.Cut(in.Text(), " ")
					if _, again := known.LoadOrStore(rest, true); !again && strings.HasPrefix(rest, "LOGIN") {
						logins.Add(1)
					}
					fmt.Fprintf(conn, "%s OK\r\n", tag)
				}
			}()
		}
	}()
	return l.Addr().String(), logins
}

func world() *env.Env { return env.Real(slog.New(slog.DiscardHandler)) }

// hire starts an agent and sends it a job.
func hire(t *testing.T, job *Job) (c *Crew, kill func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- NewServer(world(), "word", Facts{Build: "b"}, 2,
			func() map[string]float64 { return map[string]float64{"cpu": 0.5} }).Serve(ctx, l)
	}()
	c, f, err := Hire(context.Background(), world(), l.Addr().String(), "word", job)
	if err != nil || f.Build != "b" {
		t.Fatal(f, err)
	}
	kill = func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		served <- nil
	}
	t.Cleanup(kill)
	return c, kill
}

func job(address string, users int) *Job {
	j := &Job{Name: "tick", Workload: script, Protocol: "imap", Seed: 3, Speed: 10, Label: "x",
		Doors: map[string]string{"imap": address}, Timeout: 10 * time.Second}
	for i := range users {
		j.Users = append(j.Users, drive.User{Index: i, Name: fmt.Sprint("u", i)})
	}
	return j
}

func plan(t *testing.T, j *Job, crews ...run.Crew) *run.Plan {
	t.Helper()
	w, err := workload.Parse("tick", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return &run.Plan{Env: world(), Workload: w, Protocol: "imap", Seed: j.Seed, Speed: j.Speed, Users: j.Users,
		Crews: crews, Steps: []int{len(j.Users)},
		LoginRate: 60000, Interval: 100 * time.Millisecond, Window: 500 * time.Millisecond,
		MaxSettle: 100 * time.Millisecond}
}

// TestAgentsAreOneDriver checks that two agents with half of the users each do the work of one driver.
func TestAgentsAreOneDriver(t *testing.T) {
	t.Parallel()
	address, logins := mailServer(t)
	j := job(address, 9)
	a, _ := hire(t, j)
	b, _ := hire(t, j)
	var file bytes.Buffer
	if err := plan(t, j, a, b).Run(context.Background(), record.NewWriter(&file, record.Header{ID: "x"})); err != nil {
		t.Fatal(err)
	}
	r, err := record.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	all := r.Total(0, "poll")
	// 9 users poll ten times a second. A busy machine does less, in a longer window.
	most := int64(90*(r.Steps[0].To-r.Steps[0].From).Seconds()) + 20
	if n := all.Latency.Count(); n < 9 || n > most || all.Failed > 0 || logins.Load() != 9 {
		t.Errorf("%d polls, %d sign-ins, errors %v", n, logins.Load(), all.Errors)
	}
	seen := map[string]bool{}
	for _, x := range r.Samples {
		seen[x.Group] = x.Host == "driver" && x.Values["cpu"] == 0.5
	}
	if len(seen) != 2 || !seen[a.address] || !seen[b.address] {
		t.Errorf("samples of %v", seen)
	}
}

// TestAnAgentDies checks that the run ends cleanly, names the lost agent, and keeps the measurements of the others.
func TestAnAgentDies(t *testing.T) {
	t.Parallel()
	address, _ := mailServer(t)
	j := job(address, 4)
	a, _ := hire(t, j)
	b, kill := hire(t, j)
	p := plan(t, j, a, b)
	p.Window, p.Steps = time.Hour, []int{4, 4}
	intervals := 0
	p.Progress = func(run.Progress) {
		if intervals++; intervals == 4 {
			kill()
		}
	}
	var file bytes.Buffer
	err := p.Run(context.Background(), record.NewWriter(&file, record.Header{ID: "x"}))
	if err == nil || !strings.Contains(err.Error(), b.address) {
		t.Errorf("%v", err)
	}
	r, err := record.Read(&file)
	if err != nil || r.End == nil || len(r.Steps) != 1 || r.Steps[0].Outcome != record.Interrupted ||
		!strings.Contains(r.End.Reason, b.address) || len(r.Events) == 0 {
		t.Fatalf("%v %+v", err, r)
	}
	if x := r.Total(0, "poll"); x.Latency.Count() == 0 {
		t.Error("what the other agent measured is lost")
	}
}

func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	address, _ := mailServer(t)
	j := job(address, 2)
	c, _ := hire(t, j)
	if _, _, err := Hire(context.Background(), world(), c.address, "other", j); err == nil ||
		!strings.Contains(err.Error(), "secret") {
		t.Errorf("another secret: %v", err)
	}
	for _, x := range []run.Shift{{First: 0, Count: 3, LoginRate: 1}, {First: -1, Count: 1, LoginRate: 1},
		{First: 0, Count: 1}} {
		if err := c.Begin(context.Background(), x); err == nil {
			t.Errorf("%+v is taken", x)
		}
	}
	bad := *j
	bad.Workload = "nonsense"
	if _, _, err := Hire(context.Background(), world(), c.address, "word", &bad); err == nil {
		t.Error("a bad workload is taken")
	}
}
