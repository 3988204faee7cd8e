package attack

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/test/long"
)

const (
	// leakRounds is the number of times that TestNothingLeaks repeats each kind of failure.
	leakRounds = 40
	// leakSlack is the number of goroutines, and of open files, that the server may have more than before. Tasks of the
	// server start and end meanwhile. It is less than leakRounds, so one kind of failure that leaks is enough to fail.
	leakSlack = leakRounds / 2
	// leakHeap is the number of bytes by which the heap may grow: caches fill meanwhile. It is less than leakRounds
	// bodies of 1 MB.
	leakHeap = 32 << 20
	// leakPatience is the time for which the test waits until the server has released what it used.
	leakPatience = 90 * time.Second
)

// TestNothingLeaks fails at every door in many ways, often and concurrently: requests that are refused, malformed, too
// large, or cut off in the middle. Afterwards no memory for messages is reserved, and no goroutine, open file or body
// of them is left.
func TestNothingLeaks(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	v.upload([]byte("warm"))
	for _, leak := range v.leaks(v.failures(), leakRounds, leakPatience) {
		t.Error(leak)
	}
	v.upload([]byte("alive"))
}

// TestLeaksAreSeen tests TestNothingLeaks: with clients that keep their connections open the server keeps a goroutine
// and a file for each, and with the beginning of a message also its memory. All of it is found.
func TestLeaksAreSeen(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	v.upload([]byte("warm"))
	var mu sync.Mutex
	var kept []net.Conn
	keep := func(door string, steps ...string) func() {
		return func() {
			c, err := net.Dial("tcp", "127.0.0.1:"+v.Port[door])
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
			r := bufio.NewReader(c)
			for i := 0; i+1 < len(steps); i += 2 {
				_, _ = io.WriteString(c, steps[i])
				if line, _ := reply(r, steps[i+1]); line == "" {
					t.Errorf("%s: no %q after %.40q", door, steps[i+1], steps[i])
				}
			}
			if len(steps)%2 == 1 {
				_, _ = io.WriteString(c, steps[len(steps)-1])
			}
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, c)
		}
	}
	rounds := leakSlack + 10
	for _, plant := range []struct {
		name, want string
		failure    func()
	}{
		{"connections", "goroutines, open files", keep("imap", "", "* OK")},
		{"messages", "bytes of messages, goroutines, open files, bytes of heap",
			keep("smtp", "", "220 ", "EHLO x\r\n", "250 ", "MAIL FROM:<>\r\n", "250 ",
				"RCPT TO:<alice@example.com>\r\n", "250 ",
				"DATA\r\n", "354", strings.Repeat("line\r\n", 1_100_000/6))},
	} {
		var names []string
		for _, leak := range v.leaks([]func(){plant.failure}, rounds, 3*time.Second) {
			_, name, _ := strings.Cut(leak, " ")
			name, _, _ = strings.Cut(name, " are left")
			names = append(names, name)
		}
		if got := strings.Join(names, ", "); got != plant.want {
			t.Errorf("kept %s: found %q, want %q", plant.name, got, plant.want)
		}
		for _, c := range kept {
			c.Close()
		}
		kept = nil
	}
}

// resource is a number that failures may raise by at most slack for good.
type resource struct {
	name   string
	number func() int
	slack  int
}

func (v *victim) resources() []resource {
	return []resource{
		{"bytes of messages", func() int { return v.stat("Server.Memory.Messages.Bytes") }, 0},
		{"goroutines", func() int { return v.stat("Platform.Process.Goroutines") }, leakSlack},
		{"open files", v.files, leakSlack},
		{"bytes of heap", func() int { return v.stat("Platform.Memory.Heap.Bytes") }, leakHeap},
	}
}

// files returns the number of files and connections that the process has open.
func (v *victim) files() int {
	v.t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.Cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	return len(list)
}

// leaks repeats failures concurrently and returns a sentence about each resource that is left reserved.
func (v *victim) leaks(failures []func(), rounds int, patience time.Duration) (left []string) {
	v.t.Helper()
	fail := func(n int) {
		var wg sync.WaitGroup
		for _, f := range failures {
			wg.Go(func() {
				for range n {
					f()
				}
			})
		}
		wg.Wait()
		v.http.CloseIdleConnections()
	}
	fail(1) // starts everything that runs from the first use on
	time.Sleep(time.Second)
	list := v.resources()
	before := make([]int, len(list))
	for i, r := range list {
		before[i] = lowest(r.number)
	}
	fail(rounds)
	for i, r := range list {
		n := settled(r.number, before[i]+r.slack, patience)
		v.t.Logf("%s: %d before, %d after", r.name, before[i], n)
		if n > before[i]+r.slack {
			left = append(left, fmt.Sprintf("%d %s are left, want at most %d", n, r.name, before[i]+r.slack))
		}
	}
	return left
}

// lowest returns the least of ten values, one each half a second.
func lowest(number func() int) int {
	least := number()
	for range 9 {
		time.Sleep(500 * time.Millisecond)
		least = min(least, number())
	}
	return least
}

// settled waits until a number is at most most, or for the time patience. It returns the number.
func settled(number func() int, most int, patience time.Duration) int {
	n := number()
	for deadline := time.Now().Add(patience); n > most && time.Now().Before(deadline); n = number() {
		time.Sleep(500 * time.Millisecond)
	}
	return n
}

// failures returns functions that make one failing request each.
func (v *victim) failures() []func() { return append(v.failuresOfWeb(), v.failuresOfMail()...) }

// failuresOfWeb returns failing requests to the doors of the web, each with a text that the answer has. A request that
// finds no memory is refused in another way, which is a failure too.
func (v *victim) failuresOfWeb() []func() {
	large := bytes.Repeat([]byte{'x'}, 3<<20)
	jmap := func(calls string) []byte { return jmapRequest(strings.ReplaceAll(calls, "ACCOUNT", v.acct)) }
	form := append([]byte("--b\r\nContent-Disposition: form-data; name=x\r\n\r\n"), large...)
	requests := []struct {
		method, path, kind string
		body               []byte
		want               string // the status, or for 200 a text of the answer
	}{
		{"POST", "/jmap/api", "application/json", []byte("{"), "400"},
		{"POST", "/jmap/api", "application/json", large, "400"},
		{"POST", "/jmap/api", "text/plain", large, "400"},
		{"POST", "/jmap/api", "application/json", jmap(`["Email/get",{"accountId":"nobody"},"0"]`), "accountNotFound"},
		{"POST", "/jmap/api", "application/json",
			jmap(`["Email/import",{"accountId":"ACCOUNT","emails":{"k":{"blobId":"none",` +
				`"mailboxIds":{"x":true}}}},"0"]`), "notCreated"},
		{"POST", "/jmap/upload/none/", "text/plain", large, "404"},
		{"POST", "/jmap/upload/" + v.acct + "/", "text/plain", bytes.Repeat([]byte{'x'}, 21<<20), "413"},
		{"GET", "/jmap/download/" + v.acct + "/none/x", "", nil, "404"},
		{"POST", "/lite/compose", "multipart/form-data; boundary=b", form, "4"},
		{"POST", "/lite/compose", "application/x-www-form-urlencoded", large, "4"},
		{"POST", "/replica/call/hello", "application/octet-stream", large, "4"},
		{"POST", "/replica/get/none", "application/octet-stream", large, "4"},
		{"POST", "/auth/sign-in", "application/json", []byte(`{"user":"carol","password":"wrong"}`), "401"},
		{"POST", "/auth/sign-in", "application/json", large, "4"},
		{"POST", "/admin/verbs/user/list", "application/json", large, "4"},
	}
	var out []func()
	for _, q := range requests {
		out = append(out, func() {
			status, answer := v.send(q.method, q.path, q.kind, q.body)
			ok := status == 0 || status >= 500 || status == 429 || strings.HasPrefix(fmt.Sprint(status), q.want)
			if !ok && (status != 200 || !bytes.Contains(answer, []byte(q.want))) {
				v.t.Errorf("%s %s: %d %.200s, want %s", q.method, q.path, status, answer, q.want)
			}
		})
	}
	head := "POST /jmap/upload/" + v.acct + "/ HTTP/1.1\r\nHost: x\r\n"
	return append(out,
		v.cut("http", head+"Authorization: "+v.basic()+"\r\nContent-Length: 9999999\r\n\r\n"+string(large)),
		v.cut("http", head+"Authorization: Basic none\r\nContent-Length: 9999999\r\n\r\n"+string(large)),
		v.cut("http", head+"X-A: "+string(large)))
}

// failuresOfMail returns failing conversations with the doors of mail.
func (v *victim) failuresOfMail() []func() {
	imap := func(steps ...string) func() {
		return v.cut("imap", append([]string{"", "* OK", "a LOGIN alice " + v.token + "\r\n", "a OK",
			"b SELECT INBOX\r\n", "b OK"}, steps...)...)
	}
	smtp := func(steps ...string) func() {
		return v.cut("smtp", append([]string{"", "220 ", "EHLO x\r\n", "250 ", "MAIL FROM:<>\r\n", "250 ",
			"RCPT TO:<alice@example.com>\r\n", "250 "}, steps...)...)
	}
	pop3 := func(steps ...string) func() {
		return v.cut("pop3", append([]string{"", "+OK"}, steps...)...)
	}
	login := "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00alice\x00"+v.token)) + "\r\n"
	submission := func(steps ...string) func() {
		return v.cut("submission", append([]string{"", "220 ", "EHLO x\r\n", "250 ", login, "235 ",
			"MAIL FROM:<alice@example.com>\r\n", "250 ",
			"RCPT TO:<bob@example.com>\r\n", "250 "}, steps...)...)
	}
	lmtp := func(steps ...string) func() {
		return v.cut("lmtp", append([]string{"", "220 ", "LHLO x\r\n", "250 ", "MAIL FROM:<>\r\n", "250 ",
			"RCPT TO:<alice@example.com>\r\n", "250 ",
			"RCPT TO:<bob@example.com>\r\n", "250 "}, steps...)...)
	}
	half := strings.Repeat("line\r\n", 20_000)
	return []func(){
		v.cut("imap", "", "* OK", "\x00\r\n", "* BAD", "* BAD\r\n", "* BAD"),
		imap("c APPEND INBOX {3000000}\r\n", "+", half),
		imap("c APPEND INBOX {3000000+}\r\n" + half),
		imap("c APPEND INBOX {3+}\r\nx\x00\x00\r\n", "c ", "d FETCH 99:98 (NONE)\r\n", "d BAD",
			"e FETCH * (BODY[99.99])\r\n", "e "),
		imap("c COMPRESS DEFLATE\r\n", "c OK", strings.Repeat("\xff", 1000)),
		imap("c IDLE\r\n", "+"),
		smtp("DATA\r\n", "354", half),
		smtp("DATA\r\n", "354", "bare\nline\r\n.\r\n", "5"),
		smtp("BDAT 3000000\r\n" + half),
		smtp("BDAT 10\r\n0123456789", "250", "BDAT 99999999 LAST\r\n", "552"),
		submission("DATA\r\n", "354", half),
		submission("DATA\r\n", "354", "Subject: x\r\n\r\n\x00\r\n.\r\n", "5"),
		submission("BDAT 3000000\r\n" + half),
		v.cut("submission", "", "220 ", "EHLO x\r\n", "250 ", "MAIL FROM:<alice@example.com>\r\n", "530"),
		v.cut("submission", "", "220 ", "EHLO x\r\n", "250 ", "AUTH PLAIN garbage\r\n", "501"),
		v.cut("submission", "", "220 ", "EHLO x\r\n", "250 ", "AUTH LOGIN\r\n", "334", "YWxpY2U="),
		lmtp("DATA\r\n", "354", half),
		lmtp("DATA\r\n", "354", "bare\nline\r\n.\r\n", "5"),
		lmtp("BDAT 3000000\r\n" + half),
		v.cut("lmtp", "", "220 ", "EHLO x\r\n", "5"),
		v.cut("lmtp", "", "220 ", "LHLO x\r\n", "250 ", "RCPT TO:<alice@example.com>\r\n", "503"),
		v.cut("smtp", "", "220 ", "EHLO x\r\n", "250 ", "STARTTLS\r\n", "220", "\x16\x03\x01garbage"),
		pop3("USER alice\r\n", "+OK", "PASS "+v.token+"\r\n", "+OK", "RETR 1\r\n", "+OK"),
		pop3("USER carol\r\n", "+OK", "PASS wrong\r\n", "-ERR"),
		pop3("AUTH PLAIN\r\n", "+", "garbage\r\n", "-ERR"),
	}
}

// cut returns a function that holds a conversation and then closes its side of the connection. Steps are texts to send,
// each followed by the beginning of the line to wait for; a last text without one is cut off. The function returns when
// the server has closed the connection too.
func (v *victim) cut(door string, steps ...string) func() {
	return func() {
		c, err := net.Dial("tcp", "127.0.0.1:"+v.Port[door])
		if err != nil {
			v.t.Error(err)
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		r := bufio.NewReader(c)
		for i := 0; i < len(steps); i += 2 {
			_, err := io.WriteString(c, steps[i])
			if i+1 == len(steps) {
				break // the server may have refused the rest
			}
			line, refused := reply(r, steps[i+1])
			if refused {
				return
			}
			if err != nil || line == "" {
				v.t.Errorf("%s: %.40q: %v, want %q", door, steps[i], err, steps[i+1])
				return
			}
		}
		_ = c.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, r); errors.Is(err, os.ErrDeadlineExceeded) {
			v.t.Errorf("%s: %.40q: the server does not close the connection", door, steps[len(steps)-1])
		}
	}
}

// reply reads up to a line that begins with want, or that refuses for lack of memory. It returns "" at the end.
func reply(r *bufio.Reader, want string) (line string, refused bool) {
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return "", false
		case strings.HasPrefix(line, want):
			return line, false
		case strings.Contains(line, "[LIMIT]"), strings.HasPrefix(line, "452 4.3.1"),
			strings.HasPrefix(line, "-ERR [SYS/TEMP]"):
			return line, true
		}
	}
}
