package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/serve/certs"
	"doublet/serve/proxied"
	"doublet/serve/webd"
	"doublet/web"

	"github.com/spf13/cobra"
)

func (a *app) setupCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use: "setup", Short: "set a new server up in a browser, and run it", Args: cobra.NoArgs,
		Long: "Make a data folder, asking in a browser what doublet init asks in a terminal: the domain, the first " +
			"administrator and the\ncertificates; then run the server and show what to publish in DNS.\n\n" +
			"It prints one address, of this machine alone, with a token that is good until the server is made. From " +
			"another machine:\nssh -L 2080:127.0.0.1:2080 SERVER, then open the address there.",
	}
	overrides := doorFlags(cmd, config.Default())
	cmd.Flags().StringVar(&at, "at", "127.0.0.1:2080", "address of this machine where the browser finds the set-up")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s := &setup{app: a, overrides: overrides(), chosen: make(chan *choice)}
		return s.run(cmd.Context(), at)
	}
	return cmd
}

// setup is the guided first start in a browser. It listens on loopback. As long as there is no server, a client with
// the token can create one. After that the listener is an ordinary web door of the server, and the token is invalid.
type setup struct {
	*app
	overrides map[string]string
	token     string
	state     config.Config // the settings before any choice
	// handler is the current handler of the door.
	handler atomic.Value // of http.HandlerFunc
	chosen  chan *choice
	making  sync.Mutex
}

// choice is a checked request to create a server; done receives its outcome.
type choice struct {
	cfg   config.Config
	first admin.UserAdd
	done  chan error
}

// setupInput is the form that the page sends.
type setupInput struct {
	Domain   string `json:"domain"`
	Name     string `json:"name"`
	Person   string `json:"person"`
	Short    string `json:"short"`
	Password string `json:"password"`
	// Certificates is self, files or acme.
	Certificates string `json:"certificates"`
	Certificate  string `json:"certificate"`
	Key          string `json:"key"`
	Email        string `json:"email"`
	// Trial puts all doors on loopback, on ports that need no privilege.
	Trial bool `json:"trial"`
}

// setupState is the content of the page before any choice.
type setupState struct {
	Data string `json:"data"`
	Name string `json:"name"`
	// Doors are the doors of the usual settings, each with the reason if it cannot be opened; Trial are the doors of a
	// trial.
	Doors []setupDoor `json:"doors"`
	Trial []setupDoor `json:"trial"`
	Least int         `json:"least_password"`
}

type setupDoor struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Problem string `json:"problem,omitempty"`
}

func (s *setup) run(ctx context.Context, at string) error {
	cfg, warnings, err := s.settings(config.Default(), nil)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(cfg.Data.Dir, "LOCK")); err == nil {
		return &exitError{exitFailed, fmt.Errorf("%s holds a store already: doublet serve --data %s runs it",
			cfg.Data.Dir, cfg.Data.Dir)}
	}
	s.state, s.token = cfg, rand.Text()
	warn(world(&cfg, s.err), warnings)
	l, err := s.listen(at)
	if err != nil {
		return err
	}
	page, err := s.door()
	if err != nil {
		return err
	}
	s.handler.Store(page)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			s.handler.Load().(http.HandlerFunc)(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, err := fmt.Fprintf(s.out,
		"Open this address in a browser of this machine to set the server up:\n\n  http://%s/setup#%s\n\n"+
			"From another machine, first: ssh -L %s:%s SERVER. Ctrl-C ends it; nothing is made before the last step.\n",
		l.Addr(), s.token, port, l.Addr()); err != nil {
		return err
	}
	select {
	case c := <-s.chosen:
		return s.live(ctx, c, srv)
	case <-ctx.Done():
		return nil
	}
}

// settings returns base overridden by the settings of the command line, and those by more.
func (s *setup) settings(base config.Config, more map[string]string) (config.Config, []config.Warning, error) {
	all := map[string]string{}
	for _, m := range []map[string]string{s.overrides, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	return s.load(base, all)
}

// listen opens the door, on a loopback address only.
func (s *setup) listen(at string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--at %s: host:port is needed", at)}
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return nil, &exitError{exitUsage,
			fmt.Errorf("--at %s: the set-up is for this machine alone: give an address such as 127.0.0.1:2080", at)}
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, &exitError{exitPort, fmt.Errorf("--at %s: %w", at, err)}
	}
	return l, nil
}

// door returns the handler for the time before the server exists: the page and its API.
func (s *setup) door() (http.HandlerFunc, error) {
	mux := http.NewServeMux()
	err := webd.Files(web.Client(), func(name string, h http.Handler) {
		if name == "index.html" {
			name = "setup"
		}
		mux.Handle("GET /"+name, h)
	})
	mux.HandleFunc("POST /setup/state", s.show)
	mux.HandleFunc("POST /setup/make", s.make)
	return func(w http.ResponseWriter, r *http.Request) {
		if !loopbackName(r.Host) { // DNS rebinding: a foreign page may use a name of its own for this address
			http.Error(w, "the set-up is at 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		const field = "X-Setup-Token"
		if r.Method != http.MethodGet && subtle.ConstantTimeCompare([]byte(r.Header.Get(field)), []byte(s.token)) != 1 {
			refuse(w, http.StatusForbidden, errors.New("token is wrong: open the address that doublet setup printed"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		mux.ServeHTTP(w, r)
	}, err
}

// loopbackName reports whether a Host field, or the address of a door, names localhost or a loopback address.
func loopbackName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func refuse(w http.ResponseWriter, status int, err error) {
	respond(w, status, map[string]string{"error": err.Error()})
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *setup) show(w http.ResponseWriter, _ *http.Request) {
	trial, _, err := s.settings(config.Demo(), nil)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	out := setupState{Data: s.state.Data.Dir, Doors: tryDoors(&s.state), Trial: tryDoors(&trial),
		Least: webd.LeastPassword}
	if strings.Contains(s.state.Server.Name, ".") {
		out.Name = s.state.Server.Name
	}
	respond(w, http.StatusOK, out)
}

// tryDoors opens and closes each door, to find those that cannot be opened.
func tryDoors(cfg *config.Config) []setupDoor {
	var out []setupDoor
	for _, e := range config.Describe() {
		name, ok := strings.CutPrefix(e.Key, "doors.")
		if !ok {
			continue
		}
		address, _ := cfg.Get(e.Key)
		if address == config.Off {
			continue
		}
		d := setupDoor{Name: name, Address: address}
		l, err := net.Listen("tcp", address)
		switch {
		case err == nil:
			_ = l.Close()
		case errors.Is(err, syscall.EACCES):
			d.Problem = "denied"
		case errors.Is(err, syscall.EADDRINUSE):
			d.Problem = "taken"
		default:
			d.Problem = err.Error()
		}
		out = append(out, d)
	}
	return out
}

// make creates the server. It answers the request when the server runs, or with the reason why it does not.
func (s *setup) make(w http.ResponseWriter, r *http.Request) {
	if !s.making.TryLock() {
		refuse(w, http.StatusConflict, errors.New("server is being created"))
		return
	}
	defer s.making.Unlock()
	var in setupInput
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("cannot read the request: %w", err))
		return
	}
	c, err := s.choose(&in)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	select {
	case s.chosen <- c:
	case <-r.Context().Done():
		return
	}
	if err := <-c.done; err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	respond(w, http.StatusOK, map[string]string{"address": c.first.Short + "@" + c.cfg.Server.Domain})
}

// chooseCertificates adds the settings for certificates to more.
func (s *setup) chooseCertificates(in *setupInput, more map[string]string) error {
	switch in.Certificates {
	case "self":
	case "files":
		if _, err := certs.Load(world(&s.state, s.err), in.Certificate, in.Key); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		more["tls.certificate"], more["tls.key"] = in.Certificate, in.Key
	case "acme":
		more["acme.enabled"], more["acme.email"] = "true", in.Email
	default:
		return fmt.Errorf("certificates %q: self, files or acme", in.Certificates)
	}
	return nil
}

// choose checks the form, as far as possible before anything is created.
func (s *setup) choose(in *setupInput) (*choice, error) {
	for _, f := range []*string{&in.Domain, &in.Name, &in.Person, &in.Short, &in.Certificate, &in.Key, &in.Email} {
		*f = strings.TrimSpace(*f)
	}
	domain, err := directory.NormalDomain(in.Domain)
	if err != nil {
		return nil, err
	}
	if _, err := directory.NormalName(in.Person); err != nil {
		return nil, err
	}
	if _, err := directory.ParseAddress(in.Short + "@" + domain); err != nil || in.Short == "" {
		return nil, fmt.Errorf("%q is no short name: letters, digits, dots and hyphens", in.Short)
	}
	if utf8.RuneCountInString(in.Password) < webd.LeastPassword {
		return nil, fmt.Errorf("password has fewer than %d characters", webd.LeastPassword)
	}
	more := map[string]string{"server.domain": domain}
	if in.Name != "" {
		name, err := directory.NormalDomain(in.Name)
		if err != nil {
			return nil, fmt.Errorf("name of the server: %w", err)
		}
		more["server.name"] = name
	}
	if err := s.chooseCertificates(in, more); err != nil {
		return nil, err
	}
	base := config.Default()
	if in.Trial {
		base = config.Demo()
	}
	cfg, _, err := s.settings(base, more)
	if err != nil {
		return nil, err
	}
	for _, d := range tryDoors(&cfg) {
		if d.Problem != "" {
			return nil, fmt.Errorf("cannot open door %s at %s: %s", d.Name, d.Address, d.Problem)
		}
	}
	return &choice{cfg: cfg, first: admin.UserAdd{Name: in.Person, Short: in.Short, Role: []string{directory.RoleAdmin},
		Password: in.Password}, done: make(chan error, 1)}, nil
}

// live creates the chosen server and runs it. The door of the setup becomes one of its web doors.
func (s *setup) live(ctx context.Context, c *choice, srv *http.Server) (err error) {
	told := false
	defer func() {
		if !told {
			c.done <- err
			// Let the page receive the answer before its door closes.
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			err = errors.Join(err, srv.Shutdown(wait))
		}
	}()
	empty := emptyFolder(c.cfg.Data.Dir)
	if _, err := (&newcomer{s.app, c.cfg}).makeStore(ctx, c.first); err != nil {
		if empty {
			err = errors.Join(err, clearFolder(c.cfg.Data.Dir))
		}
		return fmt.Errorf("%s was not made: %w", c.cfg.Data.Dir, err)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	e, level := leveled(&c.cfg, s.err)
	load := func() (config.Config, []config.Warning, error) { return s.settings(config.Default(), nil) }
	l := life{env: e, level: level, cfg: c.cfg, load: load, edit: s.editSetting, hangup: hangup}
	l.ready = func(h *server) error {
		own := proxied.New(h.env, proxied.Options{}, h.web.Local()) // the setup's door is never behind a proxy
		s.handler.Store(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !loopbackName(r.Host) {
				http.Error(w, "this door is at 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
				return
			}
			if r.URL.Path == "/setup" {
				http.Redirect(w, r, "/", http.StatusSeeOther)
				return
			}
			own.ServeHTTP(w, r)
		}))
		h.closes("setup", srv.Shutdown)
		told = true
		c.done <- nil
		_, err := fmt.Fprintf(s.out,
			"\nThe server runs. Its data is in %s; from the next time on, doublet serve --data %s runs it.\n",
			c.cfg.Data.Dir, c.cfg.Data.Dir)
		return err
	}
	return live(ctx, l)
}

// emptyFolder reports whether a folder is empty or absent.
func emptyFolder(dir string) bool {
	list, err := os.ReadDir(dir)
	return notExist(err) || err == nil && len(list) == 0
}

// clearFolder removes the content of a folder.
func clearFolder(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
