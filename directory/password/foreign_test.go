package password

import (
	"context"
	"errors"
	"strings"
	"testing"

	"doublet/env"
)

// foreign lists hashes of "Grüße demo" made by doveadm pw (Dovecot 2.4) and slappasswd (OpenLDAP 2.6).
var foreign = []string{
	"{SHA512-CRYPT}$6$mg1xiQsT6dQE7IvI$7Y9Ev7lfOgWPnRePNZg/2ThCiAQ/CTVlmSUbKdZgCqkUgkOBtAjyNLkFdn63wZ0Ew0j3bQnsd" +
		"y6xyAa1wXGk30",
	"{SHA256-CRYPT}$5$y.PuvAxG5mu1MNTl$h.u9qjDkAR6dOU3blpWD9jL/LswCyUpmyt0EhiIOBnA",
	"$5$y.PuvAxG5mu1MNTl$h.u9qjDkAR6dOU3blpWD9jL/LswCyUpmyt0EhiIOBnA",
	"{MD5-CRYPT}$1$webKX4eF$gACwYGlonKKqG6EuoMTMu0",
	"{BLF-CRYPT}$2y$05$.kt0DBpJ7gN45Ehhlbx2JOOZYZoh0h8cGGJ6y8JpRTcF84pxdaxYu",
	"{crypt}$2y$05$MME6ewpMAF1BRE9.CF/5VOH5IyZ7ndjtEjWPrUoVsh8XEmWr3lUnK",
	"{SSHA}O6n82s9euFptQ7uTjpHthvDOs54QdSia",
	"{SSHA}nvWYwSFKhC902Q0YkG7rSrw0RuMvKCsF",
	"{SSHA256}4dBMJ5FOaSmtx6Nz3dc1PMGzgeCBDoP+rBt2xxDehZYoUvjN",
	"{SSHA512}ok6gm61QUu6jS17O5UXx6COkDFwIT7ABMX4dkP+y7bxSUxw5DbkjBC5HoyaIWCgr1A+j5nCeZWNJYtI6SQRX8VLC9hY=",
	"{PBKDF2}$1$5J1RicikmWoSJ/Fp$5000$ddfb82892076e0bb218bffb4a5de61492173d9d7",
	"{ARGON2ID}$argon2id$v=19$m=65536,t=3,p=1$xVthNLZMMd3yW2frpr6JRA$piFO354zaeIG/9QZYN3oTJv+VYYmGP2I5vnVQWBxURE",
	"{ARGON2I}$argon2i$v=19$m=32768,t=4,p=1$GU+EkfZW2id4L6tI9OF8nw$7IIwroN+uhXQgGkodC43LsKdG8HqvBk66OtIFQ+a9+A",
	"{PLAIN-MD5}dc77759996469e450f1147b6038d4a39",
	"{LDAP-MD5}3Hd1mZZGnkUPEUe2A41KOQ==",
	"{MD5}3Hd1mZZGnkUPEUe2A41KOQ==",
	"{MD5}$1$hvUR6E84$DXoj2gfGn.ds8Mq/sHTiK/",
	"{SMD5}oXz+UH2Tby7/IJn3Q2wCc0vHBSg=",
	"{SHA}MDEqoC6Jv9fAiYXvl/wYxSuLqas=",
	"{SHA256}25JBS0oXkI4OVaIybPimQBiYXqfN4ZFQ00Cfl2xA7Sk=",
	"{SHA512.HEX}0787f77bb7b064abdfe0fb30d5d6a764867120b440a5daf0c1c67a01a5ee4a89eb365d32805879093c7f76063adc10e" +
		"3e44d624a05ad23bf37404b038a0df08a",
	"{SSHA256.HEX}7804422ea05b47a050b7d119834ff533dea4b3e945b63f961f9fad07dfe812ec0482d859",
	// Made by crypt(3) of Debian (libxcrypt 4.4.33): with the cost of its passwd, and with lower costs.
	"$y$j9T$abcdefgh$Q0cQnY8eg88ePrqylAAXilmdsmliwZWtM5aab0R38EB",
	"{CRYPT}$y$j75$NxUw0gqVZfWxVGmnDUwCu/$3cDx6JFnh6XDemsLq49KzgeQI9I41IJIYUh08OsUVMB",
	"$y$j8T$F5Jx5fExrKuPp53xLKQ..1$j910rHebgcECaiSJJI95CxU01xHWQaiUv5uXKej8dw7",
}

func TestForeign(t *testing.T) {
	t.Parallel()
	p := New(env.TestRealTime(t).Env, 2, 100)
	ctx := context.Background()
	for _, h := range foreign {
		if err := Check(h); err != nil {
			t.Errorf("%s: %v", h, err)
			continue
		}
		if !Outdated(h) {
			t.Errorf("%s is not to be replaced", h)
		}
		for _, wrong := range []string{"Grüße Demo", "", "Grüße demo ", strings.Repeat("x", MaxLength+1)} {
			if ok, err := p.Verify(ctx, h, wrong); ok || err != nil {
				t.Errorf("%s takes %.20q (%v)", h, wrong, err)
			}
		}
		if ok, err := p.Verify(ctx, h, "Grüße demo"); !ok || err != nil {
			t.Errorf("%s does not take its password (%v)", h, err)
		}
	}
}

// PBKDF2 in passlib's format for OpenLDAP. The vector is from passlib's documentation of ldap_pbkdf2_sha256.
func TestPBKDF2(t *testing.T) {
	t.Parallel()
	p := New(env.TestRealTime(t).Env, 2, 100)
	const h = "{PBKDF2-SHA256}6400$.6UI/S.nXIk8jcbdHx3Fhg$98jZicV16ODfEsEZeYPGHU3kbrUrvUEXOPimVSQDD44"
	for pw, want := range map[string]bool{"password": true, "passwort": false} {
		if ok, err := p.Verify(context.Background(), h, pw); ok != want || err != nil {
			t.Errorf("%q: %v, %v", pw, ok, err)
		}
	}
}

func TestForeignBounds(t *testing.T) {
	t.Parallel()
	for _, h := range []string{
		"x", "{SSHA}", "{SSHA}!!", "{NTLM}abc", "{SSHA}MDEqoC6Jv9fAiYXvl/wYxSuLqas=",
		"{SHA}O6n82s9euFptQ7uTjpHthvDOs54QdSia",
		"$6$rounds=999999999$salt$x", "$6$rounds=0$salt$x", "$5$salt", "$1$", "$y$j9T$abc$def",
		"$y$jFT$abcdefgh$kh8xQrLw4WEFH5TNkA/dNLLMhYcmL4YIQTHU9yfFRf6",
		"$y$k9T$abcdefgh$9WNEpu8Mx2S4KNGvbVWKM6clOSoY6.YEl7AYF4DGV04",
		"$y$j9T$$9WNEpu8Mx2S4KNGvbVWKM6clOSoY6.YEl7AYF4DGV04",
		"$y$j9T$abcdefgh$9WNEpu8Mx2S4KNGvbVWKM6clOSoY6.YEl7AYF4DG!04",
		"$gy$j9T$abcdefgh$QK8Q5gsHtlf1ldKbiELRzUOlEGv9R.Y1Z.tXVIhGetB",
		"$2y$31$.kt0DBpJ7gN45Ehhlbx2JOOZYZoh0h8cGGJ6y8JpRTcF84pxdaxYu",
		"{PBKDF2}$1$salt$99999999$ddfb82892076e0bb218bffb4a5de61492173d9d7", "{PBKDF2-SHA256}1$$",
		"$argon2i$v=19$m=99999999,t=4,p=1$GU+EkfZW2id4L6tI9OF8nw$7IIwroN+uhXQgGkodC43LsKdG8HqvBk66OtIFQ+a9+A",
		"!", "*", "!!$6$x$y", "", "{PLAIN}x", "{CRYPT}ab01FAX.bQRSU", "{" + strings.Repeat("x", 600),
	} {
		if err := Check(h); !errors.Is(err, ErrFormat) {
			t.Errorf("%.60q: %v", h, err)
		}
	}
	for _, h := range []string{"{CRYPT}ab01FAX.bQRSU", "ab01FAX.bQRSU", "{crypt}_J9..CCCCXBrJUJV154M"} {
		if err := Check(h); err == nil || !strings.Contains(err.Error(), "DES crypt") {
			t.Errorf("%s: %v", h, err)
		}
	}
	if pw, ok := Plain("{PLAIN}a}b"); !ok || pw != "a}b" {
		t.Error(pw, ok)
	}
	if _, ok := Plain("{SSHA}x"); ok {
		t.Error("a hash is no password")
	}
}

func FuzzForeign(f *testing.F) {
	for _, h := range foreign {
		f.Add(h)
	}
	f.Fuzz(func(_ *testing.T, s string) { _ = Check(s) })
}
