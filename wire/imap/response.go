package imap

// Data of untagged responses, which servers print and clients parse.

// ListData holds a LIST or LSUB response.
type ListData struct {
	Attrs     []string // `\HasNoChildren`, `\Sent` …
	Delimiter byte     // 0: NIL
	Mailbox   string
	// OldName is the name before a rename, or the name as the client wrote it (RFC 9051 section 7.3.1).
	OldName string
	// ChildInfo holds the selection options that mailboxes below this one match: "SUBSCRIBED".
	ChildInfo []string
}

// StatusData holds a STATUS response. Items is the set of valid fields.
type StatusData struct {
	Mailbox                                                 string
	Items                                                   StatusItem
	Messages, Recent, UIDNext, UIDValidity, Unseen, Deleted uint32
	Size, HighestModSeq, DeletedStorage                     uint64
	AppendLimit                                             uint64 // 0: NIL
	MailboxID                                               string
}

// ESearch holds an ESEARCH response (RFC 9051 section 7.3.4).
type ESearch struct {
	Tag string
	UID bool
	// Mailbox and UIDValidity identify the mailbox of the result, in responses to the ESEARCH command (RFC 7377).
	Mailbox     string
	UIDValidity uint32
	// Has is the set of valid fields among Min, Max, All, Count and Partial. ReturnSave in it means that ModSeq is
	// valid.
	Has      SearchReturn
	Min, Max uint32
	// All is in result order; the order of SORT need not be ascending.
	All    Set
	Count  uint32
	ModSeq uint64 // 0 if absent
	// Partial is the requested range. PartialAll holds its messages; nil if there are none.
	Partial    Partial
	PartialAll Set
}

// NamespaceItem describes one namespace (RFC 2342).
type NamespaceItem struct {
	Prefix    string
	Delimiter byte // 0: NIL
}

// Namespace holds a NAMESPACE response.
type Namespace struct{ Personal, Other, Shared []NamespaceItem }

// Vanished holds a VANISHED response (RFC 7162).
type Vanished struct {
	Earlier bool
	UIDs    Set
}

// SearchData holds a SEARCH response of IMAP4rev1, or a SORT response with its numbers in order.
type SearchData struct {
	Numbers []uint32
	ModSeq  uint64 // 0 if absent
}
