package contact

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Read returns the JSContact card of a vCard.
//
// Implements: RFC 9555 §2 Converting vCard to JSContact
func Read(c *ical.Component) Card {
	r := readBase(c)
	r.overlay()
	return r.card
}

// base is a vCard that was read, without its JSPROP properties.
type base struct {
	c    *ical.Component
	old  bool
	card Card
	// keys holds the items that each property has, by its index in c.
	keys [][]string
	// used marks properties that are in the card, or are no part of it. The others are in vCardProps.
	used []bool
}

// nameParam is the id of an item (RFC 9554); overlayParam is a hash of the value that a JSPROP replaces. A value that a
// program changed since is not replaced.
const (
	nameParam    = "PROP-ID"
	overlayParam = "X-DOUBLET-OF"
)

// ruleOf returns the rule of a name of vCard, nil for none.
func ruleOf(name string) *rule {
	for i := range rules {
		if slices.Contains(rules[i].names, name) {
			return &rules[i]
		}
	}
	return nil
}

func readBase(c *ical.Component) *base {
	n := len(c.Properties)
	r := &base{c: c, old: old(c), card: Card{"@type": "Card", "version": "1.0"}, keys: make([][]string, n),
		used: make([]bool, n)}
	r.scalars()
	r.readName()
	r.readSpeakToAs()
	labels := labelsOf(c)
	translated := map[string]bool{}
	counts := map[string]int{}
	for i := range c.Properties {
		p := &c.Properties[i]
		if id := p.Param("ALTID"); id != "" {
			if translated[p.Name+"\x00"+id] {
				r.used[i] = true // kept in the vCard as another language of the first one
				continue
			}
			translated[p.Name+"\x00"+id] = true
		}
		if ru := ruleOf(p.Name); ru != nil {
			r.read(i, ru, labels, counts)
		}
	}
	grouped := map[string]bool{}
	for i := range c.Properties {
		if p := &c.Properties[i]; p.Group != "" && ruleOf(p.Name) != nil {
			grouped[p.Group] = true
		}
	}
	for i := range c.Properties {
		p := &c.Properties[i]
		if p.Name == "" || p.Name == "JSPROP" || p.Name == "VERSION" || p.Name == "X-ABLABEL" && grouped[p.Group] {
			r.used[i] = true
		}
	}
	r.others()
	return r
}

// read adds the items of a property.
func (r *base) read(i int, ru *rule, labels map[string]string, counts map[string]int) {
	p := &r.c.Properties[i]
	parts := []string{p.Value}
	if ru.several {
		parts = split(p.Value, ',')
	}
	items := r.card.object(ru.property)
	if items == nil {
		items = Card{}
	}
	for _, part := range parts {
		item, key := ru.read(&value{Property: p, text: part, old: r.old})
		if item == nil || ru.keyed && key == "" {
			continue
		}
		if ru.keyed {
			if _, only := item[""]; only {
				items[key] = true
			} else {
				items[key] = item
			}
			r.keys[i] = append(r.keys[i], key)
			continue
		}
		counts[ru.property]++
		r.common(p, ru, item, labels)
		key = ru.prefix + strconv.Itoa(counts[ru.property])
		if id := p.Param(nameParam); jmap.ValidID(id) && len(parts) == 1 {
			key = id
		}
		for items[key] != nil {
			key += "x"
		}
		items[key] = item
		r.keys[i] = append(r.keys[i], key)
	}
	if len(r.keys[i]) > 0 {
		r.card[ru.property] = items
		r.used[i] = true
	}
}

// common adds the members that many types have: contexts, features, pref and label.
func (r *base) common(p *ical.Property, ru *rule, item Card, labels map[string]string) {
	for _, t := range ru.types {
		if s := t.types.read(p); s != nil {
			item[t.member] = s
		}
	}
	if n := preference(p, r.old); n > 0 && ru.types != nil {
		item["pref"] = float64(n)
	}
	if p.Group != "" {
		item.put("label", labels[p.Group])
	}
}

// labelsOf returns the labels of groups: X-ABLabel, which is Apple's.
func labelsOf(c *ical.Component) map[string]string {
	labels := map[string]string{}
	for i := range c.Properties {
		if p := &c.Properties[i]; p.Name == "X-ABLABEL" && p.Group != "" {
			label := p.Text()
			if inner, ok := strings.CutPrefix(label, "_$!<"); ok {
				label = strings.TrimSuffix(inner, ">!$_")
			}
			labels[p.Group] = label
		}
	}
	return labels
}

// one returns the first property with one of some names, and marks it.
func (r *base) one(names ...string) *ical.Property {
	for i := range r.c.Properties {
		if slices.Contains(names, r.c.Properties[i].Name) {
			r.used[i] = true
			return &r.c.Properties[i]
		}
	}
	return nil
}

// scalars reads the properties with one text.
func (r *base) scalars() {
	for _, s := range scalars {
		p := r.one(s.names...)
		if p == nil {
			continue
		}
		text := strings.TrimSpace(p.Text())
		if s.date {
			text = readTime(text)
		}
		if s.property == "kind" {
			text = strings.ToLower(text)
		}
		r.card.put(s.property, text)
	}
}

// scalar is a property of the Card with one text.
type scalar struct {
	property string
	names    []string
	date     bool
}

var scalars = []scalar{
	{"uid", []string{"UID"}, false}, {"kind", []string{"KIND", "X-ADDRESSBOOKSERVER-KIND"}, false},
	{"prodId", []string{"PRODID"}, false}, {"language", []string{"LANGUAGE"}, false},
	{"created", []string{"CREATED"}, true}, {"updated", []string{"REV"}, true},
}

// timeLayouts are the forms of REV and CREATED that programs write. A time without a zone is taken for UTC.
var timeLayouts = []string{"20060102T150405Z0700", "2006-01-02T15:04:05Z07:00", "20060102T150405",
	"2006-01-02T15:04:05", "20060102", "2006-01-02"}

// readTime returns a UTCDateTime, "" for a text that is no time.
func readTime(s string) string {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// nameKinds are the kinds of component at the places of N, those of RFC 9554 from the sixth on.
var nameKinds = []string{"surname", "given", "given2", "title", "credential", "surname2", "generation"}

// readName reads N and FN.
//
// Implements: RFC 9555 §2.5.5 N
func (r *base) readName() {
	name := Card{}
	if p := r.one("N"); p != nil {
		var components []any
		for i, part := range split(p.Value, ';') {
			if i >= len(nameKinds) || part == "" {
				continue
			}
			for _, v := range split(part, ',') {
				if v != "" {
					components = append(components, Card{"kind": nameKinds[i], "value": unescape(v)})
				}
			}
		}
		if components != nil {
			name["components"] = components
		}
	}
	if p := r.one("FN"); p != nil && !strings.EqualFold(p.Param("DERIVED"), "true") {
		name.put("full", p.Text())
	}
	if len(name) > 0 {
		r.card["name"] = name
	}
}

// readSpeakToAs reads GRAMGENDER and PRONOUNS.
//
// Implements: RFC 9555 §2.5.3 GRAMGENDER
func (r *base) readSpeakToAs() {
	speak, pronouns := Card{}, Card{}
	if p := r.one("GRAMGENDER"); p != nil {
		speak.put("grammaticalGender", strings.ToLower(strings.TrimSpace(p.Text())))
	}
	for i := range r.c.Properties {
		p := &r.c.Properties[i]
		if p.Name != "PRONOUNS" || p.Value == "" {
			continue
		}
		item := Card{"pronouns": p.Text()}
		if s := contexts.read(p); s != nil {
			item["contexts"] = s
		}
		if n := preference(p, r.old); n > 0 {
			item["pref"] = float64(n)
		}
		key := p.Param(nameParam)
		if !jmap.ValidID(key) || pronouns[key] != nil {
			key = fmt.Sprint("p", len(pronouns)+1)
		}
		pronouns[key] = item
		r.used[i] = true
	}
	if len(pronouns) > 0 {
		speak["pronouns"] = pronouns
	}
	if len(speak) > 0 {
		r.card["speakToAs"] = speak
	}
}

// overlay sets the values of JSPROP properties.
//
// Implements: RFC 9555 §3.2.1 The vCard property JSPROP
func (r *base) overlay() {
	for i := range r.c.Properties {
		p := &r.c.Properties[i]
		if p.Name != "JSPROP" {
			continue
		}
		v, err := parseJSON(p.Text())
		if err != nil {
			continue
		}
		path := strings.Split(strings.TrimPrefix(p.Param("JSPTR"), "/"), "/")
		in := r.card
		for len(path) > 1 && in != nil {
			in = in.object(jmap.PointerToken(path[0]))
			path = path[1:]
		}
		name := jmap.PointerToken(path[0])
		of := p.Param(overlayParam)
		if in == nil || name == "" || of != "" && of != hashOf(in[name]) {
			continue
		}
		in[name] = v
	}
}

// hashOf returns a hash of a value; a missing one is nil.
func hashOf(v any) string {
	h := fnv.New64a()
	_, _ = h.Write(appendJSON(nil, v))
	return strconv.FormatUint(h.Sum64(), 36)
}
