package env

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Seeded returns a Rand that produces the same bytes for the same seed. It may be used from any goroutine. Which
// goroutine gets which bytes depends on their order.
func Seeded(seed uint64) Rand {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return &seeded{src: rand.NewChaCha8(key)}
}

type seeded struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Read(p)
}

// TB is the part of testing.TB that a fixture needs. It is declared here so that the server does not import package
// testing.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Failed() bool
	Cleanup(f func())
}

// Fixture is an environment for a test, with access to its clock and its faults.
type Fixture struct {
	*Env
	// Time is the clock of a Fixture made by Test, nil in one made by TestRealTime.
	Time *Manual
	// Mem is the file system below Faults.
	Mem *vfs.MemFS
	// Faults is Env.FS.
	Faults *Faults

	t    TB
	seed uint64
}

// TestStart is the initial time of Test's clock.
var TestStart = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// Test returns an environment with a clock that the test moves, seeded randomness, and a file system in memory that can
// crash, fail and be full. Sockets are real. The log is printed if the test fails.
func Test(t TB) *Fixture {
	t.Helper()
	clock := NewManual(TestStart)
	f := newFixture(t, clock, vfs.NewCrashableMem(), 1)
	f.Time = clock
	return f
}

// TestRealTime is Test with the real clock, for packages that wait for other goroutines.
func TestRealTime(t TB) *Fixture {
	t.Helper()
	return newFixture(t, realClock{}, vfs.NewCrashableMem(), 1)
}

func newFixture(t TB, clock Clock, mem *vfs.MemFS, seed uint64) *Fixture {
	faults := WithFaults(mem)
	tail := &logTail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", tail)
		}
	})
	e := Real(slog.New(slog.NewTextHandler(tail, &slog.HandlerOptions{Level: slog.LevelDebug})))
	e.Clock, e.Rand, e.FS = clock, Seeded(seed), faults
	e.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); network != "unix" && err == nil {
			if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
				return nil, fmt.Errorf("dial %s: a test stays on this machine", address)
			}
		}
		return net.DialTimeout(network, address, timeout)
	}
	return &Fixture{Env: e, Mem: mem, Faults: faults, t: t, seed: seed}
}

// Crash returns the environment as it is after a power cut at this moment. It keeps every byte and directory entry that
// was synced. Of the rest it keeps each block with a chance of unsyncedPercent, drawn from seed. The old environment is
// not affected; the caller must stop using it.
func (f *Fixture) Crash(unsyncedPercent int, seed uint64) *Fixture {
	mem := f.Mem.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: unsyncedPercent,
		RNG:                 rand.New(rand.NewPCG(seed, 0)),
	})
	after := newFixture(f.t, f.Clock, mem, f.seed+seed+1)
	after.Time = f.Time
	return after
}

// logTail keeps the end of a log.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

const logTailBytes = 64 << 10

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if len(l.text) > 2*logTailBytes {
		l.text = append(l.text[:0], l.text[len(l.text)-logTailBytes:]...)
	}
	return len(p), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[max(0, len(l.text)-logTailBytes):])
}

var _ io.Writer = (*logTail)(nil)
