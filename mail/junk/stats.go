package junk

import (
	"time"

	"doublet/mail/bayes"
	"doublet/stat"
)

// stats are the statistics.
type stats struct {
	checked, junk, spared, failed *stat.Counter
	learnedJunk, learnedGood      *stat.Counter
	takenBack                     *stat.Counter
	time                          *stat.Histogram
}

func newStats(t *stat.Tree, f *Filter) *stats {
	t.GaugeFunc("Mail.Junk.Memory", "bytes in memory of what the junk filter learned", func() float64 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return float64(f.size)
	})
	return &stats{
		checked: t.Counter("Mail.Junk.Checked", "deliveries that the junk filter classified by learned words"),
		junk:    t.Counter("Mail.Junk.Junk", "deliveries that are junk by learned words"),
		spared: t.Counter("Mail.Junk.Spared",
			"deliveries that are junk by learned words, but by an author to whom the recipient wrote"),
		failed:      t.Counter("Mail.Junk.Failures", "messages and mail files that the junk filter could not read"),
		learnedJunk: t.Counter("Mail.Junk.LearnedJunk", "messages learned as junk"),
		learnedGood: t.Counter("Mail.Junk.LearnedGood", "messages learned as not junk"),
		takenBack:   t.Counter("Mail.Junk.TakenBack", "messages that the junk filter unlearned"),
		time:        t.Histogram("Mail.Junk.Time", "time to classify a message for one recipient", stat.Seconds),
	}
}

// judged counts a verdict. likely is set if the words alone say junk.
func (s *stats) judged(v *Verdict, likely bool, took time.Duration) {
	s.checked.Inc()
	s.time.ObserveDuration(took)
	switch {
	case v.Junk:
		s.junk.Inc()
	case likely:
		s.spared.Inc()
	}
}

func (s *stats) learned(c bayes.Class) {
	switch c {
	case bayes.Junk:
		s.learnedJunk.Inc()
	case bayes.Good:
		s.learnedGood.Inc()
	default:
		s.takenBack.Inc()
	}
}
