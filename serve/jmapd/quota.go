package jmapd

import (
	"errors"
	"slices"
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
	g, err := c.getArguments(false)
	if err != nil {
		return err
	}
	if err := g.only(quotaProperties...); err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		u, some, err := usage(d)
		if err != nil {
			return err
		}
		c.beginGet(quotaState(u, some))
		var notFound []string
		wanted := g.all
		for _, id := range g.ids {
			if id == quotaID && some {
				wanted = true
			} else {
				notFound = append(notFound, id)
			}
		}
		if wanted && some {
			c.out = appendQuota(c.out, u, &g)
		}
		c.endGet(notFound)
		return nil
	})
}

// appendQuota appends the Quota.
//
// Implements: RFC 9425 §4.1 Quota
func appendQuota(dst []byte, u mailbox.Usage, g *get) []byte {
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
	since, _, err := c.changesArguments(false)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		u, some, err := usage(d)
		if err != nil {
			return err
		}
		now := quotaState(u, some)
		if since != "none" && !strings.Contains(since, "-") {
			return mailbox.ErrForgotten
		}
		var ids [3][]string
		used := false
		switch {
		case since == now:
		case since == "none":
			ids[0] = []string{quotaID}
		case !some:
			ids[2] = []string{quotaID}
		default:
			ids[1] = []string{quotaID}
			_, limit, _ := strings.Cut(since, "-")
			used = limit == strconv.FormatUint(u.Limit, 16)
		}
		c.appendIDChanges(since, now, false, ids)
		c.out = append(c.out[:len(c.out)-1], `,"updatedProperties":`...)
		if used {
			c.out = append(c.out, `["used"]}`...)
		} else {
			c.out = append(c.out, "null}"...)
		}
		return nil
	})
}

// quotaResults returns the ids that match the filter, and the state.
func (c *call) quotaResults() (ids []string, state string, err error) {
	fits := true
	if f := c.args.Get("filter"); !f.IsNull() {
		if fits, err = quotaFits(f, 0); err != nil {
			return nil, "", err
		}
	}
	if _, err := c.sortKeys("name", "used"); err != nil {
		return nil, "", err
	}
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		u, some, err := usage(d)
		state = quotaState(u, some)
		if some && fits {
			ids = []string{quotaID}
		}
		return err
	})
	return ids, state, err
}

// quotaFits reports whether a filter matches the one Quota that an account may have.
func quotaFits(v *jmap.Value, depth int) (bool, error) {
	if v.Kind() != jmap.Object || depth > maxFilterDepth || v.Len() > maxFilterConditions {
		return false, unsupportedFilter("The filter is no object, or nests too deep.")
	}
	op, isOp := v.Get("operator").Text()
	if !isOp {
		for i := range v.Len() {
			text, _ := v.At(i).Text()
			ok := false
			switch v.Name(i) {
			case "name":
				ok = strings.Contains("mail", strings.ToLower(text))
			case "scope":
				ok = text == "account"
			case "resourceType":
				ok = text == "octets"
			case "type":
				ok = text == "Email"
			default:
				return false, unsupportedFilter("Quotas are found by name, scope, resourceType and type.")
			}
			if !ok {
				return false, nil
			}
		}
		return true, nil
	}
	of := v.Get("conditions")
	if of.Kind() != jmap.Array || !slices.Contains([]string{"AND", "OR", "NOT"}, op) {
		return false, invalid("a FilterOperator has an operator, AND, OR or NOT, and conditions")
	}
	for i := range min(of.Len(), maxFilterConditions) {
		ok, err := quotaFits(of.At(i), depth+1)
		if err != nil || ok != (op == "AND") {
			return ok && op == "OR", err
		}
	}
	return op != "OR", nil
}

// quotaQuery answers Quota/query.
//
// Implements: RFC 9425 §4.4 Quota/query
func quotaQuery(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "position", "anchor", "anchorOffset", "limit",
		"calculateTotal"); err != nil {
		return err
	}
	if err := c.needAccount(false); err != nil {
		return err
	}
	w, err := c.windowArguments()
	if err != nil {
		return err
	}
	list, state, err := c.quotaResults()
	if err != nil {
		return err
	}
	return c.answerQuery(&w, list, state)
}

// answerQuery answers a /query from the list of all results.
func (c *call) answerQuery(w *window, list []string, state string) error {
	total := len(list)
	list, position, err := cut(w, list, func(anchor string) int { return slices.Index(list, anchor) })
	if err != nil {
		return err
	}
	c.beginQuery(state, true, position)
	for i, id := range list {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = jmap.AppendString(c.out, id)
	}
	if !w.total {
		total = -1
	}
	c.endQuery(total)
	return nil
}

// quotaQueryChanges answers Quota/queryChanges.
//
// Implements: RFC 9425 §4.5 Quota/queryChanges
func quotaQueryChanges(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "sinceQueryState", "maxChanges", "upToId",
		"calculateTotal"); err != nil {
		return err
	}
	since, limit, err := c.queryChangesArguments()
	if err != nil {
		return err
	}
	total, err := c.bool("calculateTotal", false)
	if err != nil {
		return err
	}
	list, state, err := c.quotaResults()
	if err != nil {
		return err
	}
	var removed, added []string
	if since != state {
		removed, added = []string{quotaID}, list
	}
	if limit >= 0 && len(removed)+len(added) > limit {
		return mailbox.ErrManyChanges
	}
	c.answerQueryChanges(since, state, removed, added, list, total)
	return nil
}

// answerQueryChanges appends the response to a /queryChanges. Of added, only the ids in list are reported.
func (c *call) answerQueryChanges(since, state string, removed, added, list []string, total bool) {
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Text("oldQueryState", since)
	o.Text("newQueryState", state)
	if total {
		o.Uint("total", uint64(len(list)))
	}
	o.Strings("removed", removed...)
	o.Name("added")
	o.B = append(o.B, '[')
	n := 0
	for i, id := range list {
		if !slices.Contains(added, id) {
			continue
		}
		if n++; n > 1 {
			o.B = append(o.B, ',')
		}
		in := jmap.NewWriter(o.B)
		in.Text("id", id)
		in.Uint("index", uint64(i))
		o.B = in.End()
	}
	o.B = append(o.B, ']')
	c.out = o.End()
}

// coreEcho answers Core/echo.
//
// Implements: RFC 8620 §4.1 Core/echo
func coreEcho(c *call) error {
	c.out = c.args.Append(c.out)
	return nil
}
