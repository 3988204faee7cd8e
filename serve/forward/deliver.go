package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
)

// verbDeliver is the verb of streams that deliver a message to a mail file. verbDelivered is the verb of streams that
// ask whether a forwarded message was delivered here. verbRecall is the verb of requests to recall a message by its
// queue id.
const (
	verbDeliver   = "deliver"
	verbDelivered = "delivered"
	verbRecall    = "outbox.recall"
)

// bringWithin is the timeout for one mate before the next one is tried, because a mate may have just died.
const bringWithin = 15 * time.Second

// maxDelivered is the maximum size of a message from a mate, in bytes. The mailbox accepts less.
const maxDelivered = 1 << 30

// Deliveries delivers mail to mail files on other servers. It implements mail.Mates. Outside a cluster, every mail file
// counts as local.
type Deliveries struct {
	s *Service
}

// Deliveries returns the Deliveries of the service's server.
func (s *Service) Deliveries() Deliveries { return Deliveries{s} }

// Elsewhere implements mail.Mates.
func (d Deliveries) Elsewhere(db note.DatabaseID) bool {
	node, _ := d.s.cluster()
	return node != nil && node.Elsewhere(db)
}

// Deliver implements mail.Mates.
func (d Deliveries) Deliver(ctx context.Context, h *mail.Handed, raw []byte) error {
	node, mates := d.s.cluster()
	if node == nil {
		return ErrNoHome
	}
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	err = fmt.Errorf("%w: no server that has the mail file answers", cluster.ErrNoHome)
	for _, mate := range node.Holders(h.Database) {
		if err = bring(ctx, mates, mate, header, raw); err == nil || errors.Is(err, mailbox.ErrOverQuota) {
			return err
		}
	}
	return err
}

// Recall implements mail.Mates.
func (d Deliveries) Recall(ctx context.Context, id note.UNID) mail.Recalled {
	node, mates := d.s.cluster()
	if node == nil {
		return mail.RecalledNone
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	best := mail.RecalledNone
	for _, mate := range node.Holders(cluster.ID) {
		answer, err := mates.Request(ctx, mate, verbRecall, id[:])
		if err != nil || len(answer) != 1 {
			continue
		}
		switch got := mail.Recalled(answer[0]); got {
		case mail.RecalledBack, mail.RecalledGone:
			return got
		case mail.RecalledElsewhere:
			best = got
		}
	}
	return best
}

// Mail is the part of package mail that answers mates: a *mail.Service.
type Mail interface {
	Take(ctx context.Context, h *mail.Handed, raw []byte) error
	RecallHere(ctx context.Context, id note.UNID) (mail.Recalled, error)
	DeliveredTo(ctx context.Context, person note.UNID, message []byte) (bool, error)
}

// ServeMail answers mates from now on: m delivers messages, recalls them, and looks them up.
func ServeMail(to Handlers, m Mail) {
	h := mailHere{m}
	to.HandleStream(verbDeliver, h.delivered)
	to.HandleStream(verbDelivered, h.wasDelivered)
	to.Handle(verbRecall, h.recalled)
}

// mailHere answers mates with the mail service of this server.
type mailHere struct{ Mail }

// recalled recalls a message for a mate.
func (m mailHere) recalled(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	var id note.UNID
	if len(body) != len(id) {
		return nil, bus.Refuse(codeMalformed, "this is no id of a message")
	}
	got, err := m.RecallHere(ctx, note.UNID(body))
	if err != nil {
		return nil, err
	}
	return []byte{byte(got)}, nil
}

// sentOn is the header of a stream that asks about a message that a person forwards.
type sentOn struct {
	Person note.UNID
}

// The answers to sentOn.
const (
	answerYes      = '+'
	answerNo       = '-'
	answerUnproven = '!'
)

// Delivered implements mail.Mates.
func (d Deliveries) Delivered(ctx context.Context, db note.DatabaseID, person note.UNID, message []byte) (bool, error) {
	node, mates := d.s.cluster()
	if node == nil {
		return false, nil
	}
	header, err := json.Marshal(sentOn{person})
	if err != nil {
		return false, err
	}
	answered := false
	for _, mate := range node.Holders(db) {
		var one byte
		if one, err = carry(ctx, mates, mate, verbDelivered, header, message); err != nil {
			continue
		}
		answered = true
		switch one {
		case answerYes:
			return true, nil
		case answerUnproven:
			return false, mail.ErrUnproven
		}
	}
	if answered {
		err = nil
	}
	return false, err
}

// wasDelivered answers a mate's question whether a message that a person forwards was delivered here.
func (m mailHere) wasDelivered(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	var h sentOn
	if err := json.Unmarshal(header, &h); err != nil || h.Person.IsZero() {
		return bus.Refuse(codeMalformed, "the header of the question cannot be read")
	}
	raw, err := readMessage(stream)
	if err != nil {
		return err
	}
	found, err := m.DeliveredTo(ctx, h.Person, raw)
	answer := byte(answerNo)
	switch {
	case errors.Is(err, mail.ErrUnproven):
		answer = answerUnproven
	case err != nil:
		return bus.Refuse(codeNotHome, err.Error())
	case found:
		answer = answerYes
	}
	_, err = stream.Write([]byte{answer})
	return err
}

// readMessage reads a message from a mate.
func readMessage(stream bus.Stream) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(stream, maxDelivered+1))
	if err == nil && len(raw) > maxDelivered {
		err = bus.Refuse(codeMalformed, "the message is too long")
	}
	return raw, err
}

// bring delivers a message to one mate.
func bring(ctx context.Context, mates bus.Bus, mate note.UNID, header, raw []byte) error {
	_, err := carry(ctx, mates, mate, verbDeliver, header, raw)
	if r := refused(err); r != nil && r.Code == codeFull {
		return fmt.Errorf("%w: %w", mailbox.ErrOverQuota, err)
	}
	return err
}

// carry sends one mate a message, and returns the byte that it answers.
func carry(ctx context.Context, mates bus.Bus, mate note.UNID, verb string, header, raw []byte) (byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bringWithin)
	defer cancel()
	stream, err := mates.Stream(ctx, mate, verb, header)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	if _, err = stream.Write(raw); err == nil {
		err = stream.CloseWrite()
	}
	var one [1]byte
	if _, rerr := io.ReadFull(stream, one[:]); rerr == nil {
		return one[0], nil
	} else if err == nil || refused(rerr) != nil {
		err = rerr // the mate's reason for the rejection
	}
	return 0, err
}

func refused(err error) *bus.RemoteError {
	var r *bus.RemoteError
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// delivered accepts a message from a mate and delivers it.
func (m mailHere) delivered(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	var h mail.Handed
	if err := json.Unmarshal(header, &h); err != nil || h.ID.IsZero() || h.Person.IsZero() || h.Database == 0 {
		return bus.Refuse(codeMalformed, "the header of a delivery cannot be read")
	}
	raw, err := readMessage(stream)
	if err != nil {
		return err
	}
	err = m.Take(ctx, &h, raw)
	switch {
	case errors.Is(err, mailbox.ErrOverQuota):
		return bus.Refuse(codeFull, err.Error())
	case err != nil:
		return bus.Refuse(codeNotHome, err.Error())
	}
	_, err = stream.Write([]byte{'+'})
	return err
}
