package jmapd

import (
	"cmp"
	"fmt"
	"slices"

	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

// scriptSetting is a SieveScript/set in progress.
type scriptSetting struct {
	*set
	activate   string // id to activate, "" for none
	deactivate bool
	failed     bool // a change has failed, so that nothing is activated

	created []scriptDraft // parallel to set.create
	updated []scriptDraft // parallel to set.update
	// before, active and made are as the last change has left them: the active script before and after, and the list.
	before, active note.UNID
	list           *scripts.List
}

// scriptDraft holds the properties of a script that a client sent.
type scriptDraft struct {
	id      note.UNID // of a new script
	name    string    // "" if not sent
	text    string
	hasText bool
	err     error
}

// scriptSet answers SieveScript/set.
//
// Implements: RFC 9661 §2.4 SieveScript/set
func scriptSet(c *call) error {
	s, err := c.setArguments(own, "onSuccessActivateScript", "onSuccessDeactivateScript")
	if err != nil {
		return err
	}
	x := &scriptSetting{set: s}
	if x.activate, err = c.text("onSuccessActivateScript"); err != nil {
		return err
	}
	if x.deactivate, err = c.bool("onSuccessDeactivateScript", false); err != nil {
		return err
	}
	x.failed = len(s.notUpdated) > 0
	if err := x.readDrafts(); err != nil {
		return err
	}
	before, errs, err := x.commit()
	if err != nil {
		return err
	}
	s.record(errs, x.told)
	x.tellUpdates()
	s.append(before, x.list.State())
	return nil
}

// commit makes the changes in one update, whose last step activates.
func (x *scriptSetting) commit() (before string, errs []error, err error) {
	s := x.set
	by := &steps{x.create, x.update, x.destroy}
	res, err := s.c.account.File.Change(s.c.ctx, s.size()+1, func(w *mailbox.Changing, i int) error {
		e, err := scripts.Edit(s.c.account.File, w)
		if err != nil {
			return store.Abort(err)
		}
		if w.Calls == 1 {
			before, x.before = e.List().State(), activeID(e.List())
			if err := s.mismatch(before); err != nil {
				return store.Abort(err)
			}
		}
		if i < s.size() {
			err := s.step(by, w, i)
			x.failed = x.failed || err != nil
			return err
		}
		if err := x.switched(e); err != nil {
			return store.Abort(err)
		}
		x.list, x.active = e.List(), activeID(e.List())
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return before, res.Errs[:s.size()], nil
}

func activeID(l *scripts.List) (id note.UNID) {
	if s := l.Active(); s != nil {
		id = s.ID
	}
	return id
}

// switched deactivates and activates, if all changes have succeeded. An id of no script is ignored.
func (x *scriptSetting) switched(e *scripts.Editor) error {
	if x.failed {
		return nil
	}
	if x.deactivate && e.List().Active() != nil {
		if err := e.Activate(""); err != nil {
			return err
		}
	}
	if s := x.wanted(e.List()); s != nil && !s.Active {
		return e.Activate(s.Name)
	}
	return nil
}

// wanted returns the script to activate, or nil.
func (x *scriptSetting) wanted(l *scripts.List) *scripts.Script {
	for i := range x.set.create {
		if x.activate == "#"+x.set.create[i].id {
			return l.WithID(x.created[i].id)
		}
	}
	id, _ := x.c.real(x.activate)
	return findScript(l)(id)
}

// scriptKind lists the properties of a SieveScript that a client may change.
var scriptKind = kind{mutable: []string{"name", "blobId"}, fixed: oneOf("id", "isActive")}

// readDrafts reads what the client sent: blobs cannot be read within the update.
func (x *scriptSetting) readDrafts() error {
	c := x.c
	for i := range x.set.create {
		d := scriptDraft{}
		d.err = c.readScript(x.set.create[i].object, &d)
		if d.err == nil && !d.hasText {
			d.err = badProperties("", "blobId")
		}
		c.s.env.Fill(d.id[:])
		x.created = append(x.created, d)
	}
	current := make([]*jmap.Value, len(x.set.update))
	err := c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(c.account.File, d)
		for i := 0; i < len(current) && err == nil; i++ {
			if s := findScript(l)(x.set.update[i].real); s != nil {
				current[i], err = scriptObject(d, s)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, now := range current {
		d := scriptDraft{err: &jmap.Error{Type: "notFound"}}
		if now != nil {
			d.err = scriptKind.apply(x.set.update[i].object, now,
				func(v *jmap.Value) error { return c.readScript(v, &d) })
		}
		x.updated = append(x.updated, d)
	}
	return nil
}

// scriptObject returns a script as SieveScript/get shows it.
func scriptObject(d *mailbox.Reading, s *scripts.Script) (*jmap.Value, error) {
	text, err := scripts.Text(d, s)
	if err != nil {
		return nil, err
	}
	return jmap.Parse(string(appendScript(nil, s, text, wantsAll)), jmap.Bounds{})
}

// readScript reads the properties of a script that a client sends.
func (c *call) readScript(v *jmap.Value, d *scriptDraft) error {
	var bad []string
	for i := range v.Len() {
		name, p := v.Name(i), v.At(i)
		text, ok := p.Text()
		switch {
		case name == "name" && ok:
			d.name = text
			if err := scripts.CheckName(text); err != nil {
				return scriptError(err)
			}
		case name == "name" && p.IsNull():
		case name == "blobId" && ok:
			var err error
			if d.text, err = c.scriptText(text); err == nil {
				err = scripts.Check(d.text)
			}
			if err != nil {
				return scriptError(err)
			}
			d.hasText = true
		default:
			bad = append(bad, name)
		}
	}
	if bad != nil {
		return badProperties("", bad...)
	}
	return nil
}

func (x *scriptSetting) create(w *mailbox.Changing, i int) error {
	d := &x.created[i]
	if d.err != nil {
		return d.err
	}
	e, err := scripts.Edit(x.c.account.File, w)
	if err != nil {
		return err
	}
	name := d.name
	for n := 1; name == ""; n++ {
		if free := fmt.Sprintf("script %d", n); e.List().Find(free) == nil {
			name = free
		}
	}
	if err := nameTaken(e.List(), name); err != nil {
		return err
	}
	return scriptError(e.Put(name, d.text, d.id))
}

// nameTaken returns the error alreadyExists if a script has the name.
func nameTaken(l *scripts.List, name string) error {
	if s := l.Find(name); s != nil {
		return &jmap.Error{Type: "alreadyExists", ExistingID: idOf(letterScript, s.ID)}
	}
	return nil
}

func (x *scriptSetting) update(w *mailbox.Changing, i int) error {
	d := &x.updated[i]
	if d.err != nil {
		return d.err
	}
	e, err := scripts.Edit(x.c.account.File, w)
	if err != nil {
		return err
	}
	s := findScript(e.List())(x.set.update[i].real)
	if s == nil {
		return &jmap.Error{Type: "notFound"}
	}
	name := cmp.Or(d.name, s.Name)
	if name != s.Name {
		if err := nameTaken(e.List(), name); err != nil {
			return err
		}
		if err := e.Rename(s.Name, name); err != nil {
			return scriptError(err)
		}
	}
	if !d.hasText {
		return nil
	}
	return scriptError(e.Put(name, d.text, s.ID))
}

func (x *scriptSetting) destroy(w *mailbox.Changing, id string) error {
	e, err := scripts.Edit(x.c.account.File, w)
	if err != nil {
		return err
	}
	s := findScript(e.List())(id)
	if s == nil {
		return &jmap.Error{Type: "notFound"}
	}
	return scriptError(e.Delete(s.Name))
}

// told returns the id of the i-th new script, and what the client did not send of it.
func (x *scriptSetting) told(i int) (string, []byte) {
	d := &x.created[i]
	s := x.list.WithID(d.id)
	o := jmap.NewWriter(nil)
	id := idOf(letterScript, d.id)
	o.Text("id", id)
	if s.Name != d.name {
		o.Text("name", s.Name)
	}
	o.Text("blobId", scriptBlobID(d.text))
	o.Bool("isActive", s.Active)
	return id, o.End()
}

// tellUpdates adds what the server changed to the results of updates: the blob, which is not the one that the client
// sent, and which script is active.
func (x *scriptSetting) tellUpdates() {
	for i, p := range x.set.update {
		at := slices.IndexFunc(x.set.updated, func(e entry) bool { return e.id == p.id })
		if at < 0 || !x.updated[i].hasText && x.flipped(p.real) == nil {
			continue
		}
		o := jmap.NewWriter(nil)
		if d := &x.updated[i]; d.hasText {
			o.Text("blobId", scriptBlobID(d.text))
		}
		if on := x.flipped(p.real); on != nil {
			o.Bool("isActive", *on)
		}
		x.set.updated[at].json = o.End()
	}
	for _, s := range x.list.Scripts {
		id := idOf(letterScript, s.ID)
		on := x.flipped(id)
		named := slices.ContainsFunc(x.set.update, func(p patch) bool { return p.real == id }) ||
			slices.ContainsFunc(x.created, func(d scriptDraft) bool { return d.id == s.ID })
		if on != nil && !named {
			o := jmap.NewWriter(nil)
			o.Bool("isActive", *on)
			x.set.updated = append(x.set.updated, entry{id, o.End()})
		}
	}
}

// flipped returns the new isActive of a script, or nil if it is as before.
func (x *scriptSetting) flipped(id string) *bool {
	u, _ := parseID(letterScript, id)
	if was, is := u == x.before, u == x.active; was != is {
		return &is
	}
	return nil
}
