package mail

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/mail/outbound"
	"doublet/mail/outbound/sink"
)

// TestFairShare checks that, when all connections are in use, a destination with much mail makes room for one without a
// connection.
func TestFairShare(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Connections: 1}, sink.Options{})
	f.zone.Add("b.example. IN MX 10 mx.far.example.\n")
	for i := range 100 {
		f.deposit(f.from("alice@example.com", fmt.Sprintf("u%d@%s", i, [...]string{"far.example", "b.example"}[i/50])))
	}
	f.flush()
	seen := map[string]int{}
	f.queue(0)
	for _, m := range f.sink.Messages()[:60] {
		_, domain, _ := strings.Cut(m.To[0], "@")
		seen[domain]++
	}
	if len(seen) != 2 || seen["far.example>"] < 15 || seen["b.example>"] < 15 {
		t.Errorf("of the first 60 messages: %v", seen)
	}
}

// TestSilentServer checks that a server that accepts the connection and does not reply costs its timeout, but does not
// delay other destinations.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent, gone := make(chan struct{}), make(chan struct{})
	f := openFar(t, Options{}, sink.Options{Reply: func(_ int, line string) string {
		if strings.Contains(line, "u@far.example") {
			close(silent)
			<-gone
		}
		return ""
	}})
	defer close(gone)
	f.Router.opt.Mailer = outbound.New(f.fix.Env, outbound.Options{
		Hostname: "mx.example.com", Port: f.sink.Port(), Timeout: 2 * time.Second,
		Resolver: dns.New(f.fix.Env, dns.Options{Servers: []string{f.zone.Addr()}, Timeout: time.Second, Attempts: 1}),
	})
	f.zone.Add("b.example. IN MX 10 mx.far.example.\n")
	f.deposit(f.from("alice@example.com", "u@far.example"))
	f.deposit(f.from("alice@example.com", "v@b.example"))
	f.flush()
	<-silent
	e := f.queue(1)[0]
	if q := e.Recipients[0]; q.Address != "u@far.example" || !strings.HasPrefix(q.Reply, "451 4.4.2") ||
		f.sink.Count() != 1 {
		t.Errorf("%+v", q)
	}
}
