package mailbox_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"doublet/mailbox"
)

// recentSession is a session with the UIDs that must be \Recent in it.
type recentSession struct {
	*session
	readOnly, hides bool
	recent          map[uint32]bool
}

// recentModel models a folder: told is the first UID that no session knows.
type recentModel struct {
	w      *world
	folder string
	told   uint32
}

func (m *recentModel) open(readOnly, hides bool) *recentSession {
	m.w.t.Helper()
	v, _, err := m.w.mf.Select(m.w.ctx, m.folder, readOnly, !hides)
	m.w.must(err)
	s := &recentSession{
		session:  &session{w: m.w, v: v, folder: m.folder},
		readOnly: readOnly, hides: hides, recent: map[uint32]bool{},
	}
	s.uids, s.flags = m.w.scan(v, mailbox.Set{{Start: 1, Stop: 0}})
	m.meet(s, 1)
	return s
}

// meet updates the model after a session learned of the messages from a UID on.
func (m *recentModel) meet(s *recentSession, from uint32) {
	for uid := max(from, m.told); uid < s.v.UIDNext(); uid++ {
		s.recent[uid] = true
	}
	if !s.readOnly {
		m.told = max(m.told, s.v.UIDNext())
	}
}

func (m *recentModel) poll(s *recentSession, expunges bool) {
	m.w.t.Helper()
	before := s.v.UIDNext()
	s.poll(expunges)
	m.meet(s, before)
}

// verify compares the count, the flags, the search and the unclaimed messages with the model.
func (m *recentModel) verify(s *recentSession) {
	m.w.t.Helper()
	count, unclaimed := uint32(0), uint32(0)
	for _, uid := range s.uids {
		if s.recent[uid] && !s.hides {
			count++
		}
	}
	if got := s.v.Recent().Count(); got != count {
		m.w.t.Fatalf("%d are recent, want %d of %v", got, count, s.uids)
	}
	here, _ := m.w.fresh(m.folder)
	for _, uid := range here {
		if uid >= m.told && uid >= s.v.UIDNext() {
			unclaimed++
		}
	}
	if got, err := m.w.mf.Unclaimed(m.w.ctx, s.v.FolderID(), s.v); err != nil || got != unclaimed {
		m.w.t.Fatalf("%d are unclaimed, want %d: %v", got, unclaimed, err)
	}
	var want, flagged, found []uint32
	err := s.v.Fetch(m.w.ctx, mailbox.Set{{Start: 1}}, false, mailbox.FetchOptions{},
		func(msg *mailbox.Message) (bool, error) {
			if s.recent[msg.UID] && !s.hides {
				want = append(want, msg.UID)
			}
			if msg.Flags().Recent {
				flagged = append(flagged, msg.UID)
			}
			return false, nil
		}, func() error { return nil })
	m.w.must(err)
	list, err := s.v.Search(m.w.ctx, &mailbox.Criteria{Test: mailbox.TestRecent}, mailbox.SearchOptions{})
	m.w.must(err)
	for _, f := range list {
		found = append(found, f.UID)
	}
	if !slices.Equal(want, flagged) || !slices.Equal(want, found) {
		m.w.t.Fatalf("recent are %v, by their flags %v, by the search %v", want, flagged, found)
	}
}

// TestRecentModel runs random operations in sessions that select, examine, or select without \Recent. It compares the
// \Recent messages of each session with a model.
func TestRecentModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			runRecent(t, newWorld(t, 0), rand.New(rand.NewPCG(seed, 11)))
		})
	}
}

func runRecent(t *testing.T, w *world, rng *rand.Rand) {
	m := &recentModel{w: w, folder: "INBOX", told: 1}
	var sessions []*recentSession
	for step := range 400 {
		if len(sessions) == 0 || len(sessions) < 4 && rng.IntN(10) == 0 {
			sessions = append(sessions, m.open(rng.IntN(3) == 0, rng.IntN(4) == 0))
		}
		i := rng.IntN(len(sessions))
		s := sessions[i]
		switch rng.IntN(12) {
		case 0, 1, 2:
			w.append("INBOX", plain(step), mailbox.Flags{Deleted: rng.IntN(3) == 0})
		case 3:
			if s.readOnly {
				continue
			}
			w.must(s.v.Expunge(w.ctx, nil))
		case 4:
			if n := len(s.uids); n > 0 {
				seq := uint32(rng.IntN(n) + 1)
				// the message may not exist any more
				_, _ = s.v.Copy(w.ctx, mailbox.Set{{Start: seq, Stop: seq}}, false, "INBOX")
			}
		case 5:
			if !s.readOnly {
				s.store(rng)
			}
		case 6:
			sessions = slices.Delete(sessions, i, i+1)
			continue
		case 7:
			if rng.IntN(20) == 0 {
				w.reopen()
				sessions = nil
				continue
			}
		default:
			m.poll(s, rng.IntN(2) == 0)
		}
		m.verify(s)
	}
}

// TestRecentOnce checks that a message becomes \Recent in exactly one of the sessions that learn of it concurrently.
func TestRecentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	const sessions, messages = 4, 60
	views := make([]*mailbox.View, sessions)
	for i := range views {
		var err error
		views[i], _, err = w.mf.Select(w.ctx, "INBOX", false, true)
		w.must(err)
	}
	var all sync.WaitGroup
	done := make(chan struct{})
	for _, v := range views {
		all.Go(func() {
			for {
				if err := v.Poll(w.ctx, true, nobody{}); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					if v.UIDNext() > messages {
						return
					}
				default:
				}
			}
		})
	}
	for i := range messages {
		w.append("INBOX", plain(i), mailbox.Flags{})
	}
	close(done)
	all.Wait()
	told := map[uint32]int{}
	for _, v := range views {
		uids, flags := w.scan(v, mailbox.Set{{Start: 1}})
		n := uint32(0)
		for _, uid := range uids {
			if flags[uid] == `\Recent` {
				told[uid]++
				n++
			}
		}
		if got := v.Recent().Count(); got != n {
			t.Errorf("a session counts %d recent messages and has %d", got, n)
		}
	}
	for uid := range uint32(messages) {
		if told[uid+1] != 1 {
			t.Errorf("UID %d is recent in %d sessions", uid+1, told[uid+1])
		}
	}
}
