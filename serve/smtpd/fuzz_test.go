package smtpd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"doublet/env"
	"doublet/serve/listen"
)

// FuzzSession sends random sessions to a server. The session must end when the client disconnects, must not deliver
// anything invalid, and must release all memory.
func FuzzSession(f *testing.F) {
	for _, seed := range []string{
		"EHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<alice@example.org>\r\nDATA\r\nx\r\n..\r\n.\r\nQUIT\r\n",
		"LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<alice@example.org>\r\nBDAT 3\r\nabcBDAT 2 LAST\r\n\r\nRSET\r\n",
		"EHLO me\r\nAUTH PLAIN AGFsaWNlAHNlY3JldA==\r\nMAIL FROM:<alice@example.org>\r\nDATA\r\n",
		"EHLO me\r\nAUTH LOGIN\r\nYWxpY2U=\r\nc2VjcmV0\r\nHELP\r\nEXPN x\r\nVRFY y\r\n",
		"EHLO me\r\nMAIL FROM:<a@b> SIZE=3\r\nRCPT TO:<bob@example.org>\r\nDATA\r\na\n.\nb\r.\r\x00\r\n.\r\nNOOP\r\n",
		"HELO x\r\nSTARTTLS\r\nNOOP\r\nMAIL FROM:<\"q \\\" p\"@[IPv6:::1]>\r\n",
	} {
		for kind := range 3 {
			f.Add([]byte(seed), byte(kind), byte(7))
		}
	}
	e := env.Real(slog.New(slog.NewTextHandler(io.Discard, nil)))
	f.Fuzz(func(t *testing.T, in []byte, mode, chunk byte) {
		cfg := Config{
			Kind: Kind(mode % 3), MaxMessage: 4000, MaxRecipients: 3, Memory: listen.NewBudget(100 << 10),
			BareLF: BareLF(mode / 3 % 2), CommandTimeout: 20 * time.Second, DataTimeout: 20 * time.Second,
		}
		b := &fake{}
		b.onDeliver = func(_ context.Context, e *Envelope, m []byte) error {
			switch {
			case len(e.Recipients) == 0 || len(e.Recipients) > 3:
				t.Error("recipients:", len(e.Recipients))
			case int64(len(m)) > cfg.MaxMessage+2 || bytes.IndexByte(m, 0) >= 0:
				t.Errorf("message %q", m)
			case len(m) > 0 && !bytes.HasSuffix(m, []byte("\r\n")):
				t.Errorf("no line end: %q", m)
			case bytes.Count(m, []byte("\r\n")) != bytes.Count(m, []byte("\n")),
				bytes.Count(m, []byte("\r")) != bytes.Count(m, []byte("\n")):
				t.Errorf("bare CR or LF: %q", m)
			case cfg.Kind == Submission && !e.Signed:
				t.Error("unsigned submission")
			}
			return nil
		}
		srv := New(e, cfg, b, b)
		front := listen.New(e, listen.Options{}, b)
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = front.ServeConn(far, &listen.Door{Name: "fuzz", Serve: srv.Serve})
		}()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		for len(in) > 0 {
			n := min(len(in), int(chunk)+1)
			if _, err := near.Write(in[:n]); err != nil {
				break
			}
			in = in[n:]
		}
		_ = near.Close()
		<-done
		if b.count("Server.Listen.Panics") != b.count("panic on purpose") {
			t.Error("panic")
		}
		if n := cfg.Memory.Used(); n != 0 {
			t.Errorf("%d bytes leaked", n)
		}
	})
}
