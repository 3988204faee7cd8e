package jmapd

import (
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

var blockedProperties = []string{"id", "senders"}

// blockedKind lists the properties of BlockedSenders that a client may change.
var blockedKind = kind{mutable: []string{"senders"}, fixed: oneOf("id")}

// blocked is a BlockedSenders object: the senders whose mail is delivered to Junk. senders maps each to true, so that a
// patch adds or removes one of them, whatever another client changes meanwhile.
type blocked []string

// state returns a hash of the senders.
func (b blocked) state() string {
	u := note.DeriveUNID(b.append(nil, func(string) bool { return true }))
	return u.String()[:16]
}

func (b blocked) append(dst []byte, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", singleton)
	if wants("senders") {
		o.Object("senders", func(in *jmap.Writer) {
			for _, s := range b {
				in.Bool(s, true)
			}
		})
	}
	return o.End()
}

// blockedGet answers BlockedSenders/get.
func blockedGet(c *call) error {
	g, err := c.getArguments(own, blockedProperties)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := d.BlockedSenders()
		if err != nil {
			return err
		}
		all := []blocked{list}
		answerGet(&g, all[0].state(), all, onlyID(singleton, all), func(dst []byte, b *blocked) []byte {
			return b.append(dst, g.wants)
		})
		return nil
	})
}

// blockedSet answers BlockedSenders/set.
func blockedSet(c *call) error {
	return c.setSingleton(func(w *mailbox.Changing) (string, error) {
		list, err := w.BlockedSenders()
		return blocked(list).state(), err
	}, func(w *mailbox.Changing, patch *jmap.Value) error {
		list, err := w.BlockedSenders()
		if err != nil {
			return err
		}
		next, err := blocked(list).patched(patch)
		if err != nil {
			return err
		}
		return w.SetBlockedSenders(next)
	})
}

// patched returns the senders with a client's patch applied.
func (b blocked) patched(patch *jmap.Value) (next []string, err error) {
	current, err := jmap.Parse(string(b.append(nil, func(string) bool { return true })), jmap.Bounds{})
	if err != nil {
		return nil, err
	}
	next = b
	err = blockedKind.apply(patch, current, func(changed *jmap.Value) error {
		v := changed.Get("senders")
		if v == nil {
			return nil
		}
		if v.Kind() != jmap.Object || v.Len() > mailbox.MaxBlocked {
			return badProperties("It maps at most 1,000 senders to true.", "senders")
		}
		next = make([]string, 0, v.Len())
		for k := range v.Len() {
			sender, err := mailbox.ParseSender(v.Name(k))
			if on, ok := v.At(k).Bool(); err != nil || !ok || !on {
				return badProperties("A sender is an address, or a domain after an @, with the value true.", "senders")
			}
			next = append(next, sender)
		}
		return nil
	})
	return next, err
}
