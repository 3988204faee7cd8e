package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"doublet/test/external"
)

// TestJMAPClients runs foreign JMAP clients: test/e2e/jmap.
func TestJMAPClients(t *testing.T) {
	t.Parallel()
	node := external.Need(t, "node")[0]
	if _, err := os.Stat("jmap/node_modules/jmap-jam"); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatal("the clients are missing: npm --prefix test/e2e/jmap ci")
		}
		t.Skip("the clients are missing: npm --prefix test/e2e/jmap ci")
	}
	s := demo(t)
	app := lastWord(s.Doublet("user", "app-password", "add", "alice", "jam"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, node, "--test", "--test-reporter=spec")
	cmd.Dir = "jmap"
	cmd.Env = append(os.Environ(), "JMAP=http://127.0.0.1:"+s.Port["http"], "TOKEN="+app)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
