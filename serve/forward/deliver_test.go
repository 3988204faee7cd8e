package forward

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"doublet/cluster"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
)

// mailRoom implements Mail with a test's functions.
type mailRoom struct {
	take   func(*mail.Handed, []byte) error
	recall func(note.UNID) (mail.Recalled, error)
	had    func(note.UNID, []byte) (bool, error)
}

func (m *mailRoom) Take(_ context.Context, h *mail.Handed, raw []byte) error { return m.take(h, raw) }

func (m *mailRoom) RecallHere(_ context.Context, id note.UNID) (mail.Recalled, error) {
	return m.recall(id)
}

func (m *mailRoom) DeliveredTo(_ context.Context, person note.UNID, raw []byte) (bool, error) {
	return m.had(person, raw)
}

// TestDeliver delivers messages to the server with the mail file, and checks the results.
func TestDeliver(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	ctx := context.Background()
	h := &mail.Handed{ID: note.UNID{1}, Date: time.Unix(1_700_000_000, 0).UTC(), Person: anna.Who.Person,
		Database: anna.Database, Junk: true}
	raw := bytes.Repeat([]byte("a line of the message\r\n"), 20_000)
	if !front.Deliveries().Elsewhere(anna.Database) || home.Deliveries().Elsewhere(anna.Database) {
		t.Error("the mail file is not where it is")
	}
	if err := front.Deliveries().Deliver(ctx, h, raw); err == nil {
		t.Error("a server that does not deliver yet has taken a message")
	}
	if got := front.Deliveries().Recall(ctx, h.ID); got != mail.RecalledNone {
		t.Errorf("a mate that is starting says %d", got)
	}
	if _, err := front.Deliveries().Delivered(ctx, anna.Database, h.Person, raw); err == nil {
		t.Error("a mate that is starting answers of what it has delivered")
	}
	var answer, sick error
	var said mail.Recalled
	var got *mail.Handed
	room := &mailRoom{take: func(h *mail.Handed, b []byte) error {
		if got = h; !bytes.Equal(b, raw) {
			t.Errorf("%d bytes came", len(b))
		}
		return answer
	}, recall: func(id note.UNID) (mail.Recalled, error) {
		if id != h.ID {
			return mail.RecalledNone, nil
		}
		return said, sick
	}}
	ServeMail(home.wire, room)
	for _, want := range []struct {
		found bool
		err   error
	}{{true, nil}, {false, nil}, {false, mail.ErrUnproven}, {false, errors.New("trouble")}} {
		room.had = func(person note.UNID, b []byte) (bool, error) {
			if person != h.Person || !bytes.Equal(b, raw) {
				t.Errorf("%s, %d bytes came", person, len(b))
			}
			return want.found, want.err
		}
		found, err := front.Deliveries().Delivered(ctx, anna.Database, h.Person, raw)
		if found != want.found || (err == nil) != (want.err == nil) || errors.Is(want.err, mail.ErrUnproven) &&
			!errors.Is(err, mail.ErrUnproven) {
			t.Errorf("delivered: %v, %v, not %+v", found, err, want)
		}
	}
	for said = range mail.RecalledElsewhere + 1 {
		if got := front.Deliveries().Recall(ctx, h.ID); got != said {
			t.Errorf("the mate said %d, %d came", said, got)
		}
	}
	if got := front.Deliveries().Recall(ctx, note.UNID{7}); got != mail.RecalledNone {
		t.Errorf("of what nobody knows %d", got)
	}
	sick = errors.New("cannot")
	if got := front.Deliveries().Recall(ctx, h.ID); got != mail.RecalledNone {
		t.Errorf("of a mate in trouble %d", got)
	}
	if _, err := (mailHere{room}).recalled(ctx, note.UNID{1}, []byte("no id")); err == nil {
		t.Error("no id was taken for one")
	}
	if err := front.Deliveries().Deliver(ctx, h, raw); err != nil || got == nil || *got != *h {
		t.Errorf("%v, %+v came", err, got)
	}
	answer = mailbox.ErrOverQuota
	if err := front.Deliveries().Deliver(ctx, h, raw); !errors.Is(err, mailbox.ErrOverQuota) {
		t.Errorf("a full mail file: %v", err)
	}
	answer = errors.New("trouble")
	if err := front.Deliveries().Deliver(ctx, h, raw); err == nil || errors.Is(err, mailbox.ErrOverQuota) {
		t.Errorf("trouble: %v", err)
	}
	for _, bad := range []*mail.Handed{{}, {ID: h.ID}, {ID: h.ID, Person: h.Person}} {
		got = nil
		if err := front.Deliveries().Deliver(ctx, bad, raw); err == nil || got != nil {
			t.Errorf("%+v was taken: %v", bad, err)
		}
	}
	front.place.none.Store(true)
	if err := front.Deliveries().Deliver(ctx, h, raw); !errors.Is(err, cluster.ErrNoHome) {
		t.Errorf("nobody has it: %v", err)
	}
}
