package imapd

import (
	"errors"
	"fmt"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// errSearch reports a search key that this server does not support.
var errSearch = errors.New("imapd: search key is not offered")

var simpleTests = map[imap.SearchOp]mailbox.Test{
	imap.OpFrom: mailbox.TestFrom, imap.OpTo: mailbox.TestTo, imap.OpCc: mailbox.TestCc, imap.OpBcc: mailbox.TestBcc,
	imap.OpSubject: mailbox.TestSubject, imap.OpHeader: mailbox.TestHeader, imap.OpBody: mailbox.TestBody,
	imap.OpText: mailbox.TestText, imap.OpBefore: mailbox.TestBefore, imap.OpOn: mailbox.TestOn,
	imap.OpSince: mailbox.TestSince, imap.OpSentBefore: mailbox.TestSentBefore, imap.OpSentOn: mailbox.TestSentOn,
	imap.OpSentSince: mailbox.TestSentSince, imap.OpSavedBefore: mailbox.TestSavedBefore,
	imap.OpSavedOn: mailbox.TestSavedOn, imap.OpSavedSince: mailbox.TestSavedSince,
	imap.OpLarger: mailbox.TestLarger, imap.OpSmaller: mailbox.TestSmaller, imap.OpModSeq: mailbox.TestModSeq,
	imap.OpEmailID: mailbox.TestEmailID, imap.OpThreadID: mailbox.TestThreadID,
	imap.OpOlder: mailbox.TestOlder, imap.OpYounger: mailbox.TestYounger,
}

// criteria converts a search key for package mailbox. The parser has limited its depth and size.
//
// Implements: RFC 5182 §2.1 $ in SEARCH
// Implements: RFC 8474 §6 EMAILID and THREADID search
// Implements: RFC 8514 §4 SAVEDATE search
// Implements: RFC 5032 WITHIN
func (s *session) criteria(k *imap.SearchKey) (mailbox.Criteria, error) {
	switch k.Op {
	case imap.OpAll, imap.OpSaveDateSupported:
		return mailbox.Criteria{}, nil
	case imap.OpAnd:
		return s.combine(mailbox.TestAll, k.Keys)
	case imap.OpOr:
		return s.combine(mailbox.TestAny, k.Keys)
	case imap.OpNot:
		return s.combine(mailbox.TestNot, k.Keys)
	case imap.OpSeq, imap.OpUID:
		if k.Target.Saved {
			return mailbox.Criteria{Test: mailbox.TestUID, Set: s.saved}, nil
		}
		if k.Op == imap.OpSeq && s.uidOnly {
			return mailbox.Criteria{}, errUIDRequired
		}
		test := mailbox.TestSeq
		if k.Op == imap.OpUID {
			test = mailbox.TestUID
		}
		return mailbox.Criteria{Test: test, Set: setOf(k.Target.Set)}, nil
	case imap.OpFlag:
		return flagCriteria(k.Text)
	}
	test, ok := simpleTests[k.Op]
	if !ok {
		return mailbox.Criteria{}, fmt.Errorf("%w: %d", errSearch, k.Op)
	}
	return mailbox.Criteria{Test: test, Name: k.Field, Text: k.Text, Number: k.Number, Day: k.Date}, nil
}

func (s *session) combine(test mailbox.Test, keys []imap.SearchKey) (mailbox.Criteria, error) {
	c := mailbox.Criteria{Test: test, All: make([]mailbox.Criteria, len(keys))}
	for i := range keys {
		var err error
		if c.All[i], err = s.criteria(&keys[i]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// flagCriteria returns the test of a flag. \Recent depends on the session; after ENABLE IMAP4rev2 no message has it.
//
// Implements: RFC 3501 §6.4.4 NEW, OLD and RECENT
func flagCriteria(flag string) (mailbox.Criteria, error) {
	if flag == imap.Recent {
		return mailbox.Criteria{Test: mailbox.TestRecent}, nil
	}
	seen, deleted, keyword, err := mailbox.ParseFlag(flag)
	switch {
	case err != nil:
		return mailbox.Criteria{}, err
	case seen:
		return mailbox.Criteria{Test: mailbox.TestSeen}, nil
	case deleted:
		return mailbox.Criteria{Test: mailbox.TestDeleted}, nil
	}
	return mailbox.Criteria{Test: mailbox.TestKeyword, Text: keyword}, nil
}
