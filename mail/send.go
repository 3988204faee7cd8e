package mail

import (
	"context"
	"errors"
	"time"

	"doublet/note"
	"doublet/wire/smtp"
)

// Addressee is one recipient of a person's own message; Refused is why the server does not take it.
type Addressee struct {
	To      smtp.Path
	Params  smtp.RcptParams
	Refused error
}

// Send takes charge of a message that its Submitter has written, for those of to whom the server takes; Recipients of sub
// are worked out here. With a release it waits until then. It gives the queue id, zero where nobody is taken. An error is a
// *smtp.Reply where the message is refused as a whole.
func (s *Service) Send(ctx context.Context, sub *Submission, to []Addressee, release time.Time) (note.UNID, error) {
	// What is stored may have any line ends. In a transaction of SMTP a bare one could end the message at a server that is lenient,
	// and make commands in our name of what follows.
	if bare, _ := smtp.CheckLines(sub.Message); bare {
		sub.Message, sub.Head = smtp.AppendNormal(make([]byte, 0, len(sub.Message)+smtp.BareCount(sub.Message)), sub.Message), nil
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
