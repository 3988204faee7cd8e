package calendar

import (
	"slices"
	"strconv"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// entries calls fn for the members of a member that is a map of objects. It returns an InvalidError if it is none.
func entries(want *jmap.Value, name string, fn func(id string, v *jmap.Value) error) error {
	v := want.Get(name)
	if v.IsNull() {
		return nil
	}
	if v.Kind() != jmap.Object {
		return invalid("it is no map of objects", name)
	}
	for i := range v.Len() {
		if !jmap.ValidID(v.Name(i)) || v.At(i).Kind() != jmap.Object {
			return invalid("it is no map of objects by ids", name)
		}
		if err := fn(v.Name(i), v.At(i)); err != nil {
			return err
		}
	}
	return nil
}

// onlyID is the id of an object that iCalendar has one of.
const onlyID = "1"

// printLocations prints the place of the event.
//
// Implements: RFC 8984 §4.2.5 locations
func printLocations(e *event, w *jmap.Writer, _ func(string) bool) {
	p, geo := e.c.Get("LOCATION"), e.c.Get("GEO")
	name := ""
	id := onlyID
	if p != nil {
		name, id = p.Text(), idOf(p, onlyID)
	}
	coordinates := ""
	if geo != nil {
		if lat, lon, ok := strings.Cut(geo.Value, ";"); ok && isNumber(lat) && isNumber(lon) {
			coordinates = "geo:" + lat + "," + lon
		}
	}
	if name == "" && coordinates == "" {
		return
	}
	w.Object("locations", func(o *jmap.Writer) {
		o.Object(id, func(o *jmap.Writer) {
			o.Text("@type", "Location")
			if name != "" {
				o.Text("name", name)
			}
			if coordinates != "" {
				o.Text("coordinates", coordinates)
			}
		})
	})
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && !strings.ContainsAny(s, "nNiIxXpP_")
}

// setLocations writes LOCATION and GEO: the place that they stood for if it stays, else the first one that has a name.
func setLocations(e *event, old, want *jmap.Value) error {
	before := e.c.Get("LOCATION")
	had := onlyID
	if before != nil {
		had = idOf(before, onlyID)
	}
	var id string
	var place *jmap.Value
	err := entries(want, "locations", func(x string, v *jmap.Value) error {
		if name, ok := textOf(v, "name"); !ok {
			return invalid("the name of a location is no text", "locations")
		} else if x == had || name != "" && place == nil {
			id, place = x, v
		}
		return nil
	})
	if err != nil {
		return err
	}
	name, _ := textOf(place, "name")
	if was, _ := textOf(old.Get("locations").Get(had), "name"); was != name {
		e.c.Drop("X-APPLE-STRUCTURED-LOCATION")
	}
	if e.c.SetText("LOCATION", name); name != "" {
		setID(e.c.Get("LOCATION"), id, onlyID)
	}
	geo, _ := place.Get("coordinates").Text()
	lat, lon, ok := strings.Cut(strings.TrimPrefix(geo, "geo:"), ",")
	if e.c.Drop("GEO"); ok && isNumber(lat) && isNumber(lon) && (name != "" || id == onlyID) {
		e.c.Set(ical.Property{Name: "GEO", Value: lat + ";" + lon})
	}
	return nil
}

// meeting lists the properties that name an address to meet at: that of RFC 7986, and those of two big services.
var meeting = []string{"CONFERENCE", "X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL"}

// safe reports whether a URI may be shown as a link: it has a scheme that runs no script.
func safe(uri string) bool {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || scheme == "" || rest == "" || strings.ContainsAny(uri, "\n\t ") {
		return false
	}
	scheme = strings.ToLower(scheme)
	return scheme != "javascript" && scheme != "vbscript" && scheme != "data" && scheme != "file"
}

// virtual returns the lines of the places on the web, each address once, by the id of their location.
func (e *event) virtual() (ids []string, lines map[string]*ical.Property) {
	lines = map[string]*ical.Property{}
	seen := map[string]bool{}
	for _, name := range meeting {
		for i := range e.c.Properties {
			p := &e.c.Properties[i]
			if p.Name != name || !safe(p.Text()) || seen[p.Text()] {
				continue
			}
			id := idOf(p, strconv.Itoa(len(ids)+1))
			if lines[id] != nil {
				continue
			}
			seen[p.Text()], lines[id], ids = true, p, append(ids, id)
		}
	}
	return ids, lines
}

// printVirtual prints the addresses of the event on the web.
//
// Implements: RFC 8984 §4.2.6 virtualLocations
func printVirtual(e *event, w *jmap.Writer, _ func(string) bool) {
	ids, lines := e.virtual()
	if len(ids) == 0 {
		return
	}
	w.Object("virtualLocations", func(o *jmap.Writer) {
		for _, id := range ids {
			o.Object(id, func(o *jmap.Writer) {
				p := lines[id]
				o.Text("@type", "VirtualLocation")
				o.Text("uri", p.Text())
				if label := p.Param("LABEL"); label != "" {
					o.Text("name", label)
				}
				if features := values(p, "FEATURE"); len(features) > 0 {
					o.Object("features", func(o *jmap.Writer) {
						for _, f := range features {
							o.Key(strings.ToLower(f))
							o.B = append(o.B, "true"...)
						}
					})
				}
			})
		}
	})
}

// values returns the values of a parameter, each once.
func values(p *ical.Property, param string) (list []string) {
	for _, x := range p.Params {
		if x.Name == param {
			for _, v := range x.Values {
				if v != "" && !slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, v) }) {
					list = append(list, v)
				}
			}
		}
	}
	return list
}

// setVirtual writes a line for each address on the web.
func setVirtual(e *event, old, want *jmap.Value) error {
	_, lines := e.virtual()
	var out []ical.Property
	err := entries(want, "virtualLocations", func(id string, v *jmap.Value) error {
		uri, isText := v.Get("uri").Text()
		name, clean := textOf(v, "name")
		if !isText || !safe(uri) || !clean {
			return invalid("a virtual location has no uri, or one that cannot be opened", "virtualLocations")
		}
		p := ical.Property{Name: "CONFERENCE", Params: []ical.Param{{Name: "VALUE", Values: []string{"URI"}}}}
		if have := lines[id]; have != nil {
			if p = *have; v.Equal(old.Get("virtualLocations").Get(id)) {
				setID(&p, id, strconv.Itoa(len(out)+1))
				out = append(out, p)
				return nil
			}
		}
		p.Params = slices.Clone(p.Params)
		p.Value = uri
		if p.SetParam("LABEL"); name != "" {
			p.SetParam("LABEL", name)
		}
		features, _ := names(v, "features")
		for i := range features {
			features[i] = strings.ToUpper(features[i])
		}
		p.SetParam("FEATURE", features...)
		setID(&p, id, strconv.Itoa(len(out)+1))
		out = append(out, p)
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range meeting {
		e.c.Drop(name)
	}
	// Ids that are numbers go by the place among the lines, in the order of meeting.
	slices.SortStableFunc(out, func(a, b ical.Property) int {
		return slices.Index(meeting, a.Name) - slices.Index(meeting, b.Name)
	})
	e.c.Properties = append(e.c.Properties, out...)
	return nil
}

// linkLines lists the properties that are links, with their relations; a relation that LINKREL names is "".
var linkLines = [...]struct{ property, rel string }{{"ATTACH", "enclosure"}, {"IMAGE", "icon"}, {"URL", "describedby"},
	{"LINK", ""}}

// link is a line that is a link, and what it says.
type link struct {
	id, href, rel string
	line          *ical.Property
}

// links returns the links of the event. The id of one is a hash of its address, unless the line names another one.
func (e *event) links() (list []link) {
	seen := map[string]bool{}
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		for _, x := range linkLines {
			if x.property != p.Name {
				continue
			}
			l := link{href: strings.TrimSpace(p.Value), rel: x.rel, line: p}
			if x.rel == "" {
				l.rel = p.Param("LINKREL")
			}
			if p.Param("ENCODING") == "BASE64" {
				kind := p.Param("FMTTYPE")
				if kind == "" {
					kind = "application/octet-stream"
				}
				l.href = "data:" + kind + ";base64," + l.href
			} else if !safe(l.href) {
				continue
			}
			if l.id = idOf(p, hashID("l", l.href)); !seen[l.id] {
				seen[l.id], list = true, append(list, l)
			}
		}
	}
	return list
}

// printLinks prints the attachments and links.
//
// Implements: RFC 8984 §4.2.7 links
func printLinks(e *event, w *jmap.Writer, _ func(string) bool) {
	list := e.links()
	if len(list) == 0 {
		return
	}
	w.Object("links", func(o *jmap.Writer) {
		for _, l := range list {
			o.Object(l.id, func(o *jmap.Writer) {
				o.Text("@type", "Link")
				o.Text("href", l.href)
				if id := e.blobID(l.line); id != "" {
					o.Text(propBlob, id)
				}
				if kind := l.line.Param("FMTTYPE"); kind != "" {
					o.Text("contentType", kind)
				}
				if n, err := strconv.ParseUint(l.line.Param("SIZE"), 10, 53); err == nil {
					o.Uint("size", n)
				}
				if l.rel != "" {
					o.Text("rel", l.rel)
				}
				if title := l.line.Param("FILENAME") + l.line.Param("LABEL"); title != "" {
					o.Text("title", title)
				}
			})
		}
	})
}

// setLinks writes a line for each link.
func setLinks(e *event, old, want *jmap.Value) error {
	have, managed := map[string]link{}, map[string]string{}
	for _, l := range e.links() {
		l.line = &ical.Property{Name: l.line.Name, Params: slices.Clone(l.line.Params), Value: l.line.Value}
		have[l.id] = l
		managed[l.href] = ManagedID(l.line)
	}
	var out []ical.Property
	before := membersOf(old.Get("links"))
	err := entries(want, "links", func(id string, v *jmap.Value) error {
		was := before[id]
		if l, stays := have[id]; stays && v.Equal(was) {
			out = append(out, *l.line)
			return nil
		}
		p, attached, err := e.attach(id, v, was)
		if attached || err != nil {
			out = append(out, p)
			return err
		}
		p, err = linkOf(id, v)
		if m := managed[p.Value]; m != "" && p.Name == "ATTACH" { // the client describes it anew
			p.SetParam(ParamManagedID, m)
		}
		out = append(out, p)
		return err
	})
	if err != nil {
		return err
	}
	for _, x := range linkLines {
		e.c.Drop(x.property)
	}
	e.c.Properties = append(e.c.Properties, out...)
	return nil
}

// linkOf returns the line of a link.
func linkOf(id string, v *jmap.Value) (p ical.Property, err error) {
	href, isText := v.Get("href").Text()
	href, clean := line(href)
	data, isData := strings.CutPrefix(href, "data:")
	if !isText || !clean || !isData && !safe(href) {
		return p, invalid("a link has no href, or one that cannot be opened", "links")
	}
	for _, name := range []string{"rel", "contentType", "title"} {
		if s, ok := textOf(v, name); !ok || name != "title" && strings.Contains(s, "\n") {
			return p, invalid("a property of a link is no text", "links")
		}
	}
	p = related(v)
	p.Value = href
	kind, _ := textOf(v, "contentType")
	switch {
	case isData:
		var ok bool
		if p.Value, kind, ok = inlined(data); !ok {
			return p, invalid("a data: URI of a link is not base64", "links")
		}
		p.SetParam("ENCODING", "BASE64")
		p.SetParam("VALUE", "BINARY")
	case p.Name != "ATTACH":
		p.SetParam("VALUE", "URI")
	}
	describeLink(&p, kind, v)
	setID(&p, id, hashID("l", href))
	return p, nil
}

// related returns a line with the relation of a link.
func related(v *jmap.Value) ical.Property {
	rel, _ := textOf(v, "rel")
	p := ical.Property{Name: "LINK"}
	for _, x := range linkLines {
		if x.rel == rel && x.property != "URL" {
			p.Name = x.property
		}
	}
	if p.Name == "LINK" && rel != "" {
		p.SetParam("LINKREL", rel)
	}
	return p
}

// inlined splits a data: URI, without its scheme, into the base64 and the media type.
func inlined(data string) (body, kind string, ok bool) {
	encoding, body, found := strings.Cut(data, ",")
	kind, isBase64 := strings.CutSuffix(encoding, ";base64")
	return body, kind, found && isBase64 && !strings.ContainsAny(body, " \t")
}

// describeLink sets the parameters that describe what a link leads to.
func describeLink(p *ical.Property, kind string, v *jmap.Value) {
	if kind != "" {
		p.SetParam("FMTTYPE", kind)
	}
	if n, ok := v.Get("size").Int(); ok && n >= 0 {
		p.SetParam("SIZE", strconv.FormatInt(n, 10))
	}
	name := "LABEL"
	if p.Name == "ATTACH" {
		name = "FILENAME"
	}
	if title, _ := textOf(v, "title"); title != "" {
		p.SetParam(name, title)
	}
}

// printRelated prints the relations to other events.
//
// Implements: RFC 8984 §4.1.3 relatedTo
func printRelated(e *event, w *jmap.Writer, _ func(string) bool) {
	var uids []string
	relations := map[string][]string{}
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if p.Name != "RELATED-TO" || p.Text() == "" {
			continue
		}
		uid, relation := p.Text(), strings.ToLower(p.Param("RELTYPE"))
		if relation == "" {
			relation = "parent"
		}
		if relations[uid] == nil {
			uids = append(uids, uid)
		}
		if !slices.Contains(relations[uid], relation) {
			relations[uid] = append(relations[uid], relation)
		}
	}
	if len(uids) == 0 {
		return
	}
	w.Object("relatedTo", func(o *jmap.Writer) {
		for _, uid := range uids {
			o.Key(uid)
			in := jmap.NewWriter(o.B)
			in.Text("@type", "Relation")
			in.Object("relation", func(o *jmap.Writer) {
				for _, r := range relations[uid] {
					o.Key(r)
					o.B = append(o.B, "true"...)
				}
			})
			o.B = in.End()
		}
	})
}

func setRelated(e *event, _, want *jmap.Value) error {
	v := want.Get("relatedTo")
	if !v.IsNull() && v.Kind() != jmap.Object {
		return invalid("it is no map of relations", "relatedTo")
	}
	var out []ical.Property
	for i := range v.Len() {
		uid, ok := line(v.Name(i))
		list, isSet := names(v.At(i), "relation")
		if !ok || uid == "" || !isSet {
			return invalid("it is no map of relations", "relatedTo")
		}
		for _, r := range list {
			p := ical.Property{Name: "RELATED-TO", Value: ical.EscapeText(uid)}
			if r != "parent" {
				p.SetParam("RELTYPE", strings.ToUpper(r))
			}
			out = append(out, p)
		}
	}
	e.c.Drop("RELATED-TO")
	e.c.Properties = append(e.c.Properties, out...)
	return nil
}
