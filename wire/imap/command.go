package imap

import "time"

// Command is a parsed client command.
type Command struct {
	// Tag is the tag as the client wrote it.
	Tag string
	// Name is the verb in upper case: "FETCH", "SELECT". A UID variant has the plain name and UID set.
	Name string
	UID  bool
	// Given is the last mailbox name of the command as the client wrote it. It is set only if names are UTF-8 and the
	// name differs from its form in Args (RFC 9051 section 5.1).
	Given string
	// Args holds the parsed arguments as a pointer to a type of this package, such as *Fetch or *Search. It is nil for
	// verbs without arguments (NOOP, CAPABILITY, CHECK, CLOSE, EXPUNGE, IDLE, LOGOUT, NAMESPACE, STARTTLS, UNSELECT).
	Args any
	// Text is the text from which ReadCommand read the command, with its literals and without the last CRLF. The text
	// of an APPEND or REPLACE ends with the announcement of the first message.
	Text string
}

// Flag is a system flag (`\Seen`) or a keyword (`$Forwarded`, `work`). The parser writes system flags canonically:
// `\seen` becomes `\Seen`. Keywords keep the client's case.
type Flag = string

// System flags of RFC 9051 section 2.3.2, and \Recent of RFC 3501.
const (
	Seen     Flag = `\Seen`
	Answered Flag = `\Answered`
	Flagged  Flag = `\Flagged`
	Deleted  Flag = `\Deleted`
	Draft    Flag = `\Draft`
	Recent   Flag = `\Recent`
	// AnyFlag in PERMANENTFLAGS means that clients may create new keywords.
	AnyFlag Flag = `\*`
)

// Mailbox names in commands are UTF-8 in NFC, in whatever encoding the client sent them. INBOX, alone or as the first
// level, is always in upper case.

// Login holds the arguments of LOGIN.
type Login struct{ User, Password string }

// Authenticate holds the arguments of AUTHENTICATE. The server reads the exchange with Reader.ReadLine.
type Authenticate struct {
	Mechanism string // upper case
	// Initial is the decoded initial response (RFC 4959); HasInitial distinguishes an empty one ("=") from none.
	Initial    []byte
	HasInitial bool
}

// Enable holds the arguments of ENABLE (RFC 5161): capability names in upper case.
type Enable struct{ Capabilities []string }

// ID holds the arguments of ID (RFC 2971): pairs of name and value in order; nil for NIL. A NIL value is "".
type ID struct{ Params []IDParam }

// IDParam is one pair of ID.
type IDParam struct{ Name, Value string }

// Select holds the arguments of SELECT and EXAMINE, with CONDSTORE and QRESYNC (RFC 7162).
type Select struct {
	Mailbox   string
	CondStore bool
	QResync   *QResync
}

// QResync holds the QRESYNC parameter of SELECT (RFC 7162 section 3.2.5).
type QResync struct {
	UIDValidity uint32
	ModSeq      uint64
	KnownUIDs   Set // nil if absent
	// SeqMatch holds two sets of equal size: message numbers, and the UIDs that the client knows for them.
	SeqMatch struct{ Seqs, UIDs Set }
}

// Mailbox holds the argument of DELETE, SUBSCRIBE and UNSUBSCRIBE.
type Mailbox struct{ Name string }

// Create holds the arguments of CREATE. Use lists the requested special uses (RFC 6154 section 3), e.g. `\Sent`.
type Create struct {
	Mailbox string
	// Trailing is set if the name ended with the separator: the client intends to create names below it.
	Trailing bool
	Use      []string
}

// Rename holds the arguments of RENAME.
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

// List holds the arguments of LIST and LSUB. Patterns are UTF-8 in NFC.
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

// Attributes of STATUS (RFC 9051 section 6.3.11, RFC 7162, RFC 8438, RFC 8474).
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

// Status holds the arguments of STATUS.
type Status struct {
	Mailbox string
	Items   StatusItem
}

// Append holds the arguments of APPEND. The message itself is not read yet: see Reader.Message and
// Reader.RefuseMessage. An APPEND of several messages (RFC 3502) yields the first: see Reader.EndMessage. A CATENATE
// message (RFC 4469) has parts: see Reader.Part.
type Append struct {
	Mailbox string
	Flags   []Flag
	// Date is the zero time if absent.
	Date time.Time
	// Size is the size of the message in bytes.
	Size int64
	// Binary is set for a literal8, UTF8 for a message as UTF8 (…) (RFC 6855).
	Binary, UTF8 bool
	// NonSync is set if the client sends the literal without waiting (RFC 7888).
	NonSync bool
	// Catenate is set for a message with Parts. Parts holds the parts of the text read so far, up to the first literal
	// or after it. Only the last of Parts can be a literal.
	Catenate bool
	Parts    []CatPart
	// Next is the next message in the same text, or nil. Only a message that consists of URLs alone has one.
	Next *Append
}

// Replace holds the arguments of REPLACE (RFC 8508): a message of the selected mailbox, and the new message as in
// APPEND.
type Replace struct {
	// Message is the number of the replaced message, or its UID with Command.UID; 0 means `*`.
	Message uint32
	Append
}

// appendOf returns the Append in the arguments of a command that ends with a message, or nil.
func appendOf(c *Command) *Append {
	switch a := c.Args.(type) {
	case *Append:
		return a
	case *Replace:
		return &a.Append
	}
	return nil
}

// Target selects messages: by a set of numbers (or UIDs, with Command.UID), or as the saved search result.
type Target struct {
	Set Set
	// Saved is set for `$` (SEARCHRES, RFC 9051 section 6.4.4.1). Set is nil then.
	Saved bool
}

// Expunge holds the argument of UID EXPUNGE. EXPUNGE has none.
type Expunge struct{ Target }

// Copy holds the arguments of COPY and MOVE.
type Copy struct {
	Target
	Mailbox string
}

// StoreOp is the operation of STORE on the flags of a message.
type StoreOp uint8

// The operations of STORE.
const (
	StoreReplace StoreOp = iota
	StoreAdd
	StoreRemove
)

// Store holds the arguments of STORE (RFC 9051 section 6.4.6; UNCHANGEDSINCE of RFC 7162).
type Store struct {
	Target
	Op     StoreOp
	Silent bool
	Flags  []Flag
	// UnchangedSince is valid only with HasUnchangedSince, because 0 is a valid value.
	UnchangedSince    uint64
	HasUnchangedSince bool
}

// Fetch holds the arguments of FETCH, with macros expanded.
type Fetch struct {
	Target
	Items []FetchItem
	// ChangedSince is 0 if absent (RFC 7162 allows only 1 and more).
	ChangedSince uint64
	Vanished     bool
	// Partial is the zero value if absent (RFC 9394).
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
	ItemRFC822       // RFC822, equivalent to BODY[]
	ItemRFC822Header // RFC822.HEADER, equivalent to BODY.PEEK[HEADER]
	ItemRFC822Text   // RFC822.TEXT, equivalent to BODY[TEXT]
	ItemBinary       // BINARY[…]<…> and BINARY.PEEK
	ItemBinarySize   // BINARY.SIZE[…]
	ItemModSeq
	ItemEmailID
	ItemThreadID
	ItemPreview
	ItemSaveDate
)

// FetchItem is one requested item of FETCH.
type FetchItem struct {
	Kind ItemKind
	// Peek is set for items that don't set \Seen: all but BODY[…], BINARY[…], RFC822 and RFC822.TEXT.
	Peek bool
	// Lazy is set for PREVIEW (LAZY), RFC 8970.
	Lazy    bool
	Section Section
	// Offset and Size hold <Offset.Size>. They are valid only with HasPartial.
	HasPartial   bool
	Offset, Size uint32
}

// SectionText selects the text of a part in a section.
type SectionText uint8

// Texts of a section.
const (
	TextAll SectionText = iota // BODY[], BODY[1.2]
	TextHeader
	TextHeaderFields
	TextHeaderFieldsNot
	TextText
	TextMIME
)

// Section holds the contents of the brackets: the path of a part (empty: the message) and the text of that part.
type Section struct {
	Part   []uint32
	Text   SectionText
	Fields []string // as the client wrote them
}

// SearchReturn is a set of result options: RFC 4731, SAVE of RFC 9051, PARTIAL of RFC 9394, UPDATE and CONTEXT of RFC
// 5267.
type SearchReturn uint8

// Result options of SEARCH.
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

// Search holds the arguments of SEARCH.
type Search struct {
	// Extended is set if the command has RETURN, so the response is ESEARCH. RETURN () gives ReturnAll.
	Extended bool
	Return   SearchReturn
	Partial  Partial // with ReturnPartial
	Charset  string  // as given; texts in Key are already UTF-8
	Key      SearchKey
	// ModSeq is set if Key contains a MODSEQ key, which enables CONDSTORE and adds MODSEQ to the response.
	ModSeq bool
}

// SearchOp is the operator of a search key.
type SearchOp uint8

// Search operators. Opposites of RFC 9051 (UNSEEN, UNKEYWORD) become OpNot of OpFlag. NEW becomes OpAnd of \Recent and
// not \Seen.
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
	OpBefore                            // Date: INTERNALDATE, time and zone ignored
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
	OpModSeq                            // Number; the entry name and type of RFC 7162 are parsed but ignored
	OpEmailID                           // Text (RFC 8474)
	OpThreadID                          // Text
	OpOlder                             // Number: seconds (RFC 5032)
	OpYounger                           // Number
)

// SearchKey is one node of a search tree.
type SearchKey struct {
	Op     SearchOp
	Keys   []SearchKey
	Target Target
	Field  string
	Text   string
	Date   time.Time // midnight UTC of the given day
	Number uint64
}
