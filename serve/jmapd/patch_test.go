package jmapd

import (
	"strings"
	"testing"

	"doublet/wire/jmap"
)

// TestRendered reads an object beside the response: what is reserved for the response stays reserved, and no more.
func TestRendered(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	c := &call{batch: &batch{s: w.server, ctx: bg, caller: w.who["alice"], mem: memory{s: w.server}}}
	w.ok(c.room(10_000))
	c.out = append(c.out, "before"...)
	used := w.server.opt.Memory.Used()
	v, err := c.rendered(func() error {
		if err := c.room(1 << 20); err != nil {
			return err
		}
		c.out = jmap.AppendString(c.out, strings.Repeat("x", 1<<19))
		return c.settle()
	})
	w.ok(err)
	if text, _ := v.Text(); len(text) != 1<<19 || string(c.out) != "before" {
		t.Errorf("%d octets, beside %q", len(text), c.out)
	}
	if n := w.server.opt.Memory.Used(); n != used || c.held != int64(cap(c.out)) {
		t.Errorf("%d octets are reserved, were %d; %d for a response of %d", n, used, c.held, cap(c.out))
	}
	c.mem.give()
}
