package assist

import (
	"context"
	"strings"
	"unicode/utf8"
)

// leastText is the number of characters from which on names are looked up.
const leastText = 2

// Search returns at most 20 people whose name or address begins with a text. It keeps answers for a while.
func (c *Client) Search(ctx context.Context, text string) ([]Person, error) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) < leastText || len(text) > maxName || !c.set.Trusts(text) {
		return nil, nil
	}
	if list, ok := c.lists.get(text, c.env.Clock.Now()); ok {
		return list, nil
	}
	c.stat.Searches.Inc()
	var out []Person
	err := c.with(ctx, min(lookTime, 2*c.set.Timeout), func(ctx context.Context, k *conn) error {
		list, _, err := c.find(ctx, k, fill(c.set.Lookup, text), maxFound)
		out = out[:0]
		for i := range list {
			if p := c.personOf(&list[i]); p.Mail != "" && c.set.Trusts(p.Mail) {
				out = append(out, p)
			}
		}
		return err
	})
	if now := c.env.Clock.Now(); err == nil {
		c.lists.put(text, out, now, now.Add(c.set.Cache))
	}
	return out, err
}
