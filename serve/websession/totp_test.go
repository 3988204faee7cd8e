package websession

import (
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/totp"
	"doublet/note"
	"doublet/serve/signin"

	"github.com/boombuler/barcode/qr"
)

// enrol sets up a second factor for a browser's user. It returns its secret and the recovery codes.
func (b *browser) enrol(v m) (secret []byte, recovery []string) {
	b.w.t.Helper()
	out := b.json(pathTOTPBegin, v)
	var s setup
	if out.Code != 200 || json.Unmarshal(out.Body.Bytes(), &s) != nil {
		b.w.t.Fatalf("begin: %d %s", out.Code, out.Body)
	}
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s.Secret)
	b.w.ok(err)
	if !strings.HasPrefix(s.URI, "otpauth://totp/mail.example.com:") || !strings.HasPrefix(s.QR, "<svg ") {
		b.w.t.Errorf("%s\n%s", s.URI, s.QR)
	}
	out = b.json(pathTOTPGood, m{"ticket": s.Ticket, "code": totp.Code(secret, b.w.fix.Clock.Now())})
	var codes recoveryCodes
	if out.Code != 200 || json.Unmarshal(out.Body.Bytes(), &codes) != nil {
		b.w.t.Fatalf("confirm: %d %s", out.Code, out.Body)
	}
	b.csrf = codes.CSRF
	return secret, codes.Codes
}

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{SCRAM: true})
	_, app, err := w.dir.Passwords.AddApp(bg, note.System, w.alice.ID, "phone")
	w.ok(err)
	b, other := w.signedIn("alice"), w.signedIn("alice")
	w.is("off", b.send("GET", PathTOTP, "", ""), 200, `"on":false`)
	w.is("without the password", b.json(pathTOTPBegin, m{}), 400, "password is needed")
	w.is("with a wrong one", b.json(pathTOTPBegin, m{"password": "wrong"}), 401, "credentials")
	before := b.cookies[0].Value
	secret, recovery := b.enrol(m{"password": "secret-alice"})
	if len(recovery) != totp.RecoveryCodes || before == b.cookies[0].Value {
		t.Error("recovery codes or the new session are missing")
	}
	w.is("on", b.send("GET", PathTOTP, "", ""), 200,
		`"on":true,"since":"2026-01-05T09:00:00Z","recovery_codes_left":10`)
	w.is("the session goes on", b.send("POST", "/api", "", "", CSRFField, b.csrf), 200, "alice")
	w.is("those without it end", other.send("GET", "/api", "", ""), 401, "nobody")
	now := func(steps int) string {
		return totp.Code(secret, w.fix.Clock.Now().Add(time.Duration(steps)*30*time.Second))
	}
	try := func(code string) *httptest.ResponseRecorder {
		return w.browser().json(PathSignIn, m{"user": "alice", "password": "secret-alice", "code": code})
	}
	w.is("no code", try(""), 401, `"error":"code"`)
	w.is("the code of the set-up again", try(now(0)), 401, "wrong code")
	w.fix.Time.Advance(time.Minute)
	w.is("a code", try(now(0)), 200, `"second_factor":true`)
	w.is("replayed", try(now(0)), 401, "wrong code")
	w.is("one step back", try(now(-1)), 200, "")
	w.is("replayed", try(now(-1)), 401, "wrong code")
	w.is("one step ahead", try(now(1)), 200, "")
	w.fix.Time.Advance(5 * time.Minute)
	w.is("two steps back", try(now(-2)), 401, "wrong code")
	w.is("two steps ahead", try(now(2)), 401, "wrong code")
	w.fix.Time.Advance(5 * time.Minute) // five wrong codes so far
	w.is("code and wrong password", w.browser().json(PathSignIn,
		m{"user": "alice", "password": "wrong", "code": now(0)}), 401, "credentials")
	w.is("it is not used up thereby", try(now(0)), 200, "")
	// A recovery code works once, with any separators and case.
	w.is("recovery", try(strings.ToUpper(strings.ReplaceAll(recovery[3], "-", " "))), 200, "")
	w.is("again", try(recovery[3]), 401, "wrong code")
	w.is("nine are left", b.send("GET", PathTOTP, "", ""), 200, `"recovery_codes_left":9`)
	// Programs can only use app passwords.
	for _, secret := range []string{"secret-alice", "wrong"} {
		if _, _, err := w.dir.SignIns.Authenticate(bg, "alice", secret, "IMAP"); !errors.Is(err,
			directory.ErrAuthentication) {
			t.Errorf("%s: %v", secret, err)
		}
	}
	_, _, err = w.dir.SignIns.Authenticate(bg, "alice", app, "IMAP")
	w.ok(err)
	if list, err := w.dir.SignIns.ScramCredentials(bg, "alice"); err != nil || len(list) != 1 {
		t.Error("SCRAM knows the account's password:", len(list), err)
	}
	w.is("Basic", w.browser().send("GET", "/api", "", "", "Authorization", basic("alice", "secret-alice")), 401,
		"credentials")
	w.is("Basic with an app password", w.browser().send("GET", "/api", "", "", "Authorization", basic("alice", app)),
		200, "alice app:")
	// The second factor and the used codes survive a restart.
	w.fix.Time.Advance(10 * time.Minute)
	w.is("a code", try(now(0)), 200, "")
	w.stop()
	w.start()
	w.is("after a restart, no code", try(""), 401, `"error":"code"`)
	w.is("after a restart, replayed", try(now(0)), 401, "wrong code")
	w.is("after a restart, the session", b.send("GET", "/api", "", ""), 200, "alice")
}

// TestOff checks that the second factor is only removed with password and code, or by an administrator.
func TestOff(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.signedIn("alice")
	w.is("none to end", b.json(pathTOTPOff, m{"password": "secret-alice"}), 400, "no second factor")
	w.is("none to recover", b.json(pathTOTPBackup, m{"password": "secret-alice"}), 400, "no second factor")
	secret, old := b.enrol(m{"password": "secret-alice"})
	code := func() string {
		w.fix.Time.Advance(time.Minute)
		return totp.Code(secret, w.fix.Clock.Now())
	}
	w.is("password alone", b.json(pathTOTPOff, m{"password": "secret-alice"}), 401, `"error":"code"`)
	w.is("another device with the password alone", b.json(pathTOTPBegin, m{"password": "secret-alice"}), 401,
		`"error":"code"`)
	out := b.json(pathTOTPBackup, m{"password": "secret-alice", "code": code()})
	w.is("new recovery codes", out, 200, `"recovery_codes":[`)
	var fresh recoveryCodes
	w.ok(json.Unmarshal(out.Body.Bytes(), &fresh))
	w.is("an old one", b.json(pathTOTPOff, m{"password": "secret-alice", "code": old[0]}), 401, "wrong code")
	w.is("a new one", b.json(pathTOTPOff, m{"password": "secret-alice", "code": fresh.Codes[0]}), 200, "is off")
	w.is("sign-in", w.browser().json(PathSignIn, m{"user": "alice", "password": "secret-alice"}), 200, "")
	_, _, err := w.dir.SignIns.Authenticate(bg, "alice", "secret-alice", "IMAP")
	w.ok(err)
	w.fix.Time.Advance(time.Minute)
	b.enrol(m{"password": "secret-alice"})
	w.ok(w.dir.SecondFactors.Remove(bg, note.System, w.alice.ID))
	w.is("off by an administrator", w.browser().json(PathSignIn, m{"user": "alice", "password": "secret-alice"}), 200,
		"")
	for _, fn := range []func() error{
		func() error { return w.dir.SecondFactors.Remove(bg, note.Who{Person: w.bob.ID}, w.alice.ID) },
		func() error {
			_, err := w.dir.SecondFactors.Set(bg, note.Who{Person: w.bob.ID}, w.alice.ID, secret)
			return err
		},
		func() error {
			_, err := w.dir.SecondFactors.NewRecoveryCodes(bg, note.Who{Person: w.bob.ID}, w.alice.ID)
			return err
		},
	} {
		if err := fn(); !errors.Is(err, directory.ErrDenied) {
			t.Error("bob may change alice's:", err)
		}
	}
}

// TestTicket checks that a ticket is only accepted from its session, in time, and with a code of its secret.
func TestTicket(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	a, bob := w.signedIn("alice"), w.signedIn("bob")
	begin := func(b *browser, name string) (s setup, secret []byte) {
		t.Helper()
		out := b.json(pathTOTPBegin, m{"password": "secret-" + name})
		w.ok(json.Unmarshal(out.Body.Bytes(), &s))
		secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s.Secret)
		w.ok(err)
		return s, secret
	}
	s, secret := begin(a, "alice")
	good := totp.Code(secret, w.fix.Clock.Now())
	w.is("another person's", bob.json(pathTOTPGood, m{"ticket": s.Ticket, "code": good}), 400, "Begin again")
	w.is("another session's", w.signedIn("alice").json(pathTOTPGood, m{"ticket": s.Ticket, "code": good}), 400,
		"Begin again")
	w.is("changed", a.json(pathTOTPGood, m{"ticket": "A" + s.Ticket[1:], "code": good}), 400, "")
	w.is("none", a.json(pathTOTPGood, m{"code": good}), 400, "Begin again")
	w.is("wrong code", a.json(pathTOTPGood, m{"ticket": s.Ticket, "code": "000000"}), 400, "not the code")
	w.fix.Time.Advance(ticketLife)
	w.is("too late", a.json(pathTOTPGood, m{"ticket": s.Ticket, "code": totp.Code(secret, w.fix.Clock.Now())}), 400,
		"Begin again")
	p, err := w.dir.Names.Person(bg, w.alice.ID)
	if err != nil || p.HasTOTP() {
		t.Error("it is on", err)
	}
}

// TestGuesses checks that an attacker with the password has five guesses at the code, from any number of addresses, in
// parallel or not. Then each guess has to wait longer, up to days, and even the right code is rejected. The user's own
// browser can still sign in, and shows the wrong codes.
func TestGuesses(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	own := w.signedIn("alice")
	secret, _ := own.enrol(m{"password": "secret-alice"})
	w.fix.Time.Advance(time.Minute)
	now := func() string { return totp.Code(secret, w.fix.Clock.Now()) }
	in := func(b *browser, code string) *httptest.ResponseRecorder {
		return b.json(PathSignIn, m{"user": "alice", "password": "secret-alice", "code": code})
	}
	try := func(code string) int { return in(w.browser(), code).Code }
	var mu sync.Mutex
	var wg sync.WaitGroup
	count := map[int]int{}
	right := now()
	for i := range 40 {
		wg.Go(func() {
			guess := fmt.Sprintf("%06d", i)
			if guess == right {
				guess = "999999"
			}
			code := try(guess)
			mu.Lock()
			defer mu.Unlock()
			count[code]++
		})
	}
	wg.Wait()
	if count[401] != 5 || count[429] != 35 {
		t.Errorf("%v", count)
	}
	w.is("the right code", in(w.browser(), right), 429, "Try again after 2026-01-05 09:02 UTC")
	w.is("a recovery code", in(w.browser(), "abcd-efgh-ijkl-mnop"), 429, "busy")
	w.is("a wrong password is told nothing of it", w.browser().json(PathSignIn,
		m{"user": "alice", "password": "wrong", "code": right}), 401, "credentials")
	w.is("the person is told", own.send("GET", PathTOTP, "", ""), 200,
		`"wrong_codes":{"count":5,"since":"2026-01-05T09:01:00Z"`)
	w.is("on the page", own.send("GET", PathAccount, "", ""), 200, "5 wrong codes were given with your password")
	w.is("their browser goes on", in(own, right), 200, "")
	wait := func(d time.Duration) {
		t.Helper()
		w.fix.Time.Advance(d)
		if code := try(now()); code != 429 {
			t.Error("too early:", code)
		}
	}
	w.stop()
	w.start()
	wait(50 * time.Second)
	w.fix.Time.Advance(10 * time.Second)
	if code := try("000000"); code != 401 {
		t.Error("after a minute:", code)
	}
	wait(110 * time.Second)
	w.fix.Time.Advance(10 * time.Second)
	if code := try(now()); code != 200 {
		t.Error("after two more:", code)
	}
	// A new password resets the count, because the attacker does not know it.
	w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "another-secret", false))
	for range 5 {
		w.is("with the new password", w.browser().json(PathSignIn,
			m{"user": "alice", "password": "another-secret", "code": "000000"}), 401, "wrong code")
	}
}

// TestBans checks that failures at all servers count together.
func TestBans(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: 5})
	from := func(addr string) signin.Attempt {
		return signin.Attempt{Door: "IMAP", Remote: netip.MustParseAddr(addr)}
	}
	// patient advances the clock while fn waits for the delays of its failed sign-ins.
	patient := func(fn func()) {
		done := make(chan struct{})
		go func() { defer close(done); fn() }()
		for {
			select {
			case <-done:
				return
			default:
				if w.fix.Time.Pending() > 0 {
					w.fix.Time.Advance(250 * time.Millisecond)
				}
				runtime.Gosched()
			}
		}
	}
	far := &browser{w: w, remote: "192.0.2.7:999"}
	n := 0
	wrong := func() string { n++; return fmt.Sprint("wrong", n) }
	for i := range 5 {
		patient(func() {
			switch i {
			case 0:
				w.is("Basic", far.send("GET", "/api", "", "", "Authorization", basic("alice", wrong())), 401, "")
			case 1:
				w.is("Bearer", far.send("GET", "/api", "", "", "Authorization", "Bearer "+wrong()), 401, "")
			case 2, 3:
				w.is("sign-in", far.json(PathSignIn, m{"user": "alice", "password": wrong()}), 401, "")
			case 4:
				if _, err := w.web.Password(bg, from("192.0.2.7"), "alice", wrong()); !errors.Is(err,
					signin.ErrCredentials) {
					t.Error(err)
				}
			}
		})
	}
	w.is("banned", far.json(PathSignIn, m{"user": "alice", "password": "secret-alice"}), 429, "banned")
	out := far.send("GET", "/api", "", "", "Authorization", basic("alice", "secret-alice"))
	w.is("banned, Basic", out, 429, "banned")
	if out.Header().Get("Retry-After") == "" {
		t.Error("no word of when to come again")
	}
	if _, err := w.web.Password(bg, from("192.0.2.7"), "alice", "secret-alice"); !errors.Is(err, signin.ErrBanned) {
		t.Error("IMAP:", err)
	}
	// Existing sessions continue, and other addresses can sign in.
	in := w.signedIn("alice")
	in.remote = far.remote
	w.is("session", in.send("GET", "/api", "", ""), 200, "alice")
	w.is("elsewhere", (&browser{w: w, remote: "192.0.2.8:9"}).json(PathSignIn,
		m{"user": "bob", "password": "secret-bob"}), 200, "bob")
	if list := w.web.Bans(); len(list) != 1 || list[0].Address.String() != "192.0.2.7/32" {
		t.Errorf("%+v", list)
	}
	// Failures in IMAP also ban the web.
	for range 5 {
		patient(func() { _, _ = w.web.Password(bg, from("192.0.2.9"), "bob", wrong()) })
	}
	w.is("banned at IMAP", (&browser{w: w, remote: "192.0.2.9:9"}).json(PathSignIn,
		m{"user": "bob", "password": "secret-bob"}), 429, "banned")
}

// TestForm sets up a second factor with forms only.
func TestForm(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.signedIn("alice")
	csrf := func(page string) string { return between(page, `name="csrf" value="`, `"`) }
	page := b.send("GET", PathAccount, "", "").Body.String()
	out := b.form(pathTOTPBegin, url.Values{"csrf": {csrf(page)}, "password": {"secret-alice"}})
	w.is("begin", out, 200, `<svg xmlns="http://www.w3.org/2000/svg"`)
	page = out.Body.String()
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(between(page, "<p><code>", "</code>"))
	w.ok(err)
	out = b.form(pathTOTPGood, url.Values{"csrf": {csrf(page)}, "ticket": {between(page, `name="ticket" value="`, `"`)},
		"code": {totp.Code(secret, w.fix.Clock.Now())}})
	w.is("confirm", out, 200, "The second factor is on")
	if n := strings.Count(out.Body.String(), "<p><code>"); n != totp.RecoveryCodes {
		t.Errorf("%d recovery codes", n)
	}
	// The page of the new session has its token.
	w.fix.Time.Advance(time.Minute)
	out = b.form(pathTOTPOff, url.Values{"csrf": {csrf(out.Body.String())}, "password": {"secret-alice"},
		"code": {totp.Code(secret, w.fix.Clock.Now())}})
	w.is("off", out, 200, "The second factor is off")
	w.is("sign-in page", w.browser().send("GET", PathSignIn, "", ""), 200, `name="code"`)
}

// TestQR checks that the picture has exactly the dark modules of the code.
func TestQR(t *testing.T) {
	t.Parallel()
	text := totp.URI("mail.example.com", "alice@example.com", []byte("12345678901234567890"))
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := svg(text)
	if err != nil {
		t.Fatal(err)
	}
	n := code.Bounds().Dx()
	dark := make(map[[2]int]bool)
	for part := range strings.SplitSeq(between(picture[strings.LastIndex(picture, `<path d="`):], `d="`, `"`), "M") {
		if part == "" {
			continue
		}
		var x, y, run, back int
		if _, err := fmt.Sscanf(part, "%d %dh%dv1h-%dz", &x, &y, &run, &back); err != nil || run != back {
			t.Fatalf("%q: %v", part, err)
		}
		for i := range run {
			dark[[2]int{x + i - quiet, y - quiet}] = true
		}
	}
	for y := range n {
		for x := range n {
			if dark[[2]int{x, y}] != (code.At(x, y) == color.Black) {
				t.Fatalf("module %d, %d", x, y)
			}
			delete(dark, [2]int{x, y})
		}
	}
	if len(dark) != 0 {
		t.Errorf("%d dark modules outside", len(dark))
	}
}

func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{basic("alice", "secret"), "Bearer abc.def", "Basic", "basic  YTpi", "Bearer \x00", "",
		"Basic Og=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, ok := parseAuthorization([]string{s})
		if !ok {
			return
		}
		again := "Bearer " + a.secret
		if a.basic {
			again = basic(a.user, a.secret)
		}
		if b, ok := parseAuthorization([]string{again}); !ok || a != b {
			t.Fatalf("%q: %+v, again %+v", s, a, b)
		}
	})
}

func FuzzInput(f *testing.F) {
	f.Add("application/json", `{"user":"alice","password":"x","keep":true}`)
	f.Add("application/x-www-form-urlencoded", "user=alice&password=x&to=%2F%2Fevil")
	f.Add("text/plain", "")
	f.Add("application/json; charset=x", `{"to":"/\\evil"}`)
	f.Fuzz(func(t *testing.T, kind, body string) {
		r := httptest.NewRequest("POST", PathSignIn, strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {kind}}
		in, err := readInput(nil, r)
		if in == nil {
			t.Fatal("no input")
		}
		if err == nil && strings.IndexByte(in.User+in.Password+in.ID, 0) >= 0 {
			t.Fatal("a NUL")
		}
		if to := localPath(in.To); to != "" {
			u, err := url.Parse("https://mail.example.com" + to)
			if err == nil && u.Host != "mail.example.com" {
				t.Fatalf("%q leads to %s", in.To, u.Host)
			}
		}
	})
}

func FuzzTicket(f *testing.F) {
	id := &Identity{}
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := ticketKey("k").open(id, s, time.Unix(0, 0)); err == nil {
			t.Fatal("forged")
		}
	})
}
