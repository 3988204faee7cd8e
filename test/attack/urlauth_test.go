package attack

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/program"
)

// imapSession is a signed-in client that sends lines and reads responses.
type imapSession struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func imapLogin(t *testing.T, s *program.Server, user string) *imapSession {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+s.Port["imap"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	x := &imapSession{t, c, bufio.NewReader(c)}
	x.do("LOGIN " + user + " demo")
	return x
}

// do sends a command and returns all responses up to its tagged one.
func (x *imapSession) do(text string) string {
	x.t.Helper()
	if _, err := fmt.Fprintf(x.c, "tag %s\r\n", text); err != nil {
		x.t.Fatal(err)
	}
	var b strings.Builder
	for {
		line, err := x.r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			x.t.Fatalf("%s: %v after %q", text, err, b.String())
		}
		if strings.HasPrefix(line, "tag ") {
			return b.String()
		}
	}
}

// TestURLAuthForged checks that a URL from alice for bob opens that message for bob only, also after a restart, until
// she revokes it. No change of the URL opens another message, for bob or others.
func TestURLAuthForged(t *testing.T) {
	s := program.Demo(t)
	alice, bob, carol := imapLogin(t, s, "alice"), imapLogin(t, s, "bob"), imapLogin(t, s, "carol")
	alice.do("CREATE secrets")
	for _, word := range []string{"first", "second"} {
		text := "Subject: secret\r\n\r\nthe " + word + " secret\r\n"
		alice.do(fmt.Sprintf("APPEND secrets {%d+}\r\n%s", len(text), text))
	}
	alice.do("SELECT secrets")
	var uids [2]uint32
	found := alice.do("UID SEARCH ALL")
	if _, err := fmt.Sscanf(found[strings.Index(found, "* SEARCH"):], "* SEARCH %d %d", &uids[0],
		&uids[1]); err != nil {
		t.Fatal(found, err)
	}
	rump := fmt.Sprintf("imap://alice@example.com/secrets/;UID=%d;EXPIRE=2199-01-01T00:00:00Z;URLAUTH=user+bob",
		uids[0])
	made := alice.do(`GENURLAUTH "` + rump + `" INTERNAL`)
	_, url, _ := strings.Cut(made, `* GENURLAUTH "`)
	url, _, ok := strings.Cut(url, `"`)
	if !ok {
		t.Fatal(made)
	}
	fetch := func(x *imapSession, url string) string { return x.do(`URLFETCH "` + url + `"`) }
	if got := fetch(bob, url); !strings.Contains(got, "the first secret") {
		t.Fatal(got)
	}
	token := strings.TrimPrefix(url, rump)
	one, two := fmt.Sprintf("UID=%d", uids[0]), fmt.Sprintf("UID=%d", uids[1])
	for _, c := range []struct {
		who *imapSession
		url string
	}{
		{alice, url}, {carol, url},
		{bob, strings.Replace(url, one, two, 1)},
		{bob, strings.Replace(url, "/secrets/", "/INBOX/", 1)},
		{bob, strings.Replace(url, "alice@", "carol@", 1)},
		{bob, strings.Replace(url, "2199", "2299", 1)},
		{bob, strings.Replace(url, ";EXPIRE=2199-01-01T00:00:00Z", "", 1)},
		{bob, strings.Replace(url, one, one+"/;SECTION=TEXT", 1)},
		{carol, strings.Replace(url, "user+bob", "user+carol", 1)},
		{carol, strings.Replace(url, "user+bob", "anonymous", 1)},
		{bob, rump}, {bob, rump + ":internal:" + strings.Repeat("0", 66)}, {bob, rump + token + "00"},
		{bob, rump + token[:len(token)-2]},
	} {
		if got := fetch(c.who, c.url); strings.Contains(got, "secret\r\n") || !strings.Contains(got, `" NIL`) {
			t.Errorf("%s: %s", c.url, got)
		}
	}
	if got := bob.do(fmt.Sprintf(`GENURLAUTH "imap://alice@example.com/secrets/;UID=%d;URLAUTH=user+bob" INTERNAL`,
		uids[1])); !strings.Contains(got, "tag NO") {
		t.Error(got)
	}
	s.Stop(syscall.SIGTERM)
	s.Start()
	if got := fetch(imapLogin(t, s, "bob"), url); !strings.Contains(got, "the first secret") {
		t.Error("after a restart: " + got)
	}
	imapLogin(t, s, "alice").do("RESETKEY secrets")
	if got := fetch(imapLogin(t, s, "bob"), url); !strings.Contains(got, `" NIL`) {
		t.Error("after RESETKEY: " + got)
	}
}
