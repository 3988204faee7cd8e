package contact

import (
	"slices"
	"strconv"
	"strings"

	"doublet/wire/ical"
)

// rule converts the vCard properties of some names to the items of one map of a Card, and back.
type rule struct {
	property string   // of the Card: a map of ids to items
	prefix   string   // of the ids that are given to items without PROP-ID
	names    []string // of vCard; a new item is written as the one that name returns
	name     func(item Card) string
	types    []typed
	// several is set for properties whose value is a list: each element is an item.
	several bool
	// keyed is set for properties whose items have their value as key, and not an id.
	keyed bool
	// read returns the item of a value, or nil for a value that it cannot express. key is the key of a keyed item.
	read func(x *value) (item Card, key string)
	// write sets the value of a property. It leaves out what the vCard property cannot express.
	write func(x *value, item Card)
}

// typed is a JSON set that is in the parameter TYPE.
type typed struct {
	member string
	types  types
}

// value is a vCard property that is read or written. text is its value, or one element of a list, with its escapes.
type value struct {
	*ical.Property
	text string
	old  bool // vCard 3.0
	key  string
}

// first returns a function that always returns one name.
func first(name string) func(Card) string { return func(Card) string { return name } }

// byKind returns a function that selects a name by the member kind.
func byKind(usual string, names map[string]string) func(Card) string {
	return func(item Card) string {
		if n := names[item.text("kind")]; n != "" {
			return n
		}
		return usual
	}
}

// inContexts are the contexts of most properties.
var inContexts = []typed{{"contexts", contexts}}

// rules are the maps of a Card.
//
// Implements: RFC 9555 §2.5 converting vCard properties
var rules = []rule{
	{property: "emails", prefix: "e", names: []string{"EMAIL"}, name: first("EMAIL"), types: inContexts,
		read: readText("address"), write: writeText("address")},
	{property: "phones", prefix: "p", names: []string{"TEL"}, name: first("TEL"),
		types: []typed{{"contexts", contexts}, {"features", features}},
		read:  readText("number"), write: writePhone},
	{property: "addresses", prefix: "a", names: []string{"ADR"}, name: first("ADR"),
		types: []typed{{"contexts", addressContexts}}, read: readAddress, write: writeAddress},
	{property: "nicknames", prefix: "n", names: []string{"NICKNAME"}, name: first("NICKNAME"), types: inContexts,
		several: true, read: readText("name"), write: writeText("name")},
	{property: "organizations", prefix: "o", names: []string{"ORG"}, name: first("ORG"), types: inContexts,
		read: readOrganization, write: writeOrganization},
	{property: "titles", prefix: "t", names: []string{"TITLE", "ROLE"},
		name: byKind("TITLE", map[string]string{"role": "ROLE"}), read: readTitle, write: writeText("name")},
	{property: "notes", prefix: "n", names: []string{"NOTE"}, name: first("NOTE"), read: readText("note"),
		write: writeText("note")},
	{property: "onlineServices", prefix: "s", names: []string{"IMPP", "SOCIALPROFILE", "X-SOCIALPROFILE"},
		name: serviceName, types: inContexts, read: readService, write: writeService},
	{property: "links", prefix: "l", names: []string{"URL", "CONTACT-URI"}, types: inContexts,
		name: byKind("URL", map[string]string{"contact": "CONTACT-URI"}), read: readKind(map[string]string{
			"URL": "", "CONTACT-URI": "contact"}), write: writeURI},
	{property: "media", prefix: "m", names: []string{"PHOTO", "LOGO", "SOUND"}, types: inContexts,
		name: byKind("PHOTO", map[string]string{"logo": "LOGO", "sound": "SOUND"}), read: readKind(map[string]string{
			"PHOTO": "photo", "LOGO": "logo", "SOUND": "sound"}), write: writeURI},
	{property: "cryptoKeys", prefix: "k", names: []string{"KEY"}, name: first("KEY"), types: inContexts,
		read: readKind(nil), write: writeURI},
	{property: "directories", prefix: "d", names: []string{"SOURCE", "ORG-DIRECTORY"}, types: inContexts,
		name: byKind("SOURCE", map[string]string{"directory": "ORG-DIRECTORY"}), read: readKind(map[string]string{
			"SOURCE": "entry", "ORG-DIRECTORY": "directory"}), write: writeURI},
	{property: "calendars", prefix: "c", names: []string{"CALURI", "FBURL"}, types: inContexts,
		name: byKind("CALURI", map[string]string{"freeBusy": "FBURL"}), read: readKind(map[string]string{
			"CALURI": "calendar", "FBURL": "freeBusy"}), write: writeURI},
	{property: "schedulingAddresses", prefix: "s", names: []string{"CALADRURI"}, name: first("CALADRURI"),
		types: inContexts, read: readKind(nil), write: writeURI},
	{property: "anniversaries", prefix: "y", names: []string{"BDAY", "DEATHDATE", "ANNIVERSARY", "X-ANNIVERSARY",
		"X-EVOLUTION-ANNIVERSARY"}, name: byKind("ANNIVERSARY", map[string]string{"birth": "BDAY",
		"death": "DEATHDATE"}), read: readAnniversary, write: writeAnniversary},
	{property: "preferredLanguages", prefix: "l", names: []string{"LANG"}, name: first("LANG"), types: inContexts,
		read: readText("language"), write: writeText("language")},
	{property: "personalInfo", prefix: "i", names: []string{"EXPERTISE", "HOBBY", "INTEREST"},
		name: byKind("INTEREST", map[string]string{"expertise": "EXPERTISE", "hobby": "HOBBY"}), read: readInfo,
		write: writeInfo},
	{property: "keywords", names: []string{"CATEGORIES"}, name: first("CATEGORIES"), several: true, keyed: true,
		read: readKey(false), write: writeKey(false)},
	{property: "members", names: []string{"MEMBER", "X-ADDRESSBOOKSERVER-MEMBER"}, name: first("MEMBER"), keyed: true,
		read: readKey(true), write: writeKey(true)},
	{property: "relatedTo", names: []string{"RELATED"}, name: first("RELATED"), keyed: true, read: readRelated,
		write: writeRelated},
}

// oldNames are the names that programs use for properties that vCard 3.0 does not have.
var oldNames = map[string]string{"MEMBER": "X-ADDRESSBOOKSERVER-MEMBER", "KIND": "X-ADDRESSBOOKSERVER-KIND"}

func readText(member string) func(x *value) (Card, string) {
	return func(x *value) (Card, string) {
		if x.text == "" {
			return nil, ""
		}
		return Card{member: unescape(x.text)}, ""
	}
}

func writeText(member string) func(x *value, item Card) {
	return func(x *value, item Card) { x.Value = escape(item.text(member)) }
}

// writePhone writes a telephone number, which may be a URI.
func writePhone(x *value, item Card) {
	number := item.text("number")
	if x.Value = escape(number); !x.old && strings.HasPrefix(number, "tel:") {
		x.Value = uri(number)
		setParam(x.Property, "VALUE", "uri")
		return
	}
	setParam(x.Property, "VALUE", "")
}

// uri returns a value of type URI, without the characters that no line can have.
func uri(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// uri returns a value of type URI. Programs escape it as a text in vCard 3.0, some even the colon.
func (x *value) uri() string {
	if x.old {
		return uriEscapes.Replace(x.text)
	}
	return x.text
}

var uriEscapes = strings.NewReplacer(`\\`, `\`, `\:`, ":", `\,`, ",", `\;`, ";")

// trueItem stands for an item that is only true: the element of a set.
var trueItem = Card{"": true}

func readKey(isURI bool) func(x *value) (Card, string) {
	return func(x *value) (Card, string) {
		if isURI {
			return trueItem, x.text
		}
		return trueItem, strings.TrimSpace(unescape(x.text))
	}
}

func writeKey(isURI bool) func(x *value, item Card) {
	return func(x *value, _ Card) {
		if x.Value = uri(x.key); !isURI {
			x.Value = escape(x.key)
		}
	}
}

// readRelated reads RELATED.
//
// Implements: RFC 9555 §2.9.5 RELATED
func readRelated(x *value) (Card, string) {
	key := x.text
	if strings.EqualFold(x.Param("VALUE"), "text") {
		key = unescape(x.text)
	}
	relation := Card{}
	for _, t := range params(x.Property, "TYPE") {
		if t != "" {
			relation[strings.ToLower(t)] = true
		}
	}
	if len(relation) == 0 {
		return Card{}, key
	}
	return Card{"relation": relation}, key
}

func writeRelated(x *value, item Card) {
	setParam(x.Property, "TYPE", "")
	list := slices.DeleteFunc(item.members("relation"),
		func(s string) bool { return !isName(s) || strings.ToLower(s) != s })
	if len(list) > 0 {
		x.Params = append(x.Params, ical.Param{Name: "TYPE", Values: list})
	}
	setParam(x.Property, "VALUE", "")
	if x.Value = uri(x.key); !strings.Contains(x.key, ":") {
		setParam(x.Property, "VALUE", "text")
		x.Value = escape(x.key)
	}
}

func readOrganization(x *value) (Card, string) {
	parts := split(x.text, ';')
	item := Card{}
	item.put("name", unescape(parts[0]))
	var units []any
	for _, p := range parts[1:] {
		if p != "" {
			units = append(units, Card{"name": unescape(p)})
		}
	}
	if units != nil {
		item["units"] = units
	}
	if len(item) == 0 {
		return nil, ""
	}
	return item, ""
}

func writeOrganization(x *value, item Card) {
	x.Value = escape(item.text("name"))
	units, _ := item["units"].([]any)
	for _, u := range units {
		if unit, ok := u.(Card); ok {
			x.Value += ";" + escape(unit.text("name"))
		}
	}
}

func readTitle(x *value) (Card, string) {
	if x.text == "" {
		return nil, ""
	}
	item := Card{"name": unescape(x.text)}
	if x.Name == "ROLE" {
		item["kind"] = "role"
	}
	return item, ""
}

// serviceName returns the name of the property for an online service.
//
// Implements: RFC 9555 §2.7.2 IMPP
func serviceName(item Card) string {
	if item.text("vCardName") == "impp" {
		return "IMPP"
	}
	return "SOCIALPROFILE"
}

func readService(x *value) (Card, string) {
	if x.text == "" {
		return nil, ""
	}
	item := Card{}
	item.put("service", x.Param("SERVICE-TYPE"))
	item.put("service", x.Param("X-SERVICE-TYPE"))
	switch {
	case x.Name == "IMPP":
		item["vCardName"], item["uri"] = "impp", x.uri()
	case strings.EqualFold(x.Param("VALUE"), "text"):
		item["user"] = unescape(x.text)
	default:
		item["uri"] = x.uri()
	}
	if x.Name == "X-SOCIALPROFILE" && item["service"] == nil {
		for _, t := range params(x.Property, "TYPE") {
			if contexts[strings.ToLower(t)] == "" && !strings.EqualFold(t, "pref") {
				item.put("service", t)
			}
		}
		item.put("user", x.Param("X-USER"))
	}
	item.put("user", x.Param("USERNAME"))
	return item, ""
}

func writeService(x *value, item Card) {
	if x.Name == "X-SOCIALPROFILE" {
		x.Name = "SOCIALPROFILE"
		setParam(x.Property, "TYPE", "")
		setParam(x.Property, "X-USER", "")
	}
	setParam(x.Property, "X-SERVICE-TYPE", "")
	setParam(x.Property, "SERVICE-TYPE", item.text("service"))
	setParam(x.Property, "USERNAME", "")
	setParam(x.Property, "VALUE", "")
	address := item.text("uri")
	if x.Value = uri(address); address == "" && x.Name != "IMPP" {
		setParam(x.Property, "VALUE", "text")
		x.Value = escape(item.text("user"))
		return
	}
	setParam(x.Property, "USERNAME", item.text("user"))
}

// readInfo reads EXPERTISE, HOBBY and INTEREST.
//
// Implements: RFC 9555 §2.9.2 EXPERTISE
func readInfo(x *value) (Card, string) {
	if x.text == "" {
		return nil, ""
	}
	item := Card{"kind": strings.ToLower(x.Name), "value": unescape(x.text)}
	level := strings.ToLower(x.Param("LEVEL"))
	if l := expertLevels[level]; l != "" && x.Name == "EXPERTISE" {
		level = l
	}
	item.put("level", level)
	return item, ""
}

var expertLevels = map[string]string{"beginner": "low", "average": "medium", "expert": "high"}

func writeInfo(x *value, item Card) {
	x.Value = escape(item.text("value"))
	level := item.text("level")
	if x.Name == "EXPERTISE" {
		for vcard, js := range expertLevels {
			if js == level {
				level = vcard
				break
			}
		}
	}
	setParam(x.Property, "LEVEL", level)
}

// preference returns the value of the member pref, 0 for none.
func preference(p *ical.Property, old bool) int {
	if n, err := strconv.Atoi(p.Param("PREF")); err == nil && n >= 1 && n <= 100 {
		return n
	}
	for _, t := range params(p, "TYPE") {
		if old && strings.EqualFold(t, "pref") {
			return 1
		}
	}
	return 0
}
