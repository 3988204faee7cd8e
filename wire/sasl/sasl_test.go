package sasl

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

var errWrong = errors.New("wrong")

func TestPlain(t *testing.T) {
	t.Parallel()
	var got string
	verify := func(z, c, p string) error {
		got = z + "/" + c + "/" + p
		if p != "secret" {
			return errWrong
		}
		return nil
	}
	for _, tc := range []struct {
		in, want string
		err      error
	}{
		{"\x00alice\x00secret", "/alice/secret", nil},
		{"bob\x00alice\x00secret", "bob/alice/secret", nil},
		{"\x00alice\x00bad", "/alice/bad", errWrong},
		{"\x00alice", "", ErrMalformed},
		{"alice", "", ErrMalformed},
		{"\x00\x00secret", "", ErrMalformed},
		{"\x00alice\x00", "", ErrMalformed},
		{"\x00alice\x00a\x00b", "", ErrMalformed},
		{"\x00al\xffce\x00secret", "", ErrMalformed},
	} {
		got = ""
		s := NewPlainServer(verify)
		_, done, err := s.Next([]byte(tc.in))
		if !errors.Is(err, tc.err) || got != tc.want || err == nil && !done {
			t.Errorf("%q: done %v, err %v, got %q", tc.in, done, err, got)
		}
		if _, _, err := s.Next([]byte(tc.in)); !errors.Is(err, ErrUnexpected) {
			t.Errorf("%q: second step gave %v", tc.in, err)
		}
	}
	s := NewPlainServer(verify)
	if ch, done, err := s.Next(nil); ch == nil || len(ch) != 0 || done || err != nil {
		t.Errorf("without initial response: %q %v %v", ch, done, err)
	}
	if _, _, err := s.Next([]byte{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("empty response: %v", err)
	}
}

func TestPair(t *testing.T) {
	t.Parallel()
	for _, c := range []Client{NewPlainClient("", "alice", "sé cret"), NewLoginClient("alice", "sé cret")} {
		for _, initial := range []bool{true, false} {
			if c.Mechanism() == "LOGIN" {
				c = NewLoginClient("alice", "sé cret")
			}
			ok := false
			check := func(u, p string) error { ok = u == "alice" && p == "sé cret"; return nil }
			var s Server = NewLoginServer(check)
			if c.Mechanism() == "PLAIN" {
				s = NewPlainServer(func(_, u, p string) error { return check(u, p) })
			}
			resp, _ := c.Initial()
			first := resp
			if !initial {
				first = nil
			}
			ch, done, err := s.Next(first)
			for !done && err == nil {
				var r []byte
				if resp != nil && len(ch) == 0 {
					r = resp
				} else if r, err = c.Next(ch); err != nil {
					break
				}
				ch, done, err = s.Next(r)
			}
			if err != nil || !ok {
				t.Errorf("%s initial=%v: %v, verified %v", c.Mechanism(), initial, err, ok)
			}
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "a", "\x00u\x00p", strings.Repeat("x", MaxResponse)} {
		got, err := DecodeLine(AppendLine(nil, []byte(b), true))
		if err != nil || string(got) != b {
			t.Errorf("%.20q: %.20q, %v", b, got, err)
		}
	}
	for _, l := range []string{"a", "YQ", "Y Q==", "!!!!", "YQ==\r", "YR==", strings.Repeat("QUJD", MaxResponse/3+2)} {
		if got, err := DecodeLine([]byte(l)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.20q: %.20q, %v", l, got, err)
		}
	}
	if _, err := DecodeLine([]byte("*")); !errors.Is(err, ErrCancelled) {
		t.Errorf("*: %v", err)
	}
}

func FuzzSteps(f *testing.F) {
	f.Add([]byte("\x00u\x00p"), []byte("AHUAcA=="))
	f.Add([]byte("user"), []byte("*"))
	f.Fuzz(func(t *testing.T, b, line []byte) {
		if d, err := DecodeLine(line); err == nil {
			if len(d) > MaxResponse+2 {
				t.Fatal("too long")
			}
			if len(line) > 0 && string(line) != "=" && !bytes.Equal(AppendLine(nil, d, false), line) {
				t.Fatalf("%q does not round-trip", line)
			}
		}
		for _, s := range []Server{
			NewPlainServer(func(_, u, p string) error {
				if u == "" || p == "" {
					t.Fatal("empty credentials")
				}
				return nil
			}),
			NewLoginServer(func(u, p string) error {
				if u == "" || p == "" {
					t.Fatal("empty credentials")
				}
				return nil
			}),
		} {
			for range 4 {
				if _, done, err := s.Next(b); done || err != nil {
					break
				}
			}
		}
	})
}
