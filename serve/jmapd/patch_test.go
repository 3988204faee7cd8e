package jmapd

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"doublet/wire/jmap"
)

// TestRendered checks that rendering an object as a value leaves exactly the reservation of the response.
func TestRendered(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	c := &call{batch: &batch{s: w.server, ctx: bg, caller: w.who["alice"], mem: w.server.memoryOf(w.who["alice"])}}
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

// TestManyPaths applies a patch with as many paths as fit into a request. Its memory must grow only linearly with them.
func TestManyPaths(t *testing.T) {
	const many = 20_000
	k := kind{mutable: []string{"keywords"}, fixed: oneOf()}
	current := jmap.MakeObject([]string{"keywords"},
		[]jmap.Value{*jmap.MakeObject([]string{"$seen"}, []jmap.Value{jmap.True()})})
	var b strings.Builder
	b.WriteString(`{"keywords/$seen":null`)
	for i := range many {
		fmt.Fprintf(&b, `,"keywords/k%d":true`, i)
	}
	patch, err := jmap.Parse(b.String()+"}", jmap.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = k.apply(patch, current, func(changed *jmap.Value) error {
		if got := changed.Get("keywords"); got.Len() != many || got.Name(0) != "k0" ||
			got.Name(many-1) != fmt.Sprintf("k%d", many-1) {
			return fmt.Errorf("%d keywords", got.Len())
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / many; err != nil || n > 4096 {
		t.Errorf("%d octets were allocated for each path: %v", n, err)
	}
}

// TestManyNames names more properties than a call may, all of them header fields: in a call, and in a whole Email sent
// back.
func TestManyNames(t *testing.T) {
	t.Parallel()
	names := make([]string, maxNames+1)
	members := make([]jmap.Value, len(names))
	for i := range names {
		names[i] = fmt.Sprintf("header:X-%d", i)
	}
	whole := jmap.MakeObject([]string{"bodyStructure"}, []jmap.Value{*jmap.MakeObject(names, members)})
	for name, compile := range map[string]func(names []string) error{
		"Email":         func(names []string) error { _, err := compileProperties(names, true); return err },
		"EmailBodyPart": func(names []string) error { _, err := compileBodyProperties(names, true); return err },
	} {
		if err := compile(names[1:]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := compile(names); err == nil {
			t.Errorf("%s takes %d properties", name, len(names))
		}
	}
	if _, err := compileBodyProperties(bodyNames(whole), true); err == nil {
		t.Errorf("an Email with %d properties of body parts is taken", len(names))
	}
}
