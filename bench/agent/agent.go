// Package agent runs drivers on several machines as one. A controller assigns shares of the users to agents, starts and
// ends each step, and collects the results of every interval. Histograms are sent whole, so that percentiles over many
// drivers are as exact as those of one.
package agent

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/run"
	"doublet/bench/workload"
	"doublet/env"
)

// Job describes the work that a controller gives to an agent.
type Job struct {
	// Workload is the text of the workload's file; Name is its name in errors.
	Name     string         `json:"name"`
	Workload string         `json:"workload"`
	Protocol string         `json:"protocol"`
	Seed     uint64         `json:"seed"`
	Speed    float64        `json:"speed"`
	Set      map[string]int `json:"set,omitempty"`
	// Label makes the Message-IDs of this run unique.
	Label string `json:"label"`

	Doors    map[string]string `json:"doors"`
	StartTLS bool              `json:"start_tls,omitempty"`
	Insecure bool              `json:"insecure,omitempty"`
	Timeout  time.Duration     `json:"timeout"`
	Cold     bool              `json:"cold,omitempty"`
	// Users are all registered users.
	Users []drive.User `json:"users"`
}

// Facts is an agent's reply to a job.
type Facts struct {
	Host  record.Host `json:"host"`
	Build string      `json:"build"`
}

// maxJob is the size limit of a job in bytes: room for a million users.
const maxJob = 256 << 20

// silence is the time without a request of the controller after which its users end.
const silence = time.Minute

// Server is an agent. It works for one controller at a time: a new job ends the one before.
type Server struct {
	env    *env.Env
	secret string
	facts  Facts
	self   func() map[string]float64
	cores  int

	mu    sync.Mutex
	local *run.Local
	end   func() // ends the current step
	heard time.Time
}

// NewServer returns an agent. self returns the figures of its process, as in run.Plan.
func NewServer(e *env.Env, secret string, f Facts, cores int, self func() map[string]float64) *Server {
	return &Server{env: e, secret: secret, facts: f, cores: cores, self: self, end: func() {}}
}

// Serve answers requests until ctx ends, and then ends the users.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /job", answer(s, func(j *Job) (Facts, error) { return s.facts, s.take(j) }))
	mux.HandleFunc("POST /begin", answer(s, func(x *run.Shift) (struct{}, error) { return struct{}{}, s.begin(*x) }))
	mux.HandleFunc("POST /cut", answer(s, func(final *bool) (run.Cut, error) { return s.cut(*final) }))
	mux.HandleFunc("POST /end", answer(s, func(*struct{}) (struct{}, error) { s.stop(); return struct{}{}, nil }))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.env.Go("bench agent", func() {
		for {
			select {
			case <-ctx.Done():
				_ = srv.Close()
				return
			case <-s.env.Clock.After(silence / 6):
			}
			s.mu.Lock()
			late := s.env.Clock.Now().Sub(s.heard) > silence
			s.mu.Unlock()
			if late {
				s.stop()
			}
		}
	})
	err := srv.Serve(l)
	s.stop()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// answer turns a function from JSON to JSON into a handler.
func answer[In, Out any](s *Server, fn func(*In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(given), []byte(s.secret)) != 1 {
			http.Error(w, "the secret is another one", http.StatusForbidden)
			return
		}
		s.mu.Lock()
		s.heard = s.env.Clock.Now()
		s.mu.Unlock()
		in := new(In)
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJob)).Decode(in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := fn(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}
}

func (s *Server) take(j *Job) error {
	w, err := workload.Parse(j.Name, []byte(j.Workload))
	if err != nil {
		return err
	}
	s.stop()
	world := &drive.World{
		Env: s.env, Workload: w, Seed: j.Seed, Speed: j.Speed, Users: j.Users, Label: j.Label, Cold: j.Cold,
		Target: drive.Target{Doors: j.Doors, StartTLS: j.StartTLS, Timeout: j.Timeout,
			TLS: &tls.Config{InsecureSkipVerify: j.Insecure}}, //nolint:gosec // asked for
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local = run.NewLocal(&run.Plan{
		Env: s.env, Workload: w, Protocol: j.Protocol, Seed: j.Seed, Speed: max(j.Speed, 1e-6), Set: j.Set,
		Users: j.Users, Self: s.self, Cores: s.cores,
		Open: func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
			return world.Open(ctx, j.Protocol, u)
		},
	})
	return nil
}

var errNoJob = errors.New("no such job")

func (s *Server) begin(x run.Shift) error {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.local == nil:
		return errNoJob
	case x.First < 0 || x.Count < 0 || x.First > len(s.local.Users) || x.Count > len(s.local.Users)-x.First ||
		x.LoginRate <= 0:
		return fmt.Errorf("users %d to %d are not among %d", x.First, x.First+x.Count, len(s.local.Users))
	}
	s.end = s.local.End
	return s.local.Begin(context.Background(), x)
}

func (s *Server) cut(final bool) (run.Cut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local == nil {
		return run.Cut{}, errNoJob
	}
	return s.local.Cut(context.Background(), final)
}

func (s *Server) stop() {
	s.mu.Lock()
	end := s.end
	s.end = func() {}
	s.mu.Unlock()
	end()
}

// Crew is the controller's connection to an agent. It implements run.Crew.
type Crew struct {
	address, secret string
	http            *http.Client
}

var _ run.Crew = (*Crew)(nil)

// The timeouts of an agent: for an answer, and for ending its users.
const (
	answerTime = 20 * time.Second
	endTime    = 2 * time.Minute
)

// Hire sends a job to the agent at an address, host:port.
func Hire(ctx context.Context, e *env.Env, address, secret string, j *Job) (*Crew, Facts, error) {
	c := &Crew{address: address, secret: secret, http: &http.Client{Transport: &http.Transport{
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return e.Dial(network, address, answerTime)
		},
	}}}
	var f Facts
	err := c.ask(ctx, "job", endTime, j, &f)
	return c, f, err
}

func (c *Crew) ask(ctx context.Context, what string, limit time.Duration, in, out any) error {
	err := c.call(ctx, what, limit, in, out)
	if err != nil {
		return fmt.Errorf("agent %s: %s: %w", c.address, what, err)
	}
	return nil
}

func (c *Crew) call(ctx context.Context, what string, limit time.Duration, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.secret)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return errors.New(strings.TrimSpace(string(text)))
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxJob)).Decode(out)
}

// Begin implements run.Crew.
func (c *Crew) Begin(ctx context.Context, s run.Shift) error {
	return c.ask(ctx, "begin", endTime, s, &struct{}{})
}

// Cut implements run.Crew.
func (c *Crew) Cut(ctx context.Context, final bool) (cut run.Cut, err error) {
	err = c.ask(ctx, "cut", answerTime, final, &cut)
	cut.Name = c.address
	return cut, err
}

// End implements run.Crew. If the request is lost, the agent ends the users after a minute of silence.
func (c *Crew) End() {
	_ = c.ask(context.Background(), "end", endTime, struct{}{}, &struct{}{})
}
