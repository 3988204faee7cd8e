package jmapd

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/contact"
	"doublet/groupware"
	"doublet/wire/jmap"
)

// contactCardQuery answers ContactCard/query.
//
// Implements: RFC 9610 §3.3 ContactCard/query
func contactCardQuery(c *call) error { return c.query(false, c.cardResults) }

// contactCardQueryChanges answers ContactCard/queryChanges.
//
// Implements: RFC 9610 §3.4 ContactCard/queryChanges
func contactCardQueryChanges(c *call) error {
	return c.queryChanges(false, func(state string) (queryDelta, error) {
		return c.groupwareDelta(groupware.AddressBook, letterCard, state, c.cardResults)
	})
}

// cardResults returns all results of a query for ContactCards.
func (c *call) cardResults() (out queryResults, err error) {
	fits, err := match(c, c.cardCondition)
	if err != nil {
		return out, err
	}
	keys, err := c.sortKeys("created", "updated", "name/given", "name/surname", "name/surname2")
	if err != nil {
		return out, err
	}
	f, err := c.box()
	if err != nil {
		return out, err
	}
	m, err := f.Moments(c.ctx, groupware.AddressBook)
	if err != nil {
		return out, err
	}
	out.state = m.Entries.String()
	var found []cardKeys
	var inner error
	err = f.All(c.ctx, groupware.AddressBook, true, func(e *groupware.Entry) bool {
		cost := int64(e.Size) * cardCost
		if inner = cmp.Or(c.ctx.Err(), c.hold(cost)); inner != nil {
			return false
		}
		if x, err := readCard(e); err == nil && fits(x) {
			found = append(found, keysOf(x, keys))
		}
		c.mem.drop(cost)
		return true
	})
	if err = errors.Join(err, inner); err != nil {
		return out, err
	}
	slices.SortStableFunc(found, compareBy(keys, func(property string, a, b cardKeys) int {
		i := slices.IndexFunc(keys, func(k sortKey) bool { return k.property == property })
		return cmp.Compare(a.values[i], b.values[i])
	}))
	for _, x := range found {
		out.ids = append(out.ids, x.id)
	}
	return out, nil
}

// cardKeys is a result with the values to sort it by.
type cardKeys struct {
	id     string
	values []string
}

func keysOf(x *cardOf, keys []sortKey) cardKeys {
	out := cardKeys{id: idOf(letterCard, x.entry.UNID)}
	for _, k := range keys {
		if part, ok := strings.CutPrefix(k.property, "name/"); ok {
			out.values = append(out.values, contact.Fold(strings.Join(nameParts(x.card, part), " ")))
			continue
		}
		text, _ := x.card[k.property].(string)
		out.values = append(out.values, text)
	}
	return out
}

// nameParts returns the components of a name of one kind.
func nameParts(card contact.Card, kind string) (out []string) {
	name, _ := card["name"].(contact.Card)
	list, _ := name["components"].([]any)
	for _, v := range list {
		if part, _ := v.(contact.Card); part["kind"] == kind {
			text, _ := part["value"].(string)
			out = append(out, text)
		}
	}
	return out
}

// cardTexts maps the conditions that look for text to the members in which they look: paths in a Card, in which *
// stands for all members or elements.
//
// Implements: RFC 9610 §3.3.1 Filtering
var cardTexts = map[string][]string{
	"name":         {"name/full", "name/components/*/value"},
	"nickname":     {"nicknames/*/name"},
	"organization": {"organizations/*/name", "organizations/*/units/*/name"},
	"email":        {"emails/*/address", "emails/*/label"},
	"phone":        {"phones/*/number", "phones/*/label"},
	"onlineService": {"onlineServices/*/service", "onlineServices/*/uri", "onlineServices/*/user",
		"onlineServices/*/label"},
	"address": {"addresses/*/components/*/value", "addresses/*/full"},
	"note":    {"notes/*/note"},
	"text":    contact.SearchPaths,
}

// cardNames are the kinds of component of a name that have conditions and keys to sort by.
var cardNames = []string{"given", "surname", "surname2"}

// cardCondition reads one property of a FilterCondition.
func (c *call) cardCondition(name string, v *jmap.Value) (matcher[*cardOf], error) {
	text, isText := v.Text()
	if !isText {
		return nil, invalid("the filter's %.100s is no string", name)
	}
	if part, ok := strings.CutPrefix(name, "name/"); ok && slices.Contains(cardNames, part) {
		words := cardWords(text)
		return func(x *cardOf) bool { return contact.HasWords(nameParts(x.card, part), words) }, nil
	}
	if paths := cardTexts[name]; paths != nil {
		words := cardWords(text)
		return func(x *cardOf) bool {
			return contact.HasWords(x.card.Texts(paths...), words)
		}, nil
	}
	switch name {
	case "inAddressBook":
		real, _ := c.real(text)
		u, _ := parseID(letterBook, real)
		return func(x *cardOf) bool { return x.entry.Collection == u }, nil
	case "uid":
		return func(x *cardOf) bool { return x.entry.UID == text }, nil
	case "hasMember":
		return func(x *cardOf) bool {
			members, _ := x.card["members"].(contact.Card)
			return members[text] == true
		}, nil
	case "kind":
		return func(x *cardOf) bool { return kindOfCard(x.card) == text }, nil
	}
	return cardTime(name, text)
}

// kindOfCard returns the kind of a card (RFC 9553 section 2.1.4).
func kindOfCard(card contact.Card) string {
	if kind, ok := card["kind"].(string); ok {
		return kind
	}
	return "individual"
}

// cardTime reads a condition on the time of the creation or of the last change. A card without that time does not
// match.
func cardTime(name, text string) (matcher[*cardOf], error) {
	conditions := map[string]struct {
		property string
		before   bool
	}{"createdBefore": {"created", true}, "createdAfter": {"created", false}, "updatedBefore": {"updated", true},
		"updatedAfter": {"updated", false}}
	k, ok := conditions[name]
	if !ok {
		return nil, noCondition(name)
	}
	at, ok := jmap.ParseDate(text, true)
	if !ok {
		return nil, invalid("the filter's %s is no UTCDate", name)
	}
	return func(x *cardOf) bool {
		text, _ := x.card[k.property].(string)
		t, err := time.Parse(time.RFC3339, text)
		return err == nil && t.Before(at) == k.before
	}, nil
}

// cardWords returns the words and phrases of a condition. A phrase is in quotes.
func cardWords(text string) (words []string) {
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			words = append(words, contact.Fold(part))
		} else {
			words = append(words, strings.Fields(contact.Fold(part))...)
		}
	}
	return words[:min(len(words), maxFilterWords)]
}
