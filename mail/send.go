package mail

import (
	"context"
	"errors"
	"time"

	"doublet/note"
	"doublet/wire/smtp"
)

// Addressee is one recipient of a person's message. Refused is the reason if the server rejects it.
type Addressee struct {
	To      smtp.Path
	Params  smtp.RcptParams
	Refused error
}

// Send accepts a message from its Submitter for the recipients in to that the server accepts. It sets sub.Recipients.
// With a release time the message waits until then. Send returns the queue ID, or zero if no recipient is accepted. An
// error is a *smtp.Reply if the message as a whole is rejected.
func (s *Service) Send(ctx context.Context, sub *Submission, to []Addressee, release time.Time) (note.UNID, error) {
	// Stored messages may have any line ends. In an SMTP transaction a bare one could end the message at a lenient
	// server, which would then execute the rest as commands (SMTP smuggling).
	if bare, _ := smtp.CheckLines(sub.Message); bare {
		sub.Message, sub.Head = smtp.AppendNormal(make([]byte, 0, len(sub.Message)+smtp.BareCount(sub.Message)),
			sub.Message), nil
	}
	var taken []int
	for i := range to {
		r, err := s.Deposits.Accept(ctx, to[i].To, to[i].Params, uint64(len(sub.Message)))
		var reply *smtp.Reply
		if errors.As(err, &reply) {
			to[i].Refused = reply
			continue
		}
		if err != nil {
			return note.UNID{}, err
		}
		sub.Recipients, taken = append(sub.Recipients, r), append(taken, i)
	}
	if len(taken) == 0 {
		return note.UNID{}, nil
	}
	if !release.IsZero() {
		return s.Scheduled.Defer(ctx, sub, release)
	}
	results := make([]error, len(taken))
	id, err := s.Deposits.Deposit(ctx, sub, results)
	for k, i := range taken {
		to[i].Refused = results[k]
	}
	return id, err
}
