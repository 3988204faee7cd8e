package contact

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Apply returns the vCard c with the changes that make it the card want, which Check has accepted. Properties that the
// change does not concern stay as they are, also those that are not known here. The UID stays too.
//
// Implements: RFC 9555 §3 Converting JSContact to vCard
func Apply(c *ical.Component, want Card) *ical.Component {
	w := &writing{base: readBase(c), want: want, changed: map[string]bool{}, done: map[string]map[string]bool{},
		before: labelsOf(c), groups: map[string]bool{}}
	if w.have = Read(c); equal(w.have, want) {
		return c
	}
	for _, p := range c.Properties {
		w.groups[strings.ToLower(p.Group)] = true
	}
	w.out = &ical.Component{Name: c.Name, Children: c.Children}
	for i := range c.Properties {
		w.property(i)
	}
	w.missing()
	w.labels()
	w.identify()
	w.residue()
	return w.out
}

// writing is a vCard that is changed.
type writing struct {
	*base
	have, want Card
	out        *ical.Component
	keys       [][]string                 // of the properties of out
	changed    map[string]bool            // see changes
	done       map[string]map[string]bool // the items that are written, by property
	before     map[string]string          // the labels of groups
	groups     map[string]bool            // that are taken, in small letters
}

// changes reports whether a property of the card differs.
func (w *writing) changes(name string) bool {
	differs, known := w.changed[name]
	if !known {
		differs = !equal(w.have[name], w.want[name])
		w.changed[name] = differs
	}
	return differs
}

func (w *writing) emit(p ical.Property, keys ...string) {
	w.out.Properties = append(w.out.Properties, p)
	w.keys = append(w.keys, keys)
}

// property copies the i-th property, changes it, or leaves it out.
func (w *writing) property(i int) {
	p := w.c.Properties[i]
	if p.Name == "JSPROP" || w.replaced(&p) {
		return
	}
	if ru := ruleOf(p.Name); ru != nil && len(w.base.keys[i]) > 0 {
		w.items(i, ru)
		return
	}
	if !w.used[i] && w.changes("vCardProps") && !known(p.Name) {
		return
	}
	w.emit(p)
}

// known reports whether a property is a part of the card.
func known(name string) bool {
	return ruleOf(name) != nil || name == "JSPROP" || name == "VERSION" || name == "BEGIN" || name == "END" ||
		wholeOf(name) != ""
}

// wholes maps the vCard properties that are written anew, when a property of the card changes, to the latter.
var wholes = map[string]string{"N": "name", "FN": "name", "GRAMGENDER": "speakToAs", "PRONOUNS": "speakToAs"}

func wholeOf(name string) string {
	for _, s := range scalars {
		if slices.Contains(s.names, name) {
			return s.property
		}
	}
	return wholes[name]
}

// replaced reports whether missing writes a property anew.
func (w *writing) replaced(p *ical.Property) bool {
	whole := wholeOf(p.Name)
	return whole != "" && whole != "uid" && w.changes(whole)
}

// items writes the items of the i-th property.
func (w *writing) items(i int, ru *rule) {
	p, keys := w.c.Properties[i], w.base.keys[i]
	have, want := w.have.object(ru.property), w.want.object(ru.property)
	same := !w.changes(ru.property) || len(keys) == 1 && !(ru.several && ru.keyed) &&
		want[keys[0]] != nil && equal(have[keys[0]], want[keys[0]])
	if same {
		w.emit(p, keys...)
		for _, k := range keys {
			w.mark(ru, k)
		}
		return
	}
	for _, k := range keys {
		if want[k] == nil || w.done[ru.property][k] || ru.several && ru.keyed {
			continue // the last: all of them are written as one property
		}
		q := p
		q.Params = slices.Clone(p.Params)
		if name := ru.name(itemOf(want[k])); name != q.Name && itemOf(want[k]).text("kind") !=
			itemOf(have[k]).text("kind") {
			q.Name = w.versioned(name)
		}
		w.item(q, ru, k)
	}
}

// versioned returns the name of a property in the version of the vCard.
func (w *writing) versioned(name string) string {
	if n := oldNames[name]; n != "" && w.old {
		return n
	}
	return name
}

// itemOf returns an item as an object. An element of a set is true.
func itemOf(v any) Card {
	if c, ok := v.(Card); ok {
		return c
	}
	return trueItem
}

func (w *writing) mark(ru *rule, key string) {
	if w.done[ru.property] == nil {
		w.done[ru.property] = map[string]bool{}
	}
	w.done[ru.property][key] = true
}

// item writes an item, unless it would not be read again: then residue keeps all of it.
func (w *writing) item(p ical.Property, ru *rule, key string) {
	w.mark(ru, key)
	item := itemOf(w.want.object(ru.property)[key])
	x := &value{Property: &p, old: w.old, key: key}
	ru.write(x, item)
	for _, t := range ru.types {
		t.types.write(&p, item.members(t.member))
	}
	if ru.types != nil {
		w.preference(&p, item)
	}
	x.text = p.Value
	again, readKey := ru.read(x)
	if again == nil || ru.keyed && readKey != key || ru.several && !ru.keyed && len(split(p.Value, ',')) > 1 {
		return
	}
	w.label(&p, item.text("label"), ru)
	if id := p.Param(nameParam); id != key && id != "" {
		setParam(&p, nameParam, "")
	}
	w.emit(p, key)
}

func (w *writing) preference(p *ical.Property, item Card) {
	n, _ := item["pref"].(float64)
	setParam(p, "PREF", "")
	var list []string
	for _, t := range params(p, "TYPE") {
		if !strings.EqualFold(t, "pref") {
			list = append(list, t)
		}
	}
	switch {
	case n < 1 || n > 100:
	case w.old && n == 1:
		list = append(list, "PREF")
	default:
		setParam(p, "PREF", fmt.Sprint(int(n)))
	}
	setParam(p, "TYPE", "")
	if len(list) > 0 {
		p.Params = append(p.Params, ical.Param{Name: "TYPE", Values: list})
	}
}

// label sets the label of a property, which is in its group.
func (w *writing) label(p *ical.Property, label string, ru *rule) {
	if ru.keyed || p.Group == "" && label == "" || p.Group != "" && w.before[p.Group] == label {
		return
	}
	if label == "" {
		p.Group = ""
		return
	}
	p.Group = w.freeGroup()
	w.emit(ical.Property{Group: p.Group, Name: "X-ABLABEL", Value: escape(label)})
}

// freeGroup returns a name for a group that no property has.
func (w *writing) freeGroup() string {
	for n := len(w.groups); ; n++ {
		if name := fmt.Sprint("item", n); !w.groups[name] {
			w.groups[name] = true
			return name
		}
	}
}

// missing writes what no property of the vCard had.
func (w *writing) missing() {
	for _, s := range scalars {
		if s.property == "uid" || !w.changes(s.property) || w.want.text(s.property) == "" {
			continue
		}
		text := w.want.text(s.property)
		if t, err := time.Parse(time.RFC3339, text); s.date && err == nil {
			text = t.UTC().Format("20060102T150405Z")
		} else {
			text = escape(text)
		}
		w.emit(ical.Property{Name: w.versioned(s.names[0]), Value: text})
	}
	w.name()
	if w.changes("speakToAs") {
		w.speakToAs()
	}
	for i := range rules {
		ru := &rules[i]
		want := w.want.object(ru.property)
		if ru.several && ru.keyed {
			w.joined(ru)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if !w.done[ru.property][key] {
				w.item(ical.Property{Name: w.versioned(ru.name(itemOf(want[key])))}, ru, key)
			}
		}
	}
	if w.changes("vCardProps") {
		w.others()
	}
}

// joined writes a set as one property, if it has changed.
func (w *writing) joined(ru *rule) {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(w.want.object(ru.property))), func(k string) bool {
		_, again := ru.read(&value{text: escape(k)})
		return again != k
	})
	if !w.changes(ru.property) || len(keys) == 0 {
		return
	}
	w.emit(ical.Property{Name: ru.names[0], Value: list(keys)}, keys...)
}

// name writes N and FN. Each vCard must have FN.
func (w *writing) name() {
	name := w.want.object("name")
	if w.changes("name") {
		by := components(name)
		parts := make([]string, len(nameKinds))
		some := 0
		for i, kind := range nameKinds {
			if parts[i] = list(by[kind]); parts[i] != "" {
				some = i + 1
			}
		}
		if some > 0 || w.old { // vCard 3.0 requires N
			w.emit(ical.Property{Name: "N", Value: strings.Join(parts[:max(some, 5)], ";")})
		}
	}
	if slices.ContainsFunc(w.out.Properties, func(p ical.Property) bool { return p.Name == "FN" }) {
		return
	}
	fn := ical.Property{Name: "FN", Value: escape(name.text("full"))}
	if fn.Value == "" {
		fn.Value = escape(w.derived())
		setParam(&fn, "DERIVED", "TRUE")
	}
	w.emit(fn)
}

// derived returns a name for a card without a full one: from its components, an organization or an address.
func (w *writing) derived() string {
	by := components(w.want.object("name"))
	var parts []string
	for _, kind := range []string{"title", "given", "given2", "surname", "surname2", "generation", "credential"} {
		parts = append(parts, by[kind]...)
	}
	if s := strings.TrimSpace(strings.Join(parts, " ")); s != "" {
		return s
	}
	for _, from := range []struct{ property, member string }{{"organizations", "name"}, {"nicknames", "name"},
		{"emails", "address"}, {"phones", "number"}} {
		items := w.want.object(from.property)
		for _, key := range slices.Sorted(maps.Keys(items)) {
			if s := itemOf(items[key]).text(from.member); s != "" {
				return s
			}
		}
	}
	return ""
}

func (w *writing) speakToAs() {
	speak := w.want.object("speakToAs")
	if g := speak.text("grammaticalGender"); g != "" {
		w.emit(ical.Property{Name: "GRAMGENDER", Value: escape(strings.ToUpper(g))})
	}
	pronouns := speak.object("pronouns")
	for _, key := range slices.Sorted(maps.Keys(pronouns)) {
		item := itemOf(pronouns[key])
		p := ical.Property{Name: "PRONOUNS", Value: escape(item.text("pronouns"))}
		contexts.write(&p, item.members("contexts"))
		w.preference(&p, item)
		setParam(&p, nameParam, key)
		w.emit(p)
	}
}

// labels removes the labels of groups without another property.
func (w *writing) labels() {
	groups := map[string]bool{}
	for i := range w.out.Properties {
		if p := &w.out.Properties[i]; p.Name != "X-ABLABEL" {
			groups[p.Group] = true
		}
	}
	w.filter(func(p *ical.Property) bool { return p.Name != "X-ABLABEL" || p.Group == "" || groups[p.Group] })
}

func (w *writing) filter(keep func(*ical.Property) bool) {
	var properties []ical.Property
	var keys [][]string
	for i := range w.out.Properties {
		if keep(&w.out.Properties[i]) {
			properties, keys = append(properties, w.out.Properties[i]), append(keys, w.keys[i])
		}
	}
	w.out.Properties, w.keys = properties, keys
}

// identify sets PROP-ID where the id of an item would be another one. An id that is set can take that of another item
// away, so it looks again, and sets all at last.
func (w *writing) identify() {
	const rounds = 4
	for round := range rounds {
		again := readBase(w.out)
		changed := false
		for i := range w.out.Properties {
			p := &w.out.Properties[i]
			ru := ruleOf(p.Name)
			if ru == nil || ru.keyed || len(w.keys[i]) != 1 || p.Param(nameParam) == w.keys[i][0] ||
				round < rounds-1 && slices.Equal(again.keys[i], w.keys[i]) {
				continue
			}
			setParam(p, nameParam, w.keys[i][0])
			changed = true
		}
		if !changed {
			return
		}
	}
}

// residue writes JSPROP for the parts of the card that the vCard does not express.
//
// Implements: RFC 9555 §3.2.2 The vCard parameter JSPTR
func (w *writing) residue() {
	now := readBase(w.out).card
	for _, name := range slices.Sorted(maps.Keys(w.want)) {
		if !slices.Contains([]string{"@type", "version", "uid", "vCardProps"}, name) {
			w.rest(jmap.AppendPointer("", name), now[name], w.want[name])
		}
	}
}

// rest writes JSPROP for the value at a path, or for its parts, if the vCard says something else.
func (w *writing) rest(path string, now, want any) {
	if equal(now, want) {
		return
	}
	a, isA := now.(Card)
	b, isB := want.(Card)
	// What ordered components mean depends on the other members: they are replaced together.
	if isA && isB && equal(a["components"], b["components"]) {
		for _, name := range slices.Sorted(maps.Keys(b)) {
			w.rest(jmap.AppendPointer(path, name), a[name], b[name])
		}
		return
	}
	p := ical.Property{Name: "JSPROP", Value: escape(string(appendJSON(nil, want)))}
	setParam(&p, "JSPTR", path)
	setParam(&p, overlayParam, hashOf(now))
	w.emit(p)
}
