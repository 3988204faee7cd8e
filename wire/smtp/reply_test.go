package smtp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func parseReply(in []byte) (*Reply, []byte, error) {
	r := &Reply{}
	for {
		i := bytes.IndexByte(in, '\n')
		if i < 0 {
			return nil, nil, ErrMalformedReply
		}
		last, err := r.AddLine(in[:i+1])
		if err != nil {
			return nil, nil, err
		}
		in = in[i+1:]
		if last {
			return r, in, nil
		}
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		r    *Reply
		want string
	}{
		{NewReply(250, 2, 1, 5, "OK"), "250 2.1.5 OK\r\n"},
		{&Reply{Code: 354}, "354 \r\n"},
		{NewReply(550, 5, 1, 1, "a\nb\nc"), "550-5.1.1 a\r\n550-5.1.1 b\r\n550 5.1.1 c\r\n"},
		{&Reply{Code: 250, Lines: []string{"evil\r\n221 bye"}}, "250 evil??221 bye\r\n"},
	} {
		got := tc.r.Append(nil)
		if string(got) != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
		back, rest, err := parseReply(got)
		if err != nil || len(rest) > 0 || back.Code != tc.r.Code || back.Enhanced != tc.r.Enhanced {
			t.Errorf("%q: %+v, %v", got, back, err)
		}
	}
	for _, bad := range []string{"", "25\r\n", "250x\r\n", "abc d\r\n", "199 x\r\n", "600 x\r\n", "250-a\r\n251 b\r\n",
		strings.Repeat("250-x\r\n", MaxReplyLines) + "250 x\r\n", "250 " + strings.Repeat("x", MaxReplyLine) + "\r\n"} {
		if r, _, err := parseReply([]byte(bad)); !errors.Is(err, ErrMalformedReply) {
			t.Errorf("%.20q: %+v %v", bad, r, err)
		}
	}
	if r := AsReply(fmt.Errorf("x: %w", ErrSyntax)); r != ErrSyntax {
		t.Error(r)
	}
	if r := AsReply(errors.New("secret")); r.Code != 451 || strings.Contains(r.Error(), "secret") {
		t.Error(r)
	}
}

func FuzzReply(f *testing.F) {
	for _, s := range []string{"250 2.1.5 OK\r\n", "250-a\r\n250 b\n", "550-5.1.1 a\r\n550 5.1.1 b\r\n", "220\r\n",
		"451 4.3\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r, _, err := parseReply(in)
		if err != nil {
			return
		}
		again, rest, err := parseReply(r.Append(nil))
		if err != nil || len(rest) > 0 || again.Code != r.Code || len(again.Lines) != len(r.Lines) {
			t.Fatalf("%q printed as %q: %v", in, r.Append(nil), err)
		}
	})
}
