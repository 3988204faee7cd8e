package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// Tx is one atomic change of the databases that its Update named.
type Tx struct {
	s       *Store
	who     *note.Who
	writers []*Writer // in ascending database id
	// anyState permits changes of databases that are out of service, for operations on all databases.
	anyState bool
	// unconfirmed skips the wait for a mate, for changes that came from one.
	unconfirmed bool
}

// Update is the only way to change notes. It locks the named databases in ascending order of id, calls fn, and commits
// all changes of fn as one batch. It returns when the batch is durable, or earlier if all databases acknowledge early
// (answersEarly). If fn fails nothing has changed. fn must not call Update, because it holds the locks that the call
// would wait for. fn must be quick: do all possible work beforehand (parsing, hashing, objects, rules).
//
// The batch gets its sequences and is applied under the locks. Update waits for the flush of the log outside all locks,
// so that the next updates join the same flush.
func (s *Store) Update(ctx context.Context, who note.Who, ids []note.DatabaseID, fn func(*Tx) error) error {
	return s.update(ctx, &Tx{s: s, who: &who}, ids, fn)
}

func (s *Store) update(ctx context.Context, tx *Tx, ids []note.DatabaseID, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer tx.release()
	if err := tx.acquire(ids); err != nil {
		return err
	}
	if err := tx.admit(ctx); err != nil {
		return err
	}
	c, err := tx.run(fn)
	if err != nil {
		return err
	}
	if c.batch == nil {
		// Nothing changed, but what fn saw must be durable and confirmed before a client is told of it. For example, a
		// delivery that is repeated is answered with the note of the first one.
		if err := s.hz.wait(c.shown); err != nil {
			return err
		}
		return tx.confirm(ctx, c.seen)
	}
	if tx.answersEarly() && s.finishLater(c) {
		tx.countWork()
		return nil
	}
	began := s.env.Clock.Now()
	if err := s.finish(c); err != nil {
		return err
	}
	s.flushes.took(s.env.Clock.Now().Sub(began))
	tx.countWork()
	tx.tellInfos()
	return tx.confirm(ctx, c.span.last)
}

// countWork counts a change in each database that it changed. A change that comes from a mate is counted there.
func (tx *Tx) countWork() {
	for _, w := range tx.writers {
		if !tx.unconfirmed && !w.unconfirmed && w.changed() {
			w.db.work.Add(1)
		}
	}
}

// tellInfos notifies the watchers of database descriptions, outside every lock.
func (tx *Tx) tellInfos() {
	for _, w := range tx.writers {
		if w.infoChanged {
			tx.s.infoChanged(w.db.id)
		}
	}
}

// admit checks that a mate can confirm the change, for databases that do not accept unconfirmed changes.
func (tx *Tx) admit(ctx context.Context) error {
	if tx.s.opt.Admit == nil || tx.unconfirmed {
		return nil
	}
	var ids []note.DatabaseID
	for _, w := range tx.writers {
		if w.db.cur.Load().info.Ack == layout.AckStrict {
			ids = append(ids, w.db.id)
		}
	}
	if ids == nil {
		return nil
	}
	if err := tx.s.opt.Admit(ctx, ids); err != nil {
		return fmt.Errorf("%w: nothing was changed: %w", ErrUnconfirmed, err)
	}
	return nil
}

// confirm waits until mates have the state of databases up to a sequence, for databases whose acknowledgement needs
// that. It waits for the databases that changed, or for all of them if none changed.
func (tx *Tx) confirm(ctx context.Context, seq uint64) error {
	if tx.s.opt.Confirm == nil || tx.unconfirmed {
		return nil
	}
	changed := slices.ContainsFunc(tx.writers, (*Writer).changed)
	var ids []note.DatabaseID
	for _, w := range tx.writers {
		if w.st.info.Ack.Confirmed() && w.changed() == changed && !w.unconfirmed {
			ids = append(ids, w.db.id)
		}
	}
	if ids == nil {
		return nil
	}
	if err := tx.s.opt.Confirm(ctx, ids, seq); err != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	return nil
}

// commit is a batch that is applied but not yet flushed. Without a batch nothing changed. seen is the latest sequence
// in the counters that the update could see, which mates confirm. The horizon must reach shown, which covers
// descriptions too.
type commit struct {
	batch       *pebble.Batch
	span        *span
	seen, shown uint64
}

func (tx *Tx) acquire(ids []note.DatabaseID) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		db, err := tx.s.dbs.acquire(id)
		if err != nil {
			return err
		}
		tx.writers = append(tx.writers, newWriter(tx.s, db, tx.who))
	}
	return nil
}

func (tx *Tx) release() {
	for _, w := range tx.writers {
		w.settlement.release()
		tx.s.dbs.release(w.db)
	}
}

// run calls fn and commits. It holds the locks from before fn sees the databases until the batch is applied.
func (tx *Tx) run(fn func(*Tx) error) (commit, error) {
	for _, w := range tx.writers {
		w.db.write.Lock()
		defer w.db.write.Unlock()
	}
	if err := tx.s.alive(); err != nil {
		return commit{}, err
	}
	for _, w := range tx.writers {
		w.begin()
		if err := w.serving(); err != nil && !tx.anyState {
			return commit{}, err
		}
	}
	if err := fn(tx); err != nil {
		return commit{}, err
	}
	c, err := tx.commit()
	for _, w := range tx.writers {
		if w.leading != nil && err == nil {
			tx.s.leaders.set(w.db.id, *w.leading)
		}
	}
	return c, err
}

// Database returns the writer of a database that the update named.
func (tx *Tx) Database(id note.DatabaseID) (*Writer, error) {
	for _, w := range tx.writers {
		if w.db.id == id {
			return w, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotNamed, id)
}

// Home returns the same as Database, for changes that must be numbered at once because a client is told of the numbers.
// The update then waits for its flush in any case. On a replica that is not the home it returns ErrNotHome.
func (tx *Tx) Home(id note.DatabaseID) (*Writer, error) {
	w, err := tx.Database(id)
	if err == nil {
		w.told = true
		err = w.Home()
	}
	return w, err
}

// commit settles every writer, which may fail. Then it takes sequences, builds the batch and applies it, which must not
// fail.
func (tx *Tx) commit() (commit, error) {
	c, err := tx.settle()
	if err != nil {
		return commit{}, err
	}
	if c.databases == nil {
		return commit{seen: c.seen, shown: c.shown}, nil
	}
	var room [4]*Message
	messages := room[:0]
	for _, w := range tx.writers {
		messages = w.settlement.appendNew(messages)
	}
	sp, ceiling := tx.s.hz.take(c.notes+len(messages), c.databases)
	applied := false
	defer func() {
		if !applied { // a panic here would leave a gap that the horizon never passes
			_ = tx.s.die(errors.New("update ended between its numbers and its batch"))
		}
	}()
	b := tx.s.eng.NewBatch()
	if ceiling != 0 {
		putUint(b, metaCeiling, ceiling)
	}
	seq := sp.first
	for i, m := range messages {
		m.recipe = note.RecipeID(seq + uint64(c.notes+i))
		m.put(b)
	}
	var feed []layout.FeedItem
	// A feed entry numbers its notes without gaps, so databases in which no note changed take their sequences after all
	// notes.
	for _, w := range tx.writers {
		if len(w.order) > 0 {
			feed = w.settlement.write(b, &seq, feed)
		}
	}
	for _, w := range tx.writers {
		if len(w.order) == 0 && w.changed() {
			feed = w.settlement.write(b, &seq, feed)
		}
	}
	set(b, layout.NumberKey(layout.SpaceFeed, sp.first), layout.AppendFeed(nil, feed))
	sp.feed = feed
	tx.s.timed(b)
	err = tx.apply(b)
	applied = true
	if err != nil {
		return commit{}, tx.s.die(err)
	}
	return commit{batch: b, span: sp}, nil
}

// changes counts what needs a sequence in a settled update.
type changes struct {
	seen, shown uint64 // as in commit
	notes       int    // at least one for each database that changed
	databases   []uint32
}

// settle settles every writer.
func (tx *Tx) settle() (c changes, err error) {
	for _, w := range tx.writers {
		c.seen, c.shown = max(c.seen, w.st.counters.Seq), max(c.shown, w.st.latest())
		if err := w.settlement.settle(); err != nil {
			return changes{}, err
		}
		if !w.changed() {
			continue
		}
		c.databases = append(c.databases, w.db.num)
		c.notes += max(1, len(w.order))
	}
	return c, nil
}

// appendNew appends the messages that this update stores, each once.
func (se *settlement) appendNew(messages []*Message) []*Message {
	for _, id := range se.order {
		t := se.dirty[id]
		if t.row == nil {
			continue // created and destroyed within this update: its message is garbage, as if never referenced
		}
		if m := t.message; m != nil && m.recipe == 0 && !slices.Contains(messages, m) {
			messages = append(messages, m)
		}
	}
	return messages
}

// apply makes the batch and its states visible at the same moment.
func (tx *Tx) apply(b *pebble.Batch) error {
	for _, w := range tx.writers {
		w.db.publish.Lock()
		defer w.db.publish.Unlock()
	}
	if err := tx.s.eng.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		return err
	}
	for _, w := range tx.writers {
		w.settlement.publish()
	}
	return nil
}

// flushes records how long the last flushes took that an update waited for.
type flushes struct {
	mu   sync.Mutex
	last [64]time.Duration
	n    int
}

func (f *flushes) took(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[f.n%len(f.last)] = d
	f.n++
}

// FlushTime returns how long a change waits for the disk: the median of the last 64 waits, or 0 before the first.
func (s *Store) FlushTime() time.Duration {
	s.flushes.mu.Lock()
	list := slices.Clone(s.flushes.last[:min(s.flushes.n, len(s.flushes.last))])
	s.flushes.mu.Unlock()
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
