package mail

import "context"

func (b *batch) release() {
	b.unrecorded()
	for _, o := range b.out {
		o.composed.Release()
	}
	for _, c := range b.changed {
		c.Release()
	}
	b.out, b.changed = nil, nil
}

// outgoing composes the messages that a message causes. raw is the stored message, with the fields of this hop.
func (s *Depositor) outgoing(ctx context.Context, sub *Submission, b *batch, raw []byte) error {
	if len(b.forwards)+len(b.lists) == 0 && !b.answered {
		return nil
	}
	rest := raw[b.entry.ReturnPath:]
	b.shareForwards(len(rest))
	for i := range b.forwards {
		if err := s.personal.forward(ctx, sub, b, &b.forwards[i], rest); err != nil {
			return err
		}
	}
	for i := range b.lists {
		if err := s.lists.post(ctx, sub, b, &b.lists[i], rest); err != nil {
			return err
		}
	}
	return s.personal.vacations(ctx, sub, b)
}
