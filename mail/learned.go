package mail

import (
	"context"
	"slices"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/junk"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// junkField is the header field of mail that is junk by learned words. It has the score and the size of the model.
const junkField = "X-Doublet-Junk"

// learned classifies mail from outside by what its recipients filed. A nil learned does nothing.
type learned struct {
	env     *env.Env
	mailbox *mailbox.Service
	filter  *junk.Filter
}

// judge classifies a message for a recipient, once, and makes it junk if the filter says so. Then the message gets a
// field with the reason, so that it is composed once more for this recipient; b releases it. A failure leaves the
// delivery as it is. Mail rules that name a folder and addresses at which mail must arrive come before the filter.
func (s *learned) judge(ctx context.Context, b *batch, c *mailbox.Composed, d *delivery, l *letter) {
	if s == nil || !l.outside || d.judged || d.kind != directory.TargetPerson || d.junk || d.gone || d.folder != "" ||
		alwaysArrives(d.address()) {
		return
	}
	d.judged = true
	if l.words == nil {
		l.words = junk.NewMessage(l.raw, c.Root)
	}
	v, err := s.filter.Judge(ctx, d.database, l.words)
	if err != nil {
		s.env.Log.Warn("mail: the junk filter failed", "database", d.database.String(), "err", err)
		return
	}
	if d.score = scoreOf(v); !v.Junk {
		return
	}
	d.junk, d.learned, d.vacation = true, true, nil
	b.learned++
	at := min(l.returnPath, len(l.raw))
	field := []byte(junkField + ": " + v.String() + "\r\n")
	marked, err := s.mailbox.Compose(ctx, slices.Concat(l.raw[:at], field, l.raw[at:]), d.database)
	if err != nil { // the field makes it too large, for example
		s.env.Log.Warn("mail: junk without the reason", "database", d.database.String(), "err", err)
		return
	}
	d.marked, b.changed = marked, append(b.changed, marked)
}

// score returns the score of a stored message, as if it came from outside now.
func (s *learned) score(ctx context.Context, db note.DatabaseID, raw []byte) (*float64, error) {
	if s == nil {
		return nil, nil
	}
	v, err := s.filter.Classify(ctx, db, junk.NewMessage(raw, mime.Parse(raw, mime.Limits{})))
	return scoreOf(v), err
}

// scoreOf returns the score of a message for the test "spamtest", or nil if too little was learned. Mail from a
// correspondent has 0: whatever its words, it is not junk.
func scoreOf(v junk.Verdict) *float64 {
	switch {
	case !v.Known:
		return nil
	case v.Correspondent:
		v.Score = 0
	}
	return &v.Score
}

// judgeAll classifies a message for the recipients here.
func (s *Depositor) judgeAll(ctx context.Context, b *batch) {
	if s.learned == nil || b.whole || len(b.now) > s.opt.MaxLocal {
		return // the router does
	}
	for i := range b.now {
		s.learned.judge(ctx, b, b.composed, &b.now[i], b.letter)
	}
}
