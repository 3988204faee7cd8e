package sasl

import (
	"errors"
	"io"
	"testing"
)

// steps is a Server with one challenge for each step. Next returns done with the last; "" stands for no challenge.
type steps []string

func (s *steps) Next([]byte) (challenge []byte, done bool, err error) {
	challenge, *s = []byte((*s)[0]), (*s)[1:]
	return challenge, len(*s) == 0, nil
}

// TestServe checks when an exchange ends: with the last challenge, after a confirmation, or with an error.
func TestServe(t *testing.T) {
	t.Parallel()
	many := make(steps, 100)
	for i := range many {
		many[i] = "more"
	}
	for _, c := range []struct {
		name   string
		steps  steps
		answer string
		err    error // of ask
		asked  int
		want   error
	}{
		{"no challenge", steps{""}, "", nil, 0, nil},
		{"one challenge", steps{"a", ""}, "eA==", nil, 1, nil},
		{"a final message that is confirmed", steps{"a"}, "", nil, 1, nil},
		{"a final message that is answered", steps{"a"}, "eA==", nil, 1, ErrMalformed},
		{"no base64", steps{"a", ""}, "?", nil, 1, ErrMalformed},
		{"cancelled", steps{"a", ""}, "*", nil, 1, ErrCancelled},
		{"a lost connection", steps{"a", ""}, "", io.EOF, 1, io.EOF},
		{"too many steps", many, "eA==", nil, maxSteps, ErrMalformed},
	} {
		asked := 0
		err := Serve(&c.steps, nil, func([]byte) ([]byte, error) { asked++; return []byte(c.answer), c.err })
		if !errors.Is(err, c.want) || asked != c.asked {
			t.Errorf("%s: %v after %d challenges, want %v after %d", c.name, err, asked, c.want, c.asked)
		}
	}
}
