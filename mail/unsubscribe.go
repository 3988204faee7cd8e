package mail

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doublet/directory"
	"doublet/mail/fields"
	"doublet/note"
	"doublet/wire/smtp"
)

// Reasons why a membership was not ended.
var (
	// ErrBadLink means that the link was not made by this server, or was modified.
	ErrBadLink = errors.New("mail: link was not issued by this server")
	// ErrNotMember means that the address is not, or no longer, on the list.
	ErrNotMember = errors.New("mail: the address is not on the list")
)

// confirmDays is the number of days for which a confirmation code is valid.
const confirmDays = 7

// UnsubscribeLink returns the link that ends the membership of a remote address.
func (s *Lists) UnsubscribeLink(list note.UNID, address string) string {
	v := url.Values{
		"l": {list.String()}, "a": {base64.RawURLEncoding.EncodeToString([]byte(address))},
		"s": {hex.EncodeToString(s.dir.Secret.Sign("unsubscribe", list.String()+" "+address))},
	}
	return strings.TrimSuffix(s.url, "/") + "/list/unsubscribe?" + v.Encode()
}

// Membership checks the values of such a link, and returns the list and the address. Errors: ErrBadLink, ErrNotMember.
func (s *Lists) Membership(ctx context.Context, v url.Values) (directory.Group, string, error) {
	id, err := note.ParseUNID(v.Get("l"))
	address, err2 := base64.RawURLEncoding.DecodeString(v.Get("a"))
	code, err3 := hex.DecodeString(v.Get("s"))
	if errors.Join(err, err2, err3) != nil || len(address) > 320 ||
		subtle.ConstantTimeCompare(code, s.dir.Secret.Sign("unsubscribe", id.String()+" "+string(address))) != 1 {
		return directory.Group{}, "", ErrBadLink
	}
	g, err := s.dir.Groups.Get(ctx, id)
	if errors.Is(err, directory.ErrNotFound) || err == nil && !g.Removed.IsZero() {
		return g, "", ErrNotMember
	}
	if err == nil &&
		!slices.ContainsFunc(g.Members, func(m string) bool { return strings.EqualFold(m, string(address)) }) {
		err = ErrNotMember
	}
	return g, string(address), err
}

// Unsubscribe ends the membership that a link names. The second call returns ErrNotMember.
func (s *Lists) Unsubscribe(ctx context.Context, v url.Values) (directory.Group, string, error) {
	g, address, err := s.Membership(ctx, v)
	if err != nil {
		return g, address, err
	}
	return g, address, s.leave(ctx, g.ID, address)
}

// leave removes a member from a list: an address, or the UNID of a local person.
func (s *Lists) leave(ctx context.Context, list note.UNID, member string) error {
	_, err := s.dir.Groups.Set(ctx, note.System, list, func(f *directory.GroupFields) error {
		n := len(f.Members)
		f.Members = slices.DeleteFunc(f.Members, func(m string) bool { return strings.EqualFold(m, member) })
		if len(f.Members) == n {
			return ErrNotMember
		}
		return nil
	})
	if err == nil {
		s.env.Log.Info("mail: left a list", "list", list.String(), "member", member)
	}
	return err
}

// memberName returns the form in which a list stores an address: the address itself, or the UNID of the local person.
// It returns "" for an address that is not a member.
func (s *Lists) memberName(ctx context.Context, g *directory.Group, address string) string {
	for _, m := range g.Members {
		if strings.EqualFold(m, address) {
			return m
		}
	}
	if t, err := s.dir.Names.Resolve(ctx, address); err == nil && slices.Contains(g.Members, t.ID.String()) {
		return t.ID.String()
	}
	return ""
}

func (s *Lists) confirmCode(g *directory.Group, address string, day int64) string {
	code := s.dir.Secret.Sign("confirm", g.ID.String()+" "+strings.ToLower(address)+" "+strconv.FormatInt(day, 10))
	return strings.ToLower(srsCoding.EncodeToString(code[:10]))
}

// askUnsubscribe replies to a message to list-unsubscribe@ with a message that the member must confirm, so that no one
// can unsubscribe someone else.
func (s *Lists) askUnsubscribe(ctx context.Context, b *batch, g *directory.Group, h *fields.Facts) error {
	b.taken = true
	address := h.AuthorPath().String()
	if s.memberName(ctx, g, address) == "" {
		return nil // others must not learn who is on the list
	}
	rows, err := s.follow.address(ctx, address, smtp.NotifyNever)
	if err != nil || len(rows) == 0 {
		return err
	}
	from := part(g, "confirm")
	from.Local += "+" + s.confirmCode(g, address, s.env.Clock.Now().Unix()/86400)
	n := notice{
		from: from.String(), fromName: g.Name, to: address, auto: "auto-replied",
		subject: "Leave the list " + g.Name + "?",
		id:      note.DeriveUNID(b.entry.ID[:], []byte("leave "+g.ID.String())),
		text: fmt.Sprintf("Somebody, probably you, asked for %s to leave the mailing list %s.\n"+
			"If it was you, answer this message as it is within %d days.\nElse there is nothing to do.\n", address,
			g.InternetAddress, confirmDays),
	}
	_, err = s.follow.send(ctx, b, "leave "+g.ID.String(), s.follow.compose(&n), len(nullReturnPath), nullPath, rows)
	return err
}

func (s *Lists) confirmUnsubscribe(ctx context.Context, b *batch, i int, r *Recipient, g *directory.Group,
	h *fields.Facts) error {
	address := h.AuthorPath().String()
	today := s.env.Clock.Now().Unix() / 86400
	for d := range int64(confirmDays + 1) {
		if !strings.EqualFold(r.Target.Detail, s.confirmCode(g, address, today-d)) {
			continue
		}
		if m := s.memberName(ctx, g, address); m != "" {
			if err := s.leave(ctx, g.ID, m); err != nil && !errors.Is(err, ErrNotMember) {
				return err
			}
		}
		b.taken = true
		return nil
	}
	b.refuse(i, r, nil, replyNoUser, false)
	return nil
}
