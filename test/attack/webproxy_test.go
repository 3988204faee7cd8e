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

// gate is a web proxy in front of a demo.
type gate struct {
	t     *testing.T
	demo  *program.Server
	clear string // its port without TLS
	tls   string
}

// proxies lists the web proxies of doc/operate.md with the configurations from there, except that clients set their
// address in X-Test-Client, which the proxy believes. The parameters of a configuration are the folder for the proxy's
// files, its port without TLS, its port with TLS, the demo's data folder and the demo's port.
var proxies = []struct {
	name, config string
	args         []string // %s is the folder
}{
	{"nginx", `daemon off;
pid %[1]s/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s;
	scgi_temp_path %[1]s;
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
`, []string{"-e", "stderr", "-p", "%s", "-c", "%s/proxy.conf"}},
	// Caddy takes a client's address from the connection or from a proxy only, so the test overwrites the header that
	// Caddy has set. X-Forwarded-Proto is Caddy's own.
	{"caddy", `{
	admin off
	auto_https off
	storage file_system %[1]s
}
https://:%[3]s {
	bind 127.0.0.1
	tls %[4]s/selfsigned.pem %[4]s/selfsigned.key
	reverse_proxy 127.0.0.1:%[5]s {
		header_up X-Forwarded-For {http.request.header.X-Test-Client}
	}
}
http://:%[2]s {
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:%[5]s {
		header_up X-Forwarded-For {http.request.header.X-Test-Client}
	}
}
`, []string{"run", "--adapter", "caddyfile", "--config", "%s/proxy.conf"}},
	{"haproxy", `global
	log stderr format raw local0 warning
frontend web
	mode http
	bind 127.0.0.1:%[3]s ssl crt %[1]s/both.pem alpn h2,http/1.1
	bind 127.0.0.1:%[2]s
	http-request set-src hdr(X-Test-Client)
	http-request set-header X-Forwarded-Proto https if { ssl_fc }
	http-request set-header X-Forwarded-Proto http unless { ssl_fc }
	http-request del-header X-Forwarded-For
	option forwardfor
	timeout client 1h
	default_backend doublet
backend doublet
	mode http
	timeout connect 10s
	timeout server 1h
	timeout tunnel 1h
	server one 127.0.0.1:%[5]s
`, []string{"-db", "-f", "%s/proxy.conf"}},
}

// behindEach runs a test once for each proxy, each time with a new demo behind it.
func behindEach(t *testing.T, test func(t *testing.T, g *gate)) {
	for i := range proxies {
		t.Run(proxies[i].name, func(t *testing.T) { test(t, behind(t, i)) })
	}
}

// behind starts a demo with a proxy in front of it.
func behind(t *testing.T, n int) *gate {
	t.Helper()
	proxy := &proxies[n]
	path := external.Need(t, proxy.name)[0]
	g := &gate{t: t, demo: program.Demo(t)}
	ports := program.FreePorts(t, 2)
	g.clear, g.tls = ports[0], ports[1]
	dir := t.TempDir()
	writeProxy(t, dir, fmt.Sprintf(proxy.config, dir, g.clear, g.tls, g.demo.Data, g.demo.Port["http"]), g.demo.Data)
	var args []string
	for _, a := range proxy.args {
		args = append(args, strings.ReplaceAll(a, "%s", dir))
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	out := &program.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(time.Minute)
	for _, port := range ports { // a proxy opens them one after the other
		for {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				c.Close()
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not answer on port %s: %v\n%s", proxy.name, port, err, out)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return g
}

// writeProxy writes a proxy's configuration, and the demo's certificate and key as the one file that HAProxy reads.
func writeProxy(t *testing.T, dir, config, data string) {
	t.Helper()
	var both []byte
	for _, name := range []string{"selfsigned.pem", "selfsigned.key"} {
		b, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, b...)
	}
	for name, text := range map[string][]byte{"both.pem": both, "proxy.conf": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// client is a browser or program with the address that the proxy sees.
type client struct {
	g    *gate
	from string
	http *http.Client
}

func (g *gate) client(from string) *client {
	jar, _ := cookiejar.New(nil)
	trust := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the demo's own certificate
	return &client{g, from, &http.Client{Jar: jar, Timeout: time.Minute,
		Transport: &http.Transport{TLSClientConfig: trust}}}
}

// do sends a request through the proxy, to its port with TLS or to the other.
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
func TestProxyUnlisted(t *testing.T) { behindEach(t, unlisted) }

func unlisted(t *testing.T, g *gate) {
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

// TestProxyListed checks that behind a configured proxy each client is identified by its own address: bans apply to it
// alone, it needs TLS, and address restrictions apply to it.
func TestProxyListed(t *testing.T) {
	t.Setenv("DOUBLET_WEB_PROXIES", "127.0.0.1 ::1")
	t.Setenv("DOUBLET_LIMITS_SIGN_IN_FAILURES", "4")
	behindEach(t, listed)
}

func listed(t *testing.T, g *gate) {
	good := g.client("203.0.113.8")
	spoof := []string{"X-Forwarded-For", "127.0.0.1", "X-Real-IP", "127.0.0.1", "Forwarded",
		"for=127.0.0.1;proto=https", "X-Forwarded-Proto", "https"}
	for _, path := range []string{"/metrics", "/status"} {
		if code, body, _ := good.do(true, "GET", path, "", spoof...); code != http.StatusNotFound {
			t.Errorf("%s is open to strangers: %d %.200s", path, code, body)
		}
	}
	if code, body, _ := good.do(false, "POST", "/auth/sign-in", `{"user":"alice","password":"demo"}`,
		spoof...); code != http.StatusForbidden || !strings.Contains(body, "clear") {
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
		code, body, _ = bad.do(true, "POST", "/auth/sign-in", fmt.Sprintf(`{"user":"alice","password":"guess %d"}`, i),
			"X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
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

// events opens an EventSource through the proxy, which must not buffer it.
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
	if resp.StatusCode != http.StatusOK || err != nil || !strings.HasPrefix(line, "event:") &&
		!strings.HasPrefix(line, ":") {
		g.t.Errorf("EventSource: %d %q %v", resp.StatusCode, line, err)
	}
}

// socket sends one request over a WebSocket through the proxy, and checks that a page of another site is refused.
func (g *gate) socket(c *client) {
	g.t.Helper()
	dial := func(origin string) (*websocket.Conn, error) {
		h := c.signedIn()
		h.Set("Origin", origin)
		ws, resp, err := websocket.Dial(g.t.Context(), "wss://127.0.0.1:"+g.tls+"/jmap/ws",
			&websocket.DialOptions{HTTPClient: c.http, HTTPHeader: h, Subprotocols: []string{"jmap"}})
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
	if err := ws.Write(g.t.Context(), websocket.MessageText,
		[]byte(`{"@type":"Request","id":"r","using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",`+
			`{"a":1},"c"]]}`)); err != nil {
		g.t.Fatal(err)
	}
	_, b, err := ws.Read(g.t.Context())
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), "Core/echo") {
		g.t.Errorf("WebSocket: %s %v", b, err)
	}
}
