package totp

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"doublet/env"
)

// TestVectors checks RFC 4226 appendix D, and RFC 6238 appendix B with six of its eight digits.
func TestVectors(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for i, want := range []string{"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583",
		"399871", "520489"} {
		if got := code(secret, int64(i)); got != want {
			t.Errorf("counter %d: %s, want %s", i, got, want)
		}
	}
	for unix, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471",
		1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := Code(secret, time.Unix(unix, 0)); got != want {
			t.Errorf("%d: %s, want %s", unix, got, want)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	secret, now := NewSecret(e.Env), e.Clock.Now()
	for steps, want := range map[int]bool{-3: false, -2: false, -1: true, 0: true, 1: true, 2: false} {
		c := Code(secret, now.Add(time.Duration(steps)*period*time.Second))
		got, ok := Check(secret, c[:3]+" "+c[3:], now)
		if ok != want || ok && got != step(now)+int64(steps) {
			t.Errorf("%+d steps: %v", steps, ok)
		}
	}
	for _, c := range []string{"", "12345", "1234567", "abcdef", strings.Repeat(" ", 100), "１２３４５６"} {
		if _, ok := Check(secret, c, now); ok {
			t.Errorf("%q is taken", c)
		}
	}
	if _, ok := Check(nil, code(nil, step(now)), now); ok {
		t.Error("a code of no secret is taken")
	}
}

func TestURI(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(URI("mail & co", "ada lovelace@example.com", []byte("12345678901234567890")))
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/mail & co:ada lovelace@example.com" ||
		strings.Contains(u.RawQuery, "+") {
		t.Fatal(u, err)
	}
	if q := u.Query(); q.Get("secret") != "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ" || q.Get("issuer") != "mail & co" ||
		q.Get("digits") != "6" || q.Get("period") != "30" {
		t.Error(q)
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	a, b := NewRecovery(e.Env), NewRecovery(e.Env)
	if a == b || len(a) != 19 {
		t.Fatal(a, b)
	}
	sum, ok := RecoveryHash([]byte("key"), a)
	typed, ok2 := RecoveryHash([]byte("key"), strings.ToUpper(strings.ReplaceAll(a, "-", " ")))
	other, ok3 := RecoveryHash([]byte("another"), a)
	if !ok || !ok2 || !ok3 || sum != typed || sum == other {
		t.Error("the hash goes by more or less than code and key")
	}
	for _, c := range []string{"", "123456", a[:18], a + "a", "abcd-efgh-ijkl-mno1"} {
		if _, ok := RecoveryHash([]byte("key"), c); ok {
			t.Errorf("%q has the form of a recovery code", c)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("123456", int64(1))
	f.Add("abcd-efgh-ijkl-mnop", int64(-1))
	f.Add("\u00a0", int64(1<<62))
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		secret, now := []byte("12345678901234567890"), time.Unix(unix, 0)
		if s, ok := Check(secret, text, now); ok && (s < step(now)-window || s > step(now)+window ||
			code(secret, s) != plain(text)) {
			t.Fatal(s)
		}
		_, _ = RecoveryHash(secret, text)
	})
}
