package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// With Resent fields a person can send a message on under the address of its author (RFC 5322 section 3.6.6). To
// prevent forgery, the message must be one that this server has delivered to the person, unchanged. The server finds
// its own note of the delivery, whose UNID is derived from a queue ID in the message's trace fields, and compares the
// bytes. Notes that a person has stored (APPEND, import, replication) differ in UNID or author. Only messages with
// foreign authors are looked up.

// Limits of the search for a delivered message.
const (
	maxQueueIDs  = 4    // Received fields whose queue IDs are tried
	maxInThread  = 1000 // messages of the thread compared in one mail file, the latest first
	maxCompared  = 2000 // messages compared in all mail files together
	maxLookedAt  = 200  // mail files searched
	maxMailInLot = 1000 // mail-in databases listed at a time
)

var (
	replyNotDelivered = smtp.NewReply(550, 5, 7, 1,
		"The From address is not one of yours, and this is not an unchanged message that this server has delivered "+
			"to you")
	// ErrUnproven is the *smtp.Reply that rejects resending a message which failed the DMARC check of a local domain
	// when it came in.
	ErrUnproven = smtp.NewReply(550, 5, 7, 1,
		"The From address is not one of yours, and its domain did not confirm the message when it came")
)

// resending is the search for the original of a resent message.
type resending struct {
	s   *Depositor
	who note.Who
	// kept holds the fields of the original that must be equal. body is the message without its header.
	kept   [][]byte
	body   []byte
	ids    []note.UNID
	thread note.UNID
	// left is the number of messages that may still be compared, so that a person with many shared mail files does not
	// keep the server busy.
	left int
	// local is set if an author is in a local domain.
	local bool
}

// delivered is a stored message that may be the original.
type delivered struct {
	unid note.UNID
	size int64
	body *store.Stored
}

// checkResent rejects a message with a foreign author unless it was delivered to the person who resends it.
func checkResent(ctx context.Context, s *Depositor, person note.UNID, message []byte) error {
	found, err := s.DeliveredTo(ctx, person, message)
	if err != nil || found {
		return err
	}
	if s.opt.Mates != nil {
		own, err := mailFileOf(ctx, s.dir, person)
		if err != nil {
			return err
		}
		if s.opt.Mates.Elsewhere(own) || !s.store.Leads(own) {
			if found, err = s.opt.Mates.Delivered(ctx, own, person, message); err != nil || found {
				return err
			}
		}
	}
	return replyNotDelivered
}

// DeliveredTo reports whether the message after the newest Resent fields was delivered by this server, unchanged, to a
// local mail file that the person can read. The error is ErrUnproven if it was, but may not be resent.
func (s *Depositor) DeliveredTo(ctx context.Context, person note.UNID, message []byte) (bool, error) {
	x, err := readResending(ctx, s, person, message)
	if err != nil {
		return false, err
	}
	own, err := mailFileOf(ctx, s.dir, person)
	if err != nil {
		return false, err
	}
	if found, err := x.in(ctx, own, person); found || err != nil {
		return found, err
	}
	shares, err := s.mailbox.Shares(x.who, own)
	if err != nil {
		return false, err
	}
	for _, f := range shares[:min(len(shares), maxLookedAt)] {
		if x.left <= 0 {
			break
		}
		if found, err := x.in(ctx, f.ID, f.Owner); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func mailFileOf(ctx context.Context, d *directory.Directory, person note.UNID) (note.DatabaseID, error) {
	p, err := d.Names.Person(ctx, person)
	if errors.Is(err, directory.ErrNotFound) {
		return 0, nil
	}
	return p.MailDatabase, err
}

// readResending reads the message after its newest Resent fields.
func readResending(ctx context.Context, s *Depositor, person note.UNID, message []byte) (*resending, error) {
	who, err := s.dir.Names.WhoOf(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	header := message[:mime.HeaderEnd(message)]
	x := &resending{s: s, who: who, body: message[len(header):], left: maxCompared}
	newest, top := map[string]bool{}, true
	for f := range mime.Fields(header) {
		if name := strings.ToLower(string(f.Name)); top && strings.HasPrefix(name, "resent-") && !newest[name] {
			newest[name] = true
			continue
		}
		top = top && ofTheWay(f)
		if !ofTheWay(f) {
			x.kept = append(x.kept, header[f.Start:f.End])
		}
		if err := x.note(ctx, f); err != nil {
			return nil, err
		}
	}
	if key := mime.ThreadKey(mime.ParseHeader(header, true).Envelope); key != "" {
		x.thread = note.DeriveUNID([]byte(key))
	}
	return x, nil
}

// note extracts the data for the search from a field.
func (x *resending) note(ctx context.Context, f mime.HeaderField) (err error) {
	if id, ok := queueID(f); ok && len(x.ids) < maxQueueIDs {
		x.ids = append(x.ids, id)
	}
	if !f.Is("From") && !f.Is("Sender") {
		return nil
	}
	for _, a := range mime.ParseAuthors(f.Value) {
		if !x.local && a.Host != "" {
			if x.local, err = x.s.dir.Domains.IsLocal(ctx, a.Host); err != nil {
				return err
			}
		}
	}
	return nil
}

// in searches one mail file. The mail in it was delivered to its owner, or to mail-in documents if it has no owner.
func (x *resending) in(ctx context.Context, db note.DatabaseID, owner note.UNID) (found bool, err error) {
	if db == 0 {
		return false, nil
	}
	owners := []note.UNID{owner}
	if owner.IsZero() {
		if owners, err = x.mailIns(ctx, db); err != nil {
			return false, err
		}
	}
	var list []delivered
	err = x.s.store.Read(ctx, x.who, db, func(r *store.Reader) error {
		list, err = x.candidates(r, owners)
		return err
	})
	switch {
	case databaseTrouble(err), errors.Is(err, store.ErrDenied):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("mail: look for a delivered message: %w", err)
	}
	for i := range list {
		if found, err = x.same(ctx, &list[i], owners); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// candidates returns the messages of a mail file that the server has delivered and that may be the original.
func (x *resending) candidates(r *store.Reader, owners []note.UNID) (list []delivered, err error) {
	ids, err := x.found(r, owners)
	if err != nil {
		return nil, err
	}
	ids = ids[:min(len(ids), maxInThread, x.left)]
	x.left -= len(ids)
	for _, id := range ids {
		row, c, err := r.Document(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !byServer(row, c) {
			continue
		}
		body, err := r.Message(row)
		if err != nil {
			return nil, err
		}
		list = append(list, delivered{row.UNID, body.Size(), body})
	}
	return list, nil
}

// found returns the notes of the message's thread, the latest first. A message without Message-ID and subject has its
// own thread, derived from its bytes; found then looks for the queue IDs of the message.
func (x *resending) found(r *store.Reader, owners []note.UNID) (ids []note.ID, err error) {
	if !x.thread.IsZero() {
		ids, err = r.Thread(x.thread)
		slices.Reverse(ids)
		return ids, err
	}
	for _, queue := range x.ids {
		for _, o := range owners {
			switch id, err := r.Find(note.DeriveUNID(queue[:], o[:])); {
			case err == nil:
				ids = append(ids, id)
			case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrGrave):
				return nil, err
			}
		}
	}
	return ids, nil
}

// byServer reports whether the server created the note of a message, and no one has revised it.
func byServer(row *layout.Note, c *layout.Content) bool {
	return row.Author.IsZero() && row.Recipe != 0 && len(c.Tree) == 1 && c.Tree[0].Parent.IsZero()
}

// mailIns returns the mail-in documents of a database.
func (x *resending) mailIns(ctx context.Context, db note.DatabaseID) (ids []note.UNID, err error) {
	for after := ""; ; {
		list, next, err := x.s.dir.MailIns.List(ctx, "", maxMailInLot, after)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if list[i].Database == db {
				ids = append(ids, list[i].ID)
			}
		}
		if after = next; after == "" {
			return ids, nil
		}
	}
}

// same compares a stored message with the resent one, and its UNID with that of a delivery.
func (x *resending) same(ctx context.Context, d *delivered, owners []note.UNID) (bool, error) {
	header, err := d.header()
	if err != nil || !x.sameHeader(header) {
		return false, err
	}
	ids, err := x.deliveries(ctx, header)
	if err != nil {
		return false, err
	}
	ours := slices.ContainsFunc(ids, func(id note.UNID) bool {
		return slices.ContainsFunc(owners, func(o note.UNID) bool { return d.unid == note.DeriveUNID(id[:], o[:]) })
	})
	if !ours {
		return false, nil
	}
	if same, err := x.sameBody(d, int64(len(header))); !same || err != nil {
		return false, err
	}
	if x.local && failedHere(header) {
		return false, ErrUnproven
	}
	return true, nil
}

// header reads the header of a stored message, up to a maximum length.
func (d *delivered) header() (header []byte, err error) {
	for n := int64(16 << 10); ; n *= 4 {
		n = min(n, d.size)
		if header, err = d.body.AppendRange(header[:0], 0, n); err != nil {
			return nil, err
		}
		if end := mime.HeaderEnd(header); end < len(header) || n == d.size ||
			n > int64(2*mime.DefaultLimits.HeaderBytes) {
			return header[:end], nil
		}
	}
}

func (x *resending) sameHeader(header []byte) bool {
	i := 0
	for f := range mime.Fields(header) {
		if ofTheWay(f) {
			continue
		}
		if i == len(x.kept) || !bytes.Equal(x.kept[i], header[f.Start:f.End]) {
			return false
		}
		i++
	}
	return i == len(x.kept)
}

// sameBody compares the bodies in pieces, to limit memory.
func (x *resending) sameBody(d *delivered, at int64) (bool, error) {
	if d.size-at != int64(len(x.body)) {
		return false, nil
	}
	const piece = 64 << 10
	var buf []byte
	for rest := x.body; len(rest) > 0; {
		n := min(piece, len(rest))
		var err error
		if buf, err = d.body.AppendRange(buf[:0], at, int64(n)); err != nil {
			return false, err
		}
		if !bytes.Equal(buf, rest[:n]) {
			return false, nil
		}
		rest, at = rest[n:], at+int64(n)
	}
	return true, nil
}

// deliveries returns the queue IDs under which a stored message may have been delivered: those in its trace fields, and
// those of a mailing list's copies.
func (x *resending) deliveries(ctx context.Context, header []byte) (ids []note.UNID, err error) {
	list := ""
	for f := range mime.Fields(header) {
		if id, ok := queueID(f); ok && len(ids) < maxQueueIDs {
			ids = append(ids, id)
		}
		if f.Is("List-Owner") {
			list, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(f.Text()), "<mailto:"), ">")
		}
	}
	if list == "" {
		return ids, nil
	}
	t, err := x.s.dir.Names.Resolve(ctx, list)
	switch {
	case errors.Is(err, directory.ErrNotLocal), errors.Is(err, directory.ErrNoSuchRecipient),
		errors.Is(err, directory.ErrInvalid):
		return ids, nil
	case err != nil:
		return nil, err
	}
	group := t.ID.String()
	for _, id := range ids[:len(ids):len(ids)] {
		held := note.DeriveUNID(id[:], []byte("held "+group))
		ids = append(ids, note.DeriveUNID(id[:], []byte("list "+group)),
			note.DeriveUNID(held[:], []byte("list "+group)))
	}
	return ids, nil
}
