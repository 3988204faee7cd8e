// Package logtail keeps the newest lines of the log in memory, so that an administrator can read them in the product.
// The log itself goes to a terminal, a file or the journal, which only the machine's operator can read.
package logtail

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Lines bounds the number of lines that are kept, and maxLine the bytes of one line.
const (
	Lines   = 2000
	maxLine = 2000
)

// Line is one line of the log. Seq numbers the lines, starting at 1.
type Line struct {
	Seq   uint64     `json:"seq"`
	Time  time.Time  `json:"time"`
	Level slog.Level `json:"-"`
	// Word is the level's name.
	Word string `json:"level"`
	Text string `json:"text"`
	// Attrs holds name=value pairs in the format of slog's text handler.
	Attrs string `json:"attrs,omitempty"`
}

// Tail holds the newest lines. Its methods may be called from any goroutine.
type Tail struct {
	mu   sync.Mutex
	ring [Lines]Line
	last uint64

	written atomic.Uint64
}

// Written returns the number of lines that were passed to the log itself. The tail holds others besides (Enabled).
func (t *Tail) Written() uint64 { return t.written.Load() }

// Since returns the lines after seq that keep accepts: the newest limit of them, oldest first. It also returns the
// number of the newest line of all.
func (t *Tail) Since(seq uint64, limit int, keep func(*Line) bool) (list []Line, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := t.last; at > seq && t.last-at < Lines && len(list) < limit; at-- {
		if l := &t.ring[at%Lines]; keep(l) {
			list = append(list, *l)
		}
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list, t.last
}

func (t *Tail) add(l Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	l.Seq = t.last
	t.ring[t.last%Lines] = l
}

// Handler passes records to another handler and keeps their text.
type Handler struct {
	slog.Handler
	tail  *Tail
	attrs string // those of WithAttrs, as text
	group string // that of WithGroup, with a dot at the end
}

// New returns a handler with an empty tail that passes records to next.
func New(next slog.Handler) *Handler { return &Handler{Handler: next, tail: &Tail{}} }

// Of returns the tail of a logger, or nil if it has none.
func Of(l *slog.Logger) *Tail {
	if h, ok := l.Handler().(*Handler); ok {
		return h.tail
	}
	return nil
}

// Enabled implements slog.Handler. Lines of level Info and above are always kept, whatever the log's level, because
// they include the actions of administrators.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		write(&b, h.group, a)
		return b.Len() < maxLine
	})
	h.tail.add(Line{Time: r.Time.UTC(), Level: r.Level, Word: r.Level.String(), Text: cut(r.Message),
		Attrs: cut(b.String())})
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	h.tail.written.Add(1)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		write(&b, h.group, a)
	}
	return &Handler{h.Handler.WithAttrs(attrs), h.tail, b.String(), h.group}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.Handler.WithGroup(name), h.tail, h.attrs, h.group + name + "."}
}

func write(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, x := range v.Group() {
			write(b, group, x)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	text := v.String()
	if text == "" || strings.ContainsAny(text, " \t\r\n\"=") {
		text = quoted(text)
	}
	b.WriteString(group + a.Key + "=" + text)
}

// quoted returns a text in quotes on one line.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

func cut(s string) string {
	if len(s) <= maxLine {
		return s
	}
	return strings.ToValidUTF8(s[:maxLine], "") + "…"
}
