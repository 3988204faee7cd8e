//go:build unix

package embedded

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
)

// two opens two members that know each other. Both are in this process, so CPU figures include both ends.
func two(b *testing.B) (x, y bus.Bus) {
	w := world{bustest.Found(b)}
	hosts := []*host{w.server("a"), w.server("b")}
	buses := []bus.Bus{}
	for _, h := range hosts {
		n := h.Start(bus.Grant{}, func(n bus.Bus) {
			n.Handle("test.take", func(_ context.Context, _ bus.ServerID,
				body []byte) ([]byte, error) {
				return nil, nil
			})
			n.HandleStream("test.take", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
				buf := make([]byte, 64<<10)
				for {
					if _, err := s.Read(buf); err != nil {
						return nil
					}
				}
			})
		})
		b.Cleanup(func() { _ = n.Close() })
		buses = append(buses, n)
	}
	for _, n := range buses {
		n.SetMembers([]bus.Member{hosts[0].member, hosts[1].member})
	}
	for range 1000 {
		if _, err := buses[0].Request(context.Background(), buses[1].Self(), "test.take", nil); err == nil {
			return buses[0], buses[1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("they do not meet")
	return nil, nil
}

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkRequest measures requests of typical sizes with a short answer. One asker measures latency, sixteen measure
// throughput.
func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{0, 4 << 10, 64 << 10, 192 << 10} {
		for _, askers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%dKB-%d", size>>10, askers), func(b *testing.B) {
				x, y := two(b)
				body := make([]byte, size)
				times := make([]time.Duration, b.N)
				b.SetBytes(int64(size))
				b.ResetTimer()
				before := cpu()
				var done sync.WaitGroup
				for i := range askers {
					done.Go(func() {
						for n := i; n < b.N; n += askers {
							start := time.Now()
							if _, err := x.Request(context.Background(), y.Self(), "test.take", body); err != nil {
								b.Error(err)
								return
							}
							times[n] = time.Since(start)
						}
					})
				}
				done.Wait()
				used := cpu() - before
				b.StopTimer()
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
				b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
			})
		}
	}
}

// BenchmarkStream measures objects of 1 MB, each over its own stream.
func BenchmarkStream(b *testing.B) {
	x, y := two(b)
	body := make([]byte, 1<<20)
	b.SetBytes(int64(len(body)))
	before := cpu()
	for b.Loop() {
		s, err := x.Stream(context.Background(), y.Self(), "test.take", nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Write(body); err != nil {
			b.Fatal(err)
		}
		_ = s.CloseWrite()
		if _, err := s.Read(make([]byte, 1)); err == nil {
			b.Fatal("an answer")
		}
		_ = s.Close()
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkProbe measures the round trip of a probe.
func BenchmarkProbe(b *testing.B) {
	x, y := two(b)
	before := cpu()
	for b.Loop() {
		if _, err := x.Probe(context.Background(), y.Self()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkIdle measures two members that only send probes, twice a second, and the memory left after a burst.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
	}
	runtime.GC()
	debug.FreeOSMemory()
	rss := resident(b)
	x, y := two(b)
	measure := func(name string) {
		debug.FreeOSMemory()
		before, start := cpu(), time.Now()
		for time.Since(start) < 5*time.Second {
			for _, pair := range [][2]bus.Bus{{x, y}, {y, x}} {
				if _, err := pair[0].Probe(context.Background(), pair[1].Self()); err != nil {
					b.Fatal(err)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(start))/2, name+"-%cpu/member")
		b.ReportMetric(float64(resident(b)-rss)/2/1e6, name+"-MB/member")
	}
	measure("idle")
	body := make([]byte, 192<<10)
	var done sync.WaitGroup
	for range 32 {
		done.Go(func() {
			for range 100 {
				if _, err := x.Request(context.Background(), y.Self(), "test.take", body); err != nil {
					b.Error(err)
				}
			}
		})
	}
	done.Wait()
	b.ReportMetric(float64(resident(b)-rss)/2/1e6, "burst-MB/member")
	measure("after")
}

// resident returns the process's resident memory in bytes (Linux).
func resident(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("no /proc")
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
