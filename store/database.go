package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// state is the state of a database after one commit. It is immutable: an update works on a copy and publishes the copy
// when its batch is applied, so a failed update changes nothing.
type state struct {
	info     *layout.Info
	counters layout.Counters
	folders  []*layout.Folder // sorted by note id
	// peers holds the known other replicas that have not been silent for too long. While there are any, deletion stubs
	// are kept for them.
	peers    map[note.ReplicaID]layout.Peer
	recent   recent
	listings *listings
	// described is the sequence of the latest change of info, 0 if that was before the database was opened. It is above
	// counters.Seq after SetInfo, which changes no note.
	described uint64
}

// latest returns the sequence that the horizon must reach before anything of the state is shown.
func (st *state) latest() uint64 { return max(st.counters.Seq, st.described) }

func (st *state) folder(id note.ID) *layout.Folder {
	i, ok := slices.BinarySearchFunc(st.folders, id, func(f *layout.Folder,
		id note.ID) int {
		return cmp.Compare(f.Note, id)
	})
	if !ok {
		return nil
	}
	return st.folders[i]
}

// database is an open database.
type database struct {
	id  note.DatabaseID
	num uint32

	// write is held from the start of an update until its batch is applied, never during a flush. An update of several
	// databases locks them in ascending order of id.
	write sync.Mutex
	// publish is held while a batch and its state become visible, so that a reader gets a snapshot and the state that
	// matches it.
	publish sync.RWMutex
	cur     atomic.Pointer[state]
	// gone means that the database was removed. Guarded by write.
	gone bool
	// tail caches the newest chunk of the folder that last received a delivery. Without it, each delivery would read
	// that row again. Guarded by write.
	tail tailChunk
	// unburied is a sequence up to which no note is a numbered deletion stub. Guarded by write.
	unburied uint64
	// numbered is the sequence up to which no note waits to be numbered, or nil if that is not known.
	numbered atomic.Pointer[numberedTo]

	// listed is the number of bytes that the database's listings take.
	listed atomic.Int64

	refs int // guarded by databases.mu
	used uint64
	// work counts the uses of the database by or for people. It is kept when the database is closed.
	work *atomic.Uint64
}

type tailChunk struct {
	folder note.ID
	chunk  uint32
	row    layout.Chunk
	valid  bool
}

// databases maps the ids of all databases and keeps a bounded number of them open.
type databases struct {
	core   *core
	mu     sync.Mutex
	number map[note.DatabaseID]uint32
	byNum  map[uint32]note.DatabaseID
	open   map[note.DatabaseID]*database
	// work holds the counters of the databases that were opened since the process started.
	work  map[note.DatabaseID]*atomic.Uint64
	clock uint64
	idle  sync.Cond
	busy  int

	hits, misses atomic.Int64
	// most is the largest number of databases that were open; crowded counts those that were closed because too many
	// were open.
	most, crowded atomic.Int64
	listed        listingUse
}

func (d *databases) init(c *core) error {
	d.core = c
	d.number = make(map[note.DatabaseID]uint32)
	d.byNum = make(map[uint32]note.DatabaseID)
	d.open = make(map[note.DatabaseID]*database)
	d.work = make(map[note.DatabaseID]*atomic.Uint64)
	d.idle.L = &d.mu
	d.listed.most = c.opt.CacheSize / listingsOfCache
	return scan(c.eng, layout.Key(layout.SpaceDatabase), func(k, v []byte) error {
		if len(k) != 9 || len(v) != 4 {
			return fmt.Errorf("%w: database list", ErrDamaged)
		}
		id := note.DatabaseID(layout.Tail64(k))
		d.number[id], d.byNum[layout.Tail32(v)] = layout.Tail32(v), id
		return nil
	})
}

// scan calls fn for every row under prefix. k and v are valid only during the call.
func scan(r pebble.Reader, prefix []byte, fn func(k, v []byte) error) error {
	return scanRange(r, prefix, layout.After(prefix), fn)
}

func scanRange(r pebble.Reader, lo, hi []byte, fn func(k, v []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return engineError(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = fn(it.Key(), v)
		}
		if err != nil {
			return errors.Join(ignoreStop(engineOrOwn(err)), it.Close())
		}
	}
	return engineError(errors.Join(it.Error(), it.Close()))
}

// errStop ends a scan early without an error.
var errStop = errors.New("stop")

func ignoreStop(err error) error {
	if err == errStop {
		return nil
	}
	return err
}

func engineOrOwn(err error) error {
	if pebble.IsCorruptionError(err) {
		return engineError(err)
	}
	return err
}

// acquire opens a database and keeps it open until release.
func (d *databases) acquire(id note.DatabaseID) (*database, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.core.alive(); err != nil {
		return nil, err
	}
	db := d.open[id]
	if db == nil {
		num, ok := d.number[id]
		if !ok {
			return nil, fmt.Errorf("%w: database %s", ErrNotFound, id)
		}
		d.misses.Add(1)
		st, err := readState(d.core.eng, num)
		if err != nil {
			return nil, fmt.Errorf("store: open database %s: %w", id, err)
		}
		if d.work[id] == nil {
			d.work[id] = new(atomic.Uint64)
		}
		db = &database{id: id, num: num, work: d.work[id]}
		db.cur.Store(st)
		d.open[id] = db
	} else {
		d.hits.Add(1)
	}
	d.clock++
	db.used = d.clock
	db.refs++
	d.busy++
	// evict runs after refs was raised. Otherwise it could close this database, and the next open would create a second
	// write lock for it.
	d.evict()
	d.most.Store(max(d.most.Load(), int64(len(d.open)))) // mu is held
	return db, nil
}

// enter keeps the store from closing until leave, for operations that are not on a single database.
func (d *databases) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.core.alive(); err != nil {
		return err
	}
	d.busy++
	return nil
}

func (d *databases) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy--; d.busy == 0 {
		d.idle.Broadcast()
	}
}

// release ends a use of a database.
func (d *databases) release(db *database) {
	d.shedListings(db)
	d.mu.Lock()
	defer d.mu.Unlock()
	if db.refs--; db.refs == 0 && d.open[db.id] != db {
		d.listed.forget(db)
	}
	if d.busy--; d.busy == 0 {
		d.idle.Broadcast()
	}
}

// evict closes the least recently used databases that are not in use while more are open than Options.Databases allows.
func (d *databases) evict() {
	for len(d.open) > d.core.opt.Databases {
		var oldest *database
		for _, db := range d.open {
			if db.refs == 0 && (oldest == nil || db.used < oldest.used) {
				oldest = db
			}
		}
		if oldest == nil {
			return
		}
		delete(d.open, oldest.id)
		d.listed.forget(oldest)
		d.crowded.Add(1)
	}
}

// drain waits until no database is in use.
func (d *databases) drain() {
	if d.core == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.busy > 0 {
		d.idle.Wait()
	}
}

func readState(r pebble.Reader, num uint32) (*state, error) {
	v, err := getValue(r, layout.Prefix(num, layout.KindInfo))
	if err != nil {
		return nil, err
	}
	st := &state{listings: &listings{}}
	if st.info, err = layout.ReadInfo(v); err != nil {
		return nil, fmt.Errorf("%w: info of database %d", ErrDamaged, num)
	}
	if v, err = getValue(r, layout.Prefix(num, layout.KindCounters)); err != nil {
		return nil, err
	}
	if st.counters, err = layout.ReadCounters(v); err != nil {
		return nil, fmt.Errorf("%w: counters of database %s", ErrDamaged, st.info.ID)
	}
	st.recent = forgotten(&st.counters.Ledger)
	err = scan(r, layout.Prefix(num, layout.KindFolder), func(k, v []byte) error {
		f, err := layout.ReadFolder(note.ID(layout.Tail64(k)), v)
		if err != nil {
			return fmt.Errorf("%w: folder head in database %s", ErrDamaged, st.info.ID)
		}
		st.folders = append(st.folders, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = scan(r, layout.Prefix(num, layout.KindPeer), func(k, v []byte) error {
		p, err := layout.ReadPeer(v)
		if err != nil {
			return fmt.Errorf("%w: known replicas of database %s", ErrDamaged, st.info.ID)
		}
		if st.peers == nil {
			st.peers = make(map[note.ReplicaID]layout.Peer)
		}
		st.peers[note.ReplicaID(layout.Tail64(k))] = p
		return nil
	})
	return st, err
}

// Create describes a new database.
type Create struct {
	// ID is chosen at random if it is zero.
	ID             note.DatabaseID
	Title, Kind    string
	Owner          note.UNID
	Quota, Warning uint64
	ACL            note.ACL
	// Queue marks a database whose notes only pass through: no graves are kept. A grave is the permanent record of a
	// deleted note's UNID.
	Queue bool
	Ack   layout.Ack
}

// catalog creates, describes and removes databases.
type catalog struct {
	*core
	infos  infoWatchers
	keying keying
}

// CreateDatabase creates a database durably. Only the server itself may call it.
func (cat *catalog) CreateDatabase(who note.Who, c Create) (note.DatabaseID, error) {
	if !who.System {
		return 0, ErrDenied
	}
	for c.ID == 0 {
		c.ID = note.DatabaseID(cat.env.Uint64())
	}
	return c.ID, cat.create(creation{info: &layout.Info{
		ID: c.ID, Title: c.Title, Kind: c.Kind, Owner: c.Owner, Created: cat.env.Clock.Now().Unix(), Quota: c.Quota,
		Warning: c.Warning, ACL: c.ACL, Queue: c.Queue, Ack: c.Ack,
	}})
}

func (cat *catalog) create(c creation) error {
	cat.making.RLock()
	b, err := cat.applyCreate(c)
	cat.making.RUnlock()
	if err != nil {
		return err
	}
	// Everything that later uses the database comes after this batch in the log.
	if err := b.SyncWait(); err != nil {
		return cat.die(err)
	}
	cat.infoChanged(c.info.ID)
	return b.Close()
}

// creation describes a database that is to be created.
type creation struct {
	info   *layout.Info
	ledger note.Ledger
}

// applyCreate applies the batch that creates a database. The caller waits for the flush outside the lock, so that
// databases created at the same time share one flush.
func (cat *catalog) applyCreate(c creation) (*pebble.Batch, error) {
	cat.dbs.mu.Lock()
	defer cat.dbs.mu.Unlock()
	if err := cat.alive(); err != nil {
		return nil, err
	}
	if _, ok := cat.dbs.number[c.info.ID]; ok {
		return nil, fmt.Errorf("%w: database %s", ErrExists, c.info.ID)
	}
	if err := cat.space.admit(); err != nil {
		return nil, err
	}
	num, err := cat.metaUint(metaNumber)
	if err != nil {
		return nil, err
	}
	num++
	info := c.info
	info.Number, info.Replica = uint32(num), note.ReplicaID(cat.env.Uint64())
	b := cat.eng.NewBatch()
	putUint(b, metaNumber, num)
	set(b, layout.NumberKey(layout.SpaceDatabase, uint64(info.ID)), uint64Bytes(num)[4:])
	set(b, layout.Prefix(info.Number, layout.KindInfo), layout.AppendInfo(nil, info))
	set(b, layout.Prefix(info.Number, layout.KindCounters), layout.AppendCounters(nil,
		&layout.Counters{NextNote: 1, Ledger: c.ledger}))
	cat.timed(b)
	if err := cat.eng.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		return nil, cat.die(err)
	}
	cat.dbs.number[info.ID], cat.dbs.byNum[info.Number] = info.Number, info.ID
	return b, nil
}

// RemoveDatabase removes a database and everything in it. Objects and recipes that nothing else references are swept
// later.
func (cat *catalog) RemoveDatabase(who note.Who, id note.DatabaseID) error {
	return cat.removeDatabase(who, id, func(*state) error { return nil })
}

// RemoveUnchanged removes a database if its sequence is still seq (Reader.Counters). If anything was committed since,
// it removes nothing and returns ErrChanged.
func (cat *catalog) RemoveUnchanged(who note.Who, id note.DatabaseID, seq uint64) error {
	return cat.removeDatabase(who, id, func(st *state) error {
		if st.counters.Seq != seq {
			return fmt.Errorf("%w: database %s", ErrChanged, id)
		}
		return nil
	})
}

func (cat *catalog) removeDatabase(who note.Who, id note.DatabaseID, may func(*state) error) error {
	if !who.System {
		return ErrDenied
	}
	defer cat.infoChanged(id) // deferred first, so that it runs when all locks are free
	db, err := cat.dbs.acquire(id)
	if err != nil {
		return err
	}
	defer cat.dbs.release(db)
	db.write.Lock()
	defer db.write.Unlock()
	if db.gone {
		return fmt.Errorf("%w: database %s", ErrNotFound, id)
	}
	if err := may(db.cur.Load()); err != nil {
		return err
	}
	b := cat.eng.NewBatch()
	defer b.Close()
	err = scan(cat.eng, layout.Prefix(db.num, layout.KindNote), func(k, v []byte) error {
		n, err := layout.ReadNote(v)
		if err != nil {
			return nil // a damaged row references nothing; check finds references without a note
		}
		return dropReferences(cat.eng, b, db.num, note.ID(layout.Tail64(k)), n)
	})
	if err != nil {
		return err
	}
	prefix := layout.Prefix(db.num, 0)[:5]
	_ = b.DeleteRange(prefix, layout.After(prefix), nil)
	del(b, layout.NumberKey(layout.SpaceDatabase, uint64(id)))
	db.publish.Lock()
	cat.timed(b)
	err = b.Commit(pebble.Sync)
	gone := *db.cur.Load().info
	gone.State, gone.Reason = layout.OutOfService, "removed"
	db.cur.Store(&state{info: &gone, listings: &listings{}})
	db.publish.Unlock()
	if err != nil {
		return cat.die(err)
	}
	db.gone = true
	cat.dbs.mu.Lock()
	defer cat.dbs.mu.Unlock()
	delete(cat.dbs.number, id)
	delete(cat.dbs.work, id)
	delete(cat.dbs.byNum, db.num)
	delete(cat.dbs.open, id)
	cat.leaders.set(id, false)
	return nil
}

// SetInfo changes the description of a database: title, quota, state, access list. fn gets a copy. In a shared database
// the change reaches every replica, except for the state, which is local to each replica. It is durable when SetInfo
// returns, and nobody outside the store sees it before.
func (cat *catalog) SetInfo(who note.Who, id note.DatabaseID, fn func(*layout.Info)) error {
	db, err := cat.dbs.acquire(id)
	if err != nil {
		return err
	}
	defer cat.dbs.release(db)
	c, err := cat.applyInfo(&who, db, fn)
	if err != nil {
		return err
	}
	if err := cat.finish(c); err != nil {
		return err
	}
	cat.infoChanged(id)
	return nil
}

// applyInfo applies the change of a description with a sequence, so that the horizon keeps the description, and the
// MODSEQ that the change may take, from readers until they are durable. The sequence names no note and is not in the
// feed.
func (cat *catalog) applyInfo(who *note.Who, db *database, fn func(*layout.Info)) (commit, error) {
	db.write.Lock()
	defer db.write.Unlock()
	if db.gone {
		return commit{}, fmt.Errorf("%w: database %s", ErrNotFound, db.id)
	}
	st := *db.cur.Load()
	if st.info.ACL.Rights(who)&note.Administer == 0 {
		return commit{}, ErrDenied
	}
	info := *st.info
	fn(&info)
	info.ID, info.Number, info.Replica = st.info.ID, st.info.Number, st.info.Replica
	b := cat.eng.NewBatch()
	if info.Stamp, info.Mod = st.info.Stamp, st.info.Mod; st.counters.Ledger.Shared && !info.SameShared(st.info) {
		info.Stamp, info.Mod = cat.stamp(info.Replica, info.Stamp), 0
		if cat.leaders.has(db.id) {
			info.Mod = st.counters.Ledger.NextMod()
			set(b, layout.Prefix(db.num, layout.KindCounters), layout.AppendCounters(nil, &st.counters))
		}
	}
	st.info = &info
	set(b, layout.Prefix(db.num, layout.KindInfo), layout.AppendInfo(nil, &info))
	db.publish.Lock()
	defer db.publish.Unlock()
	sp, ceiling := cat.hz.take(1, []uint32{db.num})
	st.described = sp.last
	applied := false
	defer func() {
		if !applied { // the horizon would never pass the sequence
			_ = cat.die(errors.New("SetInfo ended between its number and its batch"))
		}
	}()
	if ceiling != 0 {
		putUint(b, metaCeiling, ceiling)
	}
	cat.timed(b)
	err := cat.eng.ApplyNoSyncWait(b, pebble.Sync)
	applied = true
	if err != nil {
		return commit{}, cat.die(err)
	}
	db.cur.Store(&st)
	return commit{batch: b, span: sp}, nil
}

// Databases lists all databases in order of id. Like Info it waits until what it shows is durable. One that cannot be
// opened is listed as out of service, with the reason, so that it does not hide the others.
func (cat *catalog) Databases() ([]layout.Info, error) {
	cat.dbs.mu.Lock()
	ids := make([]note.DatabaseID, 0, len(cat.dbs.number))
	for id := range cat.dbs.number {
		ids = append(ids, id)
	}
	cat.dbs.mu.Unlock()
	slices.Sort(ids)
	out := make([]layout.Info, 0, len(ids))
	for _, id := range ids {
		db, err := cat.dbs.acquire(id)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if errors.Is(err, ErrDamaged) {
			out = append(out, layout.Info{ID: id, Title: id.String(), State: layout.OutOfService, Reason: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := cat.describe(db)
		cat.dbs.release(db)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

// Info returns the description of a database. It waits until the description is durable.
func (cat *catalog) Info(id note.DatabaseID) (layout.Info, error) {
	db, err := cat.dbs.acquire(id)
	if err != nil {
		return layout.Info{}, err
	}
	defer cat.dbs.release(db)
	return cat.describe(db)
}

// describe returns the description of an open database. It waits until the description is durable.
func (cat *catalog) describe(db *database) (layout.Info, error) {
	st := db.cur.Load()
	if err := cat.hz.wait(st.described); err != nil {
		return layout.Info{}, err
	}
	return *st.info, nil
}

// Work calls fn for each database that was used since the store was opened, in no order. times counts the reads by
// people and the changes by or for people; replication is not counted. fn must not call the store.
func (cat *catalog) Work(fn func(id note.DatabaseID, times uint64)) {
	cat.dbs.mu.Lock()
	defer cat.dbs.mu.Unlock()
	for id, n := range cat.dbs.work {
		fn(id, n.Load())
	}
}

// Size returns the total size in bytes of the messages in a database.
func (cat *catalog) Size(id note.DatabaseID) (uint64, error) {
	db, err := cat.dbs.acquire(id)
	if err != nil {
		return 0, err
	}
	defer cat.dbs.release(db)
	return db.cur.Load().counters.Size, nil
}

// quarantine removes from service the databases that lost rows in a damaged file. The others stay in service. To find
// them it reads, once, every database whose keys the file may hold.
func (d *damage) quarantine(i pebble.DataCorruptionInfo) {
	// These reads meet the same damage again, so each file is handled only once.
	span := pebble.KeyRange{Start: i.Bounds.Start}
	if i.Bounds.Start != nil {
		span.End = append(append([]byte(nil), i.Bounds.End.Key...), 0)
	}
	if _, met := d.damagedFiles.LoadOrStore(i.Path, span); met || d.closed.Load() {
		return
	}
	d.quarantined.Add(1)
	d.env.Go("quarantine", func() {
		defer d.quarantined.Done()
		<-d.opened
		for _, id := range d.databasesWithin(i.Bounds.Start, i.Bounds.End.Key) {
			if err := d.sound(id); !errors.Is(err, ErrDamaged) {
				continue
			}
			err := d.catalog.SetInfo(note.System, id, func(info *layout.Info) {
				info.State = layout.OutOfService
				info.Reason = "damaged file " + d.env.FS.PathBase(i.Path) + ": run doublet check --repair or restore it"
			})
			d.log.Error("database taken out of service", "database", id.String(), "file", i.Path, "err", err)
		}
	})
}

// sound reads every row of a database and returns ErrDamaged if one cannot be read.
func (d *damage) sound(id note.DatabaseID) error {
	db, err := d.dbs.acquire(id)
	if err != nil {
		return err
	}
	defer d.dbs.release(db)
	if db.cur.Load().info.State != layout.InService {
		return nil
	}
	return engineOrOwn(scan(d.eng, layout.Prefix(db.num, 0)[:5], func(_, _ []byte) error { return nil }))
}

func (d *damage) databasesWithin(lo, hi []byte) []note.DatabaseID {
	d.dbs.mu.Lock()
	defer d.dbs.mu.Unlock()
	var out []note.DatabaseID
	for num, id := range d.dbs.byNum {
		first := layout.Prefix(num, 0)[:5]
		if string(hi) >= string(first) && string(lo) < string(layout.After(first)) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func set(b *pebble.Batch, k, v []byte) {
	// Set fails only in a batch that was committed already.
	_ = b.Set(k, v, nil)
}

func del(b *pebble.Batch, k []byte) { _ = b.Delete(k, nil) }
