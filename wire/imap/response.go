package imap

// The data of untagged responses, as servers print and clients read them.

// ListData is one LIST or LSUB response.
type ListData struct {
	Attrs     []string // `\HasNoChildren`, `\Sent` …
	Delimiter byte     // 0: NIL
	Mailbox   string
	// OldName is the name before a rename, or as the client wrote it (RFC 9051 section 7.3.1).
	OldName string
	// ChildInfo holds the selection options that subordinate mailboxes match: "SUBSCRIBED".
	ChildInfo []string
}

// StatusData is one STATUS response; Items is the set of valid fields.
type StatusData struct {
	Mailbox                                                 string
	Items                                                   StatusItem
	Messages, Recent, UIDNext, UIDValidity, Unseen, Deleted uint32
	Size, HighestModSeq, DeletedStorage                     uint64
	AppendLimit                                             uint64 // 0: NIL
	MailboxID                                               string
}

// ESearch is an ESEARCH response (RFC 9051 section 7.3.4).
type ESearch struct {
	Tag string
	UID bool
	// Mailbox and UIDValidity name the mailbox of the result, in answers to the ESEARCH command (RFC 7377).
	Mailbox     string
	UIDValidity uint32
	// Has is the set of valid fields among Min, Max, All, Count and Partial. ReturnSave stands for ModSeq.
	Has      SearchReturn
	Min, Max uint32
	// All is in the order of the result: that of SORT need not be ascending.
	All    Set
	Count  uint32
	ModSeq uint64 // 0 where absent
	// Partial is the requested range, PartialAll its messages; nil where it has none.
	Partial    Partial
	PartialAll Set
}

// NamespaceItem is one namespace (RFC 2342).
type NamespaceItem struct {
	Prefix    string
	Delimiter byte // 0: NIL
}

// Namespace is a NAMESPACE response.
type Namespace struct{ Personal, Other, Shared []NamespaceItem }

// Vanished is a VANISHED response (RFC 7162).
type Vanished struct {
	Earlier bool
	UIDs    Set
}

// SearchData is a SEARCH response of IMAP4rev1, or a SORT response, whose numbers are in their order.
type SearchData struct {
	Numbers []uint32
	ModSeq  uint64 // 0 where absent
}
