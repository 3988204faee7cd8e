package scram

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// The example of RFC 7677 section 3.
const (
	rfcFirst       = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
	rfcServerNonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcServerFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcFinal       = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," +
		"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcServerFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func credentials() Credentials {
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	return Derive("pencil", salt, 4096)
}

func lookup(string) ([]Credentials, error) { return []Credentials{credentials()}, nil }

func TestRFC7677Server(t *testing.T) {
	t.Parallel()
	s := NewServer(func(user string) ([]Credentials, error) {
		if user != "user" {
			t.Errorf("user %q", user)
		}
		return lookup(user)
	}, rfcServerNonce, Channel{})
	out, done, err := s.Next([]byte(rfcFirst))
	if string(out) != rfcServerFirst || done || err != nil || s.Username() != "" {
		t.Fatalf("first: %q, %v, %v, user %q", out, done, err, s.Username())
	}
	out, done, err = s.Next([]byte(rfcFinal))
	if string(out) != rfcServerFinal || !done || err != nil || s.Username() != "user" {
		t.Fatalf("final: %q, %v, %v", out, done, err)
	}
	if _, done, err := s.Next([]byte(rfcFinal)); done || !errors.Is(err, ErrSyntax) {
		t.Errorf("a third step: %v, %v", done, err)
	}
}

func TestRFC7677Client(t *testing.T) {
	t.Parallel()
	c := NewClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
	for _, step := range []struct{ in, out string }{{"", rfcFirst}, {rfcServerFirst, rfcFinal}, {rfcServerFinal, ""}} {
		out, done, err := c.Next([]byte(step.in))
		if string(out) != step.out || err != nil || done != (step.out == "") {
			t.Fatalf("%q: %q, %v, %v", step.in, out, done, err)
		}
	}
}

// run runs an exchange between client and server.
func run(c *Client, s *Server) error {
	var message []byte
	for range 2 {
		out, _, err := c.Next(message)
		if err != nil {
			return err
		}
		if message, _, err = s.Next(out); err != nil {
			return err
		}
	}
	_, done, err := c.Next(message)
	if err == nil && !done {
		return errors.New("client is not done")
	}
	return err
}

func TestExchange(t *testing.T) {
	t.Parallel()
	salt := []byte("0123456789abcdef")
	for _, tc := range []struct {
		user, stored, given string
		want                error
	}{
		{"anna", "geheim", "geheim", nil},
		{"anna", "geheim", "Geheim", ErrProof},
		{"a,b=c", "x", "x", nil},
		{"jürgen", "pa\u00a0ss\u00adwort", "pa sswort", nil},
		{"roman", "\u2168", "IX", nil},
		{"ctl", "a\x01b", "a\x01b", nil},
		{"latin1", "\xfc", "\xfc", nil},
		{"empty", "", "", nil},
	} {
		s := NewServer(func(user string) ([]Credentials, error) {
			if user != tc.user {
				t.Errorf("looked up %q", user)
			}
			return []Credentials{Derive(tc.stored, salt, 1)}, nil
		}, "servernonce", Channel{})
		if err := run(NewClient(tc.user, tc.given, "clientnonce"), s); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.user, err)
		}
		if (tc.want == nil) != (s.Username() == tc.user) {
			t.Errorf("%s: signed in as %q", tc.user, s.Username())
		}
	}
}

func TestUnknownUserLooksTheSame(t *testing.T) {
	t.Parallel()
	fake := func(user string) ([]Credentials, error) {
		return []Credentials{Fake([]byte("secret"), user, 4096)}, nil
	}
	if err := run(NewClient("nobody", "", "abc"), NewServer(fake, "def", Channel{})); err != ErrProof {
		t.Errorf("unknown user: %v", err)
	}
	if err := run(NewClient("user", "wrong", "abc"), NewServer(lookup, "def", Channel{})); err != ErrProof {
		t.Errorf("wrong password: %v", err)
	}
	a, b := Fake([]byte("secret"), "x", 4096), Fake([]byte("secret"), "y", 4096)
	if string(a.Salt) != string(Fake([]byte("secret"), "x", 4096).Salt) || string(a.Salt) == string(b.Salt) ||
		len(a.Salt) != len(credentials().Salt) {
		t.Error("the salt tells real users from others")
	}
}

func TestLookupFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("directory is down")
	s := NewServer(func(string) ([]Credentials, error) { return nil, broken }, "n", Channel{})
	if _, _, err := s.Next([]byte(rfcFirst)); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestBadFirst(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]error{
		"":                                      ErrSyntax,
		"n":                                     ErrSyntax,
		"n,":                                    ErrSyntax,
		"n,,":                                   ErrSyntax,
		"p=tls-unique,,n=u,r=x":                 ErrSyntax,
		"z,,n=u,r=x":                            ErrSyntax,
		"n,b=x,n=u,r=x":                         ErrSyntax,
		"n,,m=x,n=u,r=x":                        ErrExtension,
		"n,,r=x,n=u":                            ErrSyntax,
		"n,,n=,r=x":                             ErrSyntax,
		"n,,n=a=41b,r=x":                        ErrSyntax,
		"n,,n=a=,r=x":                           ErrSyntax,
		"n,,n=a\x00b,r=x":                       ErrSyntax,
		"n,,n=u,r=":                             ErrSyntax,
		"n,,n=u,r=a b":                          ErrSyntax,
		"n,,n=u,r=x,junk":                       ErrSyntax,
		"n,,n=u,r=" + strings.Repeat("x", 2000): ErrSyntax,
		"n,,n=u,r=x,y=" + strings.Repeat("x", maxMessage): ErrSyntax,
		"n,,n=u,r=x":           nil,
		"y,a=boss=2Cx,n=u,r=x": nil,
		"n,,n=u,r=x,y=z,z=":    nil,
	} {
		s := NewServer(lookup, "nonce", Channel{})
		if _, done, err := s.Next([]byte(in)); !errors.Is(err, want) || done {
			t.Errorf("%.60q: %v", in, err)
		} else if _, done, err := s.Next([]byte(rfcFinal)); done || err == nil {
			t.Errorf("%.60q: then anything was accepted", in)
		}
	}
}

func TestBadFinal(t *testing.T) {
	t.Parallel()
	full := "rOprNGfwEbeRWgbNEkqO" + rfcServerNonce
	for _, in := range []string{
		"",
		"c=biws,r=" + full,
		strings.Replace(rfcFinal, "biws", "eSws", 1), // "y,,"
		strings.Replace(rfcFinal, "biws", "!", 1),
		strings.Replace(rfcFinal, "r=r", "r=s", 1),
		strings.Replace(rfcFinal, "p=d", "p=e", 1),
		strings.Replace(rfcFinal, "p=dHzb", "p=", 1),
		strings.Replace(rfcFinal, ",p=", ",x=1,p=", 1), // not covered by the proof
		strings.Replace(rfcFinal, ",p=", ",junk,p=", 1),
		rfcFinal + ",x=y",
	} {
		s := NewServer(lookup, rfcServerNonce, Channel{})
		if _, _, err := s.Next([]byte(rfcFirst)); err != nil {
			t.Fatal(err)
		}
		if _, done, err := s.Next([]byte(in)); done || err == nil || s.Username() != "" {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestAuthzid(t *testing.T) {
	t.Parallel()
	// A hand-made client, because Client never asks to act as another user.
	c := NewClient("user", "pencil", "abc")
	if _, _, err := c.Next(nil); err != nil {
		t.Fatal(err)
	}
	s := NewServer(lookup, "def", Channel{})
	out, _, err := s.Next([]byte("n,a=bo=2Css," + c.bare))
	if err != nil || s.Authzid() != "" {
		t.Fatal(err)
	}
	final, err := c.answer(string(out))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Next(final); !errors.Is(err, ErrSyntax) {
		t.Errorf("a final message that leaves out the authzid was accepted: %v", err)
	}
}

func TestBadServer(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "r=x", "m=1," + rfcServerFirst,
		strings.Replace(rfcServerFirst, "r=r", "r=s", 1),
		strings.Replace(rfcServerFirst, "i=4096", "i=1", 1),
		strings.Replace(rfcServerFirst, "i=4096", "i=99999999999", 1),
		strings.Replace(rfcServerFirst, "s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=", 1),
		"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
	} {
		c := NewClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
		_, _, _ = c.Next(nil)
		if out, _, err := c.Next([]byte(in)); err == nil {
			t.Errorf("%q was answered with %q", in, out)
		}
	}
	for _, in := range []string{"", "e=other-error", "v=x", strings.Replace(rfcServerFinal, "6", "7", 1)} {
		c := NewClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
		_, _, _ = c.Next(nil)
		_, _, _ = c.Next([]byte(rfcServerFirst))
		if _, done, err := c.Next([]byte(in)); done || err == nil {
			t.Errorf("%q was taken for the server's proof", in)
		}
	}
}

// TestChannelBinding checks that the proof is valid only on the client's channel, and that a changed offer is detected.
func TestChannelBinding(t *testing.T) {
	t.Parallel()
	here, there := Binding{TLSExporter, []byte("this channel")}, Binding{TLSExporter, []byte("another one")}
	cert := Binding{TLSServerEndPoint, []byte("certificate")}
	plus := Channel{Plus: true, Offered: true, Bindings: []Binding{here, cert}}
	for _, c := range []struct {
		name    string
		channel Channel
		client  func(*Client)
		want    error
	}{
		{"bound", plus, func(c *Client) { c.Bind(here) }, nil},
		{"bound to the certificate", plus, func(c *Client) { c.Bind(cert) }, nil},
		{"somebody in between", plus, func(c *Client) { c.Bind(there) }, ErrChannelBinding},
		{"unknown binding", plus, func(c *Client) { c.Bind(Binding{"tls-unique", here.Data}) }, ErrChannelBinding},
		{"overlong name", plus, func(c *Client) { c.Bind(Binding{strings.Repeat("x", 99), nil}) }, ErrSyntax},
		{"empty name", plus, func(c *Client) { c.Bind(Binding{"", nil}) }, ErrSyntax},
		{"plus unbound", plus, func(*Client) {}, ErrSyntax},
		{"plus not offered", plus, (*Client).NotOffered, ErrSyntax},
		{"plain", Channel{Offered: true}, func(*Client) {}, nil},
		{"downgraded", Channel{Offered: true}, (*Client).NotOffered, ErrChannelBinding},
		{"not offered", Channel{}, (*Client).NotOffered, nil},
		{"bound by the other mechanism", Channel{Offered: true, Bindings: plus.Bindings},
			func(c *Client) { c.Bind(here) }, ErrSyntax},
	} {
		client := NewClient("user", "pencil", "abc")
		c.client(client)
		if err := run(client, NewServer(lookup, "def", c.channel)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSeveralPasswords checks that any of a user's passwords works, and that the server proves knowledge of the same
// one.
func TestSeveralPasswords(t *testing.T) {
	t.Parallel()
	salt := []byte("0123456789abcdef")
	var all []Credentials
	for i := range 20 {
		all = append(all, Derive("pw"+string(rune('a'+i)), salt, MinIterations))
	}
	for _, n := range []int{1, 2, leastTries, len(all)} {
		for i := range n + 1 {
			s := NewServer(func(string) ([]Credentials, error) { return all[:n], nil }, "def", Channel{})
			err := run(NewClient("user", "pw"+string(rune('a'+i)), "abc"), s)
			if i < n && (err != nil || s.Matched() != i) || i == n && err != ErrProof {
				t.Errorf("password %d of %d: %v, matched %d", i, n, err, s.Matched())
			}
		}
	}
	if err := run(NewClient("user", "", "abc"), NewServer(func(string) ([]Credentials, error) { return nil, nil },
		"def", Channel{})); err != ErrProof {
		t.Errorf("no credentials: %v", err)
	}
}

func FuzzServer(f *testing.F) {
	f.Add(rfcFirst, rfcFinal)
	f.Add("y,a=b,n=u=2C,r=x,z=1", "c=eSxhPWIs,r=xn,p=AAAA")
	f.Add("p=x,,", "")
	creds := credentials()
	f.Fuzz(func(t *testing.T, first, final string) {
		s := NewServer(func(string) ([]Credentials, error) { return []Credentials{creds}, nil },
			rfcServerNonce, Channel{})
		if _, done, err := s.Next([]byte(first)); done || err != nil {
			if done {
				t.Fatal("done after one step")
			}
			return
		}
		if _, done, _ := s.Next([]byte(final)); done && final != rfcFinal {
			t.Fatalf("%q then %q signed in", first, final)
		}
	})
}

func FuzzClient(f *testing.F) {
	f.Add(rfcServerFirst, rfcServerFinal)
	f.Add("r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=4096,x=y", "e=other-error")
	f.Fuzz(func(t *testing.T, first, final string) {
		if strings.Contains(first, "i=") && !strings.Contains(first, "i=4096") {
			return // many iterations prove nothing more
		}
		c := NewClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
		_, _, _ = c.Next(nil)
		if _, _, err := c.Next([]byte(first)); err != nil {
			return
		}
		if _, done, _ := c.Next([]byte(final)); done && first != rfcServerFirst {
			t.Fatalf("%q then %q proved the server", first, final)
		}
	})
}

func FuzzPrepare(f *testing.F) {
	f.Add("pa\u00a0ss")
	f.Add("\u2168\u00ad\ufeff")
	f.Fuzz(func(t *testing.T, s string) {
		if once := Prepare(s); len(once) > 64*len(s)+64 {
			t.Fatalf("%q grows to %d bytes", s, len(once))
		}
	})
}
