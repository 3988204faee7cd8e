package signin

import (
	"crypto/tls"
	"net/http"
	"testing"
)

func TestProtected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		remote string
		tls    bool
		want   bool
	}{
		{"127.0.0.1:1", false, true}, {"[::1]:1", false, true}, {"[::ffff:127.0.0.1]:1", false, true},
		{"@", false, true},
		{"192.0.2.1:1", false, false}, {"[2001:db8::1]:1", false, false}, {"somewhere:1", false, false},
		{"192.0.2.1:1", true, true},
	} {
		r := &http.Request{RemoteAddr: c.remote}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := Protected(r); got != c.want {
			t.Errorf("%s, TLS %v: %v", c.remote, c.tls, got)
		}
	}
	if a := OfRequest(&http.Request{RemoteAddr: "[::ffff:192.0.2.1]:5"}); a.Remote.String() != "192.0.2.1" ||
		a.Door != "HTTP" {
		t.Errorf("%+v", a)
	}
}
