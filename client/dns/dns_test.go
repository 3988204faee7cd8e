package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/stat"
)

const records = `
$TTL 300
example.com.        SOA ns hostmaster 1 3600 600 86400 120
example.com.        MX 20 mx2.example.com.
example.com.        MX 10 MX1.Example.COM.
example.com.        TXT "v=spf1 " "mx -all"
example.com.        TXT "odd \"quoted\" \255 bytes"
nomail.example.com. MX 0 .
mx1.example.com.    A 192.0.2.1
mx1.example.com.    AAAA 2001:db8::1
mx2.example.com.    CNAME deep.example.com.
deep.example.com.   CNAME mx1.example.com.
four.example.com.   A 192.0.2.4
_25._tcp.mx1.example.com. TLSA 3 1 1 0011223344556677889900112233445566778899001122334455667788990011
_imaps._tcp.example.com. SRV 1 5 993 b.example.com.
_imaps._tcp.example.com. SRV 0 1 993 a.example.com.
_imaps._tcp.example.com. SRV 0 9 993 c.example.com.
1.2.0.192.in-addr.arpa. PTR mx1.example.com.
example.com.        CAA 0 issue "letsencrypt.org"
zero.example.com.   0 A 192.0.2.9
`

func world(t *testing.T, text string) (*zone.Server, *Resolver, *env.Fixture) {
	t.Helper()
	z := zone.Start(t, text)
	f := env.Test(t)
	return z, New(f.Env, Options{Servers: []string{z.Addr()}, Stats: stat.New(f.Clock), Attempts: 1}), f
}

func TestRecords(t *testing.T) {
	t.Parallel()
	_, r, _ := world(t, records)
	ctx := context.Background()
	for _, c := range []struct {
		name string
		ask  func() (any, bool, error)
		want string
	}{
		{"mx", func() (any, bool, error) { return wrap(r.MX(ctx, "Example.COM.")) },
			"[{10 mx1.example.com} {20 mx2.example.com}]"},
		{"null mx", func() (any, bool, error) { return wrap(r.MX(ctx, "nomail.example.com")) }, "[{0 .}]"},
		{"addresses", func() (any, bool, error) { return wrap(r.Addresses(ctx, "mx1.example.com")) },
			"[2001:db8::1 192.0.2.1]"},
		{"aliases", func() (any, bool, error) { return wrap(r.Addresses(ctx, "mx2.example.com")) },
			"[2001:db8::1 192.0.2.1]"},
		{"one family", func() (any, bool, error) { return wrap(r.Addresses(ctx, "four.example.com")) }, "[192.0.2.4]"},
		{"literal", func() (any, bool, error) { return wrap(r.Addresses(ctx, "192.0.2.77")) }, "[192.0.2.77]"},
		{"localhost", func() (any, bool, error) { return wrap(r.Addresses(ctx, "LocalHost.")) }, "[127.0.0.1 ::1]"},
		{"txt", func() (any, bool, error) { return wrap(r.TXT(ctx, "example.com")) },
			"[v=spf1 mx -all odd \"quoted\" \xff bytes]"},
		{"ptr", func() (any, bool, error) { return wrap(r.PTR(ctx, netip.MustParseAddr("::ffff:192.0.2.1"))) },
			"[mx1.example.com]"},
		{"srv", func() (any, bool, error) { return wrap(r.SRV(ctx, "_imaps._tcp.example.com")) },
			"[{0 9 993 c.example.com} {0 1 993 a.example.com} {1 5 993 b.example.com}]"},
		{"cname", func() (any, bool, error) { return wrap(r.CNAME(ctx, "mx2.example.com")) }, "deep.example.com"},
		{"caa", func() (any, bool, error) { return wrap(r.CAA(ctx, "example.com")) }, "[{0 issue letsencrypt.org}]"},
		{"nothing", func() (any, bool, error) { return wrap(r.MX(ctx, "none.example.com")) }, "not found"},
		{"no data", func() (any, bool, error) { return wrap(r.MX(ctx, "mx1.example.com")) }, "not found"},
		{"no name", func() (any, bool, error) { return wrap(r.MX(ctx, "a..b")) }, "not found"},
		{"long name", func() (any, bool, error) { return wrap(r.MX(ctx, strings.Repeat("a", 64)+".com")) },
			"not found"},
		{"bad bytes", func() (any, bool, error) { return wrap(r.TXT(ctx, "a b\\.com")) }, "not found"},
	} {
		got, _, err := c.ask()
		shown := fmt.Sprint(got)
		if errors.Is(err, ErrNotFound) {
			shown = "not found"
		} else if err != nil {
			shown = err.Error()
		}
		if shown != c.want {
			t.Errorf("%s: %q, want %q", c.name, shown, c.want)
		}
	}
	tlsa, _, err := r.TLSA(ctx, "_25._tcp.mx1.example.com")
	if err != nil || len(tlsa) != 1 || tlsa[0].Usage != 3 || tlsa[0].Selector != 1 || tlsa[0].Matching != 1 ||
		len(tlsa[0].Data) != 32 || tlsa[0].Data[1] != 0x11 {
		t.Errorf("tlsa %v %v", tlsa, err)
	}
}

func wrap[T any](v T, secure bool, err error) (any, bool, error) { return v, secure, err }

// TestFaults checks that every fault of the stub zone is a temporary failure, and that lookups work again after it.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]zone.Fault{
		"servfail": zone.ServFail, "refused": zone.Refuse, "timeout": zone.Timeout, "wrong id": zone.WrongID,
		"wrong question": zone.WrongName, "garbage": zone.Garbage, "referral": zone.Referral,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z, _, _ := world(t, "$TTL 60\nexample.com. MX 10 mx.example.com.")
			f := env.TestRealTime(t)
			r := New(f.Env, Options{Servers: []string{z.Addr()}, Attempts: 2, Timeout: 50 * time.Millisecond})
			z.Fail("example.com", how)
			if got, _, err := r.MX(context.Background(), "example.com"); !errors.Is(err, ErrTemporary) ||
				errors.Is(err, ErrNotFound) {
				t.Errorf("%v %v", got, err)
			}
			if n := z.Asked("example.com"); n < 2 {
				t.Errorf("asked %d times, want a second attempt", n)
			}
			z.Fail("example.com", zone.None)
			healed := New(f.Env, Options{Servers: []string{z.Addr()}})
			if got, _, err := healed.MX(context.Background(), "example.com"); err != nil || len(got) != 1 {
				t.Errorf("healed: %v %v", got, err)
			}
		})
	}
}

// TestFresh checks that a Fresh lookup bypasses the cached answer, and that later lookups get the new answer.
func TestFresh(t *testing.T) {
	t.Parallel()
	z, r, _ := world(t, "$TTL 60\nexample.com. A 192.0.2.1\n")
	for range 2 {
		if _, _, err := r.TXT(context.Background(), "new.example.com"); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
	}
	before := z.Asked("new.example.com")
	if _, _, err := r.TXT(Fresh(context.Background()), "new.example.com"); !errors.Is(err, ErrNotFound) ||
		z.Asked("new.example.com") != before+1 {
		t.Errorf("%v, asked %d times", err, z.Asked("new.example.com"))
	}
	if _, _, _ = r.TXT(context.Background(), "new.example.com"); z.Asked("new.example.com") != before+1 {
		t.Error("the answer was not kept")
	}
}

// TestNegativeWithoutSOA checks that a negative answer without SOA is cached for a second, so that a burst asks once.
func TestNegativeWithoutSOA(t *testing.T) {
	t.Parallel()
	z, r, f := world(t, "$TTL 60\nexample.com. A 192.0.2.1\n")
	for i, name := range []string{"example.com", "none.example.com"} { // no such data, no such name
		for range 3 {
			if got, _, err := r.MX(context.Background(), name); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v %v", got, err)
			}
		}
		f.Time.Advance(time.Second)
		_, _, _ = r.MX(context.Background(), name)
		if n := z.Asked(name); n != 2 {
			t.Errorf("%d: asked %d times, want twice", i, n)
		}
	}
}

func TestRecordsOfStrangersAreNoAnswer(t *testing.T) {
	t.Parallel()
	z, r, _ := world(t, records)
	z.Fail("example.com", zone.Stranger)
	if got, _, err := r.MX(context.Background(), "example.com"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v %v", got, err)
	}
}

func TestTruncatedGoesOverTCP(t *testing.T) {
	t.Parallel()
	z, r, _ := world(t, records)
	z.Fail("example.com", zone.Truncate)
	if got, _, err := r.MX(context.Background(), "example.com"); err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	if n := z.Asked("example.com"); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestThousandRecords(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "many.example.com. A 10.0.%d.%d\n", i/250, i%250)
	}
	z, r, _ := world(t, text.String())
	z.Fail("example.com", zone.ManyMX)
	mx, _, err := r.MX(context.Background(), "example.com")
	if err != nil || len(mx) != MaxMX || mx[0].Host != "mx1.example.com" || mx[MaxMX-1].Pref != MaxMX {
		t.Errorf("%d MX, first %v: %v", len(mx), mx, err)
	}
	a, _, err := r.A(context.Background(), "many.example.com")
	if err != nil || len(a) != MaxRecords {
		t.Errorf("%d addresses: %v", len(a), err)
	}
}

func TestChainsAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "c%d.example.com. CNAME c%d.example.com.\n", i, i+1)
	}
	text.WriteString("c20.example.com. A 192.0.2.1\nloop.example.com. CNAME pool.example.com.\n" +
		"pool.example.com. CNAME loop.example.com.\n")
	_, r, _ := world(t, text.String())
	for _, name := range []string{"c0.example.com", "loop.example.com"} {
		if got, _, err := r.A(context.Background(), name); !errors.Is(err, ErrTemporary) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if got, _, err := r.A(context.Background(), "c14.example.com"); err != nil || len(got) != 1 {
		t.Errorf("six aliases: %v %v", got, err)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	z, r, f := world(t, records)
	ctx := context.Background()
	ask := func(name string, times int) {
		t.Helper()
		if _, _, err := r.A(ctx, name); err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTemporary) {
			t.Fatal(err)
		}
		if n := z.Asked(name); n != times {
			t.Errorf("%s: asked %d times, want %d", name, n, times)
		}
	}
	ask("four.example.com", 1)
	ask("FOUR.example.com.", 1)
	ask("none.example.com", 1)
	ask("none.example.com", 1)
	ask("zero.example.com", 1)
	ask("zero.example.com", 2) // a TTL of 0 is not cached
	f.Time.Advance(121 * time.Second)
	ask("none.example.com", 2)
	ask("four.example.com", 1)
	f.Time.Advance(180 * time.Second)
	ask("four.example.com", 2)
	z.Fail("four.example.com", zone.ServFail)
	f.Time.Advance(time.Hour)
	ask("four.example.com", 3)
	ask("four.example.com", 3) // a failure is cached for a second
	f.Time.Advance(time.Second)
	ask("four.example.com", 4)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	z := zone.Start(t, "$TTL 300\n*.example.com. A 192.0.2.1")
	f := env.Test(t)
	r := New(f.Env, Options{Servers: []string{z.Addr()}, CacheEntries: 10})
	for i := range 25 {
		if _, _, err := r.A(context.Background(), fmt.Sprintf("h%d.example.com", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.cache.len(); n != 10 || r.cache.order.Len() != n {
		t.Errorf("%d answers kept", n)
	}
	if _, _, err := r.A(context.Background(), "h24.example.com"); err != nil || z.Asked("h24.example.com") != 1 {
		t.Errorf("the last one was dropped: %v", err)
	}
}

// TestCacheIsBoundedInBytes checks the limit on the bytes of the cache: mail senders choose the names that are looked
// up, and the size of the answers.
func TestCacheIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`"`+strings.Repeat("x", 250)+`" `, 40)
	z := zone.Start(t, "$TTL 300\n*.example.com. TXT "+long)
	f := env.Test(t)
	r := New(f.Env, Options{Servers: []string{z.Addr()}, CacheEntries: 50})
	for i := range 25 {
		if _, _, err := r.TXT(context.Background(), fmt.Sprintf("h%d.example.com", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.cache.len(); n != 5 || r.cache.bytes > 50*entryBytes {
		t.Errorf("%d answers of 10 KB kept, %d bytes", n, r.cache.bytes)
	}
	before := z.Asked("h24.example.com")
	if _, _, err := r.TXT(context.Background(), "h24.example.com"); err != nil || z.Asked("h24.example.com") != before {
		t.Errorf("the last one was dropped: %v", err)
	}
}

func TestSameQuestionIsAskedOnce(t *testing.T) {
	t.Parallel()
	z, r, _ := world(t, records)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got, _, err := r.MX(context.Background(), "example.com"); err != nil || len(got) != 2 {
				t.Errorf("%v %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := z.Asked("example.com"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestSecure checks that AD is trusted only from a resolver on loopback or in the list of trusted resolvers.
func TestSecure(t *testing.T) {
	t.Parallel()
	z, r, f := world(t, records)
	z.Secure("example.com")
	ctx := context.Background()
	if _, secure, err := r.MX(ctx, "example.com"); err != nil || !secure {
		t.Errorf("loopback: %v %v", secure, err)
	}
	if _, secure, err := r.MX(ctx, "none.example.com"); !errors.Is(err, ErrNotFound) || !secure {
		t.Errorf("what is proven not to be: %v %v", secure, err)
	}
	if _, secure, err := r.PTR(ctx, netip.MustParseAddr("192.0.2.1")); err != nil || secure {
		t.Errorf("another zone: %v %v", secure, err)
	}
	z.Secure("mx2.example.com", "deep.example.com")
	if got, secure, err := r.A(ctx, "mx2.example.com"); err != nil || secure {
		t.Errorf("an alias into a zone that is not: %v %v %v", got, secure, err)
	}
	far := *f.Env
	far.Dial = func(network, _ string, d time.Duration) (net.Conn, error) { return f.Dial(network, z.Addr(), d) }
	z.Secure(".")
	for _, c := range []struct {
		trusted []string
		want    bool
	}{{nil, false}, {[]string{"192.0.2.53"}, true}, {[]string{"192.0.2.54"}, false}} {
		r := New(&far, Options{Servers: []string{"192.0.2.53"}, Trusted: c.trusted})
		if _, secure, err := r.MX(ctx, "example.com"); err != nil || secure != c.want {
			t.Errorf("trusted %v: %v %v", c.trusted, secure, err)
		}
	}
}

func TestNextServer(t *testing.T) {
	t.Parallel()
	bad, good := zone.Start(t, ""), zone.Start(t, records)
	bad.Fail("*", zone.ServFail)
	r := New(env.Test(t).Env, Options{Servers: []string{bad.Addr(), good.Addr()}})
	for _, name := range []string{"mx1.example.com", "four.example.com"} {
		if got, _, err := r.A(context.Background(), name); err != nil || len(got) != 1 {
			t.Errorf("%v %v", got, err)
		}
	}
	if n := bad.Asked(""); n != 1 {
		t.Errorf("the bad one was asked %d times: the good one is to come first from then on", n)
	}
}

func TestResolvConf(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	r := New(f.Env, Options{})
	if _, _, err := r.A(context.Background(), "a.example.com"); !errors.Is(err, ErrTemporary) {
		t.Errorf("without servers: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := f.FS.MkdirAll("/etc", 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := f.FS.Create(resolvConf, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("# made by hand\nsearch example.com\nnameserver 127.0.0.53\nnameserver nonsense\nnameserver 2001:db8::53\n" +
		"options edns0\n")
	if got := r.Servers(); !slices.Equal(got, []string{"127.0.0.53:53", "[2001:db8::53]:53"}) {
		t.Errorf("%v", got)
	}
}

func TestImpatientCaller(t *testing.T) {
	t.Parallel()
	z, r, _ := world(t, records)
	z.Fail("example.com", zone.Timeout)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := r.MX(ctx, "example.com"); !errors.Is(err, ErrTemporary) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func FuzzMatch(f *testing.F) {
	z := zone.Start(f, records)
	r := New(env.Test(f).Env, Options{Servers: []string{z.Addr()}})
	q, sent, err := r.pack("example.com.", 15, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sent)
	reply := slices.Clone(sent)
	reply[2] |= 0x80
	f.Add(reply)
	f.Fuzz(func(t *testing.T, message []byte) {
		m, err := match(q, message)
		if err != nil {
			return
		}
		var out raw
		steps := 0
		if _, err := follow(m, "example.com.", 15, &out, &steps); err == nil && steps > maxChain {
			t.Errorf("%d steps", steps)
		}
	})
}

func BenchmarkCached(b *testing.B) {
	z := zone.Start(b, records)
	r := New(env.Test(b).Env, Options{Servers: []string{z.Addr()}})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.MX(context.Background(), "example.com"); err != nil {
			b.Fatal(err)
		}
	}
}
