package admin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"doublet/env/logtail"
)

// ShowLog are the arguments of show log.
type ShowLog struct {
	Lines int    `json:"limit" help:"at most so many, the newest (100)"`
	Match string `json:"match" help:"only lines that contain it, in any case"`
	Level string `json:"level" help:"only lines of this level and above: debug, info, warn or error" default:"debug"`
	Audit bool   `json:"audit" help:"only what administrators did, and tried"`
	After int    `json:"after" help:"only lines behind the one with this number"`
}

// Log is the result of show log: the newest lines, the oldest first. Last is the number of the newest line, for the
// next call.
type Log struct {
	Lines []logtail.Line `json:"lines"`
	Last  uint64         `json:"last"`
}

// Text returns the lines in the format of the text log.
func (l Log) Text() string {
	var b strings.Builder
	for _, x := range l.Lines {
		fmt.Fprintf(&b, "%s %-5s %s %s\n", x.Time.Format(time.RFC3339), x.Word, x.Text, x.Attrs)
	}
	return b.String()
}

func logs() []*Verb {
	return []*Verb{
		onServer("show log", "the newest lines of the server's log",
			func(_ context.Context, c *ServerCall, a *ShowLog) (Log, error) {
				tail := logtail.Of(c.Env.Log)
				if tail == nil {
					return Log{}, fmt.Errorf("%w: its log is kept by the machine", ErrStopped)
				}
				var level slog.Level
				if err := level.UnmarshalText([]byte(a.Level)); err != nil {
					return Log{}, fmt.Errorf("%w: level %q is not debug, info, warn or error", ErrUsage, a.Level)
				}
				if a.Lines <= 0 {
					a.Lines = 100
				}
				want := strings.ToLower(a.Match)
				list, last := tail.Since(uint64(max(a.After, 0)), a.Lines, func(l *logtail.Line) bool {
					return l.Level >= level && (!a.Audit || strings.HasPrefix(l.Attrs, auditMark)) &&
						(want == "" || strings.Contains(strings.ToLower(l.Text+" "+l.Attrs), want))
				})
				if list == nil {
					list = []logtail.Line{}
				}
				return Log{list, last}, nil
			}, long("The server keeps its newest 2,000 lines in memory, since its start; older ones are where the "+
				"machine keeps them: journalctl, or the file that the log is written to.")),
	}
}
