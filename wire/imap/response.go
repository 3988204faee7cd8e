package imap

// The data of untagged responses, as servers print and clients read them.

// ListData is one LIST or LSUB response.
type ListData struct {
	Attrs     []string // `\HasNoChildren`, `\Sent` …
	Delimiter byte     // 0: NIL
	Mailbox   string
	// OldName is the name before a rename, or as the client wrote it (RFC 9051 section 7.3.1).
	OldName string
	// ChildInfo are the selection options that subordinate mailboxes match: "SUBSCRIBED".
	ChildInfo []string
}

// StatusData is one STATUS response; Items says which fields count.
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
	// Has says which of Min, Max, All and Count are there. ReturnSave stands for ModSeq.
	Has      SearchReturn
	Min, Max uint32
	All      Set
	Count    uint32
	ModSeq   uint64 // 0 where absent
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

// SearchData is a SEARCH response of IMAP4rev1.
type SearchData struct {
	Numbers []uint32
	ModSeq  uint64 // 0 where absent
}
