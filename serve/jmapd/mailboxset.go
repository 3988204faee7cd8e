package jmapd

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// mailboxChange holds the changes to a Mailbox. A nil field stays unchanged.
type mailboxChange struct {
	name       *string
	parent     *string // "" means the top level
	role       *string // "" means none
	order      *int64
	subscribed *bool
}

// mailboxKind lists the properties of a Mailbox that a client may change.
var mailboxKind = kind{
	mutable:  []string{"name", "parentId", "role", "sortOrder", "isSubscribed"},
	fixed:    oneOf("id", "totalEmails", "unreadEmails", "totalThreads", "unreadThreads", "myRights"),
	defaults: map[string]jmap.Value{"sortOrder": jmap.MakeNumber(0)},
}

// readMailbox reads the properties of a Mailbox that a client may set.
func readMailbox(v *jmap.Value) (m mailboxChange, err error) {
	var bad []string
	for i := range v.Len() {
		name, x := v.Name(i), v.At(i)
		text, isText := x.Text()
		ok := true
		switch name {
		case "name":
			ok = isText && text != ""
			m.name = &text
		case "parentId":
			ok = isText || x.IsNull()
			m.parent = &text
		case "role":
			_, known := useOf(text)
			ok = x.IsNull() || isText && known
			m.role = &text
		case "sortOrder":
			n, isInt := x.Int()
			ok = isInt && 0 <= n && n < 1<<31
			m.order = &n
		case "isSubscribed":
			on, isBool := x.Bool()
			ok = isBool
			m.subscribed = &on
		default:
			ok = false
		}
		if !ok {
			bad = append(bad, name)
		}
	}
	if bad != nil {
		return m, badProperties("", bad...)
	}
	return m, nil
}

func idOf[T ~[16]byte](letter byte, u T) string {
	b := appendID(nil, letter, u)
	return string(b[1 : len(b)-1])
}

// mailboxSet answers Mailbox/set.
//
// Implements: RFC 8621 §2.5 Mailbox/set
func mailboxSet(c *call) error {
	s, err := c.setArguments(false, "onDestroyRemoveEmails")
	if err != nil {
		return err
	}
	withEmail, err := c.bool("onDestroyRemoveEmails", false)
	if err != nil {
		return err
	}
	s.sortCreations("parentId")
	x := &mailboxSetting{set: s, withEmail: withEmail, made: map[string]note.UNID{}}
	if err := x.sortDestroyed(); err != nil {
		return err
	}
	if err := x.compare(); err != nil {
		return err
	}
	nc, nu := len(s.create), len(s.update)
	res, err := c.account.File.Change(c.ctx, nc+nu+len(s.destroy), func(w *mailbox.Changing, i int) error {
		if err := s.mismatch(w.Before.Folders.String()); err != nil {
			return mailbox.Abort(err)
		}
		switch {
		case i < nc:
			return x.create(w, &s.create[i])
		case i < nc+nu:
			return x.update(w, i-nc)
		}
		return x.destroy(w, s.destroy[i-nc-nu])
	})
	if err == nil && len(res.Errs) == 0 {
		err = s.mismatch(res.Before.Folders.String())
	}
	if err != nil {
		return err
	}
	objects := x.created()
	for i, err := range res.Errs {
		switch {
		case i < nc && err == nil:
			p := s.create[i]
			id := idOf(letterFolder, x.made[p.id])
			s.made(p.id, id, told(p.object, objects[id]))
		case i < nc:
			s.notCreated = append(s.notCreated, failure{s.create[i].id, parented(err)})
		case i < nc+nu && err == nil:
			s.updated = append(s.updated, entry{s.update[i-nc].id, nil})
		case i < nc+nu:
			s.notUpdated = append(s.notUpdated, failure{s.update[i-nc].id, parented(err)})
		default:
			x.destroyed(s.destroy[i-nc-nu], err)
		}
	}
	s.append(res.Before.Folders.String(), res.After.Folders.String())
	return nil
}

// parented converts the errors for a missing parent and for a name in use into errors of Mailbox/set.
func parented(err error) error {
	if taken, ok := errors.AsType[*mailbox.Taken](err); ok {
		return &jmap.Error{
			Type: "alreadyExists", Description: "A Mailbox with this name already exists.",
			ExistingID: idOf(letterFolder, taken.UNID),
		}
	}
	if errors.Is(err, mailbox.ErrNoFolder) {
		return badProperties("There is no such parent.", "parentId")
	}
	return err
}

type mailboxSetting struct {
	*set
	withEmail bool
	made      map[string]note.UNID // by creation id
	names     map[string]string    // of the Mailboxes to destroy, by id
	changes   []mailboxChange      // parallel to update
	wrong     []error              // parallel to update: the error, or nil
}

// sortCreations moves each creation after the creation that its property refers to.
func (s *set) sortCreations(property string) {
	done := map[string]bool{}
	var out []creation
	left := s.create
	for len(left) > 0 {
		var later []creation
		for _, p := range left {
			ref, _ := p.object.Get(property).Text()
			above, isRef := strings.CutPrefix(ref, "#")
			waits := isRef && !done[above] && slices.ContainsFunc(left,
				func(q creation) bool { return q.id == above && q.id != p.id })
			if waits {
				later = append(later, p)
				continue
			}
			done[p.id] = true
			out = append(out, p)
		}
		if len(later) == len(left) { // the references form a circle
			out = append(out, later...)
			break
		}
		left = later
	}
	s.create = out
}

// sortDestroyed moves folders before their parents.
func (x *mailboxSetting) sortDestroyed() error {
	x.names = map[string]string{}
	if len(x.set.destroy) == 0 {
		return nil
	}
	list, _, err := x.c.account.File.Mailboxes(x.c.ctx, false)
	if err != nil {
		return err
	}
	for i := range list {
		x.names[idOf(letterFolder, list[i].UNID)] = list[i].Name
	}
	slices.SortStableFunc(x.set.destroy, func(a, b string) int {
		return strings.Count(x.names[b], "/") - strings.Count(x.names[a], "/")
	})
	return nil
}

// folder returns the folder of an id, including a folder that this call created. "" means the top level.
func (x *mailboxSetting) folder(id string) (note.UNID, error) {
	if id == "" {
		return note.UNID{}, nil
	}
	if ref, ok := strings.CutPrefix(id, "#"); ok {
		if u, ok := x.made[ref]; ok {
			return u, nil
		}
	}
	real, _ := x.c.real(id)
	u, _ := parseID(letterFolder, real)
	if note.UNID(u).IsZero() { // malformed id: the zero UNID would mean the top level
		return note.UNID{}, mailbox.ErrNoFolder
	}
	return u, nil
}

func (x *mailboxSetting) create(w *mailbox.Changing, p *creation) error {
	delete(x.made, p.id)
	m, err := readMailbox(p.object)
	if err != nil {
		return err
	}
	if m.name == nil {
		return badProperties("A Mailbox has a name.", "name")
	}
	var parent note.UNID
	if m.parent != nil {
		if parent, err = x.folder(*m.parent); err != nil {
			return err
		}
	}
	use := ""
	if m.role != nil && *m.role != "" {
		use, _ = useOf(*m.role)
	}
	u, err := w.CreateFolder(parent, *m.name, use, m.subscribed != nil && *m.subscribed)
	if err != nil {
		return err
	}
	if m.order != nil {
		if err := w.SetFolderItem(u, itemSortOrder, strconv.FormatInt(*m.order, 10)); err != nil {
			return err
		}
	}
	x.made[p.id] = u
	return nil
}

// objects returns Mailboxes as Mailbox/get shows them, by id, with the properties that are wanted.
func (x *mailboxSetting) objects(wants func(string) bool) (map[string]*jmap.Value, error) {
	c := x.c
	g := get{some: true}
	for _, p := range mailboxProperties {
		if wants(p) {
			g.properties = append(g.properties, p)
		}
	}
	list, _, err := c.account.File.Mailboxes(c.ctx, slices.ContainsFunc(countProperties, wants))
	if err != nil {
		return nil, err
	}
	order, err := c.sortOrders(list, wants("sortOrder"))
	if err != nil {
		return nil, err
	}
	t := newTree(list)
	out := make(map[string]*jmap.Value, len(list))
	for i := range list {
		v, err := c.rendered(func() error { c.appendMailbox(t, &list[i], &g, order); return nil })
		if err != nil {
			return nil, err
		}
		out[idOf(letterFolder, list[i].UNID)] = v
	}
	return out, nil
}

// created returns the Mailboxes that were created, by id. If they cannot be read now, the objects have only the id.
func (x *mailboxSetting) created() map[string]*jmap.Value {
	if len(x.made) == 0 {
		return nil
	}
	objects, err := x.objects(func(string) bool { return true })
	if err != nil {
		objects = map[string]*jmap.Value{}
	}
	for _, u := range x.made {
		id := idOf(letterFolder, u)
		if objects[id] == nil {
			objects[id] = jmap.MakeObject([]string{"id"}, []jmap.Value{jmap.Text(id)})
		}
	}
	return objects
}

// compare computes the changes of each update from its patch and the current Mailbox.
func (x *mailboxSetting) compare() error {
	n := len(x.set.update)
	x.changes, x.wrong = make([]mailboxChange, n), make([]error, n)
	if n == 0 {
		return nil
	}
	named := make([]func(string) bool, n)
	for i := range x.set.update {
		named[i] = mailboxKind.named(x.set.update[i].object)
	}
	objects, err := x.objects(func(p string) bool {
		return slices.ContainsFunc(named, func(wants func(string) bool) bool { return wants(p) })
	})
	if err != nil {
		return err
	}
	for i := range x.set.update {
		p := &x.set.update[i]
		current := objects[p.real]
		if current == nil {
			x.wrong[i] = &jmap.Error{Type: "notFound"}
			continue
		}
		x.wrong[i] = mailboxKind.apply(p.object, current, func(v *jmap.Value) (err error) {
			x.changes[i], err = readMailbox(v)
			return err
		})
	}
	return nil
}

func (x *mailboxSetting) update(w *mailbox.Changing, i int) error {
	p, m := &x.set.update[i], &x.changes[i]
	if x.wrong[i] != nil {
		return x.wrong[i]
	}
	u, _ := parseID(letterFolder, p.real)
	f, parent, name, err := w.FolderAt(u)
	if err != nil {
		return &jmap.Error{Type: "notFound"}
	}
	if m.name != nil || m.parent != nil {
		if m.name != nil {
			name = *m.name
		}
		if m.parent != nil {
			if parent, err = x.folder(*m.parent); err != nil {
				return err
			}
		}
		if err := w.MoveFolder(u, parent, name); err != nil {
			return err
		}
	}
	if m.role != nil && *m.role != roleOf(&f) {
		use := ""
		if *m.role != "" {
			use, _ = useOf(*m.role)
		}
		if err := w.SetUse(u, use); err != nil {
			return err
		}
	}
	if m.order != nil {
		if err := w.SetFolderItem(u, itemSortOrder, strconv.FormatInt(*m.order, 10)); err != nil {
			return err
		}
	}
	if m.subscribed != nil && *m.subscribed != f.Subscribed {
		return w.Subscribe(u, *m.subscribed)
	}
	return nil
}

func (x *mailboxSetting) destroy(w *mailbox.Changing, id string) error {
	u, ok := parseID(letterFolder, id)
	if !ok {
		return &jmap.Error{Type: "notFound"}
	}
	err := w.DeleteFolder(u, x.withEmail)
	if errors.Is(err, mailbox.ErrNoFolder) {
		return &jmap.Error{Type: "notFound"}
	}
	return err
}

// destroyed records the result of destroying a Mailbox. One too large for the update is deleted here by File.Delete,
// and clients see it disappear at once.
func (x *mailboxSetting) destroyed(id string, err error) {
	if errors.Is(err, mailbox.ErrLarge) {
		err = x.c.account.File.Delete(x.c.ctx, x.names[id])
	}
	if err != nil {
		x.not = append(x.not, failure{id, err})
		return
	}
	x.set.destroyed = append(x.set.destroyed, id)
}
