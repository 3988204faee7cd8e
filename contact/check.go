package contact

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/wire/jmap"
)

// form is the type of a value in a card.
type form uint8

const (
	anything  form = iota
	aText          // String
	aFullText      // String that is not empty
	aNumber        // UnsignedInt
	aPref          // UnsignedInt from 1 to 100
	aFlag          // Boolean
	aTime          // UTCDateTime
	aSet           // String[Boolean], with true only
	anObject       // of a shape
	aMap           // Id[Object] of a shape
	aKeyedMap      // String[Object] of a shape
	aList          // Object[] of a shape
	anyMap         // String[String]
	anyObject      // any members
	otherProperties
)

// field is a member of an object. A member that must be there is needed.
type field struct {
	form   form
	shape  *shape
	needed bool
	usual  string // a text that is left out, because it is the default
}

// shape lists the members of an object that RFC 9553 defines; others are extensions, and may be anything. kind is the
// value of @type, which need not be there and is left out, unless it is one of several.
type shape struct {
	kind    string
	fields  map[string]field
	ordered []string // the kinds of component, in the order of vCard
}

// resource returns the shape of a Resource object (RFC 9553 section 1.4.4), with more members.
func resource(kind string, more map[string]field) *shape {
	f := map[string]field{"uri": {aFullText, nil, true, ""}, "kind": {form: aText}, "mediaType": {form: aText},
		"contexts": {form: aSet}, "pref": {form: aPref}, "label": {form: aText}}
	maps.Copy(f, more)
	return &shape{kind: kind, fields: f}
}

// needsKind is the member kind of resources that must have it.
var needsKind = map[string]field{"kind": {aFullText, nil, true, ""}}

// labelled returns a shape with contexts, pref and label.
func labelled(kind string, more map[string]field) *shape {
	f := map[string]field{"contexts": {form: aSet}, "pref": {form: aPref}, "label": {form: aText}}
	maps.Copy(f, more)
	return &shape{kind: kind, fields: f}
}

var (
	nameComponent = &shape{kind: "NameComponent", fields: map[string]field{"kind": {aFullText, nil, true, ""},
		"value": {aText, nil, true, ""}, "phonetic": {form: aText}}}
	addressComponent = &shape{kind: "AddressComponent", fields: map[string]field{"kind": {aFullText, nil, true, ""},
		"value": {aText, nil, true, ""}, "phonetic": {form: aText}}}
	unit = &shape{kind: "OrgUnit", fields: map[string]field{"name": {aFullText, nil, true, ""},
		"sortAs": {form: aText}}}
	pronoun = &shape{kind: "Pronouns", fields: map[string]field{"pronouns": {aFullText, nil, true, ""},
		"contexts": {form: aSet}, "pref": {form: aPref}}}
	author = &shape{kind: "Author", fields: map[string]field{"name": {form: aText}, "uri": {form: aText}}}
	date   = &shape{fields: map[string]field{"@type": {form: aText}, "year": {form: aNumber}, "month": {form: aNumber},
		"day": {form: aNumber}, "calendarScale": {form: aText}, "utc": {form: aTime}}}
)

// cardShape is the shape of a Card.
//
// Implements: RFC 9553 §2.1 Metadata Properties, §2.2 Name and Organization Properties
var cardShape = &shape{kind: "Card", fields: map[string]field{
	"@type": {form: aText}, "version": {form: aText}, "uid": {aFullText, nil, true, ""}, "kind": {form: aText},
	"created": {form: aTime}, "updated": {form: aTime}, "language": {form: aText}, "prodId": {form: aText},
	"members": {form: aSet}, "keywords": {form: aSet}, "localizations": {form: anyObject},
	"relatedTo": {form: aKeyedMap, shape: &shape{kind: "Relation",
		fields: map[string]field{"relation": {form: aSet}}}},
	"name": {form: anObject, shape: &shape{kind: "Name", ordered: nameKinds, fields: map[string]field{
		"components": {form: aList, shape: nameComponent}, "isOrdered": {form: aFlag},
		"defaultSeparator": {form: aText}, "full": {form: aText}, "sortAs": {form: anyMap},
		"phoneticScript": {form: aText}, "phoneticSystem": {form: aText}}}},
	"nicknames": {form: aMap, shape: &shape{kind: "Nickname", fields: map[string]field{
		"name": {aFullText, nil, true, ""}, "contexts": {form: aSet}, "pref": {form: aPref}}}},
	"organizations": {form: aMap, shape: &shape{kind: "Organization", fields: map[string]field{
		"name": {form: aText}, "units": {form: aList, shape: unit}, "sortAs": {form: aText},
		"contexts": {form: aSet}}}},
	"speakToAs": {form: anObject, shape: &shape{kind: "SpeakToAs", fields: map[string]field{
		"grammaticalGender": {form: aText}, "pronouns": {form: aMap, shape: pronoun}}}},
	"titles": {form: aMap, shape: &shape{kind: "Title", fields: map[string]field{"name": {aFullText, nil, true, ""},
		"kind": {form: aText, usual: "title"}, "organizationId": {form: aText}}}},
	"emails": {form: aMap, shape: labelled("EmailAddress", map[string]field{"address": {aFullText, nil, true, ""}})},
	"onlineServices": {form: aMap, shape: labelled("OnlineService", map[string]field{"service": {form: aText},
		"uri": {form: aText}, "user": {form: aText}})},
	"phones": {form: aMap, shape: labelled("Phone", map[string]field{"number": {aFullText, nil, true, ""},
		"features": {form: aSet}})},
	"preferredLanguages": {form: aMap, shape: &shape{kind: "LanguagePref", fields: map[string]field{
		"language": {aFullText, nil, true, ""}, "contexts": {form: aSet}, "pref": {form: aPref}}}},
	"calendars": {form: aMap, shape: resource("Calendar", needsKind)},
	"schedulingAddresses": {form: aMap, shape: labelled("SchedulingAddress",
		map[string]field{"uri": {aFullText, nil, true, ""}})},
	"addresses": {form: aMap, shape: &shape{kind: "Address", ordered: addressKinds, fields: map[string]field{
		"components": {form: aList, shape: addressComponent}, "isOrdered": {form: aFlag},
		"countryCode": {form: aText}, "coordinates": {form: aText}, "timeZone": {form: aText},
		"contexts": {form: aSet}, "full": {form: aText}, "defaultSeparator": {form: aText}, "pref": {form: aPref},
		"phoneticScript": {form: aText}, "phoneticSystem": {form: aText}}}},
	"cryptoKeys": {form: aMap, shape: resource("CryptoKey", nil)},
	"directories": {form: aMap, shape: resource("Directory", map[string]field{"listAs": {form: aNumber},
		"kind": {aFullText, nil, true, ""}})},
	"links": {form: aMap, shape: resource("Link", nil)},
	"media": {form: aMap, shape: resource("Media", needsKind)},
	"anniversaries": {form: aMap, shape: &shape{kind: "Anniversary", fields: map[string]field{
		"kind": {aFullText, nil, true, ""}, "date": {anObject, date, true, ""}, "place": {form: anyObject}}}},
	"notes": {form: aMap, shape: &shape{kind: "Note", fields: map[string]field{"note": {aFullText, nil, true, ""},
		"created": {form: aTime}, "author": {form: anObject, shape: author}}}},
	"personalInfo": {form: aMap, shape: &shape{kind: "PersonalInfo", fields: map[string]field{
		"kind": {aFullText, nil, true, ""}, "value": {aFullText, nil, true, ""}, "level": {form: aText},
		"listAs": {form: aNumber}, "label": {form: aText}}}},
	"vCardProps": {form: otherProperties},
}}

// maxMembers bounds the items of a map, the elements of a set and the components of a name: a card is of one person,
// and the largest groups have a few thousand members.
const maxMembers = 10_000

// Properties lists the properties of a Card, sorted.
var Properties = slices.Sorted(maps.Keys(cardShape.fields))

// Check returns a card in the form of Read: without @type where it is clear, without empty maps and false flags, and
// with the components of names and addresses in the order of vCard unless they are ordered. bad lists the paths of
// values that do not have the type of RFC 9553, and of those that are missing.
func Check(c Card) (out Card, bad []string) {
	k := &checker{}
	for name, v := range c {
		if tooDeep(v, maxDepth) {
			return nil, []string{jmap.AppendPointer("", name)}
		}
	}
	out, _ = k.object("", cardShape, c).(Card)
	if v, ok := c["version"]; ok && v != "1.0" {
		k.bad = append(k.bad, "version")
	}
	if v, ok := c["@type"]; ok && v != "Card" {
		k.bad = append(k.bad, "@type")
	}
	out["@type"], out["version"] = "Card", "1.0"
	slices.Sort(k.bad)
	return out, k.bad
}

// tooDeep reports whether a value has more than n levels.
func tooDeep(v any, n int) bool {
	deep := func(v any) bool { return n == 0 || tooDeep(v, n-1) }
	switch v := v.(type) {
	case Card:
		for _, x := range v {
			if deep(x) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, deep)
	}
	return false
}

type checker struct{ bad []string }

func (k *checker) wrong(path string) any {
	k.bad = append(k.bad, path)
	return nil
}

// value checks a value, and returns it in its usual form, nil for one that is left out.
func (k *checker) value(path string, f field, v any) any {
	switch f.form {
	case anyObject:
		if c, ok := v.(Card); !ok || !clean(path) {
			return k.wrong(path)
		} else if len(c) == 0 {
			return nil
		}
		return v
	case anObject:
		return k.object(path, f.shape, v)
	case aList:
		return k.list(path, f.shape, v)
	case aSet, aMap, aKeyedMap, anyMap:
		return k.members(path, f, v)
	case otherProperties:
		return k.others(path, v)
	case anything:
		return v
	}
	if !scalarIs(f.form, v) {
		return k.wrong(path)
	}
	if f.form == aFlag && v == false || f.usual != "" && v == f.usual {
		return nil
	}
	return v
}

// scalarIs reports whether a value has a type that is no object and no list.
func scalarIs(f form, v any) bool {
	text, isText := v.(string)
	n, isNumber := v.(float64)
	switch f {
	case aText:
		return isText
	case aFullText:
		return isText && strings.TrimSpace(text) != ""
	case aNumber:
		return isNumber && n >= 0 && n <= 1<<53 && n == math.Trunc(n)
	case aPref:
		return isNumber && n >= 1 && n <= 100 && n == math.Trunc(n)
	case aTime:
		_, err := time.Parse(time.RFC3339, text)
		return err == nil && strings.HasSuffix(text, "Z")
	}
	_, isFlag := v.(bool)
	return isFlag
}

func (k *checker) object(path string, s *shape, v any) any {
	in, ok := v.(Card)
	if !ok {
		return k.wrong(path)
	}
	out := Card{}
	for name, x := range in {
		if x = k.member(path, s, name, x); x != nil {
			out[name] = x
		}
	}
	for name, f := range s.fields {
		if _, there := in[name]; f.needed && !there {
			k.wrong(jmap.AppendPointer(path, name))
		}
	}
	if s == date && out["@type"] == nil {
		out["@type"] = "PartialDate"
	}
	if s.ordered != nil && out["isOrdered"] == nil {
		sortComponents(out, s.ordered)
	}
	if path != "" && len(out) == 0 {
		return nil
	}
	return out
}

// member checks a member of an object.
func (k *checker) member(path string, s *shape, name string, v any) any {
	if !clean(name) {
		return k.wrong(path)
	}
	below := jmap.AppendPointer(path, name)
	if f, known := s.fields[name]; known {
		return k.value(below, f, v)
	}
	if name == "@type" && s.kind != "" {
		if v != s.kind {
			k.wrong(below)
		}
		return nil
	}
	return v
}

// sortComponents sorts the components of an object by their kinds.
func sortComponents(c Card, kinds []string) {
	list, ok := c["components"].([]any)
	if !ok {
		return
	}
	place := func(v any) int {
		if i := slices.Index(kinds, itemOf(v).text("kind")); i >= 0 {
			return i
		}
		return len(kinds)
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int { return place(a) - place(b) })
	c["components"] = list
}

func (k *checker) list(path string, s *shape, v any) any {
	in, ok := v.([]any)
	if !ok || len(in) > maxMembers {
		return k.wrong(path)
	}
	var out []any
	for _, x := range in {
		if x = k.object(path, s, x); x != nil {
			out = append(out, x)
		}
	}
	if out == nil {
		return nil
	}
	return out
}

// members checks a set or a map. Keys must be ids, but those of sets and of relatedTo.
func (k *checker) members(path string, f field, v any) any {
	in, ok := v.(Card)
	if !ok {
		return k.wrong(path)
	}
	if len(in) > maxMembers {
		return k.wrong(path)
	}
	out := Card{}
	for name, x := range in {
		below := jmap.AppendPointer(path, name)
		_, isText := x.(string)
		switch {
		case f.form == aMap && !jmap.ValidID(name), name == "", !clean(name),
			f.form == aSet && x != true, f.form == anyMap && !isText:
			k.wrong(below)
		case f.form == aMap || f.form == aKeyedMap:
			if out[name] = k.object(below, f.shape, x); out[name] == nil {
				out[name] = Card{}
			}
		default:
			out[name] = x
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// others checks vCardProps.
func (k *checker) others(path string, v any) any {
	in, ok := v.([]any)
	var out []any
	for _, x := range in {
		p, good := readOther(x)
		ok = ok && good
		out = append(out, other(&p))
	}
	if !ok {
		return k.wrong(path)
	}
	if out == nil {
		return nil
	}
	return out
}

// clean reports whether a name has no control characters: vCard cannot keep them in a parameter.
func clean(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
