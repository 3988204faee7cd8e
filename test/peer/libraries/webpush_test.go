package libraries

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	theirs "github.com/SherClockHolmes/webpush-go"

	ours "doublet/wire/webpush"
)

type service struct {
	body  []byte
	token string
}

func (s *service) Do(r *http.Request) (*http.Response, error) {
	s.body, _ = io.ReadAll(r.Body)
	s.token = strings.TrimPrefix(r.Header.Get("Authorization"), "vapid t=")
	return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
}

// TestWebPush sends one message of 40 bytes.
func TestWebPush(t *testing.T) {
	key, ok := ours.KeyFrom(bytes.Repeat([]byte{7}, 32))
	if !ok {
		t.Fatal("no key")
	}
	agent, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.RawURLEncoding.EncodeToString
	p256dh, secret := encoded(agent.PublicKey().Bytes()), encoded(make([]byte, 16))
	payload := []byte(strings.Repeat("x", 40))
	until := time.Now().Add(time.Hour)
	var s service
	send := func(auth string) error {
		_, err := theirs.SendNotification(payload, &theirs.Subscription{
			Endpoint: "https://push.example:443/x", Keys: theirs.Keys{P256dh: p256dh, Auth: auth},
		}, &theirs.Options{
			HTTPClient: &s, Subscriber: "postmaster@example.com", VapidExpiration: until, TTL: 60,
			VAPIDPublicKey: ours.PublicKey(key), VAPIDPrivateKey: encoded(bytes.Repeat([]byte{7}, 32)),
		})
		return err
	}
	if err := send(secret); err != nil {
		t.Fatal(err)
	}
	claims := struct {
		Exp int64
		Aud string
	}{}
	part, err := base64.RawURLEncoding.DecodeString(strings.Split(s.token, ".")[1])
	if err == nil {
		err = json.Unmarshal(part, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	count := func(bad bool, format string, values ...any) {
		if t.Logf(format, values...); bad {
			lost++
		}
	}
	end := time.Unix(claims.Exp, 0)
	count(end.Sub(until) > time.Minute, "the token ends %s after the time that was asked for",
		end.Sub(until).Round(time.Minute))
	const origin = "https://push.example" // of an address with the default port
	count(claims.Aud != origin, "the audience is %s, not %s", claims.Aud, origin)
	count(len(s.body) > 1000, "a message of 40 bytes takes %d", len(s.body))
	keys, err := ours.ParseKeys(p256dh, secret)
	if err != nil {
		t.Fatal(err)
	}
	once, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := ours.Encrypt(keys, once, [16]byte{}, payload)
	t.Logf("ours takes %d bytes, %v", len(mine), err)
	for _, auth := range []string{"", "AA"} {
		_, bad := ours.ParseKeys(p256dh, auth)
		if err := send(auth); bad == nil || err == nil {
			count(true, "secret %q instead of 16 bytes: ours %v, theirs %v", auth, bad, err)
		}
	}
	allocs := testing.AllocsPerRun(20, func() { _ = send(secret) })
	begun := time.Now()
	for range 200 {
		_ = send(secret)
	}
	t.Logf("theirs: %v and %.0f allocations a message", time.Since(begun)/200, allocs)
	begun = time.Now()
	for range 200 {
		_, _ = ours.Encrypt(keys, once, [16]byte{}, payload)
	}
	t.Logf("ours: %v a message, without the token, which serves 12 hours, and without a new key", time.Since(begun)/200)
	if lost < 3 {
		t.Errorf("webpush-go fails in %d points of 5: compare again", lost)
	}
}
