package journal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

// Recipient is a recipient of the envelope.
type Recipient struct {
	Address string
	// Person is the person, group or mail-in database here, zero for other domains.
	Person note.UNID
}

// Message is a message to journal.
type Message struct {
	ID note.UNID // queue ID
	// Again reports that the message may have been accepted before, so that it may be in an earlier database.
	Again     bool
	Time      time.Time
	MessageID string
	From      string
	// Sender is the person who signed in, or zero.
	Sender     note.UNID
	Recipients []Recipient
	// Outside reports that the message came from a client that did not sign in.
	Outside bool
	// Wanted journals the message regardless of Options.Rules.
	Wanted  bool
	Details Details
}

func (m *Message) direction() Direction {
	for i := range m.Recipients {
		if m.Recipients[i].Person.IsZero() {
			return Out
		}
	}
	if m.Outside {
		return In
	}
	return Internal
}

// Sealed is an encrypted message that is ready to be written. The caller must call Release after the updates that use
// it have ended.
type Sealed struct {
	entry   Entry
	message *store.Message
	// again is Message.Again. known means that the message is in an earlier database.
	again, known bool
	// written is set by an update that adds the entry. The message was not there before.
	written bool
}

// Release releases the message. A nil Sealed has nothing to release.
func (s *Sealed) Release() {
	if s != nil {
		s.message.Release()
	}
}

// again is the time for which a message may be accepted again under its queue ID: longer than any server tries, and
// than a message waits in an outbox after its time.
const again = 30 * 24 * time.Hour

// Seal encrypts a message if the rules select it, or it is Wanted. Otherwise it returns nil. raw is the
// message as stored; the caller may change it afterwards. Errors: ErrFailed, and that of ctx.
func (j *Journal) Seal(ctx context.Context, m *Message, raw []byte) (*Sealed, error) {
	member := func(group string, person note.UNID) bool { return j.member(ctx, group, person) }
	if !m.Wanted && !j.opt.Rules.selects(m, member) {
		return nil, nil
	}
	start := j.env.Clock.Now()
	sealed, err := seal(&m.Details, raw, j.to)
	if err != nil {
		return nil, j.failed(err)
	}
	j.stat.time.ObserveDuration(j.env.Clock.Now().Sub(start))
	// All of it is one part, which becomes an object if it is large.
	p, err := j.store.Prepare(ctx, sealed, []mime.LeafSpan{{Start: 0, End: len(sealed)}})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, j.failed(err)
	}
	s := &Sealed{message: p, again: m.Again, entry: Entry{
		Time: m.Time.UTC().Truncate(time.Millisecond), ID: m.ID, MessageID: readable(m.MessageID),
		Direction: m.direction(), From: readable(m.From), Recipients: make([]string, len(m.Recipients)),
		Size: uint64(len(raw)), Content: Hash(p.Digest),
	}}
	for i := range m.Recipients {
		s.entry.Recipients[i] = readable(m.Recipients[i].Address)
	}
	return s, nil
}

// readable replaces bytes that are not UTF-8. An archive holds entries as JSON, which would replace them there: the
// hash would not hold.
func readable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// member reports whether a person is in a group. If that cannot be found out, the answer is yes: too much is journaled
// rather than too little.
func (j *Journal) member(ctx context.Context, group string, person note.UNID) bool {
	t, err := j.dir.Names.Lookup(ctx, group)
	if err != nil {
		return true
	}
	groups, err := j.dir.Names.AllGroupsOf(ctx, person)
	return err != nil || person == t.ID || slices.Contains(groups, t.ID) // person may be the group itself
}

// entryID returns the UNID of a message's entry.
func entryID(id note.UNID) note.UNID { return note.DeriveUNID([]byte("journal"), id[:]) }

// Choose returns the database for an update that appends these messages, as Current does. Messages that are in an
// earlier database are marked, so that Append leaves them out; nil is left out too. All other databases are closed, so
// that no message can come into them between this and the update. Errors: ErrFailed.
func (j *Journal) Choose(ctx context.Context, list ...*Sealed) (note.DatabaseID, error) {
	db, err := j.Current(ctx)
	for _, s := range list {
		if err == nil && s != nil && s.again && !s.known {
			s.known, err = j.closedHas(ctx, db, s.entry.ID)
		}
	}
	return db, err
}

// closedHas reports whether a message is in a database other than the current one that was closed lately. One that was
// removed meanwhile has nothing.
func (j *Journal) closedHas(ctx context.Context, current note.DatabaseID, id note.UNID) (bool, error) {
	for _, d := range *j.earlier.Load() { // Current has set it
		if d.id == current || !d.closed.IsZero() && j.env.Clock.Now().Sub(d.closed) > again {
			continue
		}
		err := j.store.Read(ctx, note.System, d.id, func(r *store.Reader) error {
			_, err := r.Find(entryID(id))
			return err
		})
		if err == nil || errors.Is(err, store.ErrGrave) {
			return true, nil
		}
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrOutOfService) {
			return false, j.failed(err)
		}
	}
	return false, nil
}

// Append writes an entry into the current database, of which w is the writer. drop removes recipients that did not get
// the message; it may be nil. A message that is there already changes nothing. Errors: ErrFailed.
func (j *Journal) Append(w *store.Writer, s *Sealed, drop func(i int) bool) error {
	if s.written = false; s.known {
		return nil
	}
	h, err := readHead(&w.Reader)
	if err != nil {
		return j.failed(err)
	}
	if !h.closed.IsZero() {
		return errRolled
	}
	e := s.entry
	if drop != nil {
		e.Recipients = nil
		for i, r := range s.entry.Recipients {
			if !drop(i) {
				e.Recipients = append(e.Recipients, r)
			}
		}
	}
	e.Number, e.Previous = h.number+1, h.hash
	e.Hash = e.sum()
	_, err = w.Create(store.New{UNID: entryID(e.ID), Class: note.Document, Date: e.Time.Unix(), Message: s.message,
		Content: note.Content{Items: e.items()}})
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
		return nil
	}
	if err != nil {
		return j.failed(err)
	}
	h.number, h.hash, h.bytes = e.Number, e.Hash, h.bytes+s.message.Size
	if err := w.Put(headID, note.Profile, h.content()); err != nil {
		return j.failed(err)
	}
	s.written = true
	return nil
}

// Wrote counts the messages of an update that has succeeded.
func (j *Journal) Wrote(list ...*Sealed) {
	c := j.current.Load()
	for _, s := range list {
		if s == nil || !s.written {
			continue
		}
		j.stat.entries.Inc()
		j.stat.bytes.Add(s.message.Size)
		if c != nil {
			c.bytes.Add(s.message.Size)
		}
	}
}

// Rolled reports whether an error means that a new database has begun meanwhile: the update is to be repeated with the
// one that Current returns then.
func Rolled(err error) bool { return errors.Is(err, errRolled) }

// PutOff counts and logs a message that is put off because it could not be journaled.
func (j *Journal) PutOff(id note.UNID, err error) {
	j.stat.deferred.Inc()
	j.env.Log.Error("journal: message is put off", "id", id.String(), "err", err)
}

// Missed counts and logs a message that is delivered although it could not be journaled.
func (j *Journal) Missed(id note.UNID, err error) {
	j.stat.missed.Inc()
	j.env.Log.Error("journal: message is delivered without an entry", "id", id.String(), "err", err)
}
