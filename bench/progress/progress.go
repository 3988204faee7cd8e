// Package progress shows the state of a benchmark, on a terminal or in a log.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"

	"doublet/bench/run"
)

// Console receives lines of progress. On a terminal new lines replace older ones; elsewhere only few are written.
type Console struct {
	Out      io.Writer
	Terminal bool
}

// Note writes a line of progress. On a terminal each line replaces the one before; elsewhere only the last is written.
func (c Console) Note(last bool, format string, args ...any) {
	switch text := fmt.Sprintf(format, args...); {
	case c.Terminal && last:
		fmt.Fprintf(c.Out, "\r\x1b[K%s\n", text)
	case c.Terminal:
		fmt.Fprintf(c.Out, "\r\x1b[K%s", text)
	case last:
		fmt.Fprintln(c.Out, text)
	}
}

// told is the interval between lines of progress if the output is not a terminal.
const told = time.Minute

// Run returns a function that shows the progress of a run. On a terminal it rewrites one block for each step; elsewhere
// it writes a line for each phase and each minute.
func (c Console) Run() func(run.Progress) {
	var last time.Time
	before := run.Progress{Step: -1}
	return func(p run.Progress) {
		text := block(p)
		switch now := time.Now(); {
		case c.Terminal:
			if p.Step == before.Step {
				fmt.Fprintf(c.Out, "\x1b[%dA", len(text))
			}
			for _, l := range text {
				fmt.Fprintf(c.Out, "\r\x1b[K%s\n", l)
			}
		case p.Phase != before.Phase || p.Step != before.Step || now.Sub(last) >= told:
			last = now
			fmt.Fprintln(c.Out, strings.Join(text, "; "))
		}
		before = p
	}
}

// block describes the state of a run in lines of at most 80 columns. The number of lines is constant.
func block(p run.Progress) []string {
	left := ""
	if p.Left > 0 {
		left = fmt.Sprintf(", at most %v left", p.Left.Round(time.Second))
	}
	return []string{
		fmt.Sprintf("step %d of %d: %s%s", p.Step+1, p.Steps, p.Phase, left),
		fmt.Sprintf("%d of %d users, %.1f actions/s", p.Active, p.Users, p.Rate),
		fmt.Sprintf("p50 %v, p99 %v, %d errors, %d missed", p.P50.Round(10*time.Microsecond),
			p.P99.Round(10*time.Microsecond), p.Errors, p.Missed),
	}
}
