//go:build linux

package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// TestContainerfile follows the steps of the Containerfile without a container runtime. The static binary runs with
// only the listed files, as an unprivileged user. It must report that it is healthy, and end on request.
func TestContainerfile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../packaging/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	program.Want(t, text, "RUN CGO_ENABLED=0 go build -trimpath -o /doublet ./cmd/doublet ", "FROM scratch\n",
		"COPY --from=build /doublet /doublet\n",
		"COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n",
		"COPY --from=build --chown=65532:65532 /data /data\n",
		"COPY --from=build --chown=65532:65532 /tmp/empty /tmp\n", "USER 65532:65532\n", "STOPSIGNAL SIGTERM\n",
		`ENTRYPOINT ["/doublet"]`)
	if n := strings.Count(text, "\nCOPY "); n != 5 {
		t.Errorf("%d COPY: this test knows of five", n)
	}
	// words returns the arguments of a line in JSON form.
	words := func(pattern string) []string {
		m := regexp.MustCompile(`(?m)` + pattern + ` \[(.*)\]$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s", pattern)
		}
		return strings.Split(strings.Trim(m[1], `"`), `", "`)
	}
	health := words(`^HEALTHCHECK .* CMD`)
	serve := append(words(`^ENTRYPOINT`), words(`^CMD`)...)
	if os.Geteuid() != 0 {
		external.Missing(t, "root", "the test becomes somebody else in a root of their own")
	}

	binary, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65532
	root, err := os.MkdirTemp("", "doublet-container") // not below the test's own folder, which others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(os.Chmod(root, 0o755))
	for _, dir := range []string{"data", "tmp"} {
		ok(os.Mkdir(filepath.Join(root, dir), 0o700))
		ok(os.Chown(filepath.Join(root, dir), nobody, nobody))
	}
	bin, err := os.ReadFile(binary)
	ok(err)
	ok(os.WriteFile(filepath.Join(root, "doublet"), bin, 0o755))
	if roots, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt"); err == nil {
		ok(os.MkdirAll(filepath.Join(root, "etc/ssl/certs"), 0o755))
		ok(os.WriteFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"), roots, 0o644))
	}
	ports := program.FreePorts(t, 2)
	inside := func(stdin string, args ...string) (*exec.Cmd, *program.Output) {
		c, out := exec.Command(args[0], args[1:]...), &program.Output{}
		c.Dir, c.Stdin, c.Stdout, c.Stderr = "/", io.NopCloser(bytes.NewBufferString(stdin)), out, out
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		c.Env = []string{"DOUBLET_STORE_SPACE_FLOOR=0B", "DOUBLET_STORE_SPACE_FLOOR_PERCENT=0",
			"DOUBLET_SERVER_NAME=mail.example.org", "DOUBLET_DNS_SERVERS=127.0.0.1:1"}
		return c, out
	}
	// The comment at the head of the file documents how to create a server.
	program.Want(t, text, "#   podman run -it --rm -v mail:/data doublet init --data /data --domain example.org\n")
	c, out := inside("secret\n", "/doublet", "init", "--data", "/data", "--domain", "example.org")
	if err := c.Run(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	// The standard ports may be in use here, and need root.
	for _, door := range append([]string{"submissions"}, program.Doors...) {
		at := "off"
		switch door {
		case "smtp":
			at = "127.0.0.1:" + ports[0]
		case "imap":
			at = "127.0.0.1:" + ports[1]
		}
		serve = append(serve, "--"+door, at)
	}
	c, out = inside("", serve...)
	ok(c.Start())
	s := &server{&program.Server{T: t, Cmd: c, Port: map[string]string{"smtp": ports[0], "imap": ports[1]}, Out: out}}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	s.Await("smtp")
	if c, out := inside("", health...); c.Run() != nil {
		t.Errorf("%v: %s", health, out)
	}
	stopped := make(chan struct{})
	go func() { s.Stop(syscall.SIGTERM); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(40 * time.Second):
		t.Fatalf("still running after SIGTERM:\n%s", out)
	}
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, out)
	}
	if c, out := inside("", health...); c.Run() == nil {
		t.Errorf("well after its end: %s", out)
	}
}
