package webpush

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
)

func unbase(t testing.TB, s string) []byte {
	t.Helper()
	b, err := decode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func private(t testing.TB, s string) *ecdh.PrivateKey {
	t.Helper()
	k, err := ecdh.P256().NewPrivateKey(unbase(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The example of RFC 8291 section 5 and appendix A.
const (
	exampleText    = "When I grow up, I want to be a watermelon"
	exampleServer  = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
	exampleAgent   = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	exampleP256dh  = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	exampleAuth    = "BTBZMqHH6r4Tts7J_aSIgg"
	exampleSalt    = "DGv6ra1nlYgDCS1FRnbzlw"
	exampleMessage = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWA" +
		"mS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)

func TestExample(t *testing.T) {
	t.Parallel()
	keys, err := ParseKeys(exampleP256dh, exampleAuth+"==")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Encrypt(keys, private(t, exampleServer), [16]byte(unbase(t, exampleSalt)), []byte(exampleText))
	if err != nil || base64.RawURLEncoding.EncodeToString(got) != exampleMessage {
		t.Fatalf("%s, %v", base64.RawURLEncoding.EncodeToString(got), err)
	}
	plain, err := Decrypt(private(t, exampleAgent), unbase(t, exampleAuth), got)
	if err != nil || string(plain) != exampleText {
		t.Fatalf("%q, %v", plain, err)
	}
	for i := range got {
		bad := bytes.Clone(got)
		bad[i] ^= 1
		if _, err := Decrypt(private(t, exampleAgent), unbase(t, exampleAuth), bad); err == nil &&
			(i < saltLen || i >= saltLen+4) {
			t.Fatalf("octet %d may be changed", i)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	keys, err := ParseKeys(exampleP256dh, exampleAuth)
	if err != nil {
		t.Fatal(err)
	}
	var salt [16]byte
	for _, n := range []int{0, 1, MaxPayload} {
		got, err := Encrypt(keys, private(t, exampleServer), salt, make([]byte, n))
		if err != nil || len(got) > 4096 {
			t.Fatalf("%d: %d octets, %v", n, len(got), err)
		}
		if plain, err := Decrypt(private(t, exampleAgent), unbase(t, exampleAuth), got); err != nil || len(plain) != n {
			t.Fatalf("%d: %d, %v", n, len(plain), err)
		}
	}
	if _, err := Encrypt(keys, private(t, exampleServer), salt, make([]byte, MaxPayload+1)); !errors.Is(err,
		ErrTooLong) {
		t.Error(err)
	}
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	for _, k := range [][2]string{
		{"", ""}, {exampleP256dh, ""}, {exampleP256dh, exampleAuth + "AA"}, {exampleP256dh[:80], exampleAuth},
		{exampleP256dh + "!", exampleAuth},
		{"BA" + strings.Repeat("A", 85), exampleAuth}, // not a point of the curve
		{strings.Replace(exampleP256dh, "-", "+", 1), exampleAuth},
	} {
		if _, err := ParseKeys(k[0], k[1]); !errors.Is(err, ErrKeys) {
			t.Errorf("%q: %v", k, err)
		}
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	key, ok := KeyFrom(bytes.Repeat([]byte{7}, 32))
	again, _ := KeyFrom(bytes.Repeat([]byte{7}, 32))
	if !ok || PublicKey(key) != PublicKey(again) || len(PublicKey(key)) != 87 {
		t.Fatal(ok, PublicKey(key))
	}
	if _, ok := KeyFrom(make([]byte, 32)); ok {
		t.Error("zero is a key")
	}
	field, err := Authorization(key, rand.Reader, "https://push.example", "mailto:postmaster@example.com",
		now.Add(12*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	subject, public, err := CheckAuthorization(field, "https://push.example", now)
	if err != nil || subject != "mailto:postmaster@example.com" || public != PublicKey(key) {
		t.Error(subject, public, err)
	}
	forged := strings.Replace(field, "t=", "t=x", 1)
	for what, c := range map[string]struct {
		field, audience string
		at              time.Time
	}{
		"another service": {field, "https://other.example", now},
		"too late":        {field, "https://push.example", now.Add(12 * time.Hour)},
		"too early":       {field, "https://push.example", now.Add(-13 * time.Hour)},
		"forged":          {forged, "https://push.example", now}, "nothing": {"", "https://push.example", now},
	} {
		if _, _, err := CheckAuthorization(c.field, c.audience, c.at); !errors.Is(err, ErrAuthorization) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(exampleP256dh, exampleAuth, []byte(exampleText))
	f.Add("", "", []byte(nil))
	f.Add(exampleP256dh+"=", exampleAuth+"==", []byte{2, 2, 0})
	ephemeral := private(f, exampleServer)
	f.Fuzz(func(t *testing.T, p256dh, auth string, text []byte) {
		keys, err := ParseKeys(p256dh, auth)
		if err != nil {
			return
		}
		if out, err := Encrypt(keys, ephemeral, [16]byte{}, text); err == nil && len(out) != headerLen+len(text)+17 ||
			err != nil && len(text) <= MaxPayload {
			t.Fatal(len(out), err)
		}
	})
}

func FuzzDecrypt(f *testing.F) {
	f.Add(unbase(f, exampleMessage))
	f.Add([]byte{})
	agent, auth := private(f, exampleAgent), unbase(f, exampleAuth)
	f.Fuzz(func(t *testing.T, b []byte) {
		if plain, err := Decrypt(agent, auth, b); err == nil && len(plain) > len(b) {
			t.Fatal("longer than what came")
		}
	})
}
