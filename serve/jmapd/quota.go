package jmapd

import (
	"errors"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/store"
	"doublet/wire/jmap"
)

// quotaID is the id of the one Quota of an account, in octets of mail. An account without a limit has no Quota.
const quotaID = "qoctets"

var quotaProperties = []string{"id", "resourceType", "used", "hardLimit", "scope", "name", "types", "warnLimit",
	"softLimit", "description"}

// usage returns the storage usage of an account. some is false if it has no limit or the caller may not see it.
func usage(d *mailbox.Reading) (u mailbox.Usage, some bool, err error) {
	u, err = d.Usage()
	if errors.Is(err, store.ErrDenied) {
		return u, false, nil
	}
	return u, err == nil && u.Limit > 0, err
}

func quotaState(u mailbox.Usage, some bool) string {
	if !some {
		return "none"
	}
	return strconv.FormatUint(u.Used, 16) + "-" + strconv.FormatUint(u.Limit, 16)
}

// quotaGet answers Quota/get.
//
// Implements: RFC 9425 §4.2 Quota/get
func quotaGet(c *call) error {
	g, err := c.getArguments(false, quotaProperties)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		u, some, err := usage(d)
		if err != nil {
			return err
		}
		var all []mailbox.Usage
		if some {
			all = append(all, u)
		}
		answerGet(&g, quotaState(u, some), all, onlyID(quotaID, all), func(dst []byte, u *mailbox.Usage) []byte {
			return appendQuota(dst, u, &g)
		})
		return nil
	})
}

// appendQuota appends the Quota.
//
// Implements: RFC 9425 §4.1 Quota
func appendQuota(dst []byte, u *mailbox.Usage, g *get) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", quotaID)
	for _, p := range [...]struct{ name, json string }{
		{"resourceType", `"octets"`}, {"used", strconv.FormatUint(u.Used, 10)},
		{"hardLimit", strconv.FormatUint(u.Limit, 10)},
		{"scope", `"account"`}, {"name", `"Mail"`}, {"types", `["Email"]`}, {"warnLimit", "null"},
		{"softLimit", "null"}, {"description", "null"},
	} {
		if g.wants(p.name) {
			o.Raw(p.name, p.json)
		}
	}
	return o.End()
}

// quotaChanges answers Quota/changes.
//
// Implements: RFC 9425 §4.3 Quota/changes
func quotaChanges(c *call) error {
	return c.changes(false, func(d *mailbox.Reading, since string, _ int) (out delta, err error) {
		u, some, err := usage(d)
		if err == nil && since != "none" && !strings.Contains(since, "-") {
			err = mailbox.ErrForgotten
		}
		if err != nil {
			return out, err
		}
		out = delta{state: quotaState(u, some), properties: "null"}
		kind := wasUpdated
		switch {
		case since == out.state:
			return out, nil
		case since == "none":
			kind = wasCreated
		case !some:
			kind = wasDestroyed
		default:
			if _, limit, _ := strings.Cut(since, "-"); limit == strconv.FormatUint(u.Limit, 16) {
				out.properties = `["used"]`
			}
		}
		out.ids[kind] = []string{quotaID}
		return out, nil
	})
}

// quotaQuery answers Quota/query.
//
// Implements: RFC 9425 §4.4 Quota/query
func quotaQuery(c *call) error { return c.query(false, c.quotaResults) }

// quotaResults returns the ids that match the filter, and the state.
func (c *call) quotaResults() (out queryResults, err error) {
	fits, err := match(c, quotaCondition)
	if err != nil {
		return out, err
	}
	if _, err := c.sortKeys("name", "used"); err != nil {
		return out, err
	}
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		u, some, err := usage(d)
		out.state = quotaState(u, some)
		if some && fits(u) {
			out.ids = []string{quotaID}
		}
		return err
	})
	return out, err
}

// quotaCondition reads one property of a FilterCondition.
func quotaCondition(name string, v *jmap.Value) (matcher[mailbox.Usage], error) {
	text, _ := v.Text()
	ok := false
	switch name {
	case "name":
		ok = strings.Contains("mail", strings.ToLower(text))
	case "scope":
		ok = text == "account"
	case "resourceType":
		ok = text == "octets"
	case "type":
		ok = text == "Email"
	default:
		return nil, unsupportedFilter("Quotas are found by name, scope, resourceType and type.")
	}
	return func(mailbox.Usage) bool { return ok }, nil
}

// quotaQueryChanges answers Quota/queryChanges.
//
// Implements: RFC 9425 §4.5 Quota/queryChanges
func quotaQueryChanges(c *call) error {
	return c.queryChanges(false, func(since string) (x queryDelta, err error) {
		x.queryResults, err = c.quotaResults()
		if since != x.state {
			x.removed, x.added = []string{quotaID}, x.ids
		}
		return x, err
	})
}

// coreEcho answers Core/echo.
//
// Implements: RFC 8620 §4.1 Core/echo
func coreEcho(c *call) error {
	c.out = c.args.Append(c.out)
	return nil
}
