// Package agent lets drivers on several machines work as one: a controller hands out shares of the users, tells
// when a step begins and ends, and asks at every interval what happened. Histograms travel whole, so that
// percentiles of many drivers are as exact as those of one.
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

// Job is what a controller wants to be driven.
type Job struct {
	// Workload is the text of its file, Name what stands in errors.
	Name     string         `json:"name"`
	Workload string         `json:"workload"`
	Protocol string         `json:"protocol"`
	Seed     uint64         `json:"seed"`
	Speed    float64        `json:"speed"`
	Set      map[string]int `json:"set,omitempty"`
	// Label makes Message-IDs of this run its own.
	Label string `json:"label"`

	Doors    map[string]string `json:"doors"`
	StartTLS bool              `json:"start_tls,omitempty"`
	Insecure bool              `json:"insecure,omitempty"`
	Timeout  time.Duration     `json:"timeout"`
	Cold     bool              `json:"cold,omitempty"`
	// Users are all who are registered.
	Users []drive.User `json:"users"`
}

// Facts is what an agent answers to a job.
type Facts struct {
	Host  record.Host `json:"host"`
	Build string      `json:"build"`
}

// maxJob bounds a job: a million users fit.
const maxJob = 256 << 20

// silence is after which the users of a controller that says nothing any more go home.
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
	end   func() // of the step under way
	heard time.Time
}

// NewServer makes an agent; self says what its process is doing, as in run.Plan.
func NewServer(e *env.Env, secret string, f Facts, cores int, self func() map[string]float64) *Server {
	return &Server{env: e, secret: secret, facts: f, cores: cores, self: self, end: func() {}}
}

// Serve answers until ctx ends; then its users go home.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /job", answer(s, func(j *Job) (Facts, error) { return s.facts, s.take(j) }))
	mux.HandleFunc("POST /begin", answer(s, func(x *run.Shift) (struct{}, error) { return struct{}{}, s.begin(*x) }))
	mux.HandleFunc("POST /cut", answer(s, func(*struct{}) (run.Cut, error) { return s.cut() }))
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

// answer makes a handler of a function from JSON to JSON.
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
		Target: drive.Target{Doors: j.Doors, TLS: &tls.Config{InsecureSkipVerify: j.Insecure}, StartTLS: j.StartTLS, Timeout: j.Timeout}, //nolint:gosec // asked for
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local = run.NewLocal(&run.Plan{
		Env: s.env, Workload: w, Protocol: j.Protocol, Seed: j.Seed, Speed: max(j.Speed, 1e-6), Set: j.Set, Users: j.Users, Self: s.self, Cores: s.cores,
		Open: func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
			return world.Open(ctx, j.Protocol, u)
		},
	})
	return nil
}

var errNoJob = errors.New("there is no job")

func (s *Server) begin(x run.Shift) error {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.local == nil:
		return errNoJob
	case x.First < 0 || x.Count < 0 || x.First > len(s.local.Users) || x.Count > len(s.local.Users)-x.First || x.LoginRate <= 0:
		return fmt.Errorf("users %d to %d are not among %d", x.First, x.First+x.Count, len(s.local.Users))
	}
	s.end = s.local.End
	return s.local.Begin(context.Background(), x)
}

func (s *Server) cut() (run.Cut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local == nil {
		return run.Cut{}, errNoJob
	}
	return s.local.Cut(context.Background())
}

func (s *Server) stop() {
	s.mu.Lock()
	end := s.end
	s.end = func() {}
	s.mu.Unlock()
	end()
}

// Crew is an agent as its controller sees it.
type Crew struct {
	address, secret string
	http            *http.Client
}

var _ run.Crew = (*Crew)(nil)

// How long an agent may take: over an answer, and over sending its users home.
const (
	answerTime = 20 * time.Second
	endTime    = 2 * time.Minute
)

// Hire gives a job to the agent at an address, host:port.
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
func (c *Crew) Cut(ctx context.Context) (cut run.Cut, err error) {
	err = c.ask(ctx, "cut", answerTime, struct{}{}, &cut)
	cut.Name = c.address
	return cut, err
}

// End implements run.Crew. An agent that does not hear it ends by itself.
func (c *Crew) End() {
	_ = c.ask(context.Background(), "end", endTime, struct{}{}, &struct{}{})
}
