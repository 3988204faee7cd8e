//go:build unix

package scheduling

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkInvitation invites three people here, with the processor time and the sequences of one invitation: a commit
// takes one for each mail file in it. The calendar of each holds the events of the earlier ones.
func BenchmarkInvitation(b *testing.B) {
	w := newWorld(b, "alice", "bob", "carol", "dave")
	sequences := func() (n float64) {
		for _, e := range w.tree.Snapshot("Database.Horizon") {
			n = e.Value
		}
		return n
	}
	used := func() float64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return float64(u.Utime.Nano() + u.Stime.Nano())
	}
	i := 0
	before, cpu := sequences(), used()
	for b.Loop() {
		uid := fmt.Sprint("m", i)
		i++
		text := at(meeting(uid, "", "bob", "carol", "dave"), 1+i%28)
		if _, err := w.sched.Put(bg, w.target("alice", uid+".ics"), []byte(text)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((used()-cpu)/float64(i), "cpu-ns/op")
	b.ReportMetric((sequences()-before)/float64(i), "sequences/op")
	last := fmt.Sprint("m", i-1)
	for _, name := range []string{"bob", "carol", "dave"} {
		if _, e := w.object(name, last); e.UID != last || strings.Contains(string(e.Text), "METHOD") {
			b.Errorf("%s has %s", name, e.Text)
		}
	}
}
