package jmapd

import (
	"errors"

	"doublet/client/oneclick"
	"doublet/client/reach"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/wire/jmap"
)

// maxListHeader bounds the header of a message in which the offer of a list is looked for, in octets.
const maxListHeader = 1 << 20

// emailUnsubscribe answers Email/unsubscribe, which leaves the mailing list of a message by a request to the list's
// server. The message must prove that the offer is its sender's.
func emailUnsubscribe(c *call) error {
	if err := c.arguments(own, "emailId"); err != nil {
		return err
	}
	id, err := c.needText("emailId")
	if err != nil {
		return err
	}
	if c.s.opt.Lists == nil {
		return &jmap.Error{Type: "unknownMethod"}
	}
	header, err := c.emailHeader(id, &jmap.Error{Type: "noOneClick", Description: "The header is too large."})
	if err != nil {
		return err
	}
	url, err := verify.OneClick(header, c.ours)
	if err == nil {
		err = c.s.opt.Lists.Leave(c.ctx, url)
	}
	var refused *oneclick.Refused
	switch {
	case errors.Is(err, verify.ErrNoOneClick):
		return &jmap.Error{Type: "noOneClick", Description: "The message does not offer it."}
	case errors.Is(err, verify.ErrUnsigned), errors.Is(err, reach.ErrAddress):
		return &jmap.Error{Type: "noOneClick", Description: "The sender's offer is not proven: " + err.Error() + "."}
	case errors.Is(err, oneclick.ErrBusy):
		return &jmap.Error{Type: "serverUnavailable", Description: err.Error()}
	case errors.As(err, &refused):
		return &jmap.Error{Type: "listRefused", Description: refused.Error()}
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case err != nil:
		c.s.env.Log.Warn("jmap: list not left", "person", c.caller.Name, "err", err)
		return &jmap.Error{Type: "listRefused", Description: "The list's server is not reached."}
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Text("emailId", id)
	c.out = o.End()
	return nil
}

// emailHeader returns the header of a message. A header over maxListHeader is the error large.
func (c *call) emailHeader(id string, large error) (header []byte, err error) {
	real, _ := c.real(id)
	u, ok := parseID(letterEmail, real)
	if !ok {
		return nil, &jmap.Error{Type: "notFound"}
	}
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		m, err := d.EmailOf(u)
		if errors.Is(err, mailbox.ErrNoMessage) {
			return &jmap.Error{Type: "notFound"}
		}
		if err != nil {
			return err
		}
		index, err := m.Index()
		if err != nil {
			return err
		}
		span, _ := index.Section(nil)
		if span.BodyStart > maxListHeader {
			return large
		}
		body, err := m.Body()
		if err == nil {
			header, err = body.AppendRange(nil, int64(span.HeaderStart), int64(span.BodyStart))
		}
		return err
	})
	return header, err
}
