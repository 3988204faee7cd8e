package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"doublet/client/smtp"
	"doublet/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }

// process is a running server.
type process struct {
	cmd    *exec.Cmd
	doors  map[string]string
	errors *bytes.Buffer
	drain  chan struct{}
}

func startProcess(t *testing.T, data string) *process {
	t.Helper()
	binary, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(binary, append([]string{"demo", "--data", data}, random...)...),
		errors: &bytes.Buffer{}, drain: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), quick...)
	p.cmd.Stderr = p.errors
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.doors = readBox(t, out)
	go func() {
		_, _ = io.Copy(io.Discard, out)
		close(p.drain)
	}()
	return p
}

func (p *process) wait() error {
	<-p.drain
	return p.cmd.Wait()
}

// TestTerm checks that a server finishes its running commands after SIGTERM and then ends.
func TestTerm(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startProcess(t, data)
	// Half of a message is sent when the signal comes; the command must still finish.
	c, err := smtp.Dial(quiet, "tcp", p.doors["smtp"], smtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Hello("test"); err != nil {
		t.Fatal(err)
	}
	if reply, err := c.Raw("MAIL FROM:<bob@example.com>"); err != nil || reply.Code != 250 {
		t.Fatal(reply, err)
	}
	if reply, err := c.Raw("RCPT TO:<carol@example.com>"); err != nil || reply.Code != 250 {
		t.Fatal(reply, err)
	}
	d, err := c.Data()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("Subject: half\r\n\r\nthe first half\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("the second half\r\n")); err != nil {
		t.Fatal(err)
	}
	if reply, err := d.Finish(); err != nil {
		t.Fatalf("a message under way was cut: %v %v", reply, err)
	}
	if err := p.wait(); err != nil {
		t.Fatalf("%v\n%s", err, p.errors)
	}
	p = startProcess(t, data)
	all := inbox(t, p.doors["imap"], "carol", "INBOX")
	if !strings.HasSuffix(all[len(all)-1], "the first half\r\nthe second half\r\n") {
		t.Errorf("the message that was acknowledged is not there: %q", all[len(all)-1])
	}
	if code, out, errs := command(t, "", "stop", "--data", data); code != 0 {
		t.Errorf("stop: %d %s %s", code, out, errs)
	}
	if err := p.wait(); err != nil {
		t.Errorf("stop: %v\n%s", err, p.errors)
	}
}

// TestKill checks that after a kill -9 at any moment every acknowledged message is there, byte for byte.
func TestKill(t *testing.T) {
	t.Parallel()
	const rounds, senders, enough = 4, 4, 60
	data := t.TempDir()
	var mu sync.Mutex
	ledger := map[string]string{} // subject → acknowledged message
	var number atomic.Int64
	from, to := mustPath(t, "ledger@far.example.net"), mustPath(t, "bob@example.com")
	for round := range rounds {
		p := startProcess(t, data)
		audit(t, p, ledger)
		var wg sync.WaitGroup
		for range senders {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c, err := smtp.Dial(quiet, "tcp", p.doors["smtp"], smtp.Options{})
				if err != nil {
					return
				}
				defer c.Close()
				if c.Hello("test") != nil {
					return
				}
				for {
					n := number.Add(1)
					subject := fmt.Sprintf("Subject: ledger %d of round %d\r\n", n, round)
					// Some messages are large enough for objects.
					raw := subject + "\r\n" + strings.Repeat(fmt.Sprintf("line of %d\r\n", n), 1+int(n%10/9)*8000)
					if send(c, from, to, []byte(raw)) != nil {
						return
					}
					mu.Lock()
					ledger[subject] = raw
					full := len(ledger) >= (round+1)*enough
					mu.Unlock()
					if full {
						_ = p.cmd.Process.Kill() // the other senders are in the middle of a message
					}
				}
			}()
		}
		wg.Wait()
		_ = p.wait()
	}
	p := startProcess(t, data)
	audit(t, p, ledger)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("%v\n%s", err, p.errors)
	}
	if code, out, errs := command(t, "", "check", "--deep", "--data", data); code != 0 ||
		!strings.HasPrefix(out, "clean") {
		t.Errorf("check: %d %s %s", code, out, errs)
	}
}

// audit compares the mail with the ledger: every acknowledged message is there, whole and once.
func audit(t *testing.T, p *process, ledger map[string]string) {
	t.Helper()
	found := map[string]int{}
	for _, got := range inbox(t, p.doors["imap"], "bob", "INBOX") {
		at := strings.Index(got, "Subject: ledger ")
		if at < 0 {
			continue
		}
		subject := got[at : strings.Index(got[at:], "\r\n")+at+2]
		found[subject]++
		if want, acknowledged := ledger[subject]; acknowledged && got[at:] != want {
			t.Errorf("%q came back otherwise: %d bytes of %d", subject, len(got[at:]), len(want))
		}
	}
	for subject := range ledger {
		if found[subject] != 1 {
			t.Errorf("%q was acknowledged and is there %d times", subject, found[subject])
		}
	}
}
