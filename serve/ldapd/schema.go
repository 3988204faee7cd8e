package ldapd

import (
	"strings"

	"golang.org/x/text/unicode/norm"

	"doublet/directory"
	"doublet/wire/ldap"
)

// rule is an equality rule, with the ordering and substring rules that belong to it. It returns the form in which
// values are compared, and false for a value that does not have the syntax.
type rule struct {
	name, oid, syntax string
	normal            func(string) (string, bool)
	// substrings and ordered report that the rule has a form for substrings and for >= and <=.
	substrings, ordered bool
}

// The object identifiers of syntaxes.
const (
	syntaxString  = "1.3.6.1.4.1.1466.115.121.1.15"
	syntaxIA5     = "1.3.6.1.4.1.1466.115.121.1.26"
	syntaxDN      = "1.3.6.1.4.1.1466.115.121.1.12"
	syntaxOID     = "1.3.6.1.4.1.1466.115.121.1.38"
	syntaxInteger = "1.3.6.1.4.1.1466.115.121.1.27"
	syntaxBoolean = "1.3.6.1.4.1.1466.115.121.1.7"
	syntaxUUID    = "1.3.6.1.1.16.1"
)

// The rules.
//
// Implements: RFC 4517 §4.2 Matching rule definitions
var (
	ruleIgnore = &rule{"caseIgnoreMatch", "2.5.13.2", syntaxString, folded, true, true}
	ruleExact  = &rule{"caseExactMatch", "2.5.13.5", syntaxString, spaced, true, true}
	// ruleAddress compares addresses as mail does, where A-labels and U-labels of a domain are the same.
	ruleAddress = &rule{"caseIgnoreIA5Match", "1.3.6.1.4.1.1466.109.114.2", syntaxIA5, address, true, true}
	ruleDN      = &rule{"distinguishedNameMatch", "2.5.13.1", syntaxDN, normalDN, false, false}
	ruleOID     = &rule{"objectIdentifierMatch", "2.5.13.0", syntaxOID, identifier, false, false}
	ruleUUID    = &rule{"uuidMatch", "1.3.6.1.1.16.2", syntaxUUID, lowered, false, true}
	ruleBoolean = &rule{"booleanMatch", "2.5.13.13", syntaxBoolean, spaced, false, false}
	ruleInteger = &rule{"integerMatch", "2.5.13.14", syntaxInteger, spaced, false, false}
)

// rules are the matching rules that an extensible filter can name.
var rules = []*rule{ruleIgnore, ruleExact, ruleAddress, ruleDN, ruleOID, ruleUUID, ruleBoolean, ruleInteger}

// ruleNamed finds a matching rule by name or OID. A substring or ordering rule is not one that a filter can name.
func ruleNamed(name string) *rule {
	for _, r := range rules {
		if strings.EqualFold(r.name, name) || r.oid == name {
			return r
		}
	}
	return nil
}

// spaced removes spaces at both ends and joins words by one space (RFC 4518 section 2.6.1).
func spaced(s string) (string, bool) {
	if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") || strings.Contains(s, "  ") {
		s = strings.Join(strings.Fields(s), " ")
	}
	return norm.NFC.String(s), true
}

func folded(s string) (string, bool) {
	s, _ = spaced(s)
	return lowered(s)
}

func lowered(s string) (string, bool) { return norm.NFC.String(strings.ToLower(s)), true }

func address(s string) (string, bool) {
	if a, err := directory.ParseAddress(s); err == nil {
		return a.Key(), true
	}
	return folded(s)
}

func identifier(s string) (string, bool) {
	s = strings.ToLower(s)
	for _, c := range classes {
		if c.oid == s {
			return strings.ToLower(c.name), true
		}
	}
	if a := attributeNamed(s); a != nil {
		return strings.ToLower(a.name), true
	}
	return s, true
}

// normalDN returns the form in which distinguished names are compared.
func normalDN(s string) (string, bool) {
	dn, err := ldap.ParseDN(s)
	if err != nil {
		return "", false
	}
	return normalOf(dn), true
}

func normalOf(dn ldap.DN) string {
	out := make(ldap.DN, len(dn))
	for i, r := range dn {
		t := strings.ToLower(r.Type)
		if a := attributeNamed(t); a != nil {
			t = strings.ToLower(a.name)
		}
		v, _ := folded(r.Value)
		out[i] = ldap.RDN{Type: t, Value: v}
	}
	return out.String()
}

// level is the access that an attribute or an entry needs, or a client has.
type level uint8

// The levels. Each includes the ones before it.
const (
	levelNone   level = iota // root DSE and subschema
	levelPublic              // entries with an address, and the attributes of an address book
	levelFull                // all entries, their groups and mail routing
)

// attribute is an attribute type.
type attribute struct {
	name, oid   string
	aliases     []string
	rule        *rule
	level       level
	operational bool
	single      bool
	index       index
	foreign     bool // values depend on other documents than the entry's own
	// values returns the values of a directory record. Other entries have theirs in entry.fixed.
	values func(e *entry) []string
}

// index is an index of the directory that finds the entries with a value.
type index uint8

const (
	indexNone      index = iota
	indexNames           // names of people, groups and databases
	indexAddresses       // stored addresses
	indexIDs             // UNIDs
	indexEntries         // the entry that the value names, its members or its groups
)

// class is an object class.
type class struct{ name, oid, definition string }

// attributes lists the attribute types. The order is that of responses.
//
// Implements: RFC 4519 §2 Attribute types
// Implements: RFC 4524 §2 COSINE attribute types
// Implements: RFC 2798 §2 inetOrgPerson attribute types
// Implements: RFC 4530 §2 entryUUID
// Implements: RFC 5020 §2 entryDN
var attributes = []*attribute{
	{name: "objectClass", oid: "2.5.4.0", rule: ruleOID, values: (*entry).classes},
	{name: "cn", oid: "2.5.4.3", index: indexNames, aliases: []string{"commonName"}, rule: ruleIgnore,
		values: (*entry).names},
	{name: "sn", oid: "2.5.4.4", aliases: []string{"surname"}, rule: ruleIgnore, values: (*entry).surname},
	{name: "givenName", oid: "2.5.4.42", aliases: []string{"gn"}, rule: ruleIgnore, values: (*entry).givenName},
	{name: "displayName", oid: "2.16.840.1.113730.3.1.241", index: indexNames, rule: ruleIgnore, single: true,
		values: (*entry).displayName},
	{name: "uid", oid: "0.9.2342.19200300.100.1.1", index: indexNames, aliases: []string{"userid"}, rule: ruleIgnore,
		values: (*entry).uid},
	{name: "mail", oid: "0.9.2342.19200300.100.1.3", index: indexAddresses, aliases: []string{"rfc822Mailbox"},
		rule:   ruleAddress,
		values: (*entry).mail},
	{name: "mailAlternateAddress", oid: "2.16.840.1.113730.3.1.13", index: indexAddresses, rule: ruleAddress,
		values: (*entry).alternateAddresses},
	{name: "mailLocalAddress", oid: "2.16.840.1.113730.3.1.47", index: indexAddresses, rule: ruleAddress,
		values: (*entry).addresses},
	{name: "mailHost", oid: "2.16.840.1.113730.3.1.18", foreign: true, rule: ruleIgnore, single: true, level: levelFull,
		values: (*entry).mailHost},
	{name: "mailRoutingAddress", oid: "2.16.840.1.113730.3.1.24", index: indexAddresses, rule: ruleAddress,
		single: true,
		level:  levelFull, values: (*entry).mail},
	{name: "mailForwardingAddress", oid: "2.16.840.1.113730.3.1.17", rule: ruleAddress, level: levelFull,
		values: (*entry).forwards},
	{name: "member", oid: "2.5.4.31", foreign: true, index: indexEntries, rule: ruleDN, level: levelFull,
		values: (*entry).members},
	{name: "mgrpRFC822MailMember", oid: "2.16.840.1.113730.3.1.30", rule: ruleAddress, level: levelFull,
		values: (*entry).mailMembers},
	{name: "memberOf", oid: "1.2.840.113556.1.2.102", foreign: true, index: indexEntries, rule: ruleDN,
		level: levelFull, values: (*entry).memberOf},
	{name: "description", oid: "2.5.4.13", rule: ruleIgnore, level: levelFull, values: (*entry).description},
	{name: "o", oid: "2.5.4.10", aliases: []string{"organizationName"}, rule: ruleIgnore},
	{name: "ou", oid: "2.5.4.11", aliases: []string{"organizationalUnitName"}, rule: ruleIgnore},
	{name: "dc", oid: "0.9.2342.19200300.100.1.25", aliases: []string{"domainComponent"}, rule: ruleIgnore,
		single: true},
	{name: "entryUUID", oid: "1.3.6.1.1.16.4", index: indexIDs, rule: ruleUUID, operational: true, single: true,
		values: (*entry).uuid},
	{name: "entryDN", oid: "1.3.6.1.1.20", index: indexEntries, rule: ruleDN, operational: true,
		single: true, values: (*entry).ownDN},
	{name: "structuralObjectClass", oid: "2.5.21.9", rule: ruleOID, operational: true, single: true,
		values: (*entry).structural},
	{name: "subschemaSubentry", oid: "2.5.18.10", rule: ruleDN, operational: true, single: true,
		values: func(*entry) []string { return []string{subschemaDN} }},
	{name: "hasSubordinates", oid: "2.5.18.9", rule: ruleBoolean, operational: true, single: true,
		values: func(*entry) []string { return []string{"FALSE"} }},
	{name: "namingContexts", oid: "1.3.6.1.4.1.1466.101.120.5", rule: ruleDN, operational: true},
	{name: "supportedLDAPVersion", oid: "1.3.6.1.4.1.1466.101.120.15", rule: ruleInteger, operational: true},
	{name: "supportedControl", oid: "1.3.6.1.4.1.1466.101.120.13", rule: ruleOID, operational: true},
	{name: "supportedExtension", oid: "1.3.6.1.4.1.1466.101.120.7", rule: ruleOID, operational: true},
	{name: "supportedFeatures", oid: "1.3.6.1.4.1.4203.1.3.5", rule: ruleOID, operational: true},
	{name: "supportedSASLMechanisms", oid: "1.3.6.1.4.1.1466.101.120.14", rule: ruleIgnore, operational: true},
	{name: "vendorName", oid: "1.3.6.1.1.4", rule: ruleExact, operational: true, single: true},
	{name: "vendorVersion", oid: "1.3.6.1.1.5", rule: ruleExact, operational: true, single: true},
	{name: "objectClasses", oid: "2.5.21.6", rule: ruleExact, operational: true},
	{name: "attributeTypes", oid: "2.5.21.5", rule: ruleExact, operational: true},
	{name: "matchingRules", oid: "2.5.21.4", rule: ruleExact, operational: true},
	{name: "ldapSyntaxes", oid: "1.3.6.1.4.1.1466.101.120.16", rule: ruleExact, operational: true},
}

// classes lists the object classes.
//
// Implements: RFC 4519 §3 Object classes
var classes = []class{
	{"top", "2.5.6.0", "ABSTRACT MUST objectClass"},
	{"person", "2.5.6.6", "SUP top STRUCTURAL MUST ( sn $ cn ) MAY description"},
	{"organizationalPerson", "2.5.6.7", "SUP person STRUCTURAL MAY ou"},
	{"inetOrgPerson", "2.16.840.1.113730.3.2.2",
		"SUP organizationalPerson STRUCTURAL MAY ( displayName $ givenName $ mail $ o $ uid )"},
	{"inetLocalMailRecipient", "2.16.840.1.113730.3.2.147",
		"SUP top AUXILIARY MAY ( mailLocalAddress $ mailHost $ mailRoutingAddress )"},
	{"mailRecipient", "2.16.840.1.113730.3.2.3", "SUP top AUXILIARY MAY ( cn $ mail $ mailAlternateAddress $ " +
		"mailHost $ mailRoutingAddress $ mailForwardingAddress $ uid $ memberOf )"},
	// RFC 4519 requires a member. Groups without one, or whose members the client may not see, have none here.
	{"groupOfNames", "2.5.6.9", "SUP top STRUCTURAL MUST cn MAY ( member $ o $ ou $ description )"},
	{"mailGroup", "2.16.840.1.113730.3.2.4", "SUP top AUXILIARY MAY ( cn $ mail $ mailAlternateAddress $ " +
		"mailLocalAddress $ mailHost $ mgrpRFC822MailMember $ displayName )"},
	{"applicationProcess", "2.5.6.11", "SUP top STRUCTURAL MUST cn MAY ( ou $ description )"},
	{"organization", "2.5.6.4", "SUP top STRUCTURAL MUST o MAY description"},
	{"dcObject", "1.3.6.1.4.1.1466.344", "SUP top AUXILIARY MUST dc"},
	{"organizationalUnit", "2.5.6.5", "SUP top STRUCTURAL MUST ou MAY description"},
	{"subentry", "2.5.17.0", "SUP top STRUCTURAL MUST cn"},
	{"subschema", "2.5.20.1", "AUXILIARY MAY ( objectClasses $ attributeTypes $ matchingRules )"},
}

// byName finds attribute types by the lower-case name, alias or OID. It is filled once, before any session.
var byName = map[string]*attribute{}

func init() {
	for _, a := range attributes {
		byName[strings.ToLower(a.name)], byName[a.oid] = a, a
		for _, n := range a.aliases {
			byName[strings.ToLower(n)] = a
		}
	}
}

// attributeNamed finds an attribute type by its description: a name or OID, in any case. It returns nil for an unknown
// one and for options such as ;lang-de, because no value here has one. The option ;binary is ignored.
//
// Implements: RFC 4512 §2.5 Attribute descriptions
func attributeNamed(name string) *attribute {
	if a := byName[name]; a != nil {
		return a
	}
	name = strings.ToLower(name)
	return byName[strings.TrimSuffix(name, ";binary")]
}

// subschemaDN is the name of the subschema subentry.
const subschemaDN = "cn=Subschema"

// subschema returns the attributes of the subschema subentry.
//
// Implements: RFC 4512 §4.2 Subschema subentries
func subschema() map[string][]string {
	fixed := map[string][]string{
		"objectclass": {"top", "subentry", "subschema"}, "cn": {"Subschema"}, "entrydn": {subschemaDN},
		"structuralobjectclass": {"subentry"}, "hassubordinates": {"FALSE"},
	}
	for _, c := range classes {
		fixed["objectclasses"] = append(fixed["objectclasses"], "( "+c.oid+" NAME '"+c.name+"' "+c.definition+" )")
	}
	syntaxes := map[string]bool{}
	for _, a := range attributes {
		fixed["attributetypes"] = append(fixed["attributetypes"], a.definition())
		if !syntaxes[a.rule.syntax] {
			syntaxes[a.rule.syntax] = true
			fixed["ldapsyntaxes"] = append(fixed["ldapsyntaxes"], "( "+a.rule.syntax+" )")
		}
	}
	for _, r := range rules {
		fixed["matchingrules"] = append(fixed["matchingrules"],
			"( "+r.oid+" NAME '"+r.name+"' SYNTAX "+r.syntax+" )")
	}
	return fixed
}

// definition returns the attribute type description of RFC 4512 section 4.1.2.
func (a *attribute) definition() string {
	names := "'" + a.name + "'"
	if len(a.aliases) > 0 {
		names = "( " + names + " '" + strings.Join(a.aliases, "' '") + "' )"
	}
	s := "( " + a.oid + " NAME " + names + " EQUALITY " + a.rule.name
	stem := strings.TrimSuffix(a.rule.name, "Match")
	if a.rule.ordered {
		order := stem
		if a.rule == ruleAddress {
			order = "caseIgnore"
		}
		s += " ORDERING " + order + "OrderingMatch"
	}
	if a.rule.substrings {
		s += " SUBSTR " + stem + "SubstringsMatch"
	}
	s += " SYNTAX " + a.rule.syntax
	if a.single {
		s += " SINGLE-VALUE"
	}
	if a.operational {
		return s + " NO-USER-MODIFICATION USAGE directoryOperation )"
	}
	return s + " )"
}
