// Package junk learns from the messages that people file which mail is junk to them, and classifies new mail by it
// (mail/bayes). It reads the store's feed: the state of a message in its mail file, that is folders and keywords,
// decides what is learned from it. What was learned is in a database of this server, one note for each mail file. It is
// derived from the mail file and never replicated: every member of a cluster learns from its own replica.
package junk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/bayes"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/mime"
)

// ID is the ID of the database with what was learned, Kind its kind.
const (
	ID   note.DatabaseID = 0x000000000BA7E500
	Kind                 = "junk"
)

// Options are the settings. Zero values mean the defaults.
type Options struct {
	// Threshold is the score from which mail is junk (0.99).
	Threshold float64
	// Junk and Good are the numbers of messages of each class that must be learned before there is a verdict (20, 100).
	Junk, Good int
	// Sharers is the group of the people whose filing the model of the whole server learns too, "*" for everybody, ""
	// for nobody. Its verdict counts for people who have not filed enough themselves.
	Sharers string
	// Memory is the maximum size in bytes of what is kept in memory of the database (64 MB).
	Memory int64
	// Parts returns the index of the parts of a message from its summary.
	Parts func(summary []byte) (mime.Index, bool)
	Stats *stat.Tree
}

// Sizes of the models, as powers of two.
const (
	ownBits    = 16
	serverBits = 18
)

// server is the key of the model of the whole server.
const server note.DatabaseID = 0

// Filter classifies mail. Its methods may be called from any goroutine, except Run and Catch, which have one caller.
type Filter struct {
	store *store.Store
	env   *env.Env
	dir   *directory.Directory
	opt   Options
	stat  *stats

	mu      sync.Mutex // guards entries and clock
	entries map[note.DatabaseID]*entry
	clock   uint64
	size    int64

	learner learner // of the caller of Run or Catch
}

// Open opens the database, and creates it in a new store.
func Open(s *store.Store, e *env.Env, d *directory.Directory, o Options) (*Filter, error) {
	if o.Threshold <= 0 {
		o.Threshold = 0.99
	}
	if o.Junk <= 0 {
		o.Junk = 20
	}
	if o.Good <= 0 {
		o.Good = 100
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	f := &Filter{store: s, env: e, dir: d, opt: o, entries: map[note.DatabaseID]*entry{}}
	f.stat = newStats(o.Stats, f)
	f.learner.f = f
	if _, err := s.Info(ID); err == nil {
		return f, nil
	}
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "junk filter of the server", Kind: Kind,
		Queue: true})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("junk: create database: %w", err)
	}
	return f, nil
}

// Message is a message to classify. Its tokens are read when they are needed first.
type Message struct {
	raw    []byte
	root   *mime.Part
	tokens bayes.Tokens
	done   bool
}

// NewMessage returns a message to classify, for one goroutine. root is the parsed message.
func NewMessage(raw []byte, root *mime.Part) *Message { return &Message{raw: raw, root: root} }

func (m *Message) read() bayes.Tokens {
	if !m.done {
		m.tokens, m.done = bayes.Read(m.raw, m.root), true
	}
	return m.tokens
}

// Verdict is the result for one message and one mail file. The zero value means that too little was learned.
type Verdict struct {
	// Known is set if enough was learned. Junk is set if the message is junk.
	Known, Junk bool
	// Score is from 0 (not junk) to 1 (junk).
	Score float64
	// LearnedJunk and LearnedGood are the numbers of messages from which the model learned. Server is set for the model
	// of the whole server.
	LearnedJunk, LearnedGood int
	Server                   bool
	// Correspondent is set if the owner wrote to the author: the message is not junk then.
	Correspondent bool
}

// String returns the verdict as in the header field.
func (v Verdict) String() string {
	if !v.Known {
		return "unknown; too little was learned"
	}
	word, model := "no", "own"
	if v.Junk {
		word = "yes"
	}
	if v.Server {
		model = "server"
	}
	s := fmt.Sprintf("%s; score=%.4f; model=%s; junk=%d; good=%d", word, v.Score, model, v.LearnedJunk, v.LearnedGood)
	if v.Correspondent {
		s += "; correspondent"
	}
	return s
}

// Judge classifies a message that is delivered to the owner of a mail file, and counts it in the statistics.
func (f *Filter) Judge(ctx context.Context, db note.DatabaseID, m *Message) (Verdict, error) {
	begun := f.env.Clock.Now()
	v, err := f.Classify(ctx, db, m)
	if err == nil && v.Known {
		f.stat.judged(&v, v.Score >= f.opt.Threshold, f.env.Clock.Now().Sub(begun))
	}
	return v, err
}

// Classify classifies a message for the owner of a mail file.
func (f *Filter) Classify(ctx context.Context, db note.DatabaseID, m *Message) (v Verdict, err error) {
	own, err := f.entry(ctx, db)
	if err != nil {
		return v, err
	}
	if v = f.score(own, m); !v.Known && f.opt.Sharers != "" {
		all, err := f.entry(ctx, server)
		if err != nil {
			return v, err
		}
		v = f.score(all, m)
		v.Server = true
	}
	if !v.Known {
		return Verdict{}, nil
	}
	v.Correspondent = own.knows(m.root.Envelope)
	v.Junk = v.Score >= f.opt.Threshold && !v.Correspondent
	return v, nil
}

// score returns the score of a model, if it has learned enough.
func (f *Filter) score(e *entry, m *Message) (v Verdict) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.memory == nil {
		return v
	}
	v.LearnedJunk, v.LearnedGood = e.memory.Model.Messages()
	if v.LearnedJunk < f.opt.Junk || v.LearnedGood < f.opt.Good {
		return v
	}
	v.Known, v.Score = true, e.memory.Model.Score(m.read())
	return v
}

// knows reports whether the owner wrote to all authors of a message.
func (e *entry) knows(h *mime.Envelope) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.memory == nil || h == nil || len(h.From) == 0 {
		return false
	}
	for i := range h.From {
		if !e.memory.Knows(bayes.AddressOf(&h.From[i])) {
			return false
		}
	}
	return true
}

// Learned is the state of one model.
type Learned struct {
	// Junk and Good are the numbers of messages, Known that of the addresses to which the owner wrote.
	Junk, Good, Known int
	// Ready is set if that is enough for verdicts.
	Ready bool
}

// Show returns what was learned from a mail file, and what the server learned from all that agreed.
func (f *Filter) Show(ctx context.Context, db note.DatabaseID) (own, all Learned, err error) {
	if own, err = f.show(ctx, db); err == nil {
		all, err = f.show(ctx, server)
	}
	return own, all, err
}

func (f *Filter) show(ctx context.Context, db note.DatabaseID) (l Learned, err error) {
	e, err := f.entry(ctx, db)
	if err != nil {
		return l, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.memory == nil {
		return l, nil
	}
	l.Junk, l.Good = e.memory.Model.Messages()
	l.Known = e.memory.Known()
	l.Ready = l.Junk >= f.opt.Junk && l.Good >= f.opt.Good
	return l, nil
}

// Forget forgets what was learned from a mail file, durably. What is filed from now on is learned. The model of the
// server keeps its counts: it cannot tell from whom they are.
func (f *Filter) Forget(ctx context.Context, db note.DatabaseID) error {
	e, release, err := f.hold(ctx, db)
	defer release()
	if err != nil {
		return err
	}
	e.saving.Lock()
	defer e.saving.Unlock()
	e.mu.Lock()
	old := e.memory
	e.memory, e.dirty = bayes.NewMemory(ownBits), false
	fresh := e.memory.Append(nil)
	e.mu.Unlock()
	if err := f.write(ctx, map[note.DatabaseID][]byte{db: fresh}); err != nil {
		e.mu.Lock()
		e.memory, e.dirty = old, true
		e.mu.Unlock()
		return err
	}
	return nil
}
