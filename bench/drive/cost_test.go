//go:build unix

package drive

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/bench/workload"
	"doublet/env"
)

// canned marks the process that plays the server. It is a separate process, so that its cost is not counted.
const canned = "BENCH_DRIVE_CANNED"

func TestMain(m *testing.M) {
	if os.Getenv(canned) != "" {
		playCanned()
		return
	}
	os.Exit(m.Run())
}

// playCanned answers IMAP commands with prepared text. It prints its address.
func playCanned() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent process ends
		os.Exit(0)
	}()
	var list strings.Builder
	for i := range page {
		fmt.Fprintf(&list, "* %d FETCH (UID %d FLAGS (\\Seen) INTERNALDATE \"01-Jan-2026 08:00:00 +0000\" "+
			"RFC822.SIZE 97300 ENVELOPE (\"Thu, 01 Jan 2026 08:00:00 +0000\" \"Message %d of the beginning\" "+
			"((NIL NIL \"mail%d\" \"example.com\")) ((NIL NIL \"mail%d\" \"example.com\")) ((NIL NIL \"mail%d\" "+
			"\"example.com\")) ((NIL NIL \"mail1\" \"example.com\")) NIL NIL NIL \"<init.%d.1@bench.example>\"))\r\n",
			81+i, 81+i, i, i, i, i, i)
	}
	body := []byte(fmt.Sprintf("* 90 FETCH (UID 90 FLAGS (\\Seen) BODY[] {50000}\r\n%s)\r\n",
		bytes.Repeat([]byte("x"), 50000)))
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for _, _ = io.WriteString(conn, "* OK\r\n"); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				tag, rest, _ := strings.Cut(line, " ")
				switch {
				case strings.HasPrefix(rest, "SELECT"):
					_, _ = io.WriteString(conn, "* 100 EXISTS\r\n")
				case strings.HasPrefix(rest, "FETCH"):
					_, _ = io.WriteString(conn, list.String())
				case strings.HasPrefix(rest, "UID FETCH"):
					_, _ = conn.Write(body)
				}
				_, _ = io.WriteString(conn, tag+" OK done\r\n")
			}
		}()
	}
}

// startCanned starts that process.
func startCanned(tb testing.TB) *World {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), canned+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	w, err := workload.ByName("r6mail")
	if err != nil {
		tb.Fatal(err)
	}
	return &World{Env: env.Real(slog.New(slog.DiscardHandler)), Workload: w,
		Users:  []User{{Name: "u", Address: "u@example.com"}},
		Target: Target{Doors: map[string]string{"imap": strings.TrimSpace(address)}, Timeout: time.Minute}}
}

// actions is the mix of R6Mail over IMAP, without sending.
var actions = []workload.Verb{workload.Open, workload.Read, workload.Read, workload.Read, workload.Read, workload.Read,
	workload.Update, workload.Poll, workload.Close}

// BenchmarkActions reports the driver's own processor time for 1,000 actions of a mail user.
func BenchmarkActions(b *testing.B) {
	w := startCanned(b)
	s, _, err := w.Open(context.Background(), workload.IMAP, &w.Users[0])
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	n := 0
	for b.Loop() {
		if _, err := s.Do(ctx, &workload.Planned{Action: &workload.Action{Do: actions[n%len(actions)]}}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(used.Seconds()/float64(n)*1000, "CPU-s/1000actions")
	b.ReportAllocs()
}

// BenchmarkIdleSession reports the memory of a user who is signed in and waits.
func BenchmarkIdleSession(b *testing.B) {
	w := startCanned(b)
	var before, after runtime.MemStats
	var all []Session
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		s, _, err := w.Open(context.Background(), workload.IMAP, &w.Users[0])
		if err == nil {
			_, err = act(s, workload.Open)
		}
		if err != nil {
			b.Fatal(err)
		}
		if len(all) < 2000 {
			all = append(all, s)
		} else {
			_ = s.Close()
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(len(all)),
		"B/session")
	for _, s := range all {
		_ = s.Close()
	}
}
