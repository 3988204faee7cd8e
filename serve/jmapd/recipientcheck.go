package jmapd

import (
	"errors"

	"doublet/directory"
	"doublet/wire/jmap"
)

// maxAddress is the maximum length of an address in bytes (RFC 5321 section 4.5.3.1.3).
const maxAddress = 256

// recipientCheck answers Recipient/check, which tells which addresses a message could not be delivered to: of the
// domains of this server those that name nobody, and those that are malformed. A submission door tells the same at RCPT
// TO. About addresses elsewhere this server knows nothing.
func recipientCheck(c *call) error {
	if err := c.arguments(true, "addresses"); err != nil {
		return err
	}
	list, some, err := c.list("addresses")
	if err == nil && !some {
		err = invalid("addresses is missing")
	}
	if err == nil {
		err = c.atMost(len(list), "addresses", "maxObjectsInGet")
	}
	if err != nil {
		return err
	}
	var unknown, malformed []string
	names := c.s.backend.Directory().Names
	for _, address := range list {
		err := errTooLong
		if len(address) <= maxAddress {
			_, err = names.Resolve(c.ctx, address)
		}
		switch {
		case err == nil, errors.Is(err, directory.ErrNotLocal):
		case errors.Is(err, directory.ErrNoSuchRecipient):
			unknown = append(unknown, address)
		case errors.Is(err, directory.ErrInvalid), errors.Is(err, errTooLong):
			malformed = append(malformed, address)
		default:
			return err
		}
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Strings("unknown", unknown...)
	o.Strings("malformed", malformed...)
	c.out = o.End()
	return nil
}

var errTooLong = errors.New("jmapd: address is too long")
