package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/reach"
	"doublet/directory"
	"doublet/note"
)

// names maps hosts to addresses, which may change.
type names struct {
	mu   sync.Mutex
	list map[string]string
}

func (n *names) set(name, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list[name] = address
}

func (n *names) Addresses(_ context.Context, name string) ([]netip.Addr, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, known := n.list[name]
	if !known {
		return nil, false, errors.New("no such name")
	}
	return []netip.Addr{netip.MustParseAddr(a)}, false, nil
}

// TestReach checks that an administrator in a browser can make the server replicate only with public hosts and hosts of
// allowed networks. This holds even if the address of a name changes later. On the server's machine, any host is
// allowed.
func TestReach(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	dns := &names{list: map[string]string{"inside.example": "169.254.169.254", "school.example": "10.9.0.7",
		"turns.example": "8.8.8.8"}}
	connecting(s, reach.New(s.Env, dns, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}), nil)
	var mu sync.Mutex
	var dialled []string
	s.Env.Dial = func(_, address string, _ time.Duration) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, address)
		return nil, errors.New("nobody answers")
	}
	did := func() string {
		mu.Lock()
		defer mu.Unlock()
		out := strings.Join(dialled, " ")
		dialled = nil
		return out
	}
	browser := note.Who{Person: note.UNID{9}, Roles: []string{directory.RoleAdmin}}
	run := func(who note.Who, verb, url, name string) error {
		args := map[string]any{"url": url, "user": "u", "password": "p"}
		switch verb {
		case "connection add":
			args["name"] = name
		case "connection run":
			args = map[string]any{"name": name}
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Run(context.Background(), who, verb, raw, nil)
		return err
	}
	for _, url := range []string{
		"https://127.0.0.1/", "127.0.0.1:8443", "http://localhost:8080", "http://127.0.0.1",
		"https://[::ffff:127.0.0.1]/", "https://inside.example", "inside.example:9200",
		"https://8.8.8.8:22/", "https://u:p@school.example", "https://192.168.1.1",
	} {
		for _, verb := range []string{"replica copy", "connection add"} {
			if err := run(browser, verb, url, url); err == nil {
				t.Errorf("%s %s is taken", verb, url)
			}
			if got := did(); got != "" {
				t.Errorf("%s %s dialled %s", verb, url, got)
			}
		}
	}
	if err := run(browser, "replica copy", "https://inside.example", ""); !errors.Is(err, reach.ErrAddress) {
		t.Errorf("%v", err)
	}
	if err := run(browser, "connection add", "https://inside.example", "x"); Kind(err) != "usage" ||
		!strings.Contains(err.Error(), "web.admin_reach") {
		t.Errorf("it does not say what to do: %v", err)
	}
	for url, want := range map[string]string{"https://school.example": "10.9.0.7:443",
		"https://turns.example:8443/x": "8.8.8.8:8443"} {
		_ = run(browser, "replica copy", url, "")
		if got := did(); got != want {
			t.Errorf("%s dialled %q, want %q", url, got, want)
		}
	}
	// A name with a public address when the connection is added, and a private one when it runs, from the task and from
	// the socket.
	if err := run(browser, "connection add", "https://turns.example", "turns"); err != nil {
		t.Fatal(err)
	}
	dns.set("turns.example", "127.0.0.1")
	for _, who := range []note.Who{browser, note.System} {
		if err := run(who, "connection run", "", "turns"); !errors.Is(err, reach.ErrAddress) || did() != "" {
			t.Errorf("the name has turned: %v", err)
		}
	}
	x, err := s.Directory.Connections.List(context.Background(), note.System)
	if err != nil || len(x) != 1 || !x[0].Guarded {
		t.Fatalf("%+v %v", x, err)
	}
	// A connection that was added on the server's machine may use a private address, and be run from the browser.
	if err := run(note.System, "connection add", "https://10.1.2.3", "inner"); err != nil {
		t.Fatal(err)
	}
	for _, who := range []note.Who{browser, note.System} {
		if _ = run(who, "connection run", "", "inner"); did() != "10.1.2.3:443" {
			t.Error("it is not run")
		}
	}
}
