package env

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestManualFiresInOrder(t *testing.T) {
	t.Parallel()
	m := NewManual(TestStart)
	var got []string
	note := func(name string) func() {
		return func() { got = append(got, fmt.Sprint(name, " ", m.Now().Sub(TestStart))) }
	}
	m.AfterFunc(3*time.Second, note("c"))
	m.AfterFunc(1*time.Second, note("a"))
	m.AfterFunc(1*time.Second, note("b"))
	m.AfterFunc(9*time.Second, note("late"))
	stop := m.AfterFunc(2*time.Second, note("stopped"))
	if !stop() || stop() {
		t.Error("stop is true once, while the function has not run")
	}
	m.Advance(5 * time.Second)
	if want := []string{"a 1s", "b 1s", "c 3s"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if m.Pending() != 1 || m.Now() != TestStart.Add(5*time.Second) {
		t.Errorf("%d pending at %v", m.Pending(), m.Now())
	}
}

func TestManualPeriodic(t *testing.T) {
	t.Parallel()
	m := NewManual(TestStart)
	ran := 0
	var again func()
	again = func() { ran++; m.AfterFunc(time.Minute, again) }
	m.AfterFunc(time.Minute, again)
	m.Advance(time.Hour)
	if ran != 60 {
		t.Errorf("ran %d times in an hour", ran)
	}
}

func TestManualSleepers(t *testing.T) {
	t.Parallel()
	m := NewManual(TestStart)
	woke := make(chan time.Duration)
	go func() {
		m.Sleep(10 * time.Second)
		woke <- m.Now().Sub(TestStart)
	}()
	m.AwaitPending(1)
	after := m.After(4 * time.Second)
	m.Advance(4 * time.Second)
	if at := <-after; at != TestStart.Add(4*time.Second) {
		t.Errorf("After says %v", at)
	}
	select {
	case <-woke:
		t.Error("woke too early")
	default:
	}
	m.Advance(6 * time.Second)
	if got := <-woke; got != 10*time.Second {
		t.Errorf("woke at %v", got)
	}
	m.Sleep(0)
	m.Sleep(-1)
	<-m.After(0)
	ran := make(chan bool)
	if m.AfterFunc(0, func() { close(ran) })() {
		t.Error("a function that runs at once cannot be stopped")
	}
	<-ran
}

func TestManualFunctionMaySleep(t *testing.T) {
	t.Parallel()
	m := NewManual(TestStart)
	var done atomic.Bool
	end := make(chan bool)
	m.AfterFunc(time.Second, func() {
		m.Sleep(time.Second)
		done.Store(true)
		close(end)
	})
	m.Advance(time.Second)
	if done.Load() {
		t.Error("the function did not sleep")
	}
	m.AwaitPending(1)
	m.Advance(time.Second)
	<-end
}
