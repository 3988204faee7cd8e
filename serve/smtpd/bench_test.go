//go:build unix

package smtpd

import (
	"context"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	client "doublet/client/smtp"
	"doublet/serve/signin"
	"doublet/wire/smtp"
)

type noop struct{ in *signin.Service }

func (n noop) SignIn() *signin.Service                              { return n.in }
func (noop) MaySendAs(context.Context, *Session, smtp.Path) error   { return nil }
func (noop) Recipient(context.Context, *Envelope, *Recipient) error { return nil }
func (noop) Deliver(context.Context, *Envelope, []byte, []error) (string, error) {
	return "4f1c2a9b", nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSession sends 1 KB messages over 8 loopback connections. Client and server run in this process, so the CPU
// time is that of both. "round" waits for every reply, "pipe" pipelines.
func BenchmarkSession(b *testing.B) {
	body := []byte("Subject: bench\r\n\r\n" + strings.Repeat(strings.Repeat("x", 74)+"\r\n", 13))
	for _, mode := range []string{"round", "pipe"} {
		b.Run(mode, func(b *testing.B) {
			h := open(b, settings{})
			h.server.backend = noop{h.backend.in}
			m := client.Outgoing{From: path("bob@example.org"), To: []smtp.Path{path("alice@example.org")},
				Message: body}
			b.ReportAllocs()
			before := cpu()
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				c := h.hello()
				for pb.Next() {
					if mode == "pipe" {
						if res, err := c.Deliver(&m); err != nil || !res.Accepted(0) {
							b.Error(err)
							return
						}
						continue
					}
					err := c.Mail(m.From, m.Params)
					if err == nil {
						err = c.Rcpt(m.To[0], smtp.RcptParams{})
					}
					var d *client.Data
					if err == nil {
						d, err = c.Data()
					}
					if err == nil {
						_, err = d.Write(body)
					}
					if err == nil {
						err = d.Close()
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
				_ = c.Quit()
			})
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/msg")
		})
	}
}

// BenchmarkIdle holds b.N idle connections after EHLO. It measures heap and stacks of client and server together,
// because both run in this process.
func BenchmarkIdle(b *testing.B) {
	h := open(b, settings{})
	h.server.backend = noop{h.backend.in}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]net.Conn, b.N)
	buf := make([]byte, 4096)
	for i := range conns {
		c, err := net.Dial("tcp", h.Addr.String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
		_, _ = c.Read(buf)
		_, _ = c.Write([]byte("EHLO me\r\n"))
		_, _ = c.Read(buf)
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := after.HeapInuse + after.StackInuse - before.HeapInuse - before.StackInuse
	b.ReportMetric(float64(used)/float64(b.N), "B/conn")
}
