package jmapd

import (
	"slices"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// roles maps the special uses of folders in IMAP (RFC 6154) to the roles of JMAP.
var roles = []struct{ use, role string }{
	{"All", "all"}, {"Archive", "archive"}, {"Drafts", "drafts"}, {"Flagged", "flagged"}, {"Important", "important"},
	{"Junk", "junk"},
	{"Sent", "sent"}, {"Trash", "trash"}, {"Subscribed", "subscribed"},
}

// roleOf returns a folder's role, or "" if it has none.
func roleOf(f *mailbox.Folder) string {
	if f.Name == mailbox.Inbox {
		return "inbox"
	}
	for _, r := range roles {
		if strings.EqualFold(r.use, f.SpecialUse) {
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
	return mailbox.Inbox, role == "inbox"
}

// itemSortOrder is the item of a folder's note that holds its sort order. Without it the role determines the order.
const itemSortOrder = "SortOrder"

var roleOrder = []string{"inbox", "drafts", "sent", "archive", "junk", "trash"}

func usualOrder(role string) int {
	if i := slices.Index(roleOrder, role); i >= 0 {
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
	g, err := c.getArguments(false)
	if err != nil {
		return err
	}
	if err := g.only(mailboxProperties...); err != nil {
		return err
	}
	counts := slices.ContainsFunc(countProperties, g.wants)
	list, states, err := c.account.File.Mailboxes(c.ctx, counts)
	if err != nil {
		return err
	}
	if g.all && len(list) > c.s.opt.Limits.ObjectsInGet {
		return &jmap.Error{Type: "requestTooLarge", Description: "There are more mailboxes than maxObjectsInGet."}
	}
	order, err := c.sortOrders(list, g.wants("sortOrder"))
	if err != nil {
		return err
	}
	c.beginGet(states.Folders.String())
	t := newTree(list)
	var notFound []string
	n := 0
	put := func(f *mailbox.Mailbox) {
		if n++; n > 1 {
			c.out = append(c.out, ',')
		}
		c.appendMailbox(t, f, &g, order)
	}
	if g.all {
		for i := range list {
			put(&list[i])
		}
	}
	for _, id := range g.ids {
		u, ok := parseID(letterFolder, id)
		i := slices.IndexFunc(list, func(f mailbox.Mailbox) bool { return f.UNID == u })
		if !ok || i < 0 {
			notFound = append(notFound, id)
			continue
		}
		put(&list[i])
	}
	c.endGet(notFound)
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
				n = usualOrder(roleOf(&list[i].Folder))
			}
			out[list[i].ID] = n
		}
		return nil
	})
	return out, err
}

func (c *call) appendMailbox(t *tree, f *mailbox.Mailbox, g *get, order map[note.ID]int) {
	o := jmap.NewWriter(c.out)
	o.Name("id")
	o.B = appendID(o.B, letterFolder, f.UNID)
	parent, name := t.parent(f)
	if g.wants("name") {
		o.Text("name", name)
	}
	if g.wants("parentId") {
		o.Name("parentId")
		if parent == nil {
			o.B = append(o.B, "null"...)
		} else {
			o.B = appendID(o.B, letterFolder, parent.UNID)
		}
	}
	if g.wants("role") {
		if role := roleOf(&f.Folder); role != "" {
			o.Text("role", role)
		} else {
			o.Raw("role", "null")
		}
	}
	if g.wants("sortOrder") {
		o.Uint("sortOrder", uint64(max(order[f.ID], 0)))
	}
	for i, n := range []uint32{f.Counts.Total, f.Counts.Unread, f.Counts.Threads, f.Counts.UnreadThreads} {
		if g.wants(countProperties[i]) {
			o.Uint(countProperties[i], uint64(n))
		}
	}
	if g.wants("myRights") {
		o.Name("myRights")
		o.B = appendRights(o.B, f)
	}
	if g.wants("isSubscribed") {
		o.Bool("isSubscribed", f.Subscribed)
	}
	c.out = o.End()
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
	return c.changes(letterFolder, (*mailbox.Reading).FolderChanges, func(x *mailbox.Changes) {
		c.out = append(c.out[:len(c.out)-1], `,"updatedProperties":`...)
		if x.CountsOnly && len(x.Updated) > 0 {
			c.out = append(jmap.AppendStrings(c.out, countProperties), '}')
		} else {
			c.out = append(c.out, "null}"...)
		}
	})
}

// mailboxFilter is a filter on Mailboxes.
type mailboxFilter struct {
	op   string
	of   []mailboxFilter
	test func(f *mailbox.Mailbox, t *tree) bool
}

// readMailboxFilter reads the argument filter of Mailbox/query.
//
// Implements: RFC 8621 §2.3 Mailbox/query
func (r *filterReader) readMailboxFilter(v *jmap.Value, depth int) (f mailboxFilter, err error) {
	if r.left--; r.left < 0 || depth > maxFilterDepth {
		return f, unsupportedFilter("The filter has more conditions, or nests them deeper, than this server takes.")
	}
	if v.Kind() != jmap.Object {
		return f, invalid("a filter is an object")
	}
	if op := v.Get("operator"); op != nil {
		f.op, _ = op.Text()
		of := v.Get("conditions")
		if !slices.Contains([]string{"AND", "OR", "NOT"}, f.op) || of.Kind() != jmap.Array || v.Len() != 2 {
			return f, invalid("a FilterOperator has an operator, AND, OR or NOT, and conditions")
		}
		for i := range of.Len() {
			g, err := r.readMailboxFilter(of.At(i), depth+1)
			if err != nil {
				return f, err
			}
			f.of = append(f.of, g)
		}
		return f, nil
	}
	f.op = "AND"
	for i := range v.Len() {
		test, err := mailboxTest(v.Name(i), v.At(i))
		if err != nil {
			return f, err
		}
		f.of = append(f.of, mailboxFilter{test: test})
	}
	return f, nil
}

func mailboxTest(name string, v *jmap.Value) (func(f *mailbox.Mailbox, t *tree) bool, error) {
	text, isText := v.Text()
	on, isBool := v.Bool()
	switch {
	case name == "parentId" && v.IsNull():
		return func(f *mailbox.Mailbox, t *tree) bool { p, _ := t.parent(f); return p == nil }, nil
	case name == "parentId" && isText:
		u, _ := parseID(letterFolder, text)
		return func(f *mailbox.Mailbox, t *tree) bool { p, _ := t.parent(f); return p != nil && p.UNID == u }, nil
	case name == "name" && isText:
		needle := strings.ToLower(nfc(text))
		return func(f *mailbox.Mailbox, t *tree) bool {
			_, n := t.parent(f)
			return strings.Contains(strings.ToLower(n), needle)
		}, nil
	case name == "role" && v.IsNull():
		return func(f *mailbox.Mailbox, _ *tree) bool { return roleOf(&f.Folder) == "" }, nil
	case name == "role" && isText:
		return func(f *mailbox.Mailbox, _ *tree) bool { return roleOf(&f.Folder) == text }, nil
	case name == "hasAnyRole" && isBool:
		return func(f *mailbox.Mailbox, _ *tree) bool { return (roleOf(&f.Folder) != "") == on }, nil
	case name == "isSubscribed" && isBool:
		return func(f *mailbox.Mailbox, _ *tree) bool { return f.Subscribed == on }, nil
	case slices.Contains([]string{"parentId", "name", "role", "hasAnyRole", "isSubscribed"}, name):
		return nil, invalid("the filter's %s is not what it should be", name)
	}
	return nil, unsupportedFilter("There is no condition " + name[:min(len(name), 100)] + " here.")
}

func (m *mailboxFilter) fits(f *mailbox.Mailbox, t *tree) bool {
	if m.test != nil {
		return m.test(f, t)
	}
	for i := range m.of {
		if ok := m.of[i].fits(f, t); ok != (m.op == "AND") {
			return ok && m.op == "OR"
		}
	}
	return m.op != "OR"
}

// mailboxQuery answers Mailbox/query.
//
// Implements: RFC 8621 §2.3 Mailbox/query
func mailboxQuery(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "position", "anchor", "anchorOffset", "limit", "calculateTotal",
		"sortAsTree", "filterAsTree"); err != nil {
		return err
	}
	if err := c.needAccount(false); err != nil {
		return err
	}
	w, err := c.windowArguments()
	if err != nil {
		return err
	}
	list, state, err := c.mailboxResults()
	if err != nil {
		return err
	}
	total := len(list)
	list, position, err := cut(&w, list, func(anchor string) int {
		u, ok := parseID(letterFolder, anchor)
		if !ok {
			return -1
		}
		return slices.Index(list, note.UNID(u))
	})
	if err != nil {
		return err
	}
	c.beginQuery(state, true, position)
	for i, u := range list {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendID(c.out, letterFolder, u)
	}
	if !w.total {
		total = -1
	}
	c.endQuery(total)
	return nil
}

// mailboxResults returns all results of a query for Mailboxes, in order.
func (c *call) mailboxResults() (out []note.UNID, state string, err error) {
	var filter mailboxFilter
	if v := c.args.Get("filter"); !v.IsNull() {
		r := filterReader{left: maxFilterConditions}
		if filter, err = r.readMailboxFilter(v, 0); err != nil {
			return nil, "", err
		}
	} else {
		filter.op = "AND"
	}
	asTree, err := c.bool("sortAsTree", false)
	if err != nil {
		return nil, "", err
	}
	whole, err := c.bool("filterAsTree", false)
	if err != nil {
		return nil, "", err
	}
	list, states, err := c.account.File.Mailboxes(c.ctx, false)
	if err != nil {
		return nil, "", err
	}
	t := newTree(list)
	less, err := c.mailboxOrder(t)
	if err != nil {
		return nil, "", err
	}
	order := make([]*mailbox.Mailbox, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortStableFunc(order, less)
	if asTree {
		order = t.preorder(order)
	}
	for _, f := range order {
		fits := filter.fits(f, t)
		for p, _ := t.parent(f); whole && fits && p != nil; p, _ = t.parent(p) {
			fits = filter.fits(p, t)
		}
		if fits {
			out = append(out, f.UNID)
		}
	}
	return out, states.Folders.String(), nil
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

// mailboxOrder reads the argument sort.
func (c *call) mailboxOrder(t *tree) (func(a, b *mailbox.Mailbox) int, error) {
	keys, err := c.sortKeys("name", "sortOrder")
	if err != nil {
		return nil, err
	}
	var order map[note.ID]int
	if slices.ContainsFunc(keys, func(k sortKey) bool { return k.property == "sortOrder" }) {
		if order, err = c.sortOrders(t.list, true); err != nil {
			return nil, err
		}
	}
	return func(a, b *mailbox.Mailbox) int {
		for _, k := range keys {
			n := 0
			switch k.property {
			case "sortOrder":
				n = order[a.ID] - order[b.ID]
			case "name":
				_, x := t.parent(a)
				_, y := t.parent(b)
				n = strings.Compare(strings.ToLower(x), strings.ToLower(y))
			}
			if k.down {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	}, nil
}

// mailboxQueryChanges answers Mailbox/queryChanges. It derives the changes of the result from the changes of all
// folders, since there are few.
//
// Implements: RFC 8621 §2.4 Mailbox/queryChanges
func mailboxQueryChanges(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "sinceQueryState", "maxChanges", "upToId", "calculateTotal",
		"sortAsTree", "filterAsTree"); err != nil {
		return err
	}
	since, limit, err := c.queryChangesArguments()
	if err != nil {
		return err
	}
	total, err := c.bool("calculateTotal", false)
	if err != nil {
		return err
	}
	state, err := mailbox.ParseState(since)
	if err != nil {
		return err
	}
	var x mailbox.Changes
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) (err error) {
		x, err = d.FolderChanges(state, 0)
		return err
	})
	if err != nil {
		return err
	}
	list, _, err := c.mailboxResults()
	if err != nil {
		return err
	}
	// Renaming a folder can move others: its children, and in a tree order the folders after it. So all results are
	// reported as removed and added, unless only counts have changed.
	again := map[note.UNID]bool{}
	if len(x.Updated) > 0 && !x.CountsOnly {
		for _, u := range list {
			again[u] = true
		}
	}
	removed := append(slices.Clone(x.Destroyed), x.Updated...)
	if x.CountsOnly {
		removed = slices.Clone(x.Destroyed)
	}
	for u := range again {
		if !slices.Contains(x.Created, u) && !slices.Contains(removed, u) {
			removed = append(removed, u)
		}
	}
	slices.SortFunc(removed, note.UNID.Compare)
	type added struct {
		u     note.UNID
		index int
	}
	var add []added
	for i, u := range list {
		if again[u] || slices.Contains(x.Created, u) {
			add = append(add, added{u, i})
		}
	}
	if limit >= 0 && len(removed)+len(add) > limit {
		return mailbox.ErrManyChanges
	}
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","oldQueryState":`...)
	c.out = jmap.AppendString(c.out, since)
	c.out = jmap.AppendString(append(c.out, `,"newQueryState":`...), x.State.String())
	if total {
		c.out = appendInt(append(c.out, `,"total":`...), len(list))
	}
	c.out = appendIDs(append(c.out, `,"removed":`...), letterFolder, removed)
	c.out = append(c.out, `,"added":[`...)
	for i, a := range add {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendID(append(c.out, `{"id":`...), letterFolder, a.u)
		c.out = append(appendInt(append(c.out, `,"index":`...), a.index), '}')
	}
	c.out = append(c.out, "]}"...)
	return nil
}
