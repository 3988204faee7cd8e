package attack

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"

	"github.com/coder/websocket"
)

// gate is nginx in front of a demo.
type gate struct {
	t     *testing.T
	demo  *program.Server
	clear string // its port without TLS
	tls   string
}

// nginxConfig is the configuration of doc/operate.md, except that clients set their address in X-Test-Client, which
// nginx believes.
const nginxConfig = `daemon off;
pid %[1]s/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	map $http_upgrade $connection_upgrade { default upgrade; '' close; }
	server {
		listen 127.0.0.1:%[2]s;
		listen 127.0.0.1:%[3]s ssl;
		ssl_certificate %[4]s/selfsigned.pem;
		ssl_certificate_key %[4]s/selfsigned.key;
		set_real_ip_from 127.0.0.1;
		real_ip_header X-Test-Client;
		location / {
			proxy_pass http://127.0.0.1:%[5]s;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_set_header X-Forwarded-Proto $scheme;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Connection $connection_upgrade;
			proxy_buffering off;
			proxy_read_timeout 1h;
		}
	}
}
`

// nginx starts a demo with nginx in front of it.
func nginx(t *testing.T) *gate {
	t.Helper()
	path := external.Need(t, "nginx")[0]
	g := &gate{t: t, demo: program.Demo(t)}
	ports := program.FreePorts(t, 2)
	g.clear, g.tls = ports[0], ports[1]
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	data, err := filepath.Abs(g.demo.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, dir, g.clear, g.tls, data, g.demo.Port["http"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-e", "stderr", "-p", dir, "-c", file)
	out := &program.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+g.tls)
		if err == nil {
			c.Close()
			return g
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not answer: %v\n%s", err, out)
		}
	}
}

// client is a browser or program with the address that nginx sees.
type client struct {
	g    *gate
	from string
	http *http.Client
}

func (g *gate) client(from string) *client {
	jar, _ := cookiejar.New(nil)
	return &client{g, from, &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}} //nolint:gosec // the demo's own certificate
}

// do sends a request through nginx, to its port with TLS or to the other.
func (c *client) do(secure bool, method, path, body string, header ...string) (int, string, *http.Response) {
	c.g.t.Helper()
	at := "http://127.0.0.1:" + c.g.clear
	if secure {
		at = "https://127.0.0.1:" + c.g.tls
	}
	r, err := http.NewRequest(method, at+path, strings.NewReader(body))
	if err != nil {
		c.g.t.Fatal(err)
	}
	r.Header.Set("X-Test-Client", c.from)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	out, err := c.http.Do(r)
	if err != nil {
		c.g.t.Fatal(err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		c.g.t.Fatal(err)
	}
	return out.StatusCode, string(b), out
}

func (c *client) signIn(secure bool, password string) (int, string, *http.Response) {
	c.g.t.Helper()
	return c.do(secure, "POST", "/auth/sign-in", `{"user":"alice","password":"`+password+`"}`)
}

// TestProxyUnlisted checks that an unconfigured proxy on this machine makes no client local.
func TestProxyUnlisted(t *testing.T) {
	g := nginx(t)
	c := g.client("203.0.113.9")
	for _, path := range []string{"/metrics", "/status"} {
		if code, body, _ := c.do(true, "GET", path, ""); code != http.StatusNotFound {
			t.Errorf("%s is open to strangers: %d %.200s", path, code, body)
		}
	}
	for _, secure := range []bool{false, true} {
		if code, body, _ := c.signIn(secure, "demo"); code != http.StatusForbidden || !strings.Contains(body, "clear") {
			t.Errorf("a password in the clear: %d %.200s", code, body)
		}
	}
	if n := strings.Count(g.demo.Out.String(), "web.proxies"); n != 1 {
		t.Errorf("%d warnings that name the setting:\n%s", n, g.demo.Out)
	}
	resp, err := http.Get("http://127.0.0.1:" + g.demo.Port["http"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("this machine itself: %d", resp.StatusCode)
	}
}

// TestProxyListed checks that behind a configured nginx each client is identified by its own address: bans apply to it
// alone, it needs TLS, and address restrictions apply to it.
func TestProxyListed(t *testing.T) {
	t.Setenv("DOUBLET_WEB_PROXIES", "127.0.0.1 ::1")
	t.Setenv("DOUBLET_LIMITS_SIGN_IN_FAILURES", "4")
	g := nginx(t)
	good := g.client("203.0.113.8")
	spoof := []string{"X-Forwarded-For", "127.0.0.1", "X-Real-IP", "127.0.0.1", "Forwarded", "for=127.0.0.1;proto=https", "X-Forwarded-Proto", "https"}
	for _, path := range []string{"/metrics", "/status"} {
		if code, body, _ := good.do(true, "GET", path, "", spoof...); code != http.StatusNotFound {
			t.Errorf("%s is open to strangers: %d %.200s", path, code, body)
		}
	}
	if code, body, _ := good.do(false, "POST", "/auth/sign-in", `{"user":"alice","password":"demo"}`, spoof...); code != http.StatusForbidden || !strings.Contains(body, "clear") {
		t.Errorf("a password in the clear: %d %.200s", code, body)
	}
	code, body, resp := good.signIn(true, "demo")
	if code != http.StatusOK {
		t.Fatalf("sign-in under TLS: %d %s", code, body)
	}
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure || !strings.HasPrefix(c[0].Name, "__Host-") {
		t.Errorf("the cookie: %v", c)
	}
	if _, body, _ := good.do(true, "GET", "/auth/sessions", ""); !strings.Contains(body, `"address":"203.0.113.8"`) {
		t.Errorf("the session is of another address: %s", body)
	}
	bad := g.client("203.0.113.7")
	for i := range 5 {
		code, body, _ = bad.do(true, "POST", "/auth/sign-in", fmt.Sprintf(`{"user":"alice","password":"guess %d"}`, i), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("the fifth guess: %d %s", code, body)
	}
	program.Want(t, g.demo.Doublet("show", "bans"), "203.0.113.7")
	if code, body, _ = good.signIn(true, "demo"); code != http.StatusOK {
		t.Errorf("another client behind the same proxy: %d %s", code, body)
	}
	g.events(good)
	g.socket(good)
}

// signedIn returns the header fields with the session of a browser.
func (c *client) signedIn() http.Header {
	h := http.Header{"X-Test-Client": {c.from}}
	r, _ := http.NewRequest("GET", "https://127.0.0.1:"+c.g.tls+"/", nil)
	for _, k := range c.http.Jar.Cookies(r.URL) {
		h.Add("Cookie", k.String())
	}
	return h
}

// events opens an EventSource through nginx, which must not buffer it.
func (g *gate) events(c *client) {
	g.t.Helper()
	r, err := http.NewRequest("GET", "https://127.0.0.1:"+g.tls+"/jmap/eventsource/?types=*&closeafter=no&ping=1", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header = c.signedIn()
	resp, err := c.http.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if resp.StatusCode != http.StatusOK || err != nil || !strings.HasPrefix(line, "event:") && !strings.HasPrefix(line, ":") {
		g.t.Errorf("EventSource: %d %q %v", resp.StatusCode, line, err)
	}
}

// socket sends one request over a WebSocket through nginx, and checks that a page of another site is refused.
func (g *gate) socket(c *client) {
	g.t.Helper()
	dial := func(origin string) (*websocket.Conn, error) {
		h := c.signedIn()
		h.Set("Origin", origin)
		ws, resp, err := websocket.Dial(g.t.Context(), "wss://127.0.0.1:"+g.tls+"/jmap/ws", &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: h, Subprotocols: []string{"jmap"}})
		if resp != nil && resp.Body != nil && err != nil {
			resp.Body.Close()
		}
		return ws, err
	}
	if ws, err := dial("https://evil.example"); err == nil {
		g.t.Error("a page of another site opens a WebSocket")
		_ = ws.CloseNow()
	}
	ws, err := dial("https://127.0.0.1:" + g.tls)
	if err != nil {
		g.t.Error("WebSocket:", err)
		return
	}
	defer ws.CloseNow()
	if err := ws.Write(g.t.Context(), websocket.MessageText, []byte(`{"@type":"Request","id":"r","using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{"a":1},"c"]]}`)); err != nil {
		g.t.Fatal(err)
	}
	_, b, err := ws.Read(g.t.Context())
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), "Core/echo") {
		g.t.Errorf("WebSocket: %s %v", b, err)
	}
}
