package logtail

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var out strings.Builder
	log := slog.New(New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	tail := Of(log)
	all := func(*Line) bool { return true }
	log.Debug("not kept")
	log.With("door", "imap").WithGroup("g").Info("one", "name", "Ada L", "n", 2)
	list, last := tail.Since(0, 10, all)
	if len(list) != 1 || last != 1 || list[0].Text != "one" || list[0].Attrs != `door=imap g.name="Ada L" g.n=2` ||
		list[0].Word != "INFO" {
		t.Fatalf("%+v %d", list, last)
	}
	if !strings.Contains(out.String(), "one") {
		t.Error("the line was not written", out.String())
	}
	log = slog.New(New(slog.NewTextHandler(io.Discard, nil)))
	tail = Of(log)
	for i := range Lines + 5 {
		log.Info(fmt.Sprint(i + 1))
	}
	list, last = tail.Since(0, Lines*2, all)
	if len(list) != Lines || last != Lines+5 || list[0].Text != "6" || list[Lines-1].Seq != last {
		t.Error(len(list), last, list[0])
	}
	if list, _ = tail.Since(last-2, 10, all); len(list) != 2 || list[1].Seq != last {
		t.Error(list)
	}
	if list, _ = tail.Since(last, 10, all); len(list) != 0 {
		t.Error(list)
	}
	if list, _ = tail.Since(0, 10, func(l *Line) bool { return l.Text == "7" }); len(list) != 1 {
		t.Error(list)
	}
	log.Info(strings.Repeat("ä", 3000), "x", strings.Repeat("y", 9000))
	if list, _ = tail.Since(last, 1, all); len(list[0].Text) > maxLine+3 || len(list[0].Attrs) > maxLine+3 {
		t.Error(len(list[0].Text), len(list[0].Attrs))
	}
	out.Reset()
	log = slog.New(New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})))
	log.Info("kept, not written")
	if list, _ = Of(log).Since(0, 1, all); len(list) != 1 || out.Len() > 0 || Of(log).Written() != 0 {
		t.Error(list, out.String())
	}
	log.With("door", "imap").Error("written")
	if n := Of(log).Written(); n != 1 {
		t.Errorf("%d lines were written, want 1", n)
	}
	if Of(slog.New(slog.NewTextHandler(io.Discard, nil))) != nil {
		t.Error("a logger without a tail has one")
	}
}
