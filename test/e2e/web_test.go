package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"doublet/test/external"
)

// TestBrowser drives the browser client in Chromium: test/e2e/web.
func TestBrowser(t *testing.T) {
	t.Parallel()
	paths := external.Need(t, "node", "chromium")
	if _, err := os.Stat("web/node_modules/playwright-core"); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatal("the browser tests' packages are missing: npm --prefix test/e2e/web ci")
		}
		t.Skip("the browser tests' packages are missing: npm --prefix test/e2e/web ci")
	}
	s := demo(t)
	doublet, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 12*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, paths[0], "--test", "--test-reporter=spec", "--test-concurrency=1")
	cmd.Dir = "web"
	cmd.Env = append(os.Environ(), "WEB=http://127.0.0.1:"+s.port["http"], "SMTP="+s.port["smtp"], "CHROMIUM="+paths[1], "DOUBLET="+doublet)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
