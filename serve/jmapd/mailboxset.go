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
	x := &mailboxSetting{set: s, withEmail: withEmail, ids: map[string]note.UNID{}}
	if err := x.sortDestroyed(); err != nil {
		return err
	}
	if err := x.compare(); err != nil {
		return err
	}
	res, err := s.change(&steps{x.create, x.update, x.destroy}, func(st *mailbox.States) string {
		return st.Folders.String()
	})
	if err != nil {
		return err
	}
	for i, err := range res.Errs {
		if at := i - len(s.create) - len(s.update); at < 0 {
			res.Errs[i] = parented(err)
		} else if errors.Is(err, mailbox.ErrLarge) {
			// The Mailbox is too large for the update. File.Delete deletes it, and clients see it disappear at once.
			res.Errs[i] = c.account.File.Delete(c.ctx, x.names[s.destroy[at]])
		}
	}
	objects := x.objectsCreated()
	s.record(res.Errs, func(i int) (string, []byte) {
		p := s.create[i]
		id := idOf(letterFolder, x.ids[p.id])
		return id, told(p.object, objects[id])
	})
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
	ids       map[string]note.UNID // of the Mailboxes created, by creation id
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
		if u, ok := x.ids[ref]; ok {
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

func (x *mailboxSetting) create(w *mailbox.Changing, i int) error {
	p := &x.set.create[i]
	delete(x.ids, p.id)
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
	x.ids[p.id] = u
	return nil
}

// objects returns Mailboxes as Mailbox/get shows them, by id, with the properties that are wanted.
func (x *mailboxSetting) objects(wants func(string) bool) (map[string]*jmap.Value, error) {
	c := x.c
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
		v, err := jmap.Parse(string(appendMailbox(nil, t, &list[i], wants, order)), jmap.Bounds{})
		if err != nil {
			return nil, err
		}
		out[idOf(letterFolder, list[i].UNID)] = v
	}
	return out, nil
}

// objectsCreated returns the Mailboxes that were created, by id. If they cannot be read now, the objects have only the
// id.
func (x *mailboxSetting) objectsCreated() map[string]*jmap.Value {
	if len(x.ids) == 0 {
		return nil
	}
	objects, err := x.objects(func(string) bool { return true })
	if err != nil {
		objects = map[string]*jmap.Value{}
	}
	for _, u := range x.ids {
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
	if err := x.move(w, m, u, parent, name); err != nil {
		return err
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

// move moves or renames a folder, which has the given parent and name now, if the client changes one of them.
func (x *mailboxSetting) move(w *mailbox.Changing, m *mailboxChange, u, parent note.UNID, name string) (err error) {
	if m.name == nil && m.parent == nil {
		return nil
	}
	if m.name != nil {
		name = *m.name
	}
	if m.parent != nil {
		if parent, err = x.folder(*m.parent); err != nil {
			return err
		}
	}
	return w.MoveFolder(u, parent, name)
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
