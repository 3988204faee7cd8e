package assist

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/directory/assist/ldaptest"
	"doublet/env"
	"doublet/stat"
	"doublet/wire/ldap"
)

var bg = context.Background()

type world struct {
	*Client
	t   *testing.T
	fix *env.Fixture
	srv *ldaptest.Server
}

func people() []ldaptest.Entry {
	person := func(uid, cn string) ldaptest.Entry {
		return ldaptest.Entry{DN: "uid=" + uid + ",dc=x", Password: "secret-" + uid, Attributes: map[string][]string{
			"objectclass": {"inetOrgPerson"}, "uid": {uid}, "cn": {cn}, "mail": {uid + "@example.com"}}}
	}
	twin := person("twin2", "Twin")
	twin.Attributes["uid"] = []string{"twin"}
	return []ldaptest.Entry{
		{DN: "dc=x"}, {DN: "cn=reader,dc=x", Password: "read"},
		person("nora", "Nora New"), person("olaf", "Olaf (Operations*)"), person("twin", "Twin"), twin,
		{DN: "", Attributes: map[string][]string{"objectclass": {"inetOrgPerson"}, "uid": {"root"}}},
	}
}

func open(t *testing.T, config *tls.Config, change func(*Settings)) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t)}
	w.srv = ldaptest.Serve(t, w.fix.Env, config, people()...)
	s := Settings{URLs: []string{"ldap://" + w.srv.Address}, Base: "dc=x", BindDN: "cn=reader,dc=x", Password: "read"}
	if change != nil {
		change(&s)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	c, err := New(w.fix.Env, s, NewStats(stat.New(w.fix.Clock)))
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	t.Cleanup(c.Close)
	return w
}

func (w *world) want(name, secret string, kind error) {
	w.t.Helper()
	if err := w.Verify(bg, name, secret); !errors.Is(err, kind) || kind == nil && err != nil {
		w.t.Errorf("%s with %q: %v, not %v", name, secret, err, kind)
	}
}

// TestVerify checks passwords, among them the empty one, which the server accepts as nobody, and names that are
// filters.
//
// Implements: RFC 4513 §5.1.2 Unauthenticated authentication
// Implements: RFC 4515 §3 Escaping of values
func TestVerify(t *testing.T) {
	t.Parallel()
	w := open(t, nil, nil)
	w.want("nora", "secret-nora", nil)
	w.want("NORA@example.com", "secret-nora", nil)
	w.want("nora", "wrong", ErrRefused)
	w.want("nora", "", ErrRefused)
	w.want("", "x", ErrRefused)
	w.want("nora", strings.Repeat("x", 2000), ErrRefused)
	w.want("root", "x", ErrNobody) // the entry without a name
	w.want("twin", "secret-twin", ErrAmbiguous)
	for _, name := range []string{"nobody", "*", "no*", "nora)(uid=*", `nora\2a`, "nora\x00", "ñora",
		strings.Repeat("n", 300)} {
		w.want(name, "secret-nora", ErrNobody)
	}
	if got := w.stat.Away.Value(); got != 0 {
		t.Errorf("%d requests were not answered", got)
	}
}

// TestMemory checks that a password that was right is not asked again for a while, and that one that was wrong is.
func TestMemory(t *testing.T) {
	t.Parallel()
	w := open(t, nil, nil)
	w.want("nora", "secret-nora", nil)
	asked := w.srv.Count(ldap.OpBind)
	w.want("nora", "secret-nora", nil)
	if n := w.srv.Count(ldap.OpBind); n != asked {
		t.Errorf("%d binds more", n-asked)
	}
	w.want("nora", "wrong", ErrRefused)
	w.fix.Time.Advance(DefaultCache)
	w.srv.Set(people()[:2]...) // nora has left
	w.want("nora", "secret-nora", ErrNobody)
}

// TestFaults checks that no fault of the directory is taken for a wrong password, let alone for a right one.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, op := range []ldap.Op{ldap.OpBind, ldap.OpSearch} {
		for _, f := range []ldaptest.Fault{ldaptest.Stall, ldaptest.Close, ldaptest.Garble, ldaptest.Strange,
			ldaptest.Refer, ldaptest.Endless, ldaptest.Large, ldaptest.Away} {
			t.Run(fmt.Sprintf("%x %d", op, f), func(t *testing.T) {
				t.Parallel()
				w := open(t, nil, nil)
				w.srv.Fault(op, f)
				kind := ErrAway
				if op == ldap.OpSearch && f == ldaptest.Endless {
					kind = ErrAmbiguous
				}
				done := w.advance()
				w.want("nora", "secret-nora", kind)
				close(done)
				w.srv.Fault(op, ldaptest.None)
				w.want("nora", "secret-nora", nil)
			})
		}
	}
}

// TestReferral checks that a referral is refused with the server that it names, that it is asked nothing, and that
// other requests do not pause for it. One for a part of what is searched does not hide the entries that are here.
//
// Implements: RFC 4511 §4.1.10 Referral
// Implements: RFC 4511 §4.5.3 Search result reference
func TestReferral(t *testing.T) {
	t.Parallel()
	for _, op := range []ldap.Op{ldap.OpBind, ldap.OpSearch} {
		w := open(t, nil, func(s *Settings) { s.BindDN, s.Password = "", "" }) // the only bind is that of the person
		w.fix.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			if address != w.srv.Address {
				t.Errorf("dials %s", address)
			}
			return net.DialTimeout(network, address, timeout)
		}
		w.srv.Fault(op, ldaptest.Refer)
		for range breakAfter {
			err := w.Verify(bg, "nora", "secret-nora")
			if !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), ldaptest.Elsewhere) {
				t.Errorf("%x: %v", op, err)
			}
		}
		w.srv.Fault(op, ldaptest.None)
		w.want("nora", "secret-nora", nil)
		w.srv.Fault(ldap.OpSearch, ldaptest.Reference)
		w.want("olaf", "secret-olaf", nil)
		w.want("nobody", "secret-nora", ErrNobody)
		said := 0
		for _, s := range w.Test(bg, "") {
			if s.Err != nil {
				t.Errorf("%s: %v", s.Name, s.Err)
			}
			if strings.Contains(s.Detail, ldaptest.Elsewhere) {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%d steps of the test tell of the reference", said)
		}
	}
}

// advance moves the clock on for each request that gets no answer, until the channel is closed.
func (w *world) advance() chan struct{} {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-w.srv.Stalls():
				w.fix.Time.Advance(DefaultTimeout)
			}
		}
	}()
	return done
}

// TestBreaker checks that sign-ins do not wait for a directory that does not answer, and that they work again when it
// is back.
func TestBreaker(t *testing.T) {
	t.Parallel()
	w := open(t, nil, nil)
	w.srv.Stop()
	for range breakAfter {
		w.want("nora", "secret-nora", ErrAway)
	}
	w.srv.Start()
	w.want("nora", "secret-nora", ErrAway) // pauses
	if n := w.srv.Count(ldap.OpBind); n != 0 {
		t.Errorf("%d binds in the pause", n)
	}
	w.fix.Time.Advance(breakFirst)
	w.want("nora", "secret-nora", nil)

	w.srv.Stop()
	w.want("olaf", "secret-olaf", ErrAway)
	if err := w.Away(bg); err == nil {
		t.Error("the probe finds nothing")
	}
	w.want("olaf", "secret-olaf", ErrAway)
	w.srv.Start()
	w.want("olaf", "secret-olaf", ErrAway)
	if err := w.Away(bg); err != nil {
		t.Error(err)
	}
	w.want("olaf", "secret-olaf", nil) // the probe has ended the pause
}

// TestPause checks the times of a breaker.
func TestPause(t *testing.T) {
	t.Parallel()
	var b breaker
	now, bad := env.TestStart, errors.New("bad")
	pause := func(want time.Duration) {
		t.Helper()
		if b.enter(now.Add(want-1)) == nil || b.enter(now.Add(want)) != nil || b.enter(now.Add(want)) == nil {
			t.Errorf("the pause is not %s, or two try at once", want)
		}
	}
	for range breakAfter {
		if err := b.enter(now); err != nil {
			t.Fatal(err)
		}
		b.leave(now, bad, true)
	}
	pause(breakFirst)
	b.leave(now, bad, true)
	pause(2 * breakFirst)
	b.leave(now, bad, false) // the caller went away
	pause(2 * breakFirst)
	for range 100 {
		b.leave(now, bad, true)
	}
	pause(breakMost)
	b.leave(now, nil, true)
	if b.enter(now) != nil || b.state() != nil {
		t.Error("it pauses after a success")
	}
}

// TestCrowd checks that many sign-ins at once are bounded while the directory stalls.
func TestCrowd(t *testing.T) {
	t.Parallel()
	w := open(t, nil, nil)
	w.srv.Fault(ldap.OpBind, ldaptest.Stall)
	var all sync.WaitGroup
	for range maxAtOnce + maxWaiting {
		all.Go(func() { w.want("nora", "secret-nora", ErrAway) })
	}
	for range maxAtOnce {
		<-w.srv.Stalls()
	}
	if n := w.srv.Count(ldap.OpBind); n != maxAtOnce {
		t.Errorf("%d requests at once", n)
	}
	done := w.advance()
	w.fix.Time.Advance(DefaultTimeout)
	all.Wait()
	close(done)
	if n := w.srv.Count(ldap.OpBind); n > 2*maxAtOnce {
		t.Errorf("%d requests were sent to a directory that stalls", n)
	}
}

// TestServiceAccount checks that a wrong password of the bind DN is not told as a wrong password of the person.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	w := open(t, nil, func(s *Settings) { s.Password = "wrong" })
	w.want("nora", "secret-nora", ErrAway)
	w = open(t, nil, func(s *Settings) { s.BindDN, s.Password = "", "" })
	w.want("nora", "secret-nora", nil)
	w.want("olaf", "secret-olaf", nil)
	w = open(t, nil, func(s *Settings) { s.Base = "dc=absent" })
	if err := w.Away(bg); err == nil || !strings.Contains(err.Error(), "dc=absent") {
		t.Error(err)
	}
}

// TestTLS checks StartTLS with an authority of one's own, and that a certificate of another one, or a server without
// TLS, gets no password.
func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	config := &tls.Config{Certificates: web.TLS.Certificates}
	w := open(t, config, func(s *Settings) { s.TLS, s.CA = TLSStart, ca })
	w.want("nora", "secret-nora", nil)
	for name, c := range map[string]*tls.Config{"unknown authority": config, "no TLS": nil} {
		w := open(t, c, func(s *Settings) { s.TLS = TLSStart })
		w.want("nora", "secret-nora", ErrAway)
		if n := w.srv.Count(ldap.OpBind); n != 0 {
			t.Errorf("%s: %d binds", name, n)
		}
	}
}

// TestSecondServer checks that the next server answers if the first does not.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	w := open(t, nil, func(s *Settings) { s.URLs = append([]string{"ldap://127.0.0.1:1"}, s.URLs...) })
	w.want("nora", "secret-nora", nil)
	steps := w.Test(bg, "nora")
	if len(steps) != 7 || steps[0].Err == nil || steps[1].Err != nil || steps[6].Err != nil ||
		!strings.Contains(steps[6].Detail, "Nora New") {
		t.Errorf("%+v", steps)
	}
}

// TestSettings checks what settings are refused.
func TestSettings(t *testing.T) {
	t.Parallel()
	for text, s := range map[string]Settings{
		"URLs":            {},
		"ldap://host":     {URLs: []string{"http://h"}},
		"setting of its":  {URLs: []string{"ldap://h/dc=x"}},
		"both the bind":   {URLs: []string{"ldap://h"}, BindDN: "cn=x"},
		"kind":            {URLs: []string{"ldap://h"}, Kind: "nis"},
		"use":             {URLs: []string{"ldap://h"}, Uses: []string{"all"}},
		"enroll":          {URLs: []string{"ldap://h"}, Uses: []string{UseLookup}, Enroll: true},
		"no %s":           {URLs: []string{"ldap://h"}, People: "(uid=x)"},
		"filter":          {URLs: []string{"ldap://h"}, People: "(uid=%s"},
		"PEM":             {URLs: []string{"ldap://h"}, CA: "nonsense"},
		"tls \"yes\"":     {URLs: []string{"ldap://h"}, TLS: "yes"},
		"timeout":         {URLs: []string{"ldap://h"}, Timeout: time.Hour},
		"cache time":      {URLs: []string{"ldap://h"}, Cache: 24 * time.Hour},
		"text of one lin": {URLs: []string{"ldap://h"}, Base: "a\nb"},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, kind := range []string{KindLDAP, KindActiveDirectory} {
		s := Settings{URLs: []string{"ldap://h", "ldaps://h"}, Kind: kind, Domains: []string{"Example.com"}}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		if !s.Trusts("x") || !s.Trusts("x@EXAMPLE.com") || s.Trusts("x@example.org") {
			t.Error("domains")
		}
	}
	for host, want := range map[string]bool{"127.0.0.1": false, "[::1]": false, "localhost": false, "dc1.example": true,
		"10.0.0.1": true} {
		u, err := parseURL("ldap://" + host)
		if s := (Settings{}); err != nil || s.startTLS(&u) != want {
			t.Errorf("%s: StartTLS is not %v, %v", host, want, err)
		}
	}
}
