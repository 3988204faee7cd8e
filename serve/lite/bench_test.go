//go:build unix

package lite

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// cpu returns the CPU time of this process in nanoseconds.
func cpu(b *testing.B) int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// BenchmarkPage renders the pages of the lite client for a mailbox of 2,000 messages. cpu-µs/op is the CPU time of the
// whole process for each page, and page-B its bytes. Its searches have no index; those of BenchmarkSearch do.
func BenchmarkPage(b *testing.B) {
	w := open(b, 0)
	last := ""
	for i := range 2000 {
		last = w.put("alice", "INBOX",
			fmt.Sprintf("From: Eve Example <eve%d@far.example>\nTo: alice@example.com\n"+
				"Subject: Subject of message %d with some words\nMessage-ID: <%d@far.example>\nMIME-Version: 1.0\n"+
				"Content-Type: text/html; charset=utf-8\n\n%s\n", i%50, i, i,
				strings.Repeat(
					`<table><tr><td style="x:y"><a href="https://x.example/a?b=c">A newsletter</a> <b>with `+
						`words</b> <img src="https://x.example/p.gif"> and more</td></tr></table>`+"\n", 40)))
	}
	who := w.signed("alice")
	for _, page := range []struct{ name, at string }{
		{"list", Path}, {"page2", Path + "?p=2"}, {"read", pathRead + "?m=" + last},
		{"compose", pathCompose + "?kind=reply&re=" + last}, {"search", Path + "?q=subject:1999"},
		{"folders", pathFolders}, {"settings", pathSettings}, {"sign-in", pathSignIn},
	} {
		b.Run(page.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			began := cpu(b)
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, page.at, nil)
				r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
				for _, c := range who.cookies {
					r.AddCookie(c)
				}
				out := httptest.NewRecorder()
				w.lite.ServeHTTP(out, r)
				if n = out.Body.Len(); out.Code != 200 || n > 30_000 {
					b.Fatal(out.Code, n)
				}
			}
			b.ReportMetric(float64(cpu(b)-began)/1e3/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(n), "page-B")
		})
	}
}
