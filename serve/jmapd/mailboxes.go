package jmapd

import (
	"slices"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// roles maps the uses of folders to the roles of JMAP, the standard folders first.
var roles = []struct{ use, role string }{
	{mailbox.Inbox, "inbox"}, {mailbox.UseDrafts, "drafts"}, {mailbox.UseSent, "sent"},
	{mailbox.UseArchive, "archive"}, {mailbox.UseJunk, "junk"}, {mailbox.UseTrash, "trash"},
	{mailbox.UseSnoozed, "snoozed"},
	{"All", "all"}, {"Flagged", "flagged"}, {"Important", "important"}, {"Subscribed", "subscribed"},
}

// roleOf returns a folder's role, or "" if it has none.
func roleOf(f *mailbox.Folder) string {
	for _, r := range roles {
		if strings.EqualFold(r.use, f.Use()) {
			return r.role
		}
	}
	return ""
}

// useOf returns the special use of a role.
func useOf(role string) (string, bool) {
	for _, r := range roles {
		if r.role == role {
			return r.use, true
		}
	}
	return "", false
}

// itemSortOrder is the item of a folder's note that holds its sort order. Without it the role determines the order.
const itemSortOrder = "SortOrder"

// usualOrder returns the sort order that a use gives a folder.
func usualOrder(f *mailbox.Folder) int {
	if i := slices.Index(mailbox.Uses, f.Use()); i >= 0 {
		return i + 1
	}
	return 10
}

// tree holds the folders of an account and finds their parents.
type tree struct {
	list   []mailbox.Mailbox
	byName map[string]int
}

func newTree(list []mailbox.Mailbox) *tree {
	t := &tree{list, make(map[string]int, len(list))}
	for i := range list {
		t.byName[list[i].Name] = i
	}
	return t
}

// parent returns the folder that contains f, and the name of f in it. A folder whose parents are not visible to the
// caller is at the top.
func (t *tree) parent(f *mailbox.Mailbox) (p *mailbox.Mailbox, name string) {
	full := f.Name
	for cut := strings.LastIndexByte(full, '/'); cut > 0; cut = strings.LastIndexByte(full[:cut], '/') {
		if i, ok := t.byName[full[:cut]]; ok {
			return &t.list[i], full[cut+1:]
		}
	}
	return nil, full
}

var mailboxProperties = []string{
	"id", "name", "parentId", "role", "sortOrder", "totalEmails", "unreadEmails", "totalThreads", "unreadThreads",
	"myRights", "isSubscribed",
}

var countProperties = []string{"totalEmails", "unreadEmails", "totalThreads", "unreadThreads"}

// mailboxGet answers Mailbox/get.
//
// Implements: RFC 8621 §2.1 Mailbox/get
func mailboxGet(c *call) error {
	g, err := c.getArguments(false, mailboxProperties)
	if err != nil {
		return err
	}
	counts := slices.ContainsFunc(countProperties, g.wants)
	list, states, err := c.account.File.Mailboxes(c.ctx, counts)
	if err != nil {
		return err
	}
	if g.all {
		if err := c.atMost(len(list), "mailboxes", "maxObjectsInGet"); err != nil {
			return err
		}
	}
	order, err := c.sortOrders(list, g.wants("sortOrder"))
	if err != nil {
		return err
	}
	t := newTree(list)
	find := func(id string) *mailbox.Mailbox {
		u, ok := parseID(letterFolder, id)
		i := slices.IndexFunc(list, func(f mailbox.Mailbox) bool { return f.UNID == u })
		if !ok || i < 0 {
			return nil
		}
		return &list[i]
	}
	answerGet(&g, states.Folders.String(), list, find, func(dst []byte, f *mailbox.Mailbox) []byte {
		return appendMailbox(dst, t, f, g.wants, order)
	})
	return nil
}

// sortOrders returns the sort order of each folder, or nil if wanted is false.
func (c *call) sortOrders(list []mailbox.Mailbox, wanted bool) (map[note.ID]int, error) {
	if !wanted {
		return nil, nil
	}
	out := make(map[note.ID]int, len(list))
	err := c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		for i := range list {
			s, err := d.FolderItem(list[i].ID, itemSortOrder)
			if err != nil {
				continue // removed meanwhile
			}
			n, err := strconv.Atoi(s)
			if err != nil {
				n = usualOrder(&list[i].Folder)
			}
			out[list[i].ID] = n
		}
		return nil
	})
	return out, err
}

func appendMailbox(dst []byte, t *tree, f *mailbox.Mailbox, wants func(string) bool, order map[note.ID]int) []byte {
	o := jmap.NewWriter(dst)
	o.Name("id")
	o.B = appendID(o.B, letterFolder, f.UNID)
	parent, name := t.parent(f)
	if wants("name") {
		o.Text("name", name)
	}
	if wants("parentId") {
		o.Name("parentId")
		if parent == nil {
			o.B = append(o.B, "null"...)
		} else {
			o.B = appendID(o.B, letterFolder, parent.UNID)
		}
	}
	if wants("role") {
		if role := roleOf(&f.Folder); role != "" {
			o.Text("role", role)
		} else {
			o.Raw("role", "null")
		}
	}
	if wants("sortOrder") {
		o.Uint("sortOrder", uint64(max(order[f.ID], 0)))
	}
	for i, n := range []uint32{f.Counts.Total, f.Counts.Unread, f.Counts.Threads, f.Counts.UnreadThreads} {
		if wants(countProperties[i]) {
			o.Uint(countProperties[i], uint64(n))
		}
	}
	if wants("myRights") {
		o.Name("myRights")
		o.B = appendRights(o.B, f)
	}
	if wants("isSubscribed") {
		o.Bool("isSubscribed", f.Subscribed)
	}
	return o.End()
}

// appendRights appends a MailboxRights object.
//
// Implements: RFC 8621 §2 myRights
func appendRights(dst []byte, f *mailbox.Mailbox) []byte {
	g := f.Rights
	o := jmap.NewWriter(dst)
	has := func(r note.Rights) bool { return g&r == r }
	o.Bool("mayReadItems", has(note.Lookup|note.Read))
	o.Bool("mayAddItems", has(note.Insert))
	o.Bool("mayRemoveItems", has(note.DeleteMark|note.Expunge))
	o.Bool("maySetSeen", has(note.KeepSeen))
	o.Bool("maySetKeywords", has(note.Write))
	o.Bool("mayCreateChild", has(note.Create))
	o.Bool("mayRename", has(note.Remove) && f.Name != mailbox.Inbox)
	o.Bool("mayDelete", has(note.Remove) && f.Name != mailbox.Inbox)
	o.Bool("maySubmit", has(note.Post) || has(note.Insert))
	return o.End()
}

// mailboxChanges answers Mailbox/changes.
//
// Implements: RFC 8621 §2.2 Mailbox/changes
func mailboxChanges(c *call) error {
	return c.fileChanges(letterFolder, (*mailbox.Reading).FolderChanges)
}

// condition reads one property of a FilterCondition.
func (t *tree) condition(name string, v *jmap.Value) (matcher[*mailbox.Mailbox], error) {
	text, isText := v.Text()
	on, isBool := v.Bool()
	switch {
	case name == "parentId" && v.IsNull():
		return func(f *mailbox.Mailbox) bool { p, _ := t.parent(f); return p == nil }, nil
	case name == "parentId" && isText:
		u, _ := parseID(letterFolder, text)
		return func(f *mailbox.Mailbox) bool { p, _ := t.parent(f); return p != nil && p.UNID == u }, nil
	case name == "name" && isText:
		needle := strings.ToLower(nfc(text))
		return func(f *mailbox.Mailbox) bool {
			_, n := t.parent(f)
			return strings.Contains(strings.ToLower(n), needle)
		}, nil
	case name == "role" && (isText || v.IsNull()): // null finds the folders without a role
		return func(f *mailbox.Mailbox) bool { return roleOf(&f.Folder) == text }, nil
	case name == "hasAnyRole" && isBool:
		return func(f *mailbox.Mailbox) bool { return (roleOf(&f.Folder) != "") == on }, nil
	case name == "isSubscribed" && isBool:
		return func(f *mailbox.Mailbox) bool { return f.Subscribed == on }, nil
	case slices.Contains([]string{"parentId", "name", "role", "hasAnyRole", "isSubscribed"}, name):
		return nil, invalid("the filter's %s is not what it should be", name)
	}
	return nil, noCondition(name)
}

// mailboxQuery answers Mailbox/query.
//
// Implements: RFC 8621 §2.3 Mailbox/query
func mailboxQuery(c *call) error {
	return c.query(false, c.mailboxResults, "sortAsTree", "filterAsTree")
}

// mailboxResults returns all results of a query for Mailboxes.
func (c *call) mailboxResults() (out queryResults, err error) {
	asTree, err := c.bool("sortAsTree", false)
	if err != nil {
		return out, err
	}
	whole, err := c.bool("filterAsTree", false)
	if err != nil {
		return out, err
	}
	list, states, err := c.account.File.Mailboxes(c.ctx, false)
	if err != nil {
		return out, err
	}
	t := newTree(list)
	fits, err := match(c, t.condition)
	if err != nil {
		return out, err
	}
	order, err := c.mailboxOrder(t)
	if err != nil {
		return out, err
	}
	if asTree {
		order = t.preorder(order)
	}
	for _, f := range order {
		ok := fits(f)
		for p, _ := t.parent(f); whole && ok && p != nil; p, _ = t.parent(p) {
			ok = fits(p)
		}
		if ok {
			out.ids = append(out.ids, idOf(letterFolder, f.UNID))
		}
	}
	out.state = states.Folders.String()
	return out, nil
}

// preorder sorts folders so that each follows its parent. Siblings keep their order.
func (t *tree) preorder(order []*mailbox.Mailbox) []*mailbox.Mailbox {
	children := make(map[*mailbox.Mailbox][]*mailbox.Mailbox, len(order))
	for _, f := range order {
		p, _ := t.parent(f)
		children[p] = append(children[p], f)
	}
	out := make([]*mailbox.Mailbox, 0, len(order))
	var walk func(p *mailbox.Mailbox)
	walk = func(p *mailbox.Mailbox) {
		for _, f := range children[p] {
			out = append(out, f)
			walk(f)
		}
	}
	walk(nil)
	return out
}

// mailboxOrder returns the folders in the order of the argument sort.
func (c *call) mailboxOrder(t *tree) ([]*mailbox.Mailbox, error) {
	keys, err := c.sortKeys("name", "sortOrder")
	if err != nil {
		return nil, err
	}
	byOrder := slices.ContainsFunc(keys, func(k sortKey) bool { return k.property == "sortOrder" })
	order, err := c.sortOrders(t.list, byOrder)
	if err != nil {
		return nil, err
	}
	out := make([]*mailbox.Mailbox, len(t.list))
	for i := range t.list {
		out[i] = &t.list[i]
	}
	slices.SortStableFunc(out, compareBy(keys, func(property string, a, b *mailbox.Mailbox) int {
		if property == "sortOrder" {
			return order[a.ID] - order[b.ID]
		}
		_, x := t.parent(a)
		_, y := t.parent(b)
		return strings.Compare(strings.ToLower(x), strings.ToLower(y))
	}))
	return out, nil
}

// mailboxQueryChanges answers Mailbox/queryChanges. It derives the changes of the result from the changes of all
// folders, since there are few.
//
// Implements: RFC 8621 §2.4 Mailbox/queryChanges
func mailboxQueryChanges(c *call) error {
	return c.queryChanges(false, c.mailboxQueryDelta, "sortAsTree", "filterAsTree")
}

func (c *call) mailboxQueryDelta(since string) (out queryDelta, err error) {
	state, err := mailbox.ParseState(since)
	if err != nil {
		return out, err
	}
	var x mailbox.Changes
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) (err error) {
		x, err = d.FolderChanges(state, 0)
		return err
	})
	if err != nil {
		return out, err
	}
	if out.queryResults, err = c.mailboxResults(); err != nil {
		return out, err
	}
	out.state = x.State.String()
	ids := func(list []note.UNID) (ids []string) {
		for _, u := range list {
			ids = append(ids, idOf(letterFolder, u))
		}
		return ids
	}
	created := ids(x.Created)
	out.removed, out.added = ids(x.Destroyed), created
	if len(x.Updated) > 0 && !x.CountsOnly {
		// Renaming a folder can move others: its children, and in a tree order the folders after it. So all results are
		// reported as removed and added, unless only counts have changed.
		out.removed, out.added = append(out.removed, ids(x.Updated)...), out.ids
		for _, id := range out.ids {
			if !slices.Contains(created, id) && !slices.Contains(out.removed, id) {
				out.removed = append(out.removed, id)
			}
		}
	}
	slices.Sort(out.removed)
	return out, nil
}
