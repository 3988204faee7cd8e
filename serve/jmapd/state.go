package jmapd

import (
	"context"
	"strconv"

	"doublet/mail/scripts"
	"doublet/mailbox"
)

// States returns the states of the types of an account as /get returns them, by type name. They include EmailDelivery
// (RFC 8621 section 1.5), which changes when a message arrives.
//
// Implements: RFC 8621 §1.5 push of EmailDelivery
func (s *Server) States(ctx context.Context, c *Caller, a *Account) (map[string]string, error) {
	x := &call{batch: &batch{s: s, ctx: ctx, caller: c}, account: a}
	var given sender
	if a.Personal {
		var err error
		if given, err = x.sender(); err != nil {
			return nil, err
		}
	}
	out := make(map[string]string, 8)
	err := a.File.Read(ctx, func(d *mailbox.Reading) error {
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
	return out, err
}
