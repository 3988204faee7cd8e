package sim

import (
	"doublet/note"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// trouble injects a fault now and then and ends earlier faults that are over.
func (w *world) trouble() {
	for _, s := range w.servers {
		if s.node == nil && w.tick >= s.until {
			w.start(s)
		}
		if s.full > 0 && w.tick >= s.full {
			w.makeRoom(s)
		}
	}
	if w.wounded && w.tick%10 == 0 && w.whole() == "" {
		w.wounded = false
		w.logf("everything is in two places again")
	}
	if w.rng.IntN(1000) >= 25 {
		return
	}
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		w.crashOne()
	case 3, 4:
		w.cutSome()
	case 5, 6:
		w.healAll()
	case 7:
		w.loss = percent([]int{0, 0, 1, 5, 20}[w.rng.IntN(5)])
		w.logf("messages lost: %d %%", w.loss)
	case 8:
		w.loseDisk()
	case 9:
		w.backup()
	case 10:
		s := pick(w, w.servers)
		s.slow = !s.slow
		w.logf("%s is slow: %v", s.name, s.slow)
	case 11:
		w.fill(pick(w, w.servers))
	}
}

// fill makes a server's disk full for up to 30 s.
func (w *world) fill(s *server) {
	s.full = w.tick + w.between(20, 300)
	w.logf("the disk of %s is full", s.name)
	s.room()
	w.stats.FullDisks++
}

func (w *world) makeRoom(s *server) {
	s.full = 0
	w.logf("the disk of %s has room", s.name)
	s.room()
}

func (w *world) start(s *server) {
	w.logf("%s starts", s.name)
	w.must(s.boot(), "start "+s.name)
}

// crashOne crashes a server, for up to 15 s.
func (w *world) crashOne() {
	list := w.up()
	if len(list) == 0 {
		return
	}
	s := pick(w, list)
	s.crash()
	s.until = w.tick + w.between(1, 150)
	w.stats.Crashes++
}

// cutSome cuts connections: one direction of a connection, both directions, or all between two groups of servers.
func (w *world) cutSome() {
	w.stats.Cuts++
	switch w.rng.IntN(3) {
	case 0:
		a, b := pick(w, w.servers), pick(w, w.servers)
		w.net.Cut(a.id, b.id)
		w.logf("cut from %s to %s", a.name, b.name)
	case 1:
		a, b := pick(w, w.servers), pick(w, w.servers)
		w.net.Cut(a.id, b.id)
		w.net.Cut(b.id, a.id)
		w.logf("cut between %s and %s", a.name, b.name)
	case 2:
		text := "split:"
		side := make([]bool, len(w.servers))
		for i, s := range w.servers {
			if side[i] = w.chance(50); side[i] {
				text += " " + s.name
			}
		}
		for i, a := range w.servers {
			for j, b := range w.servers {
				if side[i] != side[j] {
					w.net.Cut(a.id, b.id)
				}
			}
		}
		w.logf("%s from the others", text)
	}
}

func (w *world) healAll() {
	for _, a := range w.servers {
		for _, b := range w.servers {
			w.net.Heal(a.id, b.id)
		}
	}
	w.logf("the network is whole")
}

// backup copies the disk of a server.
func (w *world) backup() {
	list := w.up()
	if len(list) == 0 {
		return
	}
	s := pick(w, list)
	s.backup, s.backupTime = s.clone(0), w.tick
	w.logf("backup of %s", s.name)
}

// loseDisk destroys a disk or sets it back to a backup. It does nothing until every database has two replicas again
// after the previous loss.
func (w *world) loseDisk() {
	if w.wounded {
		return
	}
	s := pick(w, w.servers)
	since := 0
	if s.backup != nil && w.chance(50) {
		since = s.backupTime
	}
	if s.node != nil {
		s.stop()
	}
	w.wounded = true
	w.forget(s, since)
	s.until = w.tick + w.between(1, 100)
	if since > 0 {
		w.stats.Restores++
		w.logf("%s is set back to its backup of %d ticks ago", s.name, w.tick-since)
		s.disk = s.backup.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
		w.must(s.rebranch(), "restore "+s.name)
		return
	}
	w.stats.DiskLosses++
	w.logf("%s has lost its disk", s.name)
	s.disk, s.joined, s.backup = vfs.NewCrashableMem(), false, nil
}

// forget marks changes made since a tick that only this disk held as lost. They were never promised to survive the
// disk.
func (w *world) forget(s *server, since int) {
	lost := func(p *promise, elsewhere func() bool) {
		if p.at == s && p.acked && !p.confirmed && p.tick >= since && !elsewhere() {
			p.lost = true
		}
	}
	for _, m := range w.mails {
		lost(&m.promise, func() bool { return w.elsewhere(m.box.id, m.unid) })
		for _, p := range m.keywords {
			lost(p, func() bool { return false })
		}
		if m.expunge != nil {
			lost(m.expunge, func() bool { return false })
		}
	}
	for _, q := range w.queued {
		lost(&q.promise, func() bool { return false })
	}
	for _, x := range w.edits {
		lost(&x.promise, func() bool { return false })
	}
}

// elsewhere reports whether a running server has a note.
func (w *world) elsewhere(db note.DatabaseID, u note.UNID) bool {
	for _, s := range w.up() {
		if has(s, db, u) == present {
			return true
		}
	}
	return false
}

// whole returns a description of what is missing until every server runs and every database has its replicas and one
// home; then "".
func (w *world) whole() string {
	for _, s := range w.servers {
		if s.node == nil {
			return s.name + " is down"
		}
		if s.dir == nil {
			return s.name + " has no directory"
		}
		st := s.node.Status()
		if !st.Serving || st.Homeless > 0 || st.Waiting > 0 || !s.node.Idle() {
			return s.name + " is not done"
		}
		for _, m := range st.Members {
			if !m.Alive {
				return s.name + " does not hear " + m.Name
			}
		}
	}
	for _, b := range w.boxes {
		n := 0
		for _, s := range w.holders(b) {
			if s.node.Filled(b.id) {
				n++
			}
		}
		if n < min(2, len(w.servers)) {
			return b.title + " is in one place"
		}
		if homes := len(w.homes(b)); homes != 1 {
			return b.title + " has not one home"
		}
	}
	return ""
}
