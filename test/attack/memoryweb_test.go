package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"doublet/test/long"
)

// TestMemoryOfBodies sends large bodies to the doors of the web that take no mail: replication, administration, sign-in
// and Autodiscover.
func TestMemoryOfBodies(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	body := bytes.Repeat([]byte(`{"a":[`), 15<<20/6)
	refused := func(t *testing.T, status int, out []byte) bool {
		if status != 0 && status < 400 {
			t.Errorf("%d %.200s", status, out)
		}
		return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	}
	for name, path := range map[string]string{"replication": "/replica/call/hello",
		"replication streams": "/replica/get/pull", "sign-in": "/auth/sign-in"} {
		v.attack(name, 40, func(int) bool {
			status, out := v.send("POST", path, "application/json", body)
			return refused(t, status, out)
		})
	}
	v.attack("Autodiscover", 40, func(int) bool { // its errors have the status 200
		status, out := v.send("POST", "/autodiscover/autodiscover.xml", "text/xml", body)
		if status == http.StatusOK && !bytes.Contains(out, []byte("Invalid request")) {
			t.Errorf("Autodiscover: %.200s", out)
		}
		return false
	})
	admin := v.administrator()
	v.attack("administration", 40, func(int) bool {
		status, out := admin(body)
		return refused(t, status, out)
	})
	// Bodies that are announced, and arrive in part.
	v.attack("bodies of replication that do not end", 60, func(int) bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["http"])
		if err != nil {
			return true
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "POST /replica/call/hello HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: %d\r\n"+
			"\r\n", v.basic(), len(body))
		_, _ = c.Write(body[:len(body)-1])
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.Contains(line, " 4")
	})
}

// administrator signs in as in a browser and returns a function that posts to an administrative verb.
func (v *victim) administrator() func(body []byte) (int, []byte) {
	v.t.Helper()
	jar, _ := cookiejar.New(nil)
	web := &http.Client{Jar: jar, Timeout: time.Minute}
	base := "http://127.0.0.1:" + v.Port["http"]
	out, err := web.Post(base+"/auth/sign-in", "application/json",
		strings.NewReader(`{"user":"alice","password":"demo"}`))
	if err != nil {
		v.t.Fatal(err)
	}
	defer out.Body.Close()
	var in struct{ CSRF string }
	if err := json.NewDecoder(out.Body).Decode(&in); err != nil || in.CSRF == "" {
		v.t.Fatalf("sign-in: %d %v", out.StatusCode, err)
	}
	post := func(body []byte) (int, []byte) {
		r, err := http.NewRequest("POST", base+"/admin/verbs/user/list", bytes.NewReader(body))
		if err != nil {
			return 0, nil
		}
		r.Header.Set("X-CSRF-Token", in.CSRF)
		out, err := web.Do(r)
		if err != nil {
			return 0, []byte(err.Error())
		}
		defer out.Body.Close()
		b, _ := io.ReadAll(out.Body)
		return out.StatusCode, b
	}
	if status, out := post([]byte("{}")); status != http.StatusOK { // the door is open
		v.t.Fatalf("administration: %d %s", status, out)
	}
	return post
}

// TestShareOfMemory has one person use their share of the memory with answers that are not read. Other people are
// served as before.
func TestShareOfMemory(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	text := bytes.Repeat([]byte("Räksmörgås and more\r\n"), 3<<20/23)
	var ids []string
	for i := range 12 {
		head := fmt.Sprintf("Subject: %d\r\nContent-Type: text/plain; charset=utf-8\r\n"+
			"Content-Transfer-Encoding: 8bit\r\n\r\n", i)
		ids = append(ids, `"`+v.append(append([]byte(head), text...))+`"`)
	}
	request := jmapRequest(`["Email/get",{"accountId":"` + v.acct + `","ids":[` + strings.Join(ids, ",") +
		`],"properties":["bodyValues"],"fetchAllBodyValues":true},"0"]`)
	for range 24 {
		c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["http"])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "POST /jmap/api HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", v.basic(), len(request), request)
	}
	for deadline := time.Now().Add(time.Minute); v.stat("Server.Memory.Messages.Refused.Share") == 0; time.Sleep(
		100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("alice is not refused: she has %d bytes", v.stat("Server.Memory.Messages.Bytes"))
		}
	}
	t.Logf("alice has %d bytes", v.stat("Server.Memory.Messages.Bytes"))
	words := strings.Fields(v.Doublet("user", "app-password", "add", "bob", "attack"))
	bob := *v
	bob.user, bob.token = "bob", words[len(words)-1]
	_, out := bob.send("GET", "/jmap/session", "", nil)
	bob.acct = first(t, out, `"urn:ietf:params:jmap:mail":"([^"]+)"`)
	for i := range 20 {
		if status, out := bob.send("POST", "/jmap/upload/"+bob.acct+"/", "text/plain",
			bytes.Repeat([]byte{'x'}, 2<<20)); status != http.StatusCreated {
			t.Fatalf("upload %d of another person: %d %.200s", i, status, out)
		}
	}
}
