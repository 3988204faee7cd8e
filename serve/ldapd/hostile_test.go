package ldapd

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/go-ldap/ldap/v3"

	"doublet/serve/listen"
	"doublet/test/door"
	"doublet/wire/ldap"
)

func (w *world) dial() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.Addr.String())
	w.ok(err)
	w.t.Cleanup(func() { c.Close() })
	w.ok(c.SetDeadline(time.Now().Add(20 * time.Second)))
	return c
}

// TestHostile checks that bytes that are not LDAP, and messages beyond the limits, end the session with a notice, and
// that the door serves others.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Config: Config{DataTimeout: 200 * time.Millisecond}})
	for name, x := range map[string]struct{ in, text string }{
		"HTTP":       {"GET / HTTP/1.1\r\n\r\n", "malformed message"},
		"TLS":        {"\x16\x03\x01\x02\x00", "malformed message"},
		"huge":       {"\x30\x84\x7f\xff\xff\x00\x02\x01\x01", "message too large"},
		"large":      {"\x30\x83\x01\x00\x00\x02\x01\x01", "message too large"}, // nobody is signed in
		"negative":   {"\x30\x84\xff\xff\xff\xff", "malformed message"},
		"indefinite": {"\x30\x80\x02\x01\x01\x42\x00\x00\x00", "malformed message"},
		"response":   {"\x30\x05\x02\x01\x01\x61\x00", "malformed message"},
		"id zero":    {"\x30\x05\x02\x01\x00\x42\x00", "malformed message"},
		"inside":     {"\x30\x05\x02\x05\x01\x42\x00", "malformed message"},
		"controls":   {"\x30\x0b\x02\x01\x01\x42\x00\xa0\x04\x30\x05\x04\x00", "malformed message"},
		"cut":        {"\x30\x05\x02", "no request for too long"},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.dial()
			_, err := c.Write([]byte(x.in))
			w.ok(err)
			out, _ := io.ReadAll(c)
			if !bytes.Contains(out, []byte(x.text)) || !bytes.Contains(out, []byte(ldap.OIDDisconnection)) {
				t.Errorf("%q", out)
			}
		})
	}
	c, err := client.DialURL("ldap://" + w.Addr.String())
	w.ok(err)
	defer c.Close()
	w.ok(c.Bind("alice", "secret-alice"))
}

// TestDeepFilter checks that a filter 1,000 deep is refused in words, and that the session goes on.
func TestDeepFilter(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	c, err := client.DialURL("ldap://" + w.Addr.String())
	w.ok(err)
	defer c.Close()
	w.ok(c.Bind("alice", "secret-alice"))
	search := func(filter string) (*client.SearchResult, error) {
		return c.Search(client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, filter, []string{"1.1"}, nil))
	}
	_, err = search(strings.Repeat("(!", 1000) + "(cn=x)" + strings.Repeat(")", 1000))
	w.wants(err, client.LDAPResultAdminLimitExceeded, "at most 64")
	// A large message of a client that is signed in: 2,000 alternatives of 40 bytes are over the limit of parts, 1,000
	// are not.
	wide := func(n int) string {
		return "(|" + strings.Repeat("(mail="+strings.Repeat("x", 28)+"@example.org)", n) + ")"
	}
	if _, err = search(wide(2000)); !client.IsErrorWithCode(err, client.LDAPResultAdminLimitExceeded) {
		t.Errorf("wide: %v", err)
	}
	if r, err := search(wide(1000)); err != nil || len(r.Entries) != 0 {
		t.Errorf("1,000 alternatives: %v", err)
	}
	if r, err := search("(uid=alice)"); err != nil || len(r.Entries) != 1 {
		t.Errorf("afterwards: %v", err)
	}
}

// TestPipelined checks that requests that arrive together are answered in order, byte by byte too, and that nothing
// sent in plaintext behind StartTLS is executed.
func TestPipelined(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Options: door.Options{TLS: true}})
	extended := func(id int, oid string) []byte {
		return ldap.AppendRequest(nil, id, ldap.OpExtended, tlv(0x80, []byte(oid)))
	}
	who := func(id int) []byte { return extended(id, ldap.OIDWhoAmI) }
	c := w.dial()
	in := append(append(who(1), who(2)...), who(300)...)
	for i := range in {
		_, err := c.Write(in[i : i+1])
		w.ok(err)
	}
	_, err := c.Write(ldap.AppendRequest(nil, 4, ldap.OpUnbind, nil))
	w.ok(err)
	out, err := io.ReadAll(c)
	w.ok(err)
	want := ""
	for _, id := range []int{1, 2, 300} {
		want += string(ldap.AppendResult(nil, id, &ldap.Result{Op: ldap.OpExtendedResponse, Value: []byte{}}))
	}
	if string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
	c = w.dial()
	_, err = c.Write(append(extended(1, ldap.OIDStartTLS), who(2)...))
	w.ok(err)
	one := make([]byte, 4096)
	n, err := c.Read(one)
	w.ok(err)
	if bytes.Contains(one[:n], []byte{0x02, 0x01, 0x02}) {
		t.Errorf("executed a request behind StartTLS: %q", one[:n])
	}
}

// TestStalledMessage checks that a client which does not send the rest of a large message loses the session, and gives
// back its memory, long before a client that is idle would.
func TestStalledMessage(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Config: Config{DataTimeout: 50 * time.Millisecond, Memory: listen.NewBudget(1 << 20)}})
	c := w.dial()
	bind := append([]byte("\x02\x01\x03\x04\x05alice\x80\x0c"), "secret-alice"...)
	_, err := c.Write(ldap.AppendRequest(nil, 1, ldap.OpBind, bind))
	w.ok(err)
	one := make([]byte, 512)
	_, err = c.Read(one)
	w.ok(err)
	_, err = c.Write([]byte{0x30, 0x83, 3, 0, 0, 2, 1})
	w.ok(err)
	if _, err = io.ReadAll(c); err != nil {
		t.Error(err)
	}
	if n := w.srv.cfg.Memory.Used(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}

// TestUnbindBehindSearches checks that searches which arrive with an unbind or an abandon are answered whole, in order,
// and that nothing behind the unbind is.
func TestUnbindBehindSearches(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	c := w.dial()
	search := ldap.AppendSearch(nil, &ldap.Search{Base: "", Scope: 0, Attributes: []string{"1.1"},
		Filter: ldap.Filter{Kind: ldap.FilterPresent, Type: "objectClass"}})
	var in, want []byte
	for id := 1; id <= 50; id++ {
		in = ldap.AppendRequest(in, id, ldap.OpSearch, search)
		in = ldap.AppendRequest(in, 100, ldap.OpAbandon, []byte{byte(id)})
		e := ldap.NewEntry(want, id, "")
		want = ldap.AppendResult(e.End(), id, &ldap.Result{Op: ldap.OpSearchDone})
	}
	in = ldap.AppendRequest(ldap.AppendRequest(in, 60, ldap.OpUnbind, nil), 61, ldap.OpSearch, search)
	_, err := c.Write(in)
	w.ok(err)
	out, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(out, want) {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// TestCriticalControl checks that an operation with an unknown critical control is not executed.
func TestCriticalControl(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	compare := append(tlv(4, []byte("")), "\x30\x14\x04\x0bobjectClass\x04\x05top  "...)
	control := tlv(0xa0, tlv(0x30, append(tlv(4, []byte("1.2.3")), 1, 1, 0xff)))
	c := w.dial()
	message := append(append([]byte{2, 1, 1}, tlv(byte(ldap.OpCompare), compare)...), control...)
	_, err := c.Write(append(tlv(0x30, message), ldap.AppendRequest(nil, 2, ldap.OpUnbind, nil)...))
	w.ok(err)
	out, err := io.ReadAll(c)
	w.ok(err)
	if code := after(out); code[0] != byte(ldap.UnavailableCriticalExtension) {
		t.Errorf("%q", out)
	}
}

// FuzzSession sends bytes to a session that is signed in as a reader. It must neither panic nor hang.
func FuzzSession(f *testing.F) {
	w := open(f, settings{Config: Config{DataTimeout: 50 * time.Millisecond}})
	search := ldap.AppendSearch(nil, &ldap.Search{Base: "dc=example,dc=org", Scope: 2,
		Filter: ldap.Filter{Kind: ldap.FilterPresent, Type: "cn"}})
	f.Add(ldap.AppendRequest(nil, 2, ldap.OpSearch, search))
	compare := append(tlv(4, []byte("ou=people,dc=example,dc=org")), "\x30\x06\x04\x02ou\x04\x00"...)
	f.Add(ldap.AppendRequest(nil, 2, ldap.OpCompare, compare))
	bind := append([]byte("\x02\x01\x03\x04\x05chief\x80\x0c"), "secret-chief"...)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := net.Dial("tcp", w.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write(append(ldap.AppendRequest(nil, 1, ldap.OpBind, bind), b...))
		_ = c.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatal(err)
		}
	})
}
