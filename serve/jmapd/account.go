package jmapd

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// Account is a mail file that the caller has at least some access to.
type Account struct {
	ID       string
	Name     string
	Personal bool // owned by the caller
	Database note.DatabaseID
	File     *mailbox.File
}

// accountID returns the account id of a mail file.
func accountID(db note.DatabaseID) string {
	return "a" + fmt.Sprintf("%016x", uint64(db))
}

// parseAccountID parses an id that accountID made.
func parseAccountID(id string) (note.DatabaseID, bool) {
	if len(id) != 17 || id[0] != 'a' {
		return 0, false
	}
	n, err := strconv.ParseUint(id[1:], 16, 64)
	return note.DatabaseID(n), err == nil && accountID(note.DatabaseID(n)) == id
}

// Accounts returns the accounts of the session object, with the caller's own account first.
func (s *Server) Accounts(ctx context.Context, c *Caller) ([]*Account, error) {
	var list []*Account
	if c.Database != 0 {
		list = append(list, s.own(c))
	}
	shares, err := s.backend.Mail().Shares(c.Who, c.Database)
	if err != nil {
		return nil, err
	}
	for i := range shares {
		x := &shares[i]
		name := x.Title
		if !x.Owner.IsZero() {
			if name, err = s.backend.Name(ctx, x.Owner); err != nil {
				continue // skip: an owner who was removed for good has no name to show
			}
		}
		list = append(list, &Account{ID: accountID(x.ID), Name: name, Database: x.ID,
			File: s.backend.Mail().File(c.Who, x.ID)})
	}
	return list, nil
}

func (s *Server) own(c *Caller) *Account {
	name := c.Address
	if name == "" {
		name = c.Name
	}
	return &Account{ID: accountID(c.Database), Name: name, Personal: true, Database: c.Database,
		File: s.backend.Mail().File(c.Who, c.Database)}
}

// find returns the caller's account with this id, or nil if there is none.
func (b *batch) find(id string) (*Account, error) {
	for _, a := range b.accounts {
		if a.ID == id {
			return a, nil
		}
	}
	db, ok := parseAccountID(id)
	if !ok {
		return nil, nil
	}
	var a *Account
	if c := b.caller; db == c.Database {
		a = b.s.own(c)
	} else {
		shares, err := b.s.backend.Mail().Shares(c.Who, c.Database)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(shares, func(x mailbox.Share) bool { return x.ID == db }) {
			return nil, nil
		}
		a = &Account{ID: id, Database: db, File: b.s.backend.Mail().File(c.Who, db)}
	}
	b.accounts = append(b.accounts, a)
	return a, nil
}

// own is the value of the parameter personal for methods that serve only the caller's own account.
const own = true

// needAccount reads the argument accountId into c.account. If personal is set, it rejects other people's accounts.
func (c *call) needAccount(personal bool) error { return c.accountNamed("accountId", "", personal) }

// twoAccounts returns the account of the argument fromAccountId, and finds that of accountId as arguments does.
func (c *call) twoAccounts(names ...string) (from *Account, err error) {
	if err := c.accountNamed("fromAccountId", "fromAccountNotFound", false); err != nil {
		return nil, err
	}
	from = c.account
	return from, c.arguments(false, append(names, "fromAccountId")...)
}

func (c *call) accountNamed(argument, as string, personal bool) error {
	v := c.args.Get(argument)
	id, ok := v.Text()
	if !ok || !jmap.ValidID(id) {
		return invalid("%s is missing, or is no id", argument)
	}
	a, err := c.find(id)
	switch {
	case err != nil:
		return err
	case a == nil && as != "":
		return &jmap.Error{Type: as}
	case a == nil:
		return &jmap.Error{Type: "accountNotFound"}
	case personal && !a.Personal:
		return &jmap.Error{Type: "accountNotSupportedByMethod"}
	}
	c.account = a
	return nil
}

// appendSessionState appends the state of the session object: a hash that changes when the object does.
func (s *Server) appendSessionState(dst []byte, c *Caller) []byte {
	h := fnv.New64a()
	_, _ = h.Write(c.Who.Person[:])
	_, _ = h.Write([]byte(c.Name + "\x00" + c.Address))
	var word [8]byte
	number := func(n uint64) {
		binary.BigEndian.PutUint64(word[:], n)
		_, _ = h.Write(word[:])
	}
	number(uint64(c.Database))
	if shares, err := s.backend.Mail().Shares(c.Who, c.Database); err == nil {
		for i := range shares {
			number(uint64(shares[i].ID))
			_, _ = h.Write([]byte(shares[i].Title))
		}
	}
	return strconv.AppendUint(dst, h.Sum64(), 16)
}

// Watch calls fn after each durable change of the account until stop is called. fn must not block.
func (s *Server) Watch(a *Account, fn func()) (stop func(), err error) { return a.File.Watch(fn) }
