package imap

import "time"

// Command is one command of a client.
type Command struct {
	// Tag is the tag as the client wrote it.
	Tag string
	// Name is the verb in upper case: "FETCH", "SELECT". A UID variant has the plain name and UID set.
	Name string
	UID  bool
	// Given is the last mailbox name of the command as the client wrote it, where names are UTF-8 and it was not in
	// the form that Args has (RFC 9051 section 5.1).
	Given string
	// Args is the parsed argument of the verb, of a type of this package such as *Fetch or *Search; nil for verbs
	// without arguments (NOOP, CAPABILITY, CHECK, CLOSE, EXPUNGE, IDLE, LOGOUT, NAMESPACE, STARTTLS, UNSELECT).
	Args any
}

// Flag is a system flag (`\Seen`) or a keyword (`$Forwarded`, `work`). System flags are
// canonical: `\seen` is read as `\Seen`. Keywords keep the case that the client wrote.
type Flag = string

// The system flags of RFC 9051 section 2.3.2, and \Recent of RFC 3501.
const (
	Seen     Flag = `\Seen`
	Answered Flag = `\Answered`
	Flagged  Flag = `\Flagged`
	Deleted  Flag = `\Deleted`
	Draft    Flag = `\Draft`
	Recent   Flag = `\Recent`
	// AnyFlag stands in PERMANENTFLAGS: new keywords may be created.
	AnyFlag Flag = `\*`
)

// Mailbox names in commands are UTF-8 in NFC, INBOX (in any case, alone or before the separator) is
// "INBOX", whatever form the client sent.

// Login is LOGIN.
type Login struct{ User, Password string }

// Authenticate is AUTHENTICATE. The exchange itself is read with Reader.ReadLine.
type Authenticate struct {
	Mechanism string // upper case
	// Initial is the decoded initial response (RFC 4959); HasInitial distinguishes an empty one ("=") from none.
	Initial    []byte
	HasInitial bool
}

// Enable is ENABLE (RFC 5161): capability names in upper case.
type Enable struct{ Capabilities []string }

// ID is ID (RFC 2971): name, value pairs in order; nil for NIL. A NIL value is "".
type ID struct{ Params []IDParam }

// IDParam is one pair of ID.
type IDParam struct{ Name, Value string }

// Select is the argument of SELECT and EXAMINE, with CONDSTORE and QRESYNC (RFC 7162).
type Select struct {
	Mailbox   string
	CondStore bool
	QResync   *QResync
}

// QResync is the parameter of SELECT (RFC 7162 section 3.2.5).
type QResync struct {
	UIDValidity uint32
	ModSeq      uint64
	KnownUIDs   Set // nil where absent
	// SeqMatch holds two sets of equal size: message numbers, and the UIDs that the client knows for them.
	SeqMatch struct{ Seqs, UIDs Set }
}

// Mailbox is the argument of DELETE, SUBSCRIBE and UNSUBSCRIBE.
type Mailbox struct{ Name string }

// Create is CREATE, with the special uses asked for (RFC 6154 section 3), e.g. `\Sent`.
type Create struct {
	Mailbox string
	// Trailing is set where the name ended with the separator: the client will create names below it.
	Trailing bool
	Use      []string
}

// Rename is RENAME.
type Rename struct{ From, To string }

// ListOption is a set of selection or return options of LIST (RFC 9051 section 6.3.9, RFC 5258,
// 5819, 6154).
type ListOption uint16

// Selection and return options of LIST.
const (
	ListSubscribed ListOption = 1 << iota
	ListRemote
	ListRecursiveMatch
	ListSpecialUse
	ListChildren
	ListStatus
	ListMyRights // RFC 8440
	ListMetadata // RFC 9590
)

// List is LIST and LSUB. Patterns are UTF-8, in NFC.
type List struct {
	Select, Return ListOption
	// Extended is set for the extended syntax, in which `"" ""` has no special meaning.
	Extended  bool
	Reference string
	Patterns  []string
	Status    StatusItem // with ListStatus in Return
	Metadata  []string   // with ListMetadata: entry names in lower case
}

// StatusItem is a set of STATUS attributes.
type StatusItem uint16

// The attributes of STATUS (RFC 9051 section 6.3.11, 7162, 8438, 8474).
const (
	StatusMessages StatusItem = 1 << iota
	StatusRecent
	StatusUIDNext
	StatusUIDValidity
	StatusUnseen
	StatusDeleted
	StatusSize
	StatusHighestModSeq
	StatusMailboxID
	StatusAppendLimit
	StatusDeletedStorage
)

// Status is STATUS.
type Status struct {
	Mailbox string
	Items   StatusItem
}

// Append is the argument of APPEND. Its message is not read yet: see Reader.Message and Reader.RefuseMessage. Of an
// APPEND of several messages (RFC 3502) it is the first: see Reader.EndMessage. A CATENATE message (RFC 4469) has
// parts: see Reader.Part.
type Append struct {
	Mailbox string
	Flags   []Flag
	// Date is the zero time where absent.
	Date time.Time
	// Size of the message in bytes.
	Size int64
	// Binary is set for a literal8, UTF8 for a message in the form UTF8 (…) (RFC 6855).
	Binary, UTF8 bool
	// NonSync is set where the client sends without waiting (RFC 7888).
	NonSync bool
	// Catenate is set for a message of Parts: those of the text up to the first literal, and those behind it. Only
	// the last of Parts can be a literal.
	Catenate bool
	Parts    []CatPart
	// Next is the next message of the same text. Only messages that consist of URLs alone have one.
	Next *Append
}

// Replace is the argument of REPLACE (RFC 8508): the new message, in the form of an APPEND, and a message of the
// selected mailbox that it replaces.
type Replace struct {
	// Message is its number, or UID with Command.UID; 0 is `*`.
	Message uint32
	Append
}

// appendOf is the APPEND in the arguments of a command that ends with a message, else nil.
func appendOf(c *Command) *Append {
	switch a := c.Args.(type) {
	case *Append:
		return a
	case *Replace:
		return &a.Append
	}
	return nil
}

// Target names messages: a set of numbers (or UIDs, with Command.UID), or the saved search result.
type Target struct {
	Set Set
	// Saved is `$` (SEARCHRES, RFC 9051 section 6.4.4.1); Set is nil then.
	Saved bool
}

// Expunge is the argument of UID EXPUNGE; plain EXPUNGE has none.
type Expunge struct{ Target }

// Copy is COPY and MOVE.
type Copy struct {
	Target
	Mailbox string
}

// StoreOp is the operation of STORE on its flags.
type StoreOp uint8

// The operations of STORE.
const (
	StoreReplace StoreOp = iota
	StoreAdd
	StoreRemove
)

// Store is STORE (RFC 9051 section 6.4.6, UNCHANGEDSINCE RFC 7162).
type Store struct {
	Target
	Op     StoreOp
	Silent bool
	Flags  []Flag
	// UnchangedSince is valid with HasUnchangedSince only: 0 is a value.
	UnchangedSince    uint64
	HasUnchangedSince bool
}

// Fetch is FETCH. Macros are expanded.
type Fetch struct {
	Target
	Items []FetchItem
	// ChangedSince is 0 where absent (RFC 7162 allows 1 and up).
	ChangedSince uint64
	Vanished     bool
	// Partial (RFC 9394) is the zero value where absent.
	Partial Partial
}

// ItemKind is the kind of a FETCH item.
type ItemKind uint8

// The items of FETCH.
const (
	ItemFlags ItemKind = iota + 1
	ItemUID
	ItemInternalDate
	ItemSize     // RFC822.SIZE
	ItemEnvelope // ENVELOPE
	ItemBody     // BODY, the non-extensible BODYSTRUCTURE
	ItemBodyStructure
	ItemBodySection  // BODY[…]<…> and BODY.PEEK
	ItemRFC822       // RFC822, as BODY[] under another name
	ItemRFC822Header // as BODY.PEEK[HEADER]
	ItemRFC822Text   // as BODY[TEXT]
	ItemBinary       // BINARY[…]<…> and BINARY.PEEK
	ItemBinarySize   // BINARY.SIZE[…]
	ItemModSeq
	ItemEmailID
	ItemThreadID
	ItemPreview
	ItemSaveDate
)

// FetchItem is one item that FETCH asks for.
type FetchItem struct {
	Kind ItemKind
	// Peek is set for items that leave \Seen alone: all but BODY[…], BINARY[…], RFC822 and RFC822.TEXT.
	Peek bool
	// Lazy is set for PREVIEW (LAZY), RFC 8970.
	Lazy    bool
	Section Section
	// Partial is <Offset.Size>, valid with HasPartial only.
	HasPartial   bool
	Offset, Size uint32
}

// SectionText is the text of a part that a section names.
type SectionText uint8

// The texts of a section.
const (
	TextAll SectionText = iota // BODY[], BODY[1.2]
	TextHeader
	TextHeaderFields
	TextHeaderFieldsNot
	TextText
	TextMIME
)

// Section is the content of the brackets: a part path (empty: the message) and the text of that part.
type Section struct {
	Part   []uint32
	Text   SectionText
	Fields []string // as the client wrote them
}

// SearchReturn is a set of result options (RFC 4731, SAVE of RFC 9051, PARTIAL of RFC 9394, UPDATE and CONTEXT of RFC
// 5267).
type SearchReturn uint8

// The result options of SEARCH.
const (
	ReturnMin SearchReturn = 1 << iota
	ReturnMax
	ReturnAll
	ReturnCount
	ReturnSave
	ReturnPartial
	ReturnUpdate
	ReturnContext
)

// Search is SEARCH.
type Search struct {
	// Extended is set where RETURN was given: the answer is ESEARCH. RETURN () is ReturnAll.
	Extended bool
	Return   SearchReturn
	Partial  Partial // with ReturnPartial
	Charset  string  // as given; texts in Key are UTF-8 already
	Key      SearchKey
	// ModSeq is set where the tree has a MODSEQ key, which enables CONDSTORE and adds MODSEQ to the answer.
	ModSeq bool
}

// SearchOp is the operator of a search key.
type SearchOp uint8

// The search keys. Pairs of RFC 9051 (SEEN and UNSEEN, KEYWORD and UNKEYWORD) are OpFlag and OpNot; NEW is OpAnd of
// \Recent and not \Seen.
const (
	OpAll               SearchOp = iota // every message
	OpAnd                               // Keys: all of them
	OpOr                                // Keys: two
	OpNot                               // Keys: one
	OpSeq                               // Target: message numbers
	OpUID                               // Target: UIDs
	OpFlag                              // Text: a Flag (system flags, keywords, \Recent)
	OpFrom                              // Text
	OpTo                                // Text
	OpCc                                // Text
	OpBcc                               // Text
	OpSubject                           // Text
	OpHeader                            // Field, Text ("" matches every message with the field)
	OpBody                              // Text
	OpText                              // Text
	OpBefore                            // Date: INTERNALDATE, time and zone disregarded
	OpOn                                // Date
	OpSince                             // Date
	OpSentBefore                        // Date: the Date field
	OpSentOn                            // Date
	OpSentSince                         // Date
	OpSavedBefore                       // Date: SAVEDATE (RFC 8514)
	OpSavedOn                           // Date
	OpSavedSince                        // Date
	OpSaveDateSupported                 // RFC 8514
	OpLarger                            // Number
	OpSmaller                           // Number
	OpModSeq                            // Number; the entry name and type of RFC 7162 are read and dropped
	OpEmailID                           // Text (RFC 8474)
	OpThreadID                          // Text
	OpOlder                             // Number: seconds (RFC 5032)
	OpYounger                           // Number
)

// SearchKey is one node of a search.
type SearchKey struct {
	Op     SearchOp
	Keys   []SearchKey
	Target Target
	Field  string
	Text   string
	Date   time.Time // midnight UTC of the day named
	Number uint64
}
