package attack

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/test/long"
	"doublet/test/program"
)

// The memory in MB that attackers may make the program use beyond what it uses after its start.
//
// memoryBudget holds messages (limits.message_memory). memoryBeside covers the rest: 64 for making large parts into
// objects (workspaceSize in store), and 32 for buffers and stacks of connections, the 512 KB that an IMAP session may
// use without a reservation, mapped pages of the store's files, and the tenth by which the garbage collector lags.
// memoryTransfers is the budget of imports and exports (memoryBytes in transfer).
const (
	memoryBudget    = 48
	memoryBeside    = 96
	memoryTransfers = 64
)

// victim is the program with a small memory budget, and a user's credentials.
type victim struct {
	*program.Server
	t     *testing.T
	user  string
	token string // an app password
	http  *http.Client
	acct  string
	inbox string
	idle  int // MB in use after the start
	may   int // MB that it may use beyond that
}

// startVictim starts the program with a small memory budget and large limits for everything else.
func startVictim(t *testing.T) *victim {
	t.Setenv("GOGC", "10") // so that memory in use is close to live memory
	for name, value := range map[string]string{
		"LIMITS_MESSAGE_MEMORY": fmt.Sprint(memoryBudget, "MB"), "LIMITS_MESSAGE_SIZE": "20MB",
		"STORE_CACHE_SIZE": "8MB",
	} {
		t.Setenv("DOUBLET_"+name, value)
	}
	v := &victim{Server: program.Demo(t), t: t, user: "alice", http: &http.Client{Timeout: time.Minute},
		may: memoryBudget + memoryBeside}
	words := strings.Fields(v.Doublet("user", "app-password", "add", "alice", "attack"))
	v.token = words[len(words)-1]
	var session struct{ PrimaryAccounts map[string]string }
	status, out := v.send("GET", "/jmap/session", "", nil)
	if err := json.Unmarshal(out, &session); err != nil {
		t.Fatalf("session: %d %s", status, out)
	}
	v.acct = session.PrimaryAccounts["urn:ietf:params:jmap:mail"]
	_, out = v.call(`["Mailbox/query",{"accountId":"` + v.acct + `","filter":{"role":"inbox"}},"0"]`)
	v.inbox = first(t, out, `"ids":\["([^"]+)"`)
	if runtime.GOOS == "linux" {
		v.restart()
		v.idle = v.peak()
	}
	return v
}

// first returns the first group of a pattern in a text.
func first(t *testing.T, text []byte, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s is not in %.300s", pattern, text)
	}
	return string(m[1])
}

// stat returns a statistic of the server.
func (v *victim) stat(name string) int {
	v.t.Helper()
	n, err := strconv.Atoi(first(v.t, []byte(v.Doublet("show", "stat", name)), `(?m)^\s*`+regexp.QuoteMeta(name)+
		` = (\d+)$`))
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

// basic returns the user's credentials as the value of the header field Authorization.
func (v *victim) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(v.user+":"+v.token))
}

// send sends a request as the user.
func (v *victim) send(method, path, kind string, body []byte) (int, []byte) {
	r, err := http.NewRequest(method, "http://127.0.0.1:"+v.Port["http"]+path, bytes.NewReader(body))
	if err != nil {
		v.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Authorization", v.basic())
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	out, err := v.http.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return out.StatusCode, b
}

func jmapRequest(calls string) []byte {
	return []byte(
		`{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail","urn:ietf:params:jmap:blob"],` +
			`"methodCalls":[` + calls + `]}`)
}

func (v *victim) call(calls string) (int, []byte) {
	return v.send("POST", "/jmap/api", "application/json", jmapRequest(calls))
}

// upload uploads a blob and returns its id.
func (v *victim) upload(content []byte) string {
	v.t.Helper()
	for range 100 { // while other requests hold the memory
		status, out := v.send("POST", "/jmap/upload/"+v.acct+"/", "message/rfc822", content)
		if status == http.StatusCreated {
			return first(v.t, out, `"blobId":"([^"]+)"`)
		}
		if status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			v.t.Fatalf("upload: %d %s", status, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
	v.t.Fatal("upload: never room")
	return ""
}

// append imports a message into the Inbox and returns the id of the Email.
func (v *victim) append(raw []byte) string {
	v.t.Helper()
	blob := v.upload(raw)
	status, out := v.call(`["Email/import",{"accountId":"` + v.acct + `","emails":{"k":{"blobId":"` + blob +
		`","mailboxIds":{"` + v.inbox + `":true}}}},"0"]`)
	if !bytes.Contains(out, []byte(`"created":{"k":`)) {
		v.t.Fatalf("import: %d %s", status, out)
	}
	return first(v.t, out, `"k":\{[^}]*"id":"([^"]+)"`)
}

// peak returns the maximum memory in MB of the process since restart, which resets it.
func (v *victim) peak() int {
	v.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Cmd.Process.Pid))
	if err != nil {
		v.t.Fatalf("the program is gone: %v\n%s", err, v.Out)
	}
	kb, err := strconv.Atoi(first(v.t, b, `VmHWM:\s+(\d+) kB`))
	if err != nil {
		v.t.Fatal(err)
	}
	return kb >> 10
}

func (v *victim) restart() {
	v.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", v.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		v.t.Fatalf("reset the peak of a process's memory: %v", err)
	}
}

// attack runs n attackers concurrently and fails if the program uses more memory than it may. The limit is the same for
// all attacks on a server: what an earlier one left in use does not raise it.
func (v *victim) attack(name string, n int, attacker func(i int) (refused bool)) {
	v.t.Run(name, func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("the memory of a process is read from /proc")
		}
		v.restart()
		var refused atomic.Int64
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if attacker(i) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		took := v.peak() - v.idle
		t.Logf("%d attackers, %d refused: %d MB over the %d MB after the start", n, refused.Load(), took, v.idle)
		if took > v.may {
			t.Errorf("the process took %d MB over the %d MB after its start, want at most %d MB", took, v.idle, v.may)
		}
		// The server is alive and has released the memory.
		v.upload([]byte("alive"))
	})
}

// TestMemory drives each door to its memory budget and far beyond.
func TestMemory(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	v.attackUploads()
	v.attackReading()
	v.attackJSON()
	v.attackIMAP()
	v.attackWriting()
	v.attackLite()
	v.attackHeaders()
}

// busy reports whether a JMAP answer is a refusal for lack of memory or of a free slot.
func busy(status int, out []byte) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests ||
		bytes.Contains(out, []byte(`"serverUnavailable"`))
}

// attackUploads creates blobs by reference, from text, and from nested messages.
func (v *victim) attackUploads() {
	blob := v.upload(bytes.Repeat([]byte("0123456789abcdef"), 300<<10/16))
	sources := strings.Repeat(`,{"blobId":"`+blob+`"}`, 63)[1:]
	var creations []string
	for i := range 20 {
		creations = append(creations, fmt.Sprintf(`"k%d":{"data":[%s]}`, i, sources))
	}
	request := `["Blob/upload",{"accountId":"` + v.acct + `","create":{` + strings.Join(creations, ",") + `}},"0"]`
	v.attack("uploads by reference", 8, func(int) bool { return busy(v.call(request)) })

	// A message within a message, six deep: each must be decoded to reach the next.
	inner := append([]byte("Subject: innermost\r\n\r\n"), bytes.Repeat([]byte("text\r\n"), 1<<20)...)
	var path strings.Builder
	for range 3 {
		var b bytes.Buffer
		b.WriteString("Subject: outer\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\n" +
			"Content-Transfer-Encoding: base64\r\n\r\n")
		e := base64.NewEncoder(base64.StdEncoding, &b)
		_, _ = e.Write(inner)
		_ = e.Close()
		inner = b.Bytes()
		path.WriteString("01")
		path.WriteString("00")
	}
	deep := v.upload(inner) + strings.TrimSuffix(path.String(), "00")
	var ids []string
	for range 20 {
		ids = append(ids, `["Blob/get",{"accountId":"`+v.acct+`","ids":["`+deep+`"],"properties":["size"]},"0"]`)
	}
	v.attack("messages in messages", 8, func(int) bool { return busy(v.call(strings.Join(ids, ","))) })

	v.attack("uploads at once", 30, func(int) bool {
		return busy(v.send("POST", "/jmap/upload/"+v.acct+"/", "text/plain", bytes.Repeat([]byte{'x'}, 18<<20)))
	})
}

// attackReading requests many bodies at once, and does not read the answers.
func (v *victim) attackReading() {
	text := bytes.Repeat([]byte("Räksmörgås \x01\x02\x03\x04\x05\x06 and more\r\n"), 3<<20/32)
	var ids []string
	for i := range 12 {
		ids = append(ids, `"`+v.append(append([]byte(fmt.Sprintf("Subject: %d\r\nContent-Type: text/plain; "+
			"charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n", i)), text...))+`"`)
	}
	request := jmapRequest(`["Email/get",{"accountId":"` + v.acct + `","ids":[` + strings.Join(ids, ",") +
		`],"properties":["bodyValues"],"fetchAllBodyValues":true},"0"]`)
	head := fmt.Sprintf("POST /jmap/api HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		v.basic(), len(request))
	v.attack("bodies that nobody takes", 24, func(int) bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["http"])
		if err != nil {
			return true
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = c.Write(append([]byte(head), request...))
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		line, _ := bufio.NewReaderSize(c, 16).ReadString('\n')
		time.Sleep(2 * time.Second)
		return !strings.Contains(line, " 200 ")
	})
}

// attackJSON sends JSON that needs far more memory than it has octets.
func (v *victim) attackJSON() {
	for _, a := range []struct{ name, unit string }{{"arrays", `[],`}, {"objects", `{"a":{}},`}, {"numbers", `1,`}} {
		list := strings.Repeat(a.unit, 9<<20/len(a.unit)) + "0"
		body := []byte(`{"using":[],"methodCalls":[["x",{"y":[` + list + `]},"0"]]}`)
		v.attack("JSON of "+a.name, 12,
			func(int) bool { return busy(v.send("POST", "/jmap/api", "application/json", body)) })
	}
}
