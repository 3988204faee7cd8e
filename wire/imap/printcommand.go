package imap

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// AppendCommand prints a command with its CRLF, as a client sends it. Literals are in place, as synchronising literals
// (see NextLiteral). The text of an APPEND ends with the announcement of its message, which the caller sends. Set
// utf8Text if the server has enabled UTF-8; names and texts are then quoted as UTF-8.
func AppendCommand(dst []byte, c *Command, utf8Text bool) []byte {
	dst = append(append(dst, c.Tag...), ' ')
	if c.UID {
		dst = append(dst, "UID "...)
	}
	dst = append(dst, c.Name...)
	if c.Args != nil {
		var done bool
		if dst, done = appendAccess(append(dst, ' '), c, utf8Text); !done {
			if dst, done = appendURLArgs(dst, c.Args, utf8Text); !done {
				dst = appendArgs(dst, c.Args, utf8Text)
			}
		}
	}
	return append(dst, "\r\n"...)
}

func appendArgs(dst []byte, args any, u bool) []byte {
	switch a := args.(type) {
	case *Login:
		dst = AppendString(dst, a.User, u)
		return AppendString(append(dst, ' '), a.Password, u)
	case *Authenticate:
		return appendAuthenticate(dst, a)
	case *Enable:
		return append(dst, strings.Join(a.Capabilities, " ")...)
	case *ID:
		return appendIDParams(dst, a.Params)
	case *Select:
		return appendSelect(dst, a, u)
	case *Mailbox:
		return AppendMailbox(dst, a.Name, u)
	case *Create:
		return appendCreate(dst, a, u)
	case *Rename:
		dst = AppendMailbox(dst, a.From, u)
		return AppendMailbox(append(dst, ' '), a.To, u)
	case *List:
		return appendListArgs(dst, a, u)
	case *Status:
		dst = AppendMailbox(dst, a.Mailbox, u)
		return AppendStatusItems(append(dst, ' '), a.Items)
	case *Append:
		return appendAppend(dst, a, u)
	}
	return appendMessageArgs(dst, args, u)
}

// appendMessageArgs prints the arguments of a command on messages of the selected mailbox.
func appendMessageArgs(dst []byte, args any, u bool) []byte {
	switch a := args.(type) {
	case *Replace:
		if a.Message == 0 {
			dst = append(dst, "* "...)
		} else {
			dst = append(appendUint(dst, uint64(a.Message)), ' ')
		}
		return appendAppend(dst, &a.Append, u)
	case *Expunge:
		return appendTarget(dst, &a.Target)
	case *Copy:
		dst = appendTarget(dst, &a.Target)
		return AppendMailbox(append(dst, ' '), a.Mailbox, u)
	case *Store:
		return appendStore(dst, a)
	case *Fetch:
		return appendFetch(dst, a)
	}
	return appendQuery(dst, args, u)
}

// appendQuery writes the arguments of commands that search or watch mailboxes.
func appendQuery(dst []byte, args any, u bool) []byte {
	switch a := args.(type) {
	case *Search:
		return appendSearch(dst, a, u)
	case *Sort:
		return appendSort(dst, a, u)
	case *Thread:
		return appendThread(dst, a, u)
	case *MultiSearch:
		return appendMultiSearch(dst, a, u)
	case *Notify:
		return appendNotify(dst, a, u)
	case *CancelUpdate:
		return appendCancelUpdate(dst, a)
	case *UIDBatches:
		return appendUIDBatches(dst, a)
	}
	return dst
}

func appendAuthenticate(dst []byte, a *Authenticate) []byte {
	dst = append(dst, a.Mechanism...)
	if a.HasInitial && len(a.Initial) == 0 {
		return append(dst, " ="...)
	} else if a.HasInitial {
		return base64.StdEncoding.AppendEncode(append(dst, ' '), a.Initial)
	}
	return dst
}

func appendTarget(dst []byte, t *Target) []byte {
	if t.Saved {
		return append(dst, '$')
	}
	return AppendSet(dst, t.Set)
}

func appendSelect(dst []byte, s *Select, u bool) []byte {
	dst = AppendMailbox(dst, s.Mailbox, u)
	if !s.CondStore && s.QResync == nil {
		return dst
	}
	dst = append(dst, " ("...)
	if s.CondStore {
		dst = append(dst, "CONDSTORE"...)
	}
	if q := s.QResync; q != nil {
		if s.CondStore {
			dst = append(dst, ' ')
		}
		dst = appendUint(append(dst, "QRESYNC ("...), uint64(q.UIDValidity))
		dst = appendUint(append(dst, ' '), q.ModSeq)
		if len(q.KnownUIDs) > 0 {
			dst = AppendSet(append(dst, ' '), q.KnownUIDs)
		}
		if len(q.SeqMatch.Seqs) > 0 {
			dst = AppendSet(append(dst, " ("...), q.SeqMatch.Seqs)
			dst = append(AppendSet(append(dst, ' '), q.SeqMatch.UIDs), ')')
		}
		dst = append(dst, ')')
	}
	return append(dst, ')')
}

func appendCreate(dst []byte, c *Create, u bool) []byte {
	name := c.Mailbox
	if c.Trailing {
		name += "/"
	}
	dst = AppendMailbox(dst, name, u)
	if c.Use != nil {
		dst = append(appendWords(append(dst, " (USE "...), c.Use), ')')
	}
	return dst
}

func appendListArgs(dst []byte, l *List, u bool) []byte {
	if l.Select != 0 {
		dst = append(appendListOptions(dst, l.Select, l), ' ')
	}
	dst = appendMailboxString(dst, l.Reference, u)
	dst = append(dst, ' ')
	if l.Extended {
		dst = append(dst, '(')
	}
	for i, p := range l.Patterns {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = appendMailboxString(dst, p, u)
	}
	if l.Extended {
		dst = append(dst, ')')
	}
	if l.Return != 0 {
		dst = appendListOptions(append(dst, " RETURN "...), l.Return, l)
	}
	return dst
}

var listOptions = []struct {
	option ListOption
	name   string
}{
	{ListSubscribed, "SUBSCRIBED"}, {ListRemote, "REMOTE"}, {ListRecursiveMatch, "RECURSIVEMATCH"},
	{ListSpecialUse, "SPECIAL-USE"}, {ListChildren, "CHILDREN"}, {ListMyRights, "MYRIGHTS"}, {ListMetadata, "METADATA"},
	{ListStatus, "STATUS"},
}

func appendListOptions(dst []byte, set ListOption, l *List) []byte {
	sep := byte('(')
	for _, o := range listOptions {
		if set&o.option == 0 {
			continue
		}
		dst = append(append(dst, sep), o.name...)
		sep = ' '
		if o.option == ListStatus {
			dst = AppendStatusItems(append(dst, ' '), l.Status)
		}
		if o.option == ListMetadata {
			dst = append(dst, " ("...)
			for i, e := range l.Metadata {
				if i > 0 {
					dst = append(dst, ' ')
				}
				dst = AppendAString(dst, e, false)
			}
			dst = append(dst, ')')
		}
	}
	return append(dst, ')')
}

func appendAppend(dst []byte, a *Append, u bool) []byte {
	return appendMessage(append(AppendMailbox(dst, a.Mailbox, u), ' '), a, u)
}

// AppendNextMessage prints the text between two messages of one APPEND (RFC 3502), with CRLF: it ends the first message
// and announces a.
func AppendNextMessage(dst []byte, before, a *Append) []byte {
	if before.UTF8 {
		dst = append(dst, ')')
	}
	return append(appendMessage(append(dst, ' '), a, false), "\r\n"...)
}

func appendStore(dst []byte, s *Store) []byte {
	dst = append(appendTarget(dst, &s.Target), ' ')
	if s.HasUnchangedSince {
		dst = append(appendUint(append(dst, "(UNCHANGEDSINCE "...), s.UnchangedSince), ") "...)
	}
	switch s.Op {
	case StoreAdd:
		dst = append(dst, '+')
	case StoreRemove:
		dst = append(dst, '-')
	}
	dst = append(dst, "FLAGS"...)
	if s.Silent {
		dst = append(dst, ".SILENT"...)
	}
	return AppendFlags(append(dst, ' '), s.Flags)
}

func appendFetch(dst []byte, f *Fetch) []byte {
	dst = append(appendTarget(dst, &f.Target), " ("...)
	for i := range f.Items {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = AppendFetchItem(dst, &f.Items[i])
	}
	dst = append(dst, ')')
	if f.ChangedSince == 0 && f.Partial == (Partial{}) {
		return dst
	}
	dst = append(dst, " ("...)
	if f.ChangedSince > 0 {
		dst = appendUint(append(dst, "CHANGEDSINCE "...), f.ChangedSince)
		if f.Vanished {
			dst = append(dst, " VANISHED"...)
		}
	}
	if f.Partial != (Partial{}) {
		if f.ChangedSince > 0 {
			dst = append(dst, ' ')
		}
		dst = appendPartial(append(dst, "PARTIAL "...), f.Partial)
	}
	return append(dst, ')')
}

var searchReturns = []struct {
	set  SearchReturn
	name string
}{
	{ReturnMin, "MIN"}, {ReturnMax, "MAX"}, {ReturnAll, "ALL"}, {ReturnCount, "COUNT"}, {ReturnSave, "SAVE"},
	{ReturnPartial, "PARTIAL"}, {ReturnUpdate, "UPDATE"}, {ReturnContext, "CONTEXT"},
}

func appendSearchReturns(dst []byte, s *Search) []byte {
	if !s.Extended {
		return dst
	}
	dst = append(dst, "RETURN ("...)
	first := true
	for _, r := range searchReturns {
		if s.Return&r.set == 0 {
			continue
		}
		if !first {
			dst = append(dst, ' ')
		}
		dst = append(dst, r.name...)
		first = false
		if r.set == ReturnPartial {
			dst = appendPartial(append(dst, ' '), s.Partial)
		}
	}
	return append(dst, ") "...)
}

func appendSearch(dst []byte, s *Search, u bool) []byte {
	dst = appendSearchReturns(dst, s)
	if s.Charset != "" { // the texts have been converted to UTF-8
		dst = append(dst, "CHARSET UTF-8 "...)
	}
	return AppendSearchKey(dst, &s.Key, u)
}

var searchWords = [...]string{
	OpAll: "ALL", OpOr: "OR", OpNot: "NOT", OpUID: "UID", OpFrom: "FROM", OpTo: "TO", OpCc: "CC", OpBcc: "BCC",
	OpSubject: "SUBJECT", OpHeader: "HEADER", OpBody: "BODY", OpText: "TEXT", OpBefore: "BEFORE", OpOn: "ON",
	OpSince: "SINCE", OpSentBefore: "SENTBEFORE", OpSentOn: "SENTON", OpSentSince: "SENTSINCE",
	OpSavedBefore: "SAVEDBEFORE", OpSavedOn: "SAVEDON", OpSavedSince: "SAVEDSINCE",
	OpSaveDateSupported: "SAVEDATESUPPORTED", OpLarger: "LARGER", OpSmaller: "SMALLER", OpModSeq: "MODSEQ",
	OpEmailID: "EMAILID", OpThreadID: "THREADID", OpOlder: "OLDER", OpYounger: "YOUNGER",
}

// AppendSearchKey prints a search key.
func AppendSearchKey(dst []byte, k *SearchKey, utf8Text bool) []byte {
	switch k.Op {
	case OpAnd:
		for i := range k.Keys {
			dst = append(dst, " ("[b2i(i == 0)])
			dst = AppendSearchKey(dst, &k.Keys[i], utf8Text)
		}
		return append(dst, ')')
	case OpSeq:
		return appendTarget(dst, &k.Target)
	case OpFlag:
		if len(k.Text) > 0 && k.Text[0] == '\\' {
			return append(dst, upper(k.Text[1:])...)
		}
		return append(append(dst, "KEYWORD "...), k.Text...)
	}
	if int(k.Op) >= len(searchWords) {
		return dst
	}
	dst = append(dst, searchWords[k.Op]...)
	if k.Op == OpAll || k.Op == OpSaveDateSupported {
		return dst
	}
	return appendSearchArgs(append(dst, ' '), k, utf8Text)
}

func appendSearchArgs(dst []byte, k *SearchKey, utf8Text bool) []byte {
	switch k.Op {
	case OpOr, OpNot:
		for i := range k.Keys {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = AppendSearchKey(dst, &k.Keys[i], utf8Text)
		}
		return dst
	case OpUID:
		return appendTarget(dst, &k.Target)
	case OpHeader:
		dst = append(AppendAString(dst, k.Field, utf8Text), ' ')
		return AppendString(dst, k.Text, utf8Text)
	case OpLarger, OpSmaller, OpModSeq, OpOlder, OpYounger:
		return appendUint(dst, k.Number)
	case OpEmailID, OpThreadID:
		return AppendAString(dst, k.Text, utf8Text)
	}
	if k.Op >= OpBefore && k.Op <= OpSavedSince {
		return AppendDate(dst, k.Date)
	}
	return AppendString(dst, k.Text, utf8Text)
}

// AppendNonSync appends a command with its literals (see Command.Text) to dst and makes the literals non-synchronising,
// so that a server reads them without a continuation request. It does not change the announcement at the end of the
// text, whose literal is not in the text.
func AppendNonSync(dst, text []byte) []byte {
	for {
		head, size, rest, ok := NextLiteral(text)
		if !ok {
			if announced, empty := bytes.CutSuffix(text, []byte("{0}\r\n")); empty {
				return append(append(dst, announced...), "{0+}\r\n"...)
			}
			return append(dst, text...)
		}
		head = bytes.TrimSuffix(head, []byte("}\r\n"))
		dst = append(append(dst, bytes.TrimSuffix(head, []byte("+"))...), "+}\r\n"...)
		dst, text = append(dst, rest[:size]...), rest[size:]
	}
}

// NextLiteral finds the first literal in a printed command. head is the text up to and including the CRLF of the
// announcement; the first size bytes of rest are the literal. ok is false if there is none, or if the announced literal
// is not in the text (the message of an APPEND).
func NextLiteral(text []byte) (head []byte, size int, rest []byte, ok bool) {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\r' || text[i+1] != '\n' {
			continue
		}
		lit, found := literalAtEnd(text[:i])
		if !found || lit.size > int64(len(text)-i-2) || i+2 == len(text) {
			return text, 0, nil, false
		}
		return text[:i+2], int(lit.size), text[i+2:], true
	}
	return text, 0, nil, false
}
