// Package trace records the path of messages through mail.box, for administrators and for the status of submissions.
package trace

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// log writes delivery events to the log. Recipients of a message with the same event share one line.
func (j *Trace) log(hops []Hop) {
	if j.quiet || len(hops) == 0 || !j.env.Log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for lines := 0; len(hops) > 0; lines++ {
		n := 1
		for n < len(hops) && (lines >= LogLines || alike(&hops[0], &hops[n])) {
			n++
		}
		if hops[0].Event != "" {
			j.line(hops[:n], lines >= LogLines)
		}
		hops = hops[n:]
	}
}

// alike reports whether two recipients of a message had the same event.
func alike(a, b *Hop) bool {
	return a.ID == b.ID && a.Event == b.Event && a.Host == b.Host && a.Reply == b.Reply
}

// line logs hops with the same event. rest means that they are all remaining hops of an update, with any events.
func (j *Trace) line(hops []Hop, rest bool) {
	h := &hops[0]
	var to strings.Builder
	for i := range hops[:min(len(hops), logNames)] {
		if i > 0 {
			to.WriteByte(',')
		}
		to.WriteString(fields.Logged(hops[i].To))
	}
	var room [10]slog.Attr
	list := append(room[:0], slog.String("id", h.ID.String()), slog.String("from", fields.Logged(h.From)),
		slog.String("to", to.String()),
		slog.Int("recipients", len(hops)))
	if rest {
		list = append(list, slog.String("outcome", "more"))
	} else {
		list = append(list, slog.String("outcome", string(h.Event)))
		for _, f := range [...]struct{ name, value string }{{"host", h.Host}, {"secure", h.Secure},
			{"reply", h.Reply}} {
			if f.value != "" {
				list = append(list, slog.String(f.name, fields.Logged(f.value)))
			}
		}
	}
	list = append(list, slog.Duration("after", h.Time.Sub(h.Accepted).Truncate(time.Second)))
	j.env.Log.LogAttrs(context.Background(), slog.LevelInfo, "mail: delivery", list...)
}

// TraceID is the ID of the trace database, TraceKind its kind. Messages that were delivered immediately are not in it:
// the mail files show them.
const (
	TraceID   note.DatabaseID = 0x0000000000007ACE
	TraceKind                 = "mailtrace"
)

// Event is an event of a message.
type Event string

// The events.
const (
	// HopDelivered means delivered to a local mail file. HopSent and HopRelayed mean accepted by another server; with
	// HopRelayed, that server sends no delivery reports.
	HopDelivered Event = "delivered"
	HopSent      Event = "sent"
	HopRelayed   Event = "relayed"
	// HopDeferred means that there will be a retry. HopBounced means given up. HopDropped means removed by an
	// administrator, or expired.
	HopDeferred Event = "deferred"
	HopBounced  Event = "bounced"
	HopDropped  Event = "dropped"
	// HopWaiting means that the message is in mail.box now.
	HopWaiting Event = "waiting"
)

// Hop is an event of a message for one recipient.
type Hop struct {
	Time      time.Time
	Event     Event
	ID        note.UNID // queue ID
	MessageID string
	From, To  string
	// Accepted is the time when this server accepted the message.
	Accepted time.Time
	Host     string // "name[address]" of the other server
	Reply    string
	// Secure is the protection of the connection to the host, as "TLS, DANE"; empty without TLS.
	Secure string
}

// Hop returns a new Hop for a recipient.
func (s *Trace) Hop(e *queue.Entry, q *queue.Recipient, event Event, host, reply string) Hop {
	return Hop{
		Time: s.env.Clock.Now(), Event: event, ID: e.ID, MessageID: e.MessageID, From: e.From.String(), To: q.Address,
		Accepted: e.Created, Host: host, Reply: reply,
	}
}

// The items of a note of the trace. A note holds the hops of a short period.
const (
	itemForm  = "Form"
	itemHops  = "Hops"
	formTrace = "Trace"
	// indexTrace finds the notes by prefix and key: 'q' and queue ID, 'm' and Message-ID, 'a' and address.
	indexTrace uint64 = 20
)

// Limits of the trace and of its lines in the log.
const (
	logNames   = 5   // recipients named in a line
	LogLines   = 20  // lines per update
	traceKey   = 200 // maximum length of an index key
	traceBatch = 256 // hops per note
	tracePause = time.Second
	traceWait  = 20_000 // maximum number of hops waiting to be written; more are lost
	traceFound = 1000   // maximum number of hops in a result
	traceTrim  = time.Hour
)

// Indexes declares the indexes of this package's databases, for store.Options.
func Indexes() []store.Index {
	return []store.Index{{Number: indexTrace, Kind: TraceKind, Keys: func(_ note.Class, c *note.Content) [][]byte {
		var keys [][]byte
		seen := make(map[string]bool)
		add := func(prefix, s string) {
			if s = foldKey(prefix + s); s != "" && !seen[s] {
				seen[s] = true
				keys = append(keys, []byte(s))
			}
		}
		for _, line := range c.Items.Get(itemHops).AsTextList() {
			h, ok := parseHop(line)
			if !ok {
				continue
			}
			add("q", hex.EncodeToString(h.ID[:]))
			add("a", h.To)
			if h.From != "" {
				add("a", h.From)
			}
			if h.MessageID != "" {
				add("m", h.MessageID)
			}
		}
		return keys
	}}}
}

// foldKey returns the normalized form of a key.
func foldKey(s string) string {
	s = strings.ToLower(strings.ReplaceAll(s, "\x00", ""))
	return s[:min(len(s), traceKey)]
}

// String returns the hop as a line of the trace: fields separated by tabs.
func (h *Hop) String() string {
	b := make([]byte, 0, 200)
	b = strconv.AppendInt(b, h.Time.UnixMilli(), 10)
	for _, f := range [...]string{string(h.Event), h.ID.String(), h.MessageID, h.From, h.To,
		strconv.FormatInt(h.Accepted.Unix(), 10), h.Host, h.Reply, h.Secure} {
		b = append(append(b, '\t'), fields.OneLine(f)...)
	}
	return string(b)
}

func parseHop(line string) (h Hop, ok bool) {
	f := strings.Split(line, "\t")
	if len(f) != 10 {
		return h, false
	}
	ms, err1 := strconv.ParseInt(f[0], 10, 64)
	id, err2 := note.ParseUNID(f[2])
	sec, err3 := strconv.ParseInt(f[6], 10, 64)
	return Hop{
		Time: time.UnixMilli(ms).UTC(), Event: Event(f[1]), ID: id, MessageID: f[3], From: f[4], To: f[5],
		Accepted: time.Unix(sec, 0).UTC(), Host: f[7], Reply: f[8], Secure: f[9],
	}, errors.Join(err1, err2, err3) == nil
}

// Trace collects hops and writes them in the background, many in one note. No mail waits for it, and a power failure
// may lose its last second.
type Trace struct {
	store *store.Store
	env   *env.Env
	dir   *directory.Directory
	queue *queue.Queue
	// keep is the time for which hops are stored; below 0, none are stored.
	keep time.Duration
	// quiet disables the log lines.
	quiet bool
	lost  *stat.Counter

	mu      sync.Mutex
	hops    []Hop
	timed   bool // a timer is set
	writing bool
	trimmed time.Time
	flushes sync.Mutex
}

// Open opens the trace, and creates its database in a new store. With keep below 0 it stores nothing. stats may be nil.
func Open(s *store.Store, e *env.Env, d *directory.Directory, q *queue.Queue, keep time.Duration, quiet bool,
	stats *stat.Tree) (*Trace, error) {
	t := &Trace{store: s, env: e, dir: d, queue: q, keep: keep, quiet: quiet}
	t.lost = stats.Counter("Mail.Trace.Lost",
		"steps of messages that were not written down: too many at once, or no space")
	if t.keep < 0 {
		return t, nil
	}
	if _, err := s.Info(TraceID); err == nil {
		return t, nil
	}
	_, err := s.CreateDatabase(note.System, store.Create{ID: TraceID, Title: "mail trace", Kind: TraceKind,
		Queue: true})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("mail: create trace: %w", err)
	}
	return t, nil
}

// Add logs hops, and queues them for writing.
func (t *Trace) Add(hops ...Hop) {
	t.log(hops)
	if t.keep < 0 || len(hops) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range hops {
		switch {
		case h.Event == "":
		case len(t.hops) >= traceWait:
			t.lost.Inc()
		default:
			t.hops = append(t.hops, h)
		}
	}
	switch {
	case len(t.hops) >= traceBatch && !t.writing:
		t.writing = true
		t.env.Go("mail trace", func() {
			t.Flush(context.Background())
			t.mu.Lock()
			t.writing = false
			t.mu.Unlock()
		})
	case !t.timed && len(t.hops) > 0:
		t.timed = true
		t.env.Clock.AfterFunc(tracePause, func() {
			t.mu.Lock()
			t.timed = false
			t.mu.Unlock()
			t.Flush(context.Background())
		})
	}
}

// Flush writes the queued hops.
func (t *Trace) Flush(ctx context.Context) {
	t.flushes.Lock()
	defer t.flushes.Unlock()
	for {
		t.mu.Lock()
		batch := t.hops[:min(len(t.hops), traceBatch)]
		t.hops = t.hops[len(batch):]
		if len(t.hops) == 0 {
			t.hops = nil
		}
		t.mu.Unlock()
		if len(batch) == 0 {
			break
		}
		if err := t.write(ctx, batch); err != nil {
			t.lost.Add(uint64(len(batch)))
			if !errors.Is(err, store.ErrClosed) {
				t.env.Log.Warn("mail: cannot write the trace", "err", err)
			}
			return
		}
	}
	t.trim(ctx)
}

func (t *Trace) write(ctx context.Context, hops []Hop) error {
	lines := make([]string, len(hops))
	for i := range hops {
		lines[i] = hops[i].String()
	}
	items := note.MakeItems(note.Item{Name: itemForm, Value: note.Text(formTrace)},
		note.Item{Name: itemHops, Value: note.TextList(lines...)})
	return t.store.Update(ctx, note.System, []note.DatabaseID{TraceID}, func(tx *store.Tx) error {
		w, err := tx.Database(TraceID)
		if err != nil {
			return err
		}
		_, err = w.Create(store.New{Content: note.Content{Items: items}, Date: hops[0].Time.Unix()})
		return err
	})
}

// trim deletes hops older than keep, at most once in traceTrim.
func (t *Trace) trim(ctx context.Context) {
	now := t.env.Clock.Now()
	if now.Sub(t.trimmed) < traceTrim || t.keep < 0 {
		return
	}
	t.trimmed = now
	old := now.Add(-t.keep).Unix()
	for {
		var ids []note.ID
		err := t.store.Read(ctx, note.System, TraceID, func(r *store.Reader) error {
			return r.Notes(0, func(id note.ID, n *layout.Note) bool {
				if n.Date >= old || len(ids) == 500 {
					return false
				}
				ids = append(ids, id)
				return true
			})
		})
		if err == nil && len(ids) > 0 {
			err = t.store.Update(ctx, note.System, []note.DatabaseID{TraceID}, func(tx *store.Tx) error {
				w, err := tx.Database(TraceID)
				for i := 0; err == nil && i < len(ids); i++ {
					err = w.Destroy(ids[i])
				}
				return err
			})
		}
		if err != nil || len(ids) < 500 {
			if err != nil && !errors.Is(err, store.ErrClosed) {
				t.env.Log.Warn("mail: cannot trim the trace", "err", err)
			}
			return
		}
	}
}

// Find returns the hops of messages by queue ID, Message-ID, sender or recipient: oldest first, at most about 1,000. It
// includes the messages in mail.box. It does not find messages that were delivered immediately (see Delivered).
func (s *Trace) Find(ctx context.Context, what string) ([]Hop, error) {
	s.Flush(ctx)
	what = strings.TrimSpace(what)
	fits := func(h *Hop) bool {
		return strings.EqualFold(h.ID.String(), what) || strings.EqualFold(h.To, what) ||
			strings.EqualFold(h.From, what) ||
			h.MessageID != "" && strings.Trim(h.MessageID, "<>") == strings.Trim(what, "<>")
	}
	var out []Hop
	keys := []string{"q" + what, "a" + what, "m" + what, "m<" + what + ">"}
	if s.keep >= 0 {
		err := s.store.Read(ctx, note.System, TraceID,
			func(r *store.Reader) error { return traced(r, keys, fits, &out) })
		if err != nil {
			return nil, fmt.Errorf("mail: trace: %w", err)
		}
	}
	err := s.queue.Each(ctx, func(e *queue.Entry) bool {
		for i := range e.Recipients {
			q := &e.Recipients[i]
			if h := s.Hop(e, q, HopWaiting, q.Remote, q.Reply); fits(&h) {
				out = append(out, h)
			}
		}
		return len(out) < traceFound
	})
	slices.SortStableFunc(out, func(a, b Hop) int { return a.Time.Compare(b.Time) })
	return out, err
}

// Hops returns the recorded hops of one message, by its queue ID, oldest first.
func (s *Trace) Hops(ctx context.Context, id note.UNID) (out []Hop, err error) {
	if s.keep < 0 {
		return nil, nil
	}
	err = s.store.Read(ctx, note.System, TraceID, func(r *store.Reader) error {
		return traced(r, []string{"q" + id.String()}, func(h *Hop) bool { return h.ID == id }, &out)
	})
	slices.SortStableFunc(out, func(a, b Hop) int { return a.Time.Compare(b.Time) })
	return out, err
}

func traced(r *store.Reader, keys []string, fits func(*Hop) bool, out *[]Hop) error {
	var ids []note.ID
	for _, k := range keys {
		found, err := r.Lookup(indexTrace, []byte(foldKey(k)))
		if err != nil {
			return err
		}
		ids = append(ids, found...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	// If there are too many, take the latest.
	for i := len(ids) - 1; i >= 0 && len(*out) < traceFound; i-- {
		c, err := r.Content(ids[i])
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, line := range c.Content.Items.Get(itemHops).AsTextList() {
			if h, ok := parseHop(line); ok && fits(&h) {
				*out = append(*out, h)
			}
		}
	}
	return nil
}

// Delivered reports whether and when the message with a queue ID was delivered to the local mail file of an address. It
// also finds messages that were delivered immediately, because it looks for their note. at is zero if the note has been
// deleted since.
func (s *Trace) Delivered(ctx context.Context, id note.UNID, address string) (at time.Time, found bool, err error) {
	t, err := s.dir.Names.Resolve(ctx, address)
	if err != nil {
		return at, false, fmt.Errorf("mail: %w", err)
	}
	if t.Database == 0 {
		return at, false, nil
	}
	err = s.store.Read(ctx, note.System, t.Database, func(r *store.Reader) error {
		n, err := r.Find(note.DeriveUNID(id[:], t.ID[:]))
		if errors.Is(err, store.ErrGrave) {
			found = true // deleted since
			return nil
		}
		if err != nil {
			return err
		}
		row, err := r.Note(n)
		if err != nil {
			return err
		}
		at, found = time.Unix(row.Date, 0).UTC(), true
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return at, found, nil
	}
	return at, found, err
}
