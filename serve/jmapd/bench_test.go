//go:build unix

package jmapd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	client "doublet/client/jmap"
	"doublet/wire/jmap"
)

// loaded returns a world in which alice has n messages, some of them replies to others.
func loaded(b *testing.B, n int) *world {
	b.Helper()
	w := open(b, settings{Limits: Limits{ConcurrentRequests: 100}})
	body := strings.Repeat("The quick brown fox jumps over the lazy dog, once more and again.\n", 60)
	for i := range n {
		reply := ""
		if i%3 == 2 {
			reply = fmt.Sprintf("In-Reply-To: <m%d@far.example>\n", i-1)
		}
		w.append("alice", "INBOX",
			fmt.Sprintf("From: \"Eve Example %d\" <eve%d@far.example>\nTo: Alice Example <alice@example.com>\n"+
				"Subject: A message about this and that, number %d\nMessage-ID: <m%d@far.example>\n"+
				"%sDate: Mon, 5 Jan 2026 09:00:00 +0100\nMIME-Version: 1.0\n"+
				"Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain; charset=utf-8\n\n"+
				"%s\n--b\nContent-Type: text/html; charset=utf-8\n\n<p>%s</p>\n--b--\n",
				i%17, i%17, i, i, reply, body, body))
	}
	return w
}

// run executes a request b.N times, as the server does but without a connection.
func (w *world) run(b *testing.B, calls string) {
	b.Helper()
	body := `{"using":` + string(jmap.AppendStrings(nil, capabilities)) + `,"methodCalls":[` + calls + `]}`
	r := httptest.NewRequest("POST", PathAPI, nil)
	r.Header.Set("Authorization", "alice")
	r.Header.Set("Content-Type", "application/json")
	out := &sink{header: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	before := processor()
	n := 0
	for b.Loop() {
		n++
		in := strings.NewReader(body)
		r.Body, r.ContentLength = readCloser{in}, int64(len(body))
		out.n, out.status = 0, 0
		w.server.ServeHTTP(out, r)
		if out.status > 299 || out.n < 20 {
			b.Fatal(out.status, out.n)
		}
	}
	b.ReportMetric(float64(processor()-before)/float64(n)/1000, "CPU-µs/op")
	b.ReportMetric(float64(out.n), "octets")
}

// processor returns the CPU time of this process. On a machine with other load it is more accurate than the clock.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// sink is a ResponseWriter that counts.
type sink struct {
	header http.Header
	status int
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }

// BenchmarkList reads the 50 newest messages of a folder with 5,000, with the properties that a list shows, in one
// request.
func BenchmarkList(b *testing.B) {
	w := loaded(b, 5000)
	account := w.account("alice")
	box := idOf(letterFolder, func() (u [16]byte) {
		list, err := w.file("alice").Folders(bg)
		w.ok(err)
		for _, f := range list {
			if f.Name == "INBOX" {
				u = f.UNID
			}
		}
		return u
	}())
	get := `["Email/get",{"accountId":"` + account +
		`","#ids":{"resultOf":"0","name":"Email/query","path":"/ids"},"properties":["id","threadId","mailboxIds",` +
		`"keywords","from","to","subject","receivedAt","size","hasAttachment","preview"]},"1"]`
	query := func(more string) string {
		return `["Email/query",{"accountId":"` + account + `","filter":{"inMailbox":"` + box +
			`"},"sort":[{"property":"receivedAt","isAscending":false}],"limit":50` + more + `},"0"]`
	}
	b.Run("query", func(b *testing.B) { w.run(b, query("")) })
	b.Run("query+get", func(b *testing.B) { w.run(b, query("")+","+get) })
	b.Run("threads", func(b *testing.B) {
		w.run(b, query(`,"collapseThreads":true`)+","+get+`,["Thread/get",{"accountId":"`+account+
			`","#ids":{"resultOf":"1","name":"Email/get","path":"/list/*/threadId"}},"2"]`)
	})
	b.Run("total", func(b *testing.B) { w.run(b, query(`,"calculateTotal":true`)+","+get) })
}

// BenchmarkBody measures Email/get of one message with its text and HTML.
func BenchmarkBody(b *testing.B) {
	w := loaded(b, 50)
	id := w.append("alice", "INBOX",
		"From: eve@far.example\nTo: alice@example.com\nSubject: one\nMIME-Version: 1.0\n"+
			"Content-Type: text/plain; charset=utf-8\n\n"+
			strings.Repeat("The quick brown fox jumps over the lazy dog.\n", 100))
	w.run(b, `["Email/get",{"accountId":"`+w.account("alice")+`","ids":["`+id+
		`"],"properties":["id","messageId","from","to","cc","subject","sentAt","keywords","bodyStructure",`+
		`"textBody","htmlBody","attachments","bodyValues"],"fetchTextBodyValues":true,"fetchHTMLBodyValues":true},"0"]`)
}

// BenchmarkEcho measures the cost of a request that does nothing.
func BenchmarkEcho(b *testing.B) { loaded(b, 1).run(b, `["Core/echo",{"a":1},"0"]`) }

// BenchmarkCalls measures requests of one call each over persistent connections, with client and server in one process.
func BenchmarkCalls(b *testing.B) {
	w := loaded(b, 200)
	door := httptest.NewServer(w.server)
	defer door.Close()
	c := w.client(door.URL, "alice")
	account := w.account("alice")
	list := w.one("alice", "Email/query", obj{"accountId": account, "limit": 100})
	ids := strs(list["ids"])
	b.SetParallelism(8)
	b.ResetTimer()
	before := processor()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			r := client.NewRequest(jmap.Mail)
			h := r.Get("Email", account, ids[i%len(ids):i%len(ids)+1], "id", "subject", "from", "preview", "keywords")
			out, err := c.Do(bg, r)
			if err == nil {
				_, err = out.Get(h)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(processor()-before)/float64(b.N)/1000, "CPU-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
