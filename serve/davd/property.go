package davd

import (
	"cmp"
	"encoding/xml"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
)

// property is a property that the server computes. value returns its content as XML; ok is false where it has none.
type property struct {
	name  xml.Name
	hide  bool // not part of allprop, because clients that ask for it name it
	value func(q *request, x *resource) (content string, ok bool)
}

func dav(local string) xml.Name     { return xml.Name{Space: nsDAV, Local: local} }
func caldav(local string) xml.Name  { return xml.Name{Space: nsCalDAV, Local: local} }
func carddav(local string) xml.Name { return xml.Name{Space: nsCardDAV, Local: local} }

// ofCollection makes the value of a property that collections have; kind "" means both kinds.
func ofCollection(kind groupware.Kind,
	fn func(c *groupware.Collection) string) func(*request, *resource) (string, bool) {
	return func(_ *request, x *resource) (string, bool) {
		if x.at != atCollection || kind != "" && x.kind != kind {
			return "", false
		}
		s := fn(x.collection)
		return s, s != ""
	}
}

// ofEntry makes the value of a property that entries have.
func ofEntry(fn func(e *groupware.Entry) string) func(*request, *resource) (string, bool) {
	return func(_ *request, x *resource) (string, bool) {
		if x.at != atEntry {
			return "", false
		}
		return escape(fn(x.entry)), true
	}
}

// ofPrincipal makes the value of a property with the addresses of a person.
func ofPrincipal(fn func(o *owner) string) func(*request, *resource) (string, bool) {
	return func(_ *request, x *resource) (string, bool) {
		return fn(x.owner), x.at == atPrincipal || x.at == atRoot
	}
}

// properties lists the properties of all resources.
//
// Implements: RFC 5397 §3 DAV:current-user-principal
// Implements: RFC 3744 §5 Access Control Properties
// Implements: RFC 4331 §3 DAV:quota-available-bytes
var properties = slices.Concat(scheduleProperties, attachmentProperties, []property{
	{dav("resourcetype"), false, resourceType},
	{dav("displayname"), false, displayName},
	{dav("getetag"), false, ofEntry(func(e *groupware.Entry) string { return quoted(e.ETag) })},
	{dav("getcontenttype"), false, ofEntry((*groupware.Entry).ContentType)},
	{dav("getcontentlength"), false, ofEntry(func(e *groupware.Entry) string { return strconv.Itoa(e.Size) })},
	{dav("getlastmodified"), false, ofEntry(func(e *groupware.Entry) string {
		return e.Modified.Format(http.TimeFormat)
	})},
	{dav("current-user-principal"), true, func(q *request, _ *resource) (string, bool) {
		return href(q.self.principal()), true
	}},
	{dav("principal-URL"), true, ofPrincipal(func(o *owner) string { return href(o.principal()) })},
	{dav("principal-collection-set"), true, func(*request, *resource) (string, bool) {
		return href(Path + "principals/"), true
	}},
	{dav("owner"), true, func(_ *request, x *resource) (string, bool) {
		return href(x.owner.principal()), x.at >= atHome
	}},
	{dav("current-user-privilege-set"), true, privileges},
	{dav("supported-report-set"), true, reportSet},
	{dav("sync-token"), true, ofCollection("", func(c *groupware.Collection) string { return syncURI + c.Token })},
	{xml.Name{Space: nsServer, Local: "getctag"}, true,
		ofCollection("", func(c *groupware.Collection) string { return c.Token })},
	{dav("quota-used-bytes"), true, func(q *request, x *resource) (string, bool) {
		u, ok := q.usage(x)
		return strconv.FormatUint(u.Used, 10), ok
	}},
	{dav("quota-available-bytes"), true, func(q *request, x *resource) (string, bool) {
		u, ok := q.usage(x)
		return strconv.FormatUint(u.Limit-min(u.Limit, u.Used), 10), ok && u.Limit > 0
	}},
	{caldav("calendar-home-set"), true,
		ofPrincipal(func(o *owner) string { return href(o.home(groupware.Calendar)) })},
	{carddav("addressbook-home-set"), true,
		ofPrincipal(func(o *owner) string { return href(o.home(groupware.AddressBook)) })},
	{caldav("calendar-description"), true,
		ofCollection(groupware.Calendar, func(c *groupware.Collection) string { return escape(c.Description) })},
	{carddav("addressbook-description"), true,
		ofCollection(groupware.AddressBook, func(c *groupware.Collection) string { return escape(c.Description) })},
	{xml.Name{Space: nsApple, Local: "calendar-color"}, true,
		ofCollection("", func(c *groupware.Collection) string { return escape(c.Color) })},
	{xml.Name{Space: nsApple, Local: "calendar-order"}, true,
		ofCollection("", func(c *groupware.Collection) string { return strconv.Itoa(c.Order) })},
	{caldav("calendar-timezone-id"), true,
		ofCollection(groupware.Calendar, func(c *groupware.Collection) string { return escape(c.TimeZone) })},
	{caldav("schedule-calendar-transp"), true, ofCollection(groupware.Calendar, func(c *groupware.Collection) string {
		if c.Transparent {
			return "<C:transparent/>"
		}
		return "<C:opaque/>"
	})},
	{caldav("supported-calendar-component-set"), true, ofCollection(groupware.Calendar, components)},
	{caldav("supported-calendar-data"), true, ofCollection(groupware.Calendar, func(*groupware.Collection) string {
		return `<C:calendar-data content-type="text/calendar" version="2.0"/>`
	})},
	{carddav("supported-address-data"), true, ofCollection(groupware.AddressBook, func(*groupware.Collection) string {
		return `<A:address-data-type content-type="text/vcard" version="3.0"/>` +
			`<A:address-data-type content-type="text/vcard" version="4.0"/>`
	})},
	{caldav("supported-collation-set"), true, ofCollection(groupware.Calendar, func(*groupware.Collection) string {
		return "<C:supported-collation>i;ascii-casemap</C:supported-collation>" +
			"<C:supported-collation>i;octet</C:supported-collation>" +
			"<C:supported-collation>i;unicode-casemap</C:supported-collation>"
	})},
	{caldav("max-resource-size"), true, ofCollection(groupware.Calendar, maxSize)},
	{carddav("max-resource-size"), true, ofCollection(groupware.AddressBook, maxSize)},
	{caldav("max-attendees-per-instance"), true, ofCollection(groupware.Calendar, func(*groupware.Collection) string {
		return strconv.Itoa(itip.MaxAttendees)
	})},
})

func maxSize(*groupware.Collection) string { return strconv.Itoa(groupware.MaxEntry) }

// syncURI makes a token of groupware a URI.
const syncURI = "urn:doublet:sync:"

func quoted(etag string) string { return `"` + etag + `"` }

func resourceType(_ *request, x *resource) (string, bool) {
	switch {
	case x.at == atEntry:
		return "", true
	case x.at == atPrincipal:
		return "<D:principal/>", true
	case x.at == atSchedule:
		return "<D:collection/><C:schedule-" + x.col + "/>", true
	case x.at == atCollection && x.kind == groupware.Calendar:
		return "<D:collection/><C:calendar/>", true
	case x.at == atCollection:
		return "<D:collection/><A:addressbook/>", true
	}
	return "<D:collection/>", true
}

func displayName(_ *request, x *resource) (string, bool) {
	switch x.at {
	case atCollection:
		return escape(x.collection.Title), true
	case atPrincipal, atHome:
		return escape(x.owner.title), true
	}
	return "", false
}

func components(c *groupware.Collection) string {
	list := c.Components
	if len(list) == 0 {
		list = calendar.Kinds
	}
	var b strings.Builder
	for _, name := range list {
		b.WriteString(`<C:comp name="` + escape(name) + `"/>`)
	}
	return b.String()
}

// privileges returns the caller's privileges.
//
// Implements: RFC 3744 §5.5 DAV:current-user-privilege-set
func privileges(q *request, x *resource) (string, bool) {
	if x.at == atSchedule {
		return schedulePrivileges(x.col), true
	}
	list := []string{"read", "read-current-user-privilege-set"}
	mine := x.owner == q.self
	switch {
	case x.collection != nil:
		rights := x.collection.Rights
		if rights&note.Read == 0 {
			list = list[1:]
		}
		content := note.Write | note.Insert | note.Expunge
		if rights&(content|note.Create) == content|note.Create {
			list = append(list, "write")
		}
		for _, p := range []struct {
			right note.Rights
			name  string
		}{{note.Write, "write-content"}, {note.Insert, "bind"}, {note.Expunge, "unbind"},
			{note.Create, "write-properties"}} {
			if rights&p.right != 0 {
				list = append(list, p.name)
			}
		}
	case x.at == atHome && mine:
		list = append(list, "write", "bind", "unbind")
	}
	var b strings.Builder
	for _, p := range list {
		b.WriteString("<D:privilege><D:" + p + "/></D:privilege>")
	}
	if x.at == atCollection && x.kind == groupware.Calendar {
		b.WriteString("<D:privilege><C:read-free-busy/></D:privilege>")
	}
	return b.String(), true
}

// reportSet lists the reports of a resource.
//
// Implements: RFC 3253 §3.1.5 DAV:supported-report-set
func reportSet(_ *request, x *resource) (string, bool) {
	list := []string{"D:expand-property", "D:principal-property-search", "D:principal-search-property-set"}
	if x.at == atCollection {
		list = append(list, "D:sync-collection")
		if x.kind == groupware.Calendar {
			list = append(list, "C:calendar-query", "C:calendar-multiget", "C:free-busy-query")
		} else {
			list = append(list, "A:addressbook-query", "A:addressbook-multiget")
		}
	}
	var b strings.Builder
	for _, r := range list {
		b.WriteString("<D:supported-report><D:report><" + r + "/></D:report></D:supported-report>")
	}
	return b.String(), true
}

func (q *request) usage(x *resource) (u mailbox.Usage, ok bool) {
	if x.owner != q.self || x.owner.db == 0 || x.at != atHome && x.at != atCollection {
		return u, false
	}
	err := q.s.files.File(q.caller.Who, x.owner.db).Read(q.ctx, func(d *mailbox.Reading) (err error) {
		u, err = d.Usage()
		return err
	})
	return u, err == nil
}

// wanted holds the properties that a request asks of each resource.
type wanted struct {
	all, only bool // allprop; propname
	names     []xml.Name
	data      *element // calendar-data or address-data, if it is wanted
}

// readWanted reads the children prop, allprop and propname of a request.
func readWanted(e *element) (w wanted, err error) {
	switch {
	case e == nil || e.child(nsDAV, "allprop") != nil:
		w.all = true
	case e.child(nsDAV, "propname") != nil:
		w.only = true
	case e.child(nsDAV, "prop") == nil:
		return w, fail(http.StatusBadRequest, "", "request names no properties")
	}
	list := e.child(nsDAV, "prop")
	if w.all {
		list = e.child(nsDAV, "include")
	}
	if list == nil {
		return w, nil
	}
	for _, c := range list.children {
		if c.is(nsCalDAV, "calendar-data") || c.is(nsCardDAV, "address-data") {
			w.data = c
			continue
		}
		if !slices.Contains(w.names, c.name) {
			w.names = append(w.names, c.name)
		}
		if len(w.names) > maxWanted {
			return w, fail(http.StatusBadRequest, "", "request names too many properties")
		}
	}
	if w.data.size() > maxParts {
		return w, fail(http.StatusBadRequest, "", "request names too many parts of the data")
	}
	return w, nil
}

// maxWanted bounds the properties that a request names, and maxParts the elements of calendar-data or address-data,
// because each is compared with each property of each entry.
const (
	maxWanted = 200
	maxParts  = 200
)

// add adds the properties of a resource to a response. data is the content of calendar-data or address-data.
func (w *wanted) add(q *request, m *multistatus, x *resource, data string) error {
	var found strings.Builder
	var missing []xml.Name
	one := func(n xml.Name, s string) {
		if w.only {
			s = ""
		}
		found.WriteString(open(n) + s + closing(n))
	}
	if w.all || w.only {
		for _, p := range properties {
			if p.hide && !w.only {
				continue
			}
			if s, ok := p.value(q, x); ok {
				one(p.name, s)
			}
		}
		if x.at == atCollection {
			for key, v := range x.collection.Extra {
				one(nameOfKey(key), v)
			}
		}
	}
	for _, n := range w.names {
		if s, ok := q.value(x, n); ok {
			one(n, s)
		} else {
			missing = append(missing, n)
		}
	}
	if data != "" {
		found.WriteString(data)
	}
	before := m.b.Cap()
	m.props(x.path(), found.String(), missing)
	if m.b.Len() > maxResponse {
		return fail(http.StatusInsufficientStorage, "<D:number-of-matches-within-limits/>", "response is too large")
	}
	return q.take(int64(m.b.Cap() - before))
}

// value returns the content of one property.
func (q *request) value(x *resource, n xml.Name) (string, bool) {
	for i := range properties {
		if properties[i].name == n {
			return properties[i].value(q, x)
		}
	}
	if x.at == atCollection {
		s, ok := x.collection.Extra[keyOf(n)]
		return s, ok
	}
	return "", false
}

// keyOf returns the key of a property in groupware.Properties.Extra.
func keyOf(n xml.Name) string { return "{" + n.Space + "}" + n.Local }

func nameOfKey(key string) xml.Name {
	space, local, _ := strings.Cut(strings.TrimPrefix(key, "{"), "}")
	return xml.Name{Space: space, Local: local}
}

// propfind answers PROPFIND. Depth infinity is refused, as RFC 4918 allows.
//
// Implements: RFC 4918 §9.1 PROPFIND Method
func (q *request) propfind(x *resource) error {
	e, err := q.xml()
	if err != nil {
		return err
	}
	if e != nil && !e.is(nsDAV, "propfind") {
		return fail(http.StatusBadRequest, "", "body is not a propfind element")
	}
	w, err := readWanted(e)
	if err != nil {
		return err
	}
	depth := cmp.Or(q.r.Header.Get("Depth"), "infinity")
	if depth != "0" && depth != "1" && x.at != atEntry {
		return fail(http.StatusForbidden, "<D:propfind-finite-depth/>", "depth must be 0 or 1")
	}
	if err := q.load(x); err != nil {
		return err
	}
	m := newMultistatus()
	if err := w.add(q, m, x, ""); err != nil {
		return err
	}
	if depth == "1" {
		if err := q.children(x, func(c *resource) error { return w.add(q, m, c, "") }); err != nil {
			return err
		}
	}
	return q.multi(m, "")
}
