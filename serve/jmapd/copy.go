package jmapd

import "doublet/wire/jmap"

// copying is a /copy in progress, which creates objects from those of another account.
type copying struct {
	*set
	from      *Account
	fromState string // ifFromInState, "" if any will do
	destroy   bool   // onSuccessDestroyOriginal
}

// beginCopy reads the arguments of a /copy. what names an object in errors.
//
// Implements: RFC 8620 §5.4 /copy
func (c *call) beginCopy(what string) (x copying, err error) {
	x.from, err = c.twoAccounts("ifFromInState", "ifInState", "create", "onSuccessDestroyOriginal",
		"destroyFromIfInState")
	if err != nil {
		return x, err
	}
	if err := c.needWritable(); err != nil {
		return x, err
	}
	if x.from.ID == c.account.ID {
		return x, invalid("%s is copied into another account", what)
	}
	if x.fromState, err = c.text("ifFromInState"); err != nil {
		return x, err
	}
	if x.destroy, err = c.bool("onSuccessDestroyOriginal", false); err != nil {
		return x, err
	}
	x.set = &set{c: c}
	if err := x.condition(); err != nil {
		return x, err
	}
	return x, x.creations("create")
}

// fromMismatch returns the error stateMismatch if the objects of the account to copy from are in another state than the
// client expects.
func (x *copying) fromMismatch(state string) error {
	if x.fromState != "" && x.fromState != state {
		return &jmap.Error{Type: "stateMismatch"}
	}
	return nil
}

// end appends the response, and adds a /set after the copy, which destroys the originals if the client asked for it.
// originals lists the ids of those that were copied.
func (x *copying) end(oldState, newState, set string, originals []string) {
	c := x.c
	o := jmap.NewWriter(c.out)
	o.Text("fromAccountId", x.from.ID)
	x.appendCreated(&o, oldState, newState)
	if !x.destroy || len(originals) == 0 {
		return
	}
	names := []string{"accountId", "destroy"}
	values := []jmap.Value{jmap.Text(x.from.ID), textList(originals)}
	if state := c.args.Get("destroyFromIfInState"); !state.IsNull() {
		names, values = append(names, "ifInState"), append(values, *state)
	}
	c.implicit = func() { c.batch.follow(set, c.id, jmap.MakeObject(names, values)) }
}

// textList returns an array of strings.
func textList(list []string) jmap.Value {
	out := make([]jmap.Value, len(list))
	for i, s := range list {
		out[i] = jmap.Text(s)
	}
	return jmap.List(out...)
}
