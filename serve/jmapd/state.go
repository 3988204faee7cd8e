package jmapd

import (
	"context"
	"errors"
	"strconv"

	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/store"
)

// States returns the states of the types of an account as /get returns them, by type name. A type of which the caller
// sees no object in another person's account has none. They include EmailDelivery
// (RFC 8621 section 1.5), which changes when a message arrives.
//
// Implements: RFC 8621 §1.5 push of EmailDelivery
func (s *Server) States(ctx context.Context, c *Caller, a *Account) (map[string]string, error) {
	out := make(map[string]string, 12)
	if err := s.groupwareStates(ctx, c, a, out); err != nil {
		return nil, err
	}
	if !a.Personal {
		folders, err := mailbox.Visible(a.File.Folders(ctx))
		if errors.Is(err, store.ErrDenied) || err == nil && len(folders) == 0 {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return out, s.mailStates(ctx, c, a, out)
}

// mailStates adds the states of the types of mail.
func (s *Server) mailStates(ctx context.Context, c *Caller, a *Account, out map[string]string) error {
	x := &call{batch: &batch{s: s, ctx: ctx, caller: c}, account: a}
	var given sender
	if a.Personal {
		var err error
		if given, err = x.sender(); err != nil {
			return err
		}
	}
	return a.File.Read(ctx, func(d *mailbox.Reading) error {
		st, err := d.States()
		if err != nil {
			return err
		}
		out["Email"], out["Thread"], out["Mailbox"] = st.Email.String(), st.Email.String(), st.Folders.String()
		out["EmailDelivery"] = strconv.FormatUint(uint64(st.Delivered), 16)
		u, some, err := usage(d)
		if err != nil {
			return err
		}
		if some {
			out["Quota"] = quotaState(u, some)
		}
		if !a.Personal {
			return nil
		}
		list, err := x.readSubmissions(d)
		if err != nil {
			return err
		}
		identities, err := x.readIdentities(d, given)
		if err != nil {
			return err
		}
		v, err := x.readVacation(d)
		if err != nil {
			return err
		}
		written, err := scripts.Read(a.File, d)
		if err != nil {
			return err
		}
		out["EmailSubmission"], out["Identity"], out["VacationResponse"] = list.state(),
			identityState(identities), v.state()
		out["SieveScript"] = written.State()
		return nil
	})
}
