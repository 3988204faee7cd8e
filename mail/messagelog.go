package mail

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"doublet/env"
	"doublet/mail/fields"
	"doublet/wire/smtp"
)

// messageLog logs when a message is accepted or rejected, and later the outcome, in lines with the same queue ID. A
// message that is delivered immediately has one line.
type messageLog struct {
	env *env.Env
	off bool
}

// Limits of the lines.
const (
	logTo = 5 // recipients named in a line
)

// arrived logs the result of Deposit.
func (j *messageLog) arrived(ctx context.Context, sub *Submission, b *batch, results []error, start time.Time,
	err error) {
	if j.off || !j.env.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	var room [15]slog.Attr
	list := append(room[:0], slog.String("id", sub.ID.String()), slog.String("from", fields.Logged(sub.From.String())),
		slog.String("to", j.recipients(sub.Recipients)), slog.Int("recipients", len(sub.Recipients)),
		slog.Int("size", len(sub.Message)))
	if r := sub.Received; r != nil {
		list = append(list, slog.String("protocol", r.Protocol))
		if r.IP.IsValid() {
			list = append(list, slog.String("client", r.IP.Unmap().String()))
		}
	}
	list = append(list, slog.String("verdict", sub.verdict()), slog.String("outcome", outcomeOf(sub, b, results, err)))
	if b != nil && err == nil {
		list = append(list, slog.Int("delivered", b.delivered), slog.Int("queued", len(b.rows)))
		if b.learned > 0 {
			list = append(list, slog.Int("junk", b.learned))
		}
	}
	refused := 0
	for _, r := range results {
		if r != nil {
			refused++
			err = cmpError(err, r)
		}
	}
	if refused > 0 {
		list = append(list, slog.Int("refused", refused))
	}
	if err != nil {
		list = append(list, slog.String("reply", fields.Logged(err.Error())))
	}
	list = append(list, slog.Duration("took", j.env.Clock.Now().Sub(start)))
	j.env.Log.LogAttrs(ctx, slog.LevelInfo, "mail: message", list...)
}

func cmpError(first, then error) error {
	if first != nil {
		return first
	}
	return then
}

// recipients returns the first recipients.
func (j *messageLog) recipients(list []Recipient) string {
	if len(list) == 1 {
		return fields.Logged(list[0].To.String())
	}
	var b strings.Builder
	for i := range list[:min(len(list), logTo)] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(fields.Logged(list[i].To.String()))
	}
	return b.String()
}

// verdict returns the results of the checks of a message's sender.
func (sub *Submission) verdict() string {
	switch {
	case sub.Submitter != nil:
		return "authenticated " + fields.Logged(sub.Submitter.Address)
	case sub.Results != "" && sub.Hold != "":
		return sub.Results + " hold"
	case sub.Results != "" && sub.Junk:
		return sub.Results + " junk"
	case sub.Results != "":
		return sub.Results
	case sub.Hold != "":
		return "hold"
	case sub.Junk:
		return "junk"
	}
	return "unchecked"
}

// outcomeOf returns the outcome of a message.
func outcomeOf(sub *Submission, b *batch, results []error, err error) string {
	var reply *smtp.Reply
	switch {
	case errors.As(err, &reply) && reply.Code >= 500:
		return "refused"
	case err != nil:
		return "deferred" // the client keeps the message
	case sub.Hold != "":
		return "held"
	case b == nil:
		return "scheduled"
	case b.delivered > 0 && len(b.rows) > 0:
		return "delivered,queued"
	case b.delivered > 0:
		return "delivered"
	case len(b.rows)+len(b.out) > 0 || b.taken:
		return "queued"
	case len(results) > 0:
		return "refused"
	}
	return "queued"
}
