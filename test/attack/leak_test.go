package attack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/test/long"
)

// leakRounds is how often TestNothingLeaks repeats each failure, and leakSlack how many goroutines more than before may
// run afterwards: a goroutine that leaks with one kind of failure is seen.
const (
	leakRounds = 60
	leakSlack  = leakRounds / 3
)

// TestNothingLeaks fails at every door in many ways, often and concurrently: requests that are refused, malformed, too
// large, or cut off in the middle. Afterwards no memory for messages is reserved, and no goroutine of them is left.
func TestNothingLeaks(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	v.upload([]byte("warm"))
	messages := func() int { return v.stat("Server.Memory.Messages.Bytes") }
	routines := func() int {
		v.http.CloseIdleConnections()
		return v.stat("Platform.Process.Goroutines")
	}
	fail := func(n int) {
		var wg sync.WaitGroup
		for _, f := range v.failures() {
			wg.Go(func() {
				for range n {
					f()
				}
			})
		}
		wg.Wait()
	}
	fail(2) // starts everything that runs from the first use on
	settled(t, "bytes of messages", messages, 0)
	before := lowest(routines)
	fail(leakRounds)
	settled(t, "bytes of messages", messages, 0)
	settled(t, "goroutines", routines, before+leakSlack)
	t.Logf("%d goroutines before, %d after", before, routines())
	v.upload([]byte("alive"))
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

// settled waits until a number is at most most.
func settled(t *testing.T, what string, number func() int, most int) {
	t.Helper()
	n := 0
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(time.Second) {
		if n = number(); n <= most {
			return
		}
	}
	t.Errorf("%d %s are left, want at most %d", n, what, most)
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
			jmap(`["Email/import",{"accountId":"ACCOUNT","emails":{"k":{"blobId":"none","mailboxIds":{"x":true}}}},"0"]`), "notCreated"},
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
		return v.cut("imap", append([]string{"", "* OK", "a LOGIN alice " + v.token + "\r\n", "a OK", "b SELECT INBOX\r\n", "b OK"}, steps...)...)
	}
	smtp := func(steps ...string) func() {
		return v.cut("smtp", append([]string{"", "220 ", "EHLO x\r\n", "250 ", "MAIL FROM:<>\r\n", "250 ", "RCPT TO:<alice@example.com>\r\n", "250 "}, steps...)...)
	}
	pop3 := func(steps ...string) func() {
		return v.cut("pop3", append([]string{"", "+OK"}, steps...)...)
	}
	half := strings.Repeat("line\r\n", 20_000)
	return []func(){
		v.cut("imap", "", "* OK", "\x00\r\n", "* BAD", "* BAD\r\n", "* BAD"),
		imap("c APPEND INBOX {3000000}\r\n", "+", half),
		imap("c APPEND INBOX {3000000+}\r\n" + half),
		imap("c APPEND INBOX {3+}\r\nx\x00\x00\r\n", "c ", "d FETCH 99:98 (NONE)\r\n", "d BAD", "e FETCH * (BODY[99.99])\r\n", "e "),
		imap("c COMPRESS DEFLATE\r\n", "c OK", strings.Repeat("\xff", 1000)),
		imap("c IDLE\r\n", "+"),
		smtp("DATA\r\n", "354", half),
		smtp("DATA\r\n", "354", "bare\nline\r\n.\r\n", "5"),
		smtp("BDAT 3000000\r\n" + half),
		smtp("BDAT 10\r\n0123456789", "250", "BDAT 99999999 LAST\r\n", "552"),
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
		case strings.Contains(line, "[LIMIT]"), strings.HasPrefix(line, "452 4.3.1"), strings.HasPrefix(line, "-ERR [SYS/TEMP]"):
			return line, true
		}
	}
}
