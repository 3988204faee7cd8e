package sasl

import (
	"errors"
	"testing"
)

func TestParseTokens(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		// RFC 7628 §4.1
		"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer " +
			"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01": {"user@example.com",
			"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="},
		"n,,\x01auth=bearer a.b-c_d~e+f/g=\x01\x01": {"", "a.b-c_d~e+f/g="},
		"y,a=a=2Cb=3Dc,\x01auth=Bearer x\x01\x01":   {"a,b=c", "x"},
		"":                               {},
		"\x01":                           {},
		"n,,\x01\x01":                    {},
		"n,,\x01auth=Bearer x\x01":       {},
		"n,,\x01auth=Basic x\x01\x01":    {},
		"n,,\x01auth=Bearer \x01\x01":    {},
		"n,,\x01auth=Bearer x y\x01\x01": {},
		"n,,\x01host=x\x01\x01":          {},
		"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01": {},
		"p=tls-exporter,,\x01auth=Bearer x\x01\x01":     {},
		"n,a=,\x01auth=Bearer x\x01\x01":                {},
		"n,b=x,\x01auth=Bearer x\x01\x01":               {},
		"n,,\x01nonsense\x01auth=Bearer x\x01\x01":      {},
	} {
		user, token, err := ParseOAuthBearer([]byte(in))
		if user != want[0] && err == nil || token != want[1] || (err == nil) != (want[1] != "") {
			t.Errorf("%q: %q, %q, %v", in, user, token, err)
		}
	}
	user, token,
		err := ParseXOAuth2([]byte("user=someuser@example.com\x01auth=Bearer ya29.vF9dft4qmTc2Nvb3Rlc\x01\x01"))
	if user != "someuser@example.com" || token != "ya29.vF9dft4qmTc2Nvb3Rlc" || err != nil {
		t.Error(user, token, err)
	}
	for _, bad := range []string{"", "user=\x01auth=Bearer x\x01\x01", "auth=Bearer x\x01\x01",
		"user=a\x00\x01auth=Bearer x\x01\x01", "user=a\x01auth=Bearer x"} {
		if _, _, err := ParseXOAuth2([]byte(bad)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestTokenExchange checks that a rejection is sent, confirmed, and only then final.
func TestTokenExchange(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	for _, c := range []struct {
		client Client
		parse  func([]byte) (string, string, error)
	}{{NewOAuthBearerClient("a,b", "good"), ParseOAuthBearer}, {NewXOAuth2Client("a,b", "good"), ParseXOAuth2}} {
		for _, good := range []bool{true, false} {
			s := NewTokenServer(c.parse, func(user, token string) error {
				if user != "a,b" || token != "good" {
					t.Errorf("%q %q", user, token)
				}
				if good {
					return nil
				}
				return wrong
			}, `{"status":"invalid_token"}`)
			if out, done, err := s.Next(nil); out == nil || done || err != nil {
				t.Fatal(out, done, err)
			}
			initial, _ := c.client.Initial()
			out, done, err := s.Next(initial)
			if good {
				if !done || err != nil {
					t.Error(out, done, err)
				}
				continue
			}
			if string(out) != `{"status":"invalid_token"}` || done || err != nil {
				t.Errorf("%q %v %v", out, done, err)
			}
			answer, _ := c.client.Next(out)
			if _, done, err := s.Next(answer); done || err != wrong {
				t.Error(done, err)
			}
			if _, done, err := s.Next(initial); done || err != ErrUnexpected {
				t.Error(done, err)
			}
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add([]byte("n,a=user@example.com,\x01host=x\x01auth=Bearer vF9=\x01\x01"))
	f.Add([]byte("user=a\x01auth=Bearer x\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (string, string, error){ParseOAuthBearer, ParseXOAuth2} {
			if _, token, err := parse(b); (err == nil) != (token != "") {
				t.Fatalf("%q: %q, %v", b, token, err)
			}
		}
	})
}
