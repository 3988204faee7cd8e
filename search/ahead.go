package search

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"doublet/store"
)

// Limits of reading ahead.
const (
	// aheadFrom is the number of texts that a search reads one by one. Most searches need no more.
	aheadFrom = 4
	// aheadLeast and aheadMost are the numbers of notes that a search evaluates at once after that.
	aheadLeast = 8
	aheadMost  = 64
	// helpersMax is the maximum number of goroutines that help searches. Each may hold a message in memory.
	helpersMax = 7
)

// Ahead returns the number of notes that a search evaluates at once, so that several goroutines read their texts (see
// Each). read is the number of texts that it has read one by one. wanted is the number of hits that it still needs, 0
// for all. Fewer than aheadLeast notes are evaluated in vain.
func Ahead(read, wanted int) int {
	switch {
	case read < aheadFrom:
		return 1
	case wanted <= 0:
		return aheadMost
	}
	return min(max(wanted, aheadLeast), aheadMost)
}

// Each calls fn for every i below n, and returns when all calls have returned. The calls come in any order, on this
// goroutine and on others, each with a reader that sees the same as r. When ctx ends, fn is called no more. A nil
// Service works, too, on this goroutine.
func (s *Service) Each(ctx context.Context, r *store.Reader, n int, fn func(r *store.Reader, i int)) error {
	var next atomic.Int64
	work := func(r *store.Reader) {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			fn(r, i)
		}
	}
	s.share(n, func(helper bool) {
		if helper {
			store.Beside(r, work)
		} else {
			work(r)
		}
	})
	return ctx.Err()
}

// share calls work on this goroutine and, with helper set, on others that have a free place, at most on n in all. It
// returns when all of them have returned.
//
// There is one place less than processors, and at most helpersMax, for all searches of the server. A search that finds
// them taken works alone, so it waits for nobody.
func (s *Service) share(n int, work func(helper bool)) {
	if s == nil {
		work(false)
		return
	}
	var running sync.WaitGroup
	var failed atomic.Pointer[string]
	s.help(n-1, func() {
		running.Add(1)
		s.env.Go("search", func() {
			defer func() {
				// A panic over a text ends the session that searches, not the server: the caller panics below.
				if p := recover(); p != nil {
					text := fmt.Sprintf("%v\n%s", p, debug.Stack())
					failed.Store(&text)
				}
				<-s.helpers
				running.Done()
			}()
			s.stat.helped.Inc()
			work(true)
		})
	})
	func() {
		defer running.Wait()
		work(false)
	}()
	if text := failed.Load(); text != nil {
		panic(*text)
	}
}

// help occupies at most n free places of helpers and calls start for each.
func (s *Service) help(n int, start func()) {
	for range n {
		select {
		case s.helpers <- struct{}{}:
			start()
		default:
			return
		}
	}
}
