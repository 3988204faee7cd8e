package imap

import (
	"strings"
	"testing"
)

// TestSort covers SORT and THREAD (RFC 5256), RETURN with SORT (RFC 5267), and PARTIAL (RFC 9394).
func TestSort(t *testing.T) {
	all := Search{Charset: "UTF-8"}
	runVerbs(t, []verbCase{
		{"SORT (SUBJECT) UTF-8 ALL", &Sort{all, []SortKey{{Field: SortSubject}}}},
		{"UID SORT (reverse date REVERSE displayfrom SIZE) utf-8 UNSEEN",
			&Sort{Search{Charset: "utf-8", Key: not(flagKey(Seen))},
				[]SortKey{{SortDate, true}, {SortDisplayFrom, true}, {Field: SortSize}}}},
		{"SORT RETURN (COUNT PARTIAL -1:-100) (CC) UTF-8 ALL",
			&Sort{Search{Extended: true, Return: ReturnCount | ReturnPartial,
				Partial: Partial{1, 100, true}, Charset: "UTF-8"}, []SortKey{{Field: SortCc}}}},
		{"SORT RETURN () (TO) UTF-8 MODSEQ 5", &Sort{Search{Extended: true, Return: ReturnAll, Charset: "UTF-8",
			ModSeq: true,
			Key:    SearchKey{Op: OpModSeq, Number: 5}}, []SortKey{{Field: SortTo}}}},
		{"THREAD references {5}\r\nUTF-8 ALL", &Thread{"REFERENCES", all}},
		{"UID THREAD X-OTHER UTF-8 TEXT x", &Thread{"X-OTHER",
			Search{Charset: "UTF-8", Key: SearchKey{Op: OpText, Text: "x"}}}},
	})
}

// TestMultiSearch covers ESEARCH (RFC 7377), PARTIAL with SEARCH and FETCH (RFC 9394), and UIDBATCHES (RFC 10022).
func TestMultiSearch(t *testing.T) {
	partial := Search{Extended: true, Return: ReturnPartial, Partial: Partial{Start: 23500, Stop: 24000}}
	items := []FetchItem{{Kind: ItemFlags, Peek: true}}
	runVerbs(t, []verbCase{
		{"ESEARCH UNSEEN", &MultiSearch{Search: Search{Key: not(flagKey(Seen))}}},
		{`ESEARCH IN (selected personal subtree-one ("a" INBOX) mailboxes b) RETURN (MIN) CHARSET UTF-8 ALL`,
			&MultiSearch{
				In: []MailboxFilter{{Kind: FilterSelected}, {Kind: FilterPersonal},
					{FilterSubtreeOne, []string{"a", "INBOX"}}, {FilterMailboxes, []string{"b"}}},
				Search: Search{Extended: true, Return: ReturnMin, Charset: "UTF-8"}}},
		{"UID SEARCH RETURN (PARTIAL 23500:24000) ALL", &partial},
		{"UID FETCH 5:* FLAGS (PARTIAL -1:-30)", &Fetch{Target: Target{Set: Set{{5, 0}}}, Items: items,
			Partial: Partial{1, 30, true}}},
		{"UID FETCH 5:* FLAGS (PARTIAL 1:30 CHANGEDSINCE 98305)", &Fetch{Target: Target{Set: Set{{5, 0}}}, Items: items,
			ChangedSince: 98305, Partial: Partial{1, 30, false}}},
		{"SEARCH RETURN (UPDATE CONTEXT COUNT) ALL", &Search{Extended: true,
			Return: ReturnUpdate | ReturnContext | ReturnCount}},
		{`CANCELUPDATE "a" "b c"`, &CancelUpdate{[]string{"a", "b c"}}},
		{"UIDBATCHES 2000", &UIDBatches{Size: 2000}},
		{"UIDBATCHES 2000 1:40", &UIDBatches{2000, 1, 40}},
	})
}

// TestNotify covers NOTIFY (RFC 5465 section 8).
func TestNotify(t *testing.T) {
	fetch := []FetchItem{{Kind: ItemUID, Peek: true}, {Kind: ItemBodySection, Peek: true,
		Section: Section{Text: TextHeaderFields, Fields: []string{"From"}}}}
	runVerbs(t, []verbCase{
		{"NOTIFY none", &Notify{}},
		{"notify set status (selected (messagenew (UID BODY.PEEK[HEADER.FIELDS (From)]) MessageExpunge FlagChange)) " +
			"(subtree (Lists a) NONE)", &Notify{
			Set: true, Status: true, Groups: []NotifyGroup{
				{Filter: MailboxFilter{Kind: FilterSelected},
					Events: EventMessageNew | EventMessageExpunge | EventFlagChange, Fetch: fetch},
				{Filter: MailboxFilter{FilterSubtree, []string{"Lists", "a"}}}}}},
		{"NOTIFY SET (selected-delayed (MessageNew MessageExpunge)) (inboxes (MailboxName SubscriptionChange X-OTHER))",
			&Notify{
				Set: true, Groups: []NotifyGroup{
					{Filter: MailboxFilter{Kind: FilterSelectedDelayed}, Events: EventMessageNew | EventMessageExpunge},
					{Filter: MailboxFilter{Kind: FilterInboxes}, Events: EventMailboxName | EventSubscription,
						Unknown: []string{"X-OTHER"}}}}},
	})
}

func TestBadExtensions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"SORT (NAME) UTF-8 ALL", "SORT () UTF-8 ALL", "SORT (DATE) ALL", "SORT (REVERSE) UTF-8 ALL",
		"THREAD REFERENCES UTF-8", "UID THREAD",
		"SEARCH RETURN (PARTIAL 0:5) ALL", "SEARCH RETURN (PARTIAL -1:5) ALL",
		"SEARCH RETURN (PARTIAL 1:5 PARTIAL 6:9) ALL",
		"SEARCH RETURN (ALL PARTIAL 1:5) ALL", "FETCH 1 FLAGS (PARTIAL 1:2 PARTIAL 1:2)", "ESEARCH IN () ALL",
		"ESEARCH IN (nowhere) ALL",
		"ESEARCH IN (subtree) ALL", "UID ESEARCH ALL", "NOTIFY", "NOTIFY SET", "NOTIFY SET (selected)",
		"NOTIFY SET (selected ())",
		"NOTIFY SET (selected (MessageNew MessageNew))", "NOTIFY NONE x", "UIDBATCHES", "UIDBATCHES 0",
		"UIDBATCHES 5 3", "CANCELUPDATE", "CANCELUPDATE a",
	} {
		if cmd, err := ParseCommand("a "+text, &testLimits, false); err == nil {
			t.Errorf("%q: %+v", text, cmd.Args)
		}
	}
	for _, text := range []string{"* THREAD (1", "* THREAD ((1))", "* THREAD ()", "* THREAD " +
		strings.Repeat("((1)", 10_000), "* ESEARCH (TAG", "* ESEARCH PARTIAL (1:2 0)", "* UIDBATCHES 5"} {
		if r, err := ParseResponse(text); err == nil {
			t.Errorf("%.40q: %+v", text, r.Data)
		}
	}
}

// TestPartialBounds covers RFC 9394 section 3.1: a range beyond the results is cut or empty.
func TestPartialBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r             Partial
		count, lo, hi int
	}{
		{Partial{1, 10, false}, 100, 0, 10}, {Partial{10, 1, false}, 100, 0, 10},
		{Partial{91, 110, false}, 100, 90, 100},
		{Partial{101, 110, false}, 100, 0, 0}, {Partial{1, 10, true}, 100, 90, 100},
		{Partial{95, 105, true}, 100, 0, 6},
		{Partial{101, 105, true}, 100, 0, 0}, {Partial{1, 1<<32 - 1, true}, 3, 0, 3}, {Partial{1, 5, false}, 0, 0, 0},
	} {
		if lo, hi := c.r.Bounds(c.count); lo != c.lo || hi != c.hi {
			t.Errorf("%+v of %d: %d to %d", c.r, c.count, lo, hi)
		}
	}
}
