package sim

import (
	"doublet/note"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// faults crash and start servers, cut the network, lose messages and disks.
type faults struct {
	*world
	loss percent // probability that a message is lost
	// wounded means that a disk was lost or set back, and that some database does not have two replicas again yet.
	wounded bool
}

// relieve ends faults that are over.
func (f *faults) relieve() {
	for _, s := range f.servers {
		if s.node == nil && f.tick >= s.until {
			f.start(s)
		}
		if s.full > 0 && f.tick >= s.full {
			f.makeRoom(s)
		}
	}
	if f.wounded && f.tick%10 == 0 && f.whole() == "" {
		f.wounded = false
		f.logf("everything is in two places again")
	}
}

// trouble injects a fault now and then and ends earlier faults that are over.
func (f *faults) trouble() {
	f.relieve()
	if f.rng.IntN(1000) >= 25 {
		return
	}
	switch f.rng.IntN(12) {
	case 0, 1, 2:
		f.crashOne()
	case 3, 4:
		f.cutSome()
	case 5, 6:
		f.healAll()
	case 7:
		f.loss = percent([]int{0, 0, 1, 5, 20}[f.rng.IntN(5)])
		f.logf("messages lost: %d %%", f.loss)
	case 8:
		f.loseDisk()
	case 9:
		f.backup()
	case 10:
		s := pick(f.world, f.servers)
		s.slow = !s.slow
		f.logf("%s is slow: %v", s.name, s.slow)
	case 11:
		f.fill(pick(f.world, f.servers))
	}
}

// fill makes a server's disk full for up to 30 s.
func (f *faults) fill(s *server) {
	s.full = f.tick + f.between(20, 300)
	f.logf("the disk of %s is full", s.name)
	s.room()
	f.stats.FullDisks++
}

func (f *faults) makeRoom(s *server) {
	s.full = 0
	f.logf("the disk of %s has room", s.name)
	s.room()
}

func (f *faults) start(s *server) {
	f.logf("%s starts", s.name)
	f.must(s.boot(), "start "+s.name)
}

// crashOne crashes a server, for up to 15 s.
func (f *faults) crashOne() {
	list := f.up()
	if len(list) == 0 {
		return
	}
	s := pick(f.world, list)
	s.crash()
	s.until = f.tick + f.between(1, 150)
	f.stats.Crashes++
}

// cutSome cuts connections: one direction of a connection, both directions, or all between two groups of servers.
func (f *faults) cutSome() {
	f.stats.Cuts++
	switch f.rng.IntN(3) {
	case 0:
		a, b := pick(f.world, f.servers), pick(f.world, f.servers)
		f.net.Cut(a.id, b.id)
		f.logf("cut from %s to %s", a.name, b.name)
	case 1:
		a, b := pick(f.world, f.servers), pick(f.world, f.servers)
		f.net.Cut(a.id, b.id)
		f.net.Cut(b.id, a.id)
		f.logf("cut between %s and %s", a.name, b.name)
	case 2:
		text := "split:"
		side := make([]bool, len(f.servers))
		for i, s := range f.servers {
			if side[i] = f.chance(50); side[i] {
				text += " " + s.name
			}
		}
		for i, a := range f.servers {
			for j, b := range f.servers {
				if side[i] != side[j] {
					f.net.Cut(a.id, b.id)
				}
			}
		}
		f.logf("%s from the others", text)
	}
}

func (f *faults) healAll() {
	for _, a := range f.servers {
		for _, b := range f.servers {
			f.net.Heal(a.id, b.id)
		}
	}
	f.logf("the network is whole")
}

// backup copies the disk of a server.
func (f *faults) backup() {
	list := f.up()
	if len(list) == 0 {
		return
	}
	s := pick(f.world, list)
	s.backup, s.backupTime = s.clone(0), f.tick
	f.logf("backup of %s", s.name)
}

// loseDisk destroys a disk or sets it back to a backup. It does nothing until every database has two replicas again
// after the previous loss.
func (f *faults) loseDisk() {
	if f.wounded {
		return
	}
	s := pick(f.world, f.servers)
	since := 0
	if s.backup != nil && f.chance(50) {
		since = s.backupTime
	}
	if s.node != nil {
		s.stop()
	}
	f.wounded = true
	f.forget(s, since)
	s.until = f.tick + f.between(1, 100)
	if since > 0 {
		f.stats.Restores++
		f.logf("%s is set back to its backup of %d ticks ago", s.name, f.tick-since)
		s.disk = s.backup.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
		f.must(s.rebranch(), "restore "+s.name)
		return
	}
	f.stats.DiskLosses++
	f.logf("%s has lost its disk", s.name)
	s.disk, s.joined, s.backup = vfs.NewCrashableMem(), false, nil
}

// forget marks changes made since a tick that only this disk held as lost. They were never promised to survive the
// disk.
func (f *faults) forget(s *server, since int) {
	lost := func(p *promise, elsewhere func() bool) {
		if p.at == s && p.acked && !p.confirmed && p.tick >= since && !elsewhere() {
			p.lost = true
		}
	}
	for _, m := range f.users.mails {
		lost(&m.promise, func() bool { return f.elsewhere(m.box.id, m.unid) })
		for _, p := range m.keywords {
			lost(p, func() bool { return false })
		}
		if m.expunge != nil {
			lost(m.expunge, func() bool { return false })
		}
	}
	for _, q := range f.users.queued {
		lost(&q.promise, func() bool { return false })
	}
	for _, x := range f.users.edits {
		lost(&x.promise, func() bool { return false })
	}
}

// elsewhere reports whether a running server has a note.
func (f *faults) elsewhere(db note.DatabaseID, u note.UNID) bool {
	for _, s := range f.up() {
		if has(s, db, u) == present {
			return true
		}
	}
	return false
}

// missing returns what a server lacks until it runs and has nothing left to do; then "".
func (s *server) missing() string {
	if s.node == nil {
		return " is down"
	}
	if s.dir == nil {
		return " has no directory"
	}
	st := s.node.Status()
	if !st.Serving || st.Homeless > 0 || st.Waiting > 0 || !s.node.Idle() {
		return " is not done"
	}
	for _, m := range st.Members {
		if !m.Alive {
			return " does not hear " + m.Name
		}
	}
	return ""
}

// whole returns a description of what is missing until every server runs and every database has its replicas and one
// home; then "".
func (w *world) whole() string {
	for _, s := range w.servers {
		if missing := s.missing(); missing != "" {
			return s.name + missing
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
