package imap

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var testLimits = DefaultLimits()

func parseOne(t *testing.T, text string) *Command {
	t.Helper()
	c, err := ParseCommand("a "+text, &testLimits, false)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return c
}

// verbCase pairs a command with its parsed arguments.
type verbCase struct {
	text string
	want any
}

func runVerbs(t *testing.T, cases []verbCase) {
	t.Helper()
	t.Parallel()
	for _, c := range cases {
		cmd := parseOne(t, c.text)
		if !reflect.DeepEqual(cmd.Args, c.want) {
			t.Errorf("%q:\n got %#v\nwant %#v", c.text, cmd.Args, c.want)
		}
		again := parseOne(t, strings.TrimPrefix(strings.TrimSuffix(string(AppendCommand(nil, cmd, false)), "\r\n"),
			"a "))
		if !reflect.DeepEqual(normalCommand(again), normalCommand(cmd)) {
			t.Errorf("%q printed as %q means something else", c.text, AppendCommand(nil, cmd, false))
		}
	}
}

// normalCommand removes differences that printing may cause without a change of meaning.
func normalCommand(c *Command) *Command {
	n := *c
	n.Given = ""
	switch a := c.Args.(type) {
	case *Search:
		s := *a
		s.Charset = ""
		n.Args = &s
	case *Sort:
		s := *a
		s.Charset = ""
		n.Args = &s
	case *Thread:
		th := *a
		th.Charset = ""
		n.Args = &th
	case *MultiSearch:
		m := *a
		m.Charset = ""
		n.Args = &m
	case *List:
		l := *a
		l.Extended = l.Extended || l.Select != 0 || l.Return != 0
		n.Args = &l
	case *Append:
		n.Args = normalAppend(a)
	case *Replace:
		n.Args = &Replace{a.Message, *normalAppend(&a.Append)}
	case *Create:
		cr := *a
		if len(cr.Use) == 0 {
			cr.Use = nil
		}
		n.Args = &cr
	}
	return &n
}

func normalAppend(a *Append) *Append {
	if a == nil {
		return nil
	}
	n := *a
	if len(n.Flags) == 0 {
		n.Flags = nil
	}
	n.Next = normalAppend(a.Next)
	return &n
}

func TestAnyState(t *testing.T) {
	runVerbs(t, []verbCase{
		{"NOOP", nil}, {"capability", nil}, {"LOGOUT", nil}, {"IDLE ", nil}, {"UNSELECT", nil},
		{"ID NIL", &ID{}},
		{`ID ("name" "x" "version" NIL)`, &ID{[]IDParam{{"name", "x"}, {"version", ""}}}},
		{"ID ()", &ID{[]IDParam{}}},
		{"ENABLE condstore UTF8=ACCEPT", &Enable{[]string{"CONDSTORE", "UTF8=ACCEPT"}}},
		{`LOGIN "al\"ice" {4}` + "\r\n" + `a"b `, &Login{`al"ice`, `a"b `}},
		{`login bob p]w`, &Login{"bob", "p]w"}},
		{"AUTHENTICATE plain", &Authenticate{Mechanism: "PLAIN"}},
		{"AUTHENTICATE PLAIN =", &Authenticate{Mechanism: "PLAIN", HasInitial: true}},
		{"AUTHENTICATE PLAIN AGIAYw==", &Authenticate{Mechanism: "PLAIN", HasInitial: true,
			Initial: []byte("\x00b\x00c")}},
	})
}

func TestMailboxVerbs(t *testing.T) {
	q := &QResync{UIDValidity: 67890007, ModSeq: 20050715194045000, KnownUIDs: Set{{41, 41}, {43, 211}}}
	q2 := &QResync{UIDValidity: 1, ModSeq: 2}
	q2.SeqMatch.Seqs, q2.SeqMatch.UIDs = Set{{1, 1}, {2, 2}}, Set{{3, 3}, {9, 9}}
	runVerbs(t, []verbCase{
		{"SELECT inbox", &Select{Mailbox: "INBOX"}},
		{"EXAMINE Inbox/x (CONDSTORE)", &Select{Mailbox: "INBOX/x", CondStore: true}},
		{"SELECT a (QRESYNC (67890007 20050715194045000 41,43:211))", &Select{Mailbox: "a", QResync: q}},
		{"SELECT a (QRESYNC (1 2 (1,2 3,9)))", &Select{Mailbox: "a", QResync: q2}},
		{"CREATE &AOk-/b/", &Create{Mailbox: "é/b", Trailing: true}},
		{`CREATE x (USE (\Sent))`, &Create{Mailbox: "x", Use: []string{`\Sent`}}},
		{"DELETE {3}\r\na b", &Mailbox{"a b"}},
		{"SUBSCRIBE \"e\u0301\"", &Mailbox{"é"}},
		{"UNSUBSCRIBE a&-b", &Mailbox{"a&b"}},
		{"RENAME a b", &Rename{"a", "b"}},
		{`LIST "" *`, &List{Patterns: []string{"*"}}},
		{`LSUB "" "%"`, &List{Patterns: []string{"%"}}},
		{`LIST (SUBSCRIBED RECURSIVEMATCH) "" (INBOX a/%) RETURN (CHILDREN SPECIAL-USE STATUS (MESSAGES UNSEEN))`,
			&List{Select: ListSubscribed | ListRecursiveMatch, Return: ListChildren | ListSpecialUse | ListStatus,
				Extended: true,
				Patterns: []string{"INBOX", "a/%"}, Status: StatusMessages | StatusUnseen}},
		{`LIST () "" * RETURN ()`, &List{Extended: true, Patterns: []string{"*"}}},
		{"STATUS a (messages SIZE HIGHESTMODSEQ MAILBOXID)",
			&Status{"a", StatusMessages | StatusSize | StatusHighestModSeq | StatusMailboxID}},
	})
}

func TestAccessVerbs(t *testing.T) {
	runVerbs(t, []verbCase{
		{"SETACL INBOX/x bob +lr", &Access{Mailbox: "INBOX/x", Identifier: "bob", Mode: '+', Rights: "lr"}},
		{`SETACL x "a b" ""`, &Access{Mailbox: "x", Identifier: "a b"}},
		{"DELETEACL x bob", &Access{Mailbox: "x", Identifier: "bob"}},
		{"GETACL x", &Access{Mailbox: "x"}},
		{"MYRIGHTS &AOk-", &Access{Mailbox: "é"}},
		{"LISTRIGHTS x anyone", &Access{Mailbox: "x", Identifier: "anyone"}},
		{`GETQUOTA ""`, &Quota{}},
		{"GETQUOTAROOT inbox", &Quota{Root: "INBOX"}},
		{`SETQUOTA "" (storage 512)`, &Quota{Limits: []QuotaLimit{{"STORAGE", 512}}}},
		{`SETQUOTA x ()`, &Quota{Root: "x"}},
		{`GETMETADATA "" /Private/a`, &Metadata{Entries: []MetadataEntry{{Name: "/private/a"}}}},
		{`GETMETADATA x (MAXSIZE 5) (/private/a /shared/b)`, &Metadata{Mailbox: "x", MaxSize: 5, HasMaxSize: true,
			Entries: []MetadataEntry{{Name: "/private/a"}, {Name: "/shared/b"}}}},
		{`GETMETADATA (DEPTH 1) x (/shared/b)`, &Metadata{Mailbox: "x", Depth: 1,
			Entries: []MetadataEntry{{Name: "/shared/b"}}}},
		{`SETMETADATA x (/private/a NIL /shared/b "c d")`, &Metadata{Mailbox: "x",
			Entries: []MetadataEntry{{Name: "/private/a"}, {Name: "/shared/b", Value: "c d", Has: true}}}},
		{"COMPRESS deflate", &Compress{"DEFLATE"}},
		{`REPLACE 4 Drafts (\Draft) {5+}`, &Replace{4, Append{Mailbox: "Drafts", Flags: []Flag{Draft}, Size: 5,
			NonSync: true}}},
		{"UID REPLACE * x ~{5}", &Replace{0, Append{Mailbox: "x", Size: 5, Binary: true}}},
		{`LIST "" % RETURN (METADATA (/shared/A /private/b))`, &List{Extended: true, Patterns: []string{"%"},
			Return: ListMetadata, Metadata: []string{"/shared/a", "/private/b"}}},
	})
}

func TestMessageVerbs(t *testing.T) {
	runVerbs(t, []verbCase{
		{"EXPUNGE", nil},
		{"UID EXPUNGE 3:*", &Expunge{Target{Set: Set{{3, 0}}}}},
		{"COPY 2:4 x", &Copy{Target{Set: Set{{2, 4}}}, "x"}},
		{"UID MOVE $ x", &Copy{Target{Saved: true}, "x"}},
		{`STORE 1 +FLAGS (\deleted Work)`, &Store{Target: Target{Set: Set{{1, 1}}}, Op: StoreAdd,
			Flags: []Flag{Deleted, "Work"}}},
		{`STORE 1 flags.silent ()`, &Store{Target: Target{Set: Set{{1, 1}}}, Silent: true, Flags: []Flag{}}},
		{`UID STORE * (UNCHANGEDSINCE 0) -FLAGS.SILENT \Seen \Flagged`,
			&Store{Target: Target{Set: Set{{0, 0}}}, Op: StoreRemove,
				Silent: true, HasUnchangedSince: true, Flags: []Flag{Seen, Flagged}}},
		{`APPEND Sent (\Seen $MDNSent) " 7-Feb-1994 21:52:25 -0800" {310}`,
			&Append{Mailbox: "Sent", Flags: []Flag{Seen, "$MDNSent"},
				Date: time.Date(1994, 2, 8, 5, 52, 25, 0, time.UTC), Size: 310}},
		{`APPEND {1}` + "\r\n" + `x ~{0+}`, &Append{Mailbox: "x", Binary: true, NonSync: true}},
		{`APPEND x UTF8 (~{5}`, &Append{Mailbox: "x", UTF8: true, Binary: true, Size: 5}},
	})
}

func item(kind ItemKind) FetchItem { return FetchItem{Kind: kind, Peek: true} }

func TestFetch(t *testing.T) {
	one := Target{Set: Set{{1, 1}}}
	runVerbs(t, []verbCase{
		{"FETCH 1 FAST", &Fetch{Target: one, Items: []FetchItem{item(ItemFlags), item(ItemInternalDate),
			item(ItemSize)}}},
		{"FETCH 1 full", &Fetch{Target: one, Items: []FetchItem{item(ItemFlags), item(ItemInternalDate), item(ItemSize),
			item(ItemEnvelope), item(ItemBody)}}},
		{"UID FETCH 1 (BODY[])", &Fetch{Target: one, Items: []FetchItem{{Kind: ItemBodySection}}}},
		{"FETCH 1 (BODY.PEEK[1.2.HEADER.FIELDS (From {2}\r\nTo)]<5.10> UID)", &Fetch{Target: one, Items: []FetchItem{
			{Kind: ItemBodySection, Peek: true, Section: Section{[]uint32{1, 2}, TextHeaderFields,
				[]string{"From", "To"}}, HasPartial: true, Offset: 5, Size: 10},
			item(ItemUID)}}},
		{"FETCH 1 BODY[3.MIME]", &Fetch{Target: one,
			Items: []FetchItem{{Kind: ItemBodySection, Section: Section{Part: []uint32{3}, Text: TextMIME}}}}},
		{"FETCH 1 BODY[TEXT]<0.1>", &Fetch{Target: one,
			Items: []FetchItem{{Kind: ItemBodySection, Section: Section{Text: TextText}, HasPartial: true, Size: 1}}}},
		{"FETCH 1 (RFC822 RFC822.HEADER RFC822.TEXT RFC822.SIZE BODY BODYSTRUCTURE)",
			&Fetch{Target: one, Items: []FetchItem{
				{Kind: ItemRFC822}, item(ItemRFC822Header), {Kind: ItemRFC822Text}, item(ItemSize), item(ItemBody),
				item(ItemBodyStructure)}}},
		{"FETCH 1 (BINARY[1]<0.5> BINARY.PEEK[2.1] BINARY.SIZE[])", &Fetch{Target: one, Items: []FetchItem{
			{Kind: ItemBinary, Section: Section{Part: []uint32{1}}, HasPartial: true, Size: 5},
			{Kind: ItemBinary, Peek: true, Section: Section{Part: []uint32{2, 1}}}, item(ItemBinarySize)}}},
		{"FETCH 1 PREVIEW (LAZY)",
			&Fetch{Target: one, Items: []FetchItem{{Kind: ItemPreview, Peek: true, Lazy: true}}}},
		{"FETCH 1 PREVIEW (CHANGEDSINCE 9)", &Fetch{Target: one, Items: []FetchItem{item(ItemPreview)},
			ChangedSince: 9}},
		{"UID FETCH 1 (EMAILID THREADID SAVEDATE MODSEQ) (CHANGEDSINCE 12345 VANISHED)", &Fetch{Target: one,
			Items:        []FetchItem{item(ItemEmailID), item(ItemThreadID), item(ItemSaveDate), item(ItemModSeq)},
			ChangedSince: 12345, Vanished: true}},
	})
}

func flagKey(f Flag) SearchKey { return SearchKey{Op: OpFlag, Text: f} }

func TestSearch(t *testing.T) {
	day := time.Date(1994, 2, 1, 0, 0, 0, 0, time.UTC)
	and := func(k ...SearchKey) SearchKey { return SearchKey{Op: OpAnd, Keys: k} }
	runVerbs(t, []verbCase{
		{"SEARCH ALL", &Search{}},
		{"SEARCH RETURN () ALL", &Search{Extended: true, Return: ReturnAll}},
		{"UID SEARCH RETURN (SAVE MIN) 1:*", &Search{Extended: true, Return: ReturnSave | ReturnMin,
			Key: SearchKey{Op: OpSeq, Target: Target{Set: Set{{1, 0}}}}}},
		{"SEARCH FLAGGED SINCE 1-Feb-1994 NOT FROM \"Smith\"",
			&Search{Key: and(flagKey(Flagged), SearchKey{Op: OpSince, Date: day},
				not(SearchKey{Op: OpFrom, Text: "Smith"}))}},
		{"SEARCH OR (UNSEEN UNKEYWORD x) UID $ ", &Search{Key: SearchKey{Op: OpOr,
			Keys: []SearchKey{and(not(flagKey(Seen)), not(flagKey("x"))), {Op: OpUID, Target: Target{Saved: true}}}}}},
		{"SEARCH NEW", &Search{Key: and(flagKey(Recent), not(flagKey(Seen)))}},
		{"SEARCH OLD", &Search{Key: not(flagKey(Recent))}},
		{`SEARCH CHARSET iso-8859-1 TEXT "` + "\xe9" + `"`, &Search{Charset: "iso-8859-1",
			Key: SearchKey{Op: OpText, Text: "é"}}},
		{"SEARCH CHARSET UTF-8 SUBJECT {2}\r\né", &Search{Charset: "UTF-8", Key: SearchKey{Op: OpSubject, Text: "é"}}},
		{`SEARCH MODSEQ "/flags/\\draft" all 620162338`, &Search{ModSeq: true,
			Key: SearchKey{Op: OpModSeq, Number: 620162338}}},
		{`SEARCH HEADER X-Y "" LARGER 5 SAVEDSINCE "1-Feb-1994"`,
			&Search{Key: and(SearchKey{Op: OpHeader, Field: "X-Y"}, SearchKey{Op: OpLarger, Number: 5},
				SearchKey{Op: OpSavedSince, Date: day})}},
		{"SEARCH EMAILID M1 THREADID T1 SAVEDATESUPPORTED YOUNGER 60",
			&Search{Key: and(SearchKey{Op: OpEmailID, Text: "M1"}, SearchKey{Op: OpThreadID, Text: "T1"},
				SearchKey{Op: OpSaveDateSupported}, SearchKey{Op: OpYounger, Number: 60})}},
	})
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("(", 60) + "ALL" + strings.Repeat(")", 60)
	for _, c := range []struct {
		text, code  string
		no, unknown bool
	}{
		{text: "XYZZY", unknown: true}, {text: "UID NOOP", unknown: true}, {text: "NOOP x"}, {text: "LOGIN a"},
		{text: `LOGIN "a b`}, {text: `LOGIN "a\b" c`}, {text: "FETCH 0 FLAGS"}, {text: "FETCH 1, FLAGS"},
		{text: "FETCH 1 (FLAGS"}, {text: "FETCH 1 ()"}, {text: "FETCH 1 BODY[MIME]"}, {text: "FETCH 1 BODY[0]"},
		{text: "FETCH 1 BODY[]<1.0>"}, {text: "FETCH 1 BINARY[TEXT]"}, {text: "FETCH 4294967296 FLAGS"},
		{text: "FETCH 1 FLAGS (VANISHED)"}, {text: "FETCH 1 FLAGS (CHANGEDSINCE 0)"}, {text: "STORE 1 FLAGS"},
		{text: `STORE 1 FLAGS (\*)`}, {text: "APPEND a"}, {text: "APPEND a "}, {text: "APPEND a UTF8 ("},
		{text: "APPEND a {1}\r\nx"}, {text: `APPEND a "1-Jan-0001 00:00:00 +0000" {1}`},
		{text: `APPEND a "31-Feb-2020 00:00:00 +0000" {1}`},
		{text: "SELECT a (QRESYNC (0 1))"}, {text: "SELECT a (QRESYNC (1 1 (1,2 3)))"},
		{text: "SELECT a (QRESYNC (1 1 1:*))"},
		{text: `LIST (RECURSIVEMATCH) "" *`}, {text: "STATUS a ()"}, {text: "SEARCH"}, {text: "SEARCH OR ALL"},
		{text: "SEARCH SINCE 32-Jan-2020"}, {text: "SEARCH (ALL"}, {text: "SEARCH NOT"}, {text: "SEARCH ALL)"},
		{text: "SEARCH " + deep, code: "LIMIT", no: true},
		{text: "SEARCH " + strings.Repeat("NOT ", 2000) + "ALL", code: "LIMIT", no: true},
		{text: "FETCH " + strings.Repeat("1,", 20000) + "1 FLAGS", code: "LIMIT", no: true},
		{text: "SEARCH CHARSET klingon ALL", code: "BADCHARSET (UTF-8 US-ASCII)", no: true},
		{text: `SEARCH SUBJECT "` + "\xff" + `"`, code: "BADCHARSET (UTF-8 US-ASCII)", no: true},
		{text: "SELECT &foo", code: "CANNOT", no: true}, {text: "DELETE {2}\r\n\x00a"},
		{text: "AUTHENTICATE PLAIN ???"},
	} {
		cmd, err := ParseCommand("a "+c.text, &testLimits, false)
		e, ok := err.(*SyntaxError)
		if !ok {
			t.Errorf("%.60q: got %+v, %v", c.text, cmd, err)
			continue
		}
		if e.Tag != "a" || e.No != c.no || e.Code != c.code || e.Unknown != c.unknown || e.Fatal {
			t.Errorf("%.60q: %+v", c.text, e)
		}
	}
	for _, text := range []string{"", " ", "+ NOOP", "(a NOOP", strings.Repeat("x", 200) + " NOOP"} {
		_, err := ParseCommand(text, &testLimits, false)
		if e, ok := err.(*SyntaxError); !ok || e.Tag != "*" {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		"a NOOP", "a LOGIN {1}\r\nx \"y\\\"\"",
		"a UID FETCH 1:*,5 (BODY.PEEK[1.HEADER.FIELDS (A B)]<1.2> ENVELOPE) (CHANGEDSINCE 5 VANISHED)",
		"a SEARCH RETURN (MIN) CHARSET UTF-8 OR (NOT SEEN KEYWORD x) SUBJECT {2}\r\né",
		`a LIST (SUBSCRIBED) "" ("a" %) RETURN (STATUS (SIZE))`,
		"a SELECT &AOk- (QRESYNC (1 2 3:4 (1 2)) CONDSTORE)", `a STORE $ (UNCHANGEDSINCE 5) +FLAGS.SILENT (\Seen x)`,
		`a APPEND x (\Draft) " 1-Jan-2020 00:00:00 +0100" UTF8 (~{5+}`, `a ID ("a" NIL)`, `a CREATE x/ (USE (\Sent))`,
		"a AUTHENTICATE PLAIN =",
		"a SEARCH MODSEQ 5 BEFORE 1-Jan-2000 $ UID 1:*",
		`a UID SORT RETURN (PARTIAL -1:-5 COUNT) (REVERSE DATE SUBJECT) UTF-8 ALL`,
		`a THREAD REFERENCES "iso-8859-1" TEXT x`,
		`a ESEARCH IN (selected subtree (a "b") mailboxes INBOX) RETURN (MIN) UNSEEN`,
		"a UID FETCH 1:* FLAGS (PARTIAL 5:9 CHANGEDSINCE 3)",
		`a NOTIFY SET STATUS (selected (MessageNew (UID BODY.PEEK[HEADER.FIELDS (A)]) MessageExpunge)) (subtree a ` +
			`NONE) (personal (x))`,
		"a UIDBATCHES 500 1:9", `a REPLACE 4 Drafts (\Seen) " 1-Jan-2020 00:00:00 +0100" {312+}`,
		"a UID REPLACE * x UTF8 (~{3}", `a REPLACE 4 s () "1-Jan-2020 00:00:00 +0100" {2}`,
		`a LIST "" % RETURN (METADATA (/shared/a "/private/b") SUBSCRIBED)`,
		`a SETACL INBOX "bob" +lrs`, "a DELETEACL x anyone", "a LISTRIGHTS x -y", "a MYRIGHTS x",
		`a SETQUOTA "" (STORAGE 512 MESSAGE 1)`, "a GETQUOTAROOT x",
		`a GETMETADATA (MAXSIZE 5 DEPTH infinity) "" (/private/a /shared/b)`,
		`a SETMETADATA INBOX (/private/a NIL /shared/b {1+}` + "\r\nx)", "a COMPRESS DEFLATE",
		`a APPEND x (\Seen) CATENATE (URL "/a;UID=1" URL {2}` + "\r\nuv TEXT {5+}",
		"a APPEND x CATENATE (URL a) (b) CATENATE (URL c UTF8 (~{3}", "a REPLACE 1 x CATENATE (URL a)",
		`a GENURLAUTH "imap://x/a/;uid=1" INTERNAL b x`, "a URLFETCH a (b BINARY) (c BODY BODYPARTSTRUCTURE)",
		"a RESETKEY", "a RESETKEY INBOX INTERNAL",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, u := range []bool{false, true} {
			c, err := ParseCommand(s, &testLimits, u)
			if err != nil {
				continue
			}
			text := string(AppendCommand(nil, c, u))
			again, err := ParseCommand(strings.TrimSuffix(text, "\r\n"), &testLimits, u)
			if err != nil {
				// A text in another charset becomes UTF-8, which is printed only if the command named a charset.
				t.Fatalf("%q printed as %q: %v", s, text, err)
			}
			if !reflect.DeepEqual(normalCommand(c), normalCommand(again)) {
				t.Fatalf("%q printed as %q:\n%#v\n%#v", s, text, c.Args, again.Args)
			}
		}
		// A Reader on the same input must not return other errors and must come to the end.
		r := NewReader(strings.NewReader(s+"\r\nz NOOP\r\n"), testLimits)
		r.Continue = func() error { return nil }
		for range len(s) + 5 {
			cmd, err := r.ReadCommand()
			if e, ok := err.(*SyntaxError); err != nil && (!ok || e.Fatal) {
				return
			}
			if cmd != nil && appendOf(cmd) != nil && len(s)%2 == 0 { // in the other half, the message is not read
				readMessage(r, cmd)
			}
		}
		t.Fatal("the reader does not come to an end")
	})
}

func BenchmarkParseUIDFetch(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseCommand("A123 UID FETCH 123 (BODY[])", &testLimits, false); err != nil {
			b.Fatal(err)
		}
	}
}
