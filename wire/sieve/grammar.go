package sieve

import "slices"

// extensions lists the capabilities that a script may require.
var extensions = []string{
	"body", "comparator-i;ascii-casemap", "comparator-i;ascii-numeric", "comparator-i;octet", "copy", "date",
	"duplicate", "editheader", "encoded-character", "enotify", "envelope", "environment", "ereject", "fileinto",
	"ihave", "imap4flags", "include", "index", "mailbox", "regex", "reject", "relational", "spamtest",
	"spamtestplus", "special-use", "subaddress", "vacation", "vacation-seconds", "variables",
}

// Extensions returns the capabilities that a script may require, sorted.
func Extensions() []string { return slices.Clone(extensions) }

// Supported reports whether a script may require a capability.
func Supported(capability string) bool {
	_, ok := slices.BinarySearch(extensions, capability)
	return ok
}

// tagRule describes a tag. Of the tags of one group, a node has one at most.
type tagRule struct {
	needs string // capability, or ""
	value Kind   // of the argument after it; 0: none
	group string
	// more is another tag that must be present.
	more string
}

type tagRules map[string]tagRule

// rule describes a command or a test.
type rule struct {
	needs  string // one of these capabilities, separated by a bar; "" for none
	tags   []tagRules
	values []Kind
	// optional is set if the first value may be missing.
	optional bool
	tests    tests
	block    bool
	check    func(c *checker, n *Node)
}

// tests is the number of tests that a node has.
type tests uint8

const (
	noTests tests = iota
	oneTest
	testList
)

const list = String | StringList

// matching holds the match types and the comparator.
//
// Implements: RFC 5228 §2.7.1 match types
// Implements: RFC 5228 §2.7.3 comparators
var matching = tagRules{
	"is": {group: "match"}, "contains": {group: "match"}, "matches": {group: "match"},
	"regex": {group: "match", needs: "regex"},
	"count": {group: "match", needs: "relational", value: String},
	"value": {group: "match", needs: "relational", value: String},

	"comparator": {value: String},
}

// parts holds the address parts.
//
// Implements: RFC 5228 §2.7.4 comparisons against addresses
var parts = tagRules{
	"all": {group: "part"}, "localpart": {group: "part"}, "domain": {group: "part"},
	"user": {group: "part", needs: "subaddress"}, "detail": {group: "part", needs: "subaddress"},
}

var indexed = tagRules{"index": {needs: "index", value: Number}, "last": {needs: "index", more: "index"}}

var flagged = tagRules{"flags": {needs: "imap4flags", value: list}}

var copied = tagRules{"copy": {needs: "copy"}}

var filed = tagRules{"create": {needs: "mailbox"}, "specialuse": {needs: "special-use", value: String}}

// flagRule describes setflag, addflag and removeflag.
var flagRule = rule{needs: "imap4flags", values: []Kind{String, list}, optional: true, check: (*checker).flagVariable}

// commands is the table of commands.
var commands map[string]*rule

// testsByName is the table of tests.
var testsByName map[string]*rule

func init() {
	commands = map[string]*rule{
		"require": {values: []Kind{list}, check: (*checker).require},
		"if":      {tests: oneTest, block: true}, "elsif": {tests: oneTest, block: true, check: (*checker).follows},
		"else": {block: true, check: (*checker).follows},
		"stop": {}, "keep": {tags: []tagRules{flagged}}, "discard": {},
		"fileinto": {needs: "fileinto", tags: []tagRules{flagged, copied, filed}, values: []Kind{String}},
		"redirect": {tags: []tagRules{copied}, values: []Kind{String}, check: (*checker).redirect},
		"reject":   {needs: "reject", values: []Kind{String}}, "ereject": {needs: "ereject", values: []Kind{String}},
		"vacation": {needs: "vacation", values: []Kind{String}, tags: []tagRules{{
			"days": {value: Number, group: "period"}, "subject": {value: String}, "from": {value: String},
			"seconds":   {value: Number, group: "period", needs: "vacation-seconds"},
			"addresses": {value: list}, "mime": {}, "handle": {value: String},
		}}},
		"setflag": &flagRule, "addflag": &flagRule, "removeflag": &flagRule,
		"addheader": {needs: "editheader", values: []Kind{String, String}, tags: []tagRules{{"last": {}}},
			check: (*checker).fieldName},
		"deleteheader": {needs: "editheader", values: []Kind{String, list | optional}, check: (*checker).fieldName,
			tags: []tagRules{matching, {"index": {value: Number}, "last": {more: "index"}}}},
		"set": {needs: "variables", values: []Kind{String, String}, check: (*checker).set, tags: []tagRules{{
			"lower": {group: "case"}, "upper": {group: "case"}, "lowerfirst": {group: "first"},
			"upperfirst": {group: "first"}, "quotewildcard": {group: "quote"},
			"quoteregex": {group: "quote", needs: "regex"}, "encodeurl": {group: "encode", needs: "enotify"},
			"length": {group: "length"},
		}}},
		"include": {needs: "include", values: []Kind{String}, check: (*checker).include, tags: []tagRules{{
			"personal": {group: "place"}, "global": {group: "place"}, "once": {}, "optional": {},
		}}},
		"return": {needs: "include"},
		"global": {needs: "include", values: []Kind{list}, check: (*checker).global},
		"notify": {needs: "enotify", values: []Kind{String}, check: (*checker).notify, tags: []tagRules{{
			"from": {value: String}, "importance": {value: String}, "options": {value: list},
			"message": {value: String},
		}}},
		"error": {needs: "ihave", values: []Kind{String}},
	}
	testsByName = map[string]*rule{
		"true": {}, "false": {}, "not": {tests: oneTest}, "allof": {tests: testList}, "anyof": {tests: testList},
		"address": {tags: []tagRules{matching, parts, indexed}, values: []Kind{list, list}, check: (*checker).match},
		"header":  {tags: []tagRules{matching, indexed}, values: []Kind{list, list}, check: (*checker).match},
		"exists":  {values: []Kind{list}},
		"size": {tags: []tagRules{{"over": {group: "size"}, "under": {group: "size"}}}, values: []Kind{Number},
			check: (*checker).size},
		"envelope": {needs: "envelope", tags: []tagRules{matching, parts}, values: []Kind{list, list},
			check: (*checker).envelope},
		"body": {needs: "body", values: []Kind{list}, check: (*checker).match, tags: []tagRules{matching, {
			"raw": {group: "transform"}, "text": {group: "transform"}, "content": {group: "transform", value: list},
		}}},
		"hasflag": {needs: "imap4flags", tags: []tagRules{matching}, values: []Kind{list, list}, optional: true,
			check: (*checker).match},
		"string": {needs: "variables", tags: []tagRules{matching}, values: []Kind{list, list}, check: (*checker).match},
		"date": {needs: "date", values: []Kind{String, String, list}, check: (*checker).date, tags: []tagRules{matching,
			indexed, {"zone": {group: "zone", value: String}, "originalzone": {group: "zone"}}}},
		"currentdate": {needs: "date", values: []Kind{String, list}, check: (*checker).date, tags: []tagRules{matching,
			{"zone": {value: String}}}},
		"duplicate": {needs: "duplicate", check: (*checker).duplicate, tags: []tagRules{{
			"handle": {value: String}, "header": {group: "id", value: String}, "uniqueid": {group: "id", value: String},
			"seconds": {value: Number}, "last": {},
		}}},
		"environment": {needs: "environment", tags: []tagRules{matching}, values: []Kind{String, list},
			check: (*checker).match},
		"spamtest": {needs: "spamtest", values: []Kind{String}, check: (*checker).match,
			tags: []tagRules{matching, {"percent": {needs: "spamtestplus"}}}},
		"mailboxexists": {needs: "mailbox", values: []Kind{list}},
		"specialuse_exists": {needs: "special-use", values: []Kind{String, list},
			optional: true},
		"valid_notify_method": {needs: "enotify", values: []Kind{list}},
		"notify_method_capability": {needs: "enotify", tags: []tagRules{matching}, values: []Kind{String, String, list},
			check: (*checker).match},
		"ihave": {needs: "ihave", values: []Kind{list}, check: (*checker).ihave},
	}
}

// optional marks a last value that may be missing.
const optional Kind = 1 << 7
