package imap

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func readAll(t *testing.T, text string, sink func([]byte, int64) io.Writer) []*Response {
	t.Helper()
	r := NewResponseReader(iotest.HalfReader(strings.NewReader(text)),
		ResponseLimits{Line: 1 << 16, Literal: 1 << 16, Total: 1 << 17})
	r.Sink = sink
	var all []*Response
	for {
		resp, err := r.Read()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, resp)
	}
}

// testThreads is the example of RFC 5256 section 4, and a thread whose first message is missing.
var testThreads = []ThreadNode{
	{Number: 2},
	{Number: 3, Children: []ThreadNode{{Number: 6, Children: []ThreadNode{
		{Number: 4, Children: []ThreadNode{{Number: 23}}}, {Number: 44, Children: []ThreadNode{{Number: 7}}}}}}},
	{Children: []ThreadNode{{Number: 8}, {Number: 5}}},
}

// TestPrintedResponses prints each kind of data and reads it again.
func TestPrintedResponses(t *testing.T) {
	t.Parallel()
	date := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	fetch := AppendFetchHead(nil, 12)
	fetch = append(fetch, `FLAGS (\Seen x) UID 9 RFC822.SIZE 44 INTERNALDATE `...)
	fetch = append(AppendDateTime(fetch, date), ' ')
	fetch = append(AppendModSeq(fetch, 1<<60), " ENVELOPE "...)
	fetch = append(AppendEnvelope(fetch, fullEnvelope()), " BODYSTRUCTURE "...)
	fetch = append(AppendBodyStructure(fetch, structure()), ' ')
	section := FetchItem{Kind: ItemBodySection, Peek: true, Section: Section{[]uint32{1}, TextHeaderFields,
		[]string{"A", "B"}}, HasPartial: true, Offset: 3}
	fetch = append(AppendItemName(fetch, &section), ' ')
	fetch = append(AppendLiteral(fetch, []byte("x)\r\n* y\x00")),
		` EMAILID (M1) THREADID NIL PREVIEW "p" SAVEDATE NIL X-NEW[1] (a (b "]")))`+"\r\n"...)
	for _, c := range []struct {
		text []byte
		name string
		want any
	}{
		{AppendNumber(nil, 5, "EXISTS"), "EXISTS", nil},
		{AppendList(nil, "LIST", &ListData{Attrs: []string{`\HasChildren`, `\Sent`}, Delimiter: '/', Mailbox: "é &x",
			OldName: "a b", ChildInfo: []string{"SUBSCRIBED"}}, false),
			"LIST", &ListData{Attrs: []string{`\HasChildren`, `\Sent`}, Delimiter: '/', Mailbox: "é &x", OldName: "a b",
				ChildInfo: []string{"SUBSCRIBED"}}},
		{AppendList(nil, "LSUB", &ListData{Attrs: []string{}, Mailbox: "INBOX"}, true), "LSUB",
			&ListData{Attrs: []string{}, Mailbox: "INBOX"}},
		{AppendStatus(nil,
			&StatusData{Mailbox: "a", Items: StatusMessages | StatusSize | StatusMailboxID | StatusDeleted, Messages: 3,
				Size: 1 << 40, MailboxID: "F1", Deleted: 2}, false),
			"STATUS", &StatusData{Mailbox: "a", Items: StatusMessages | StatusSize | StatusMailboxID | StatusDeleted,
				Messages: 3, Size: 1 << 40, MailboxID: "F1", Deleted: 2}},
		{AppendESearch(nil, &ESearch{Tag: `A"1`, UID: true, Has: ReturnMin | ReturnMax | ReturnAll | ReturnCount,
			Min: 2, Max: 9, All: Set{{2, 4}, {9, 9}}, Count: 4, ModSeq: 7}, false),
			"ESEARCH", &ESearch{Tag: `A"1`, UID: true, Has: ReturnMin | ReturnMax | ReturnAll | ReturnCount, Min: 2,
				Max: 9, All: Set{{2, 4}, {9, 9}}, Count: 4, ModSeq: 7}},
		{AppendESearch(nil, &ESearch{Has: ReturnCount | ReturnAll}, false), "ESEARCH", &ESearch{Has: ReturnCount}},
		{AppendESearch(nil, &ESearch{Tag: "t", UID: true, Mailbox: "é x", UIDValidity: 5, Has: ReturnPartial,
			Partial: Partial{1, 10, true}, PartialAll: Set{{9, 9}, {2, 3}}}, false),
			"ESEARCH", &ESearch{Tag: "t", UID: true, Mailbox: "é x", UIDValidity: 5, Has: ReturnPartial,
				Partial: Partial{1, 10, true}, PartialAll: Set{{9, 9}, {2, 3}}}},
		{AppendESearch(nil, &ESearch{Tag: "t", Has: ReturnPartial, Partial: Partial{1, 10, false}}, false),
			"ESEARCH", &ESearch{Tag: "t", Has: ReturnPartial, Partial: Partial{1, 10, false}}},
		{AppendSort(nil, []uint32{3, 1, 2}, 9), "SORT", &SearchData{[]uint32{3, 1, 2}, 9}},
		{AppendThread(nil, testThreads), "THREAD", testThreads},
		{AppendThread(nil, nil), "THREAD", []ThreadNode(nil)},
		{AppendUIDBatches(nil, &UIDBatchData{"A]3", Set{{900, 500}, {499, 499}}}), "UIDBATCHES",
			&UIDBatchData{"A]3", Set{{900, 500}, {499, 499}}}},
		{AppendUIDBatches(nil, &UIDBatchData{Tag: "A"}), "UIDBATCHES", &UIDBatchData{Tag: "A"}},
		{append(AppendUIDFetchHead(nil, 77), "FLAGS ())\r\n"...), "UIDFETCH",
			&FetchData{UID: 77, Has: 1 << ItemFlags, Flags: []Flag{}}},
		{AppendSearch(nil, Set{{1, 3}}, 5), "SEARCH", &SearchData{[]uint32{1, 2, 3}, 5}},
		{AppendSearch(nil, nil, 0), "SEARCH", &SearchData{}},
		{AppendVanished(nil, Set{{1, 3}}, true), "VANISHED", &Vanished{true, Set{{1, 3}}}},
		{AppendNamespace(nil, &Namespace{Personal: []NamespaceItem{{"", '/'}},
			Shared: []NamespaceItem{{"Shared/", '/'}, {"é", 0}}}, false),
			"NAMESPACE", &Namespace{Personal: []NamespaceItem{{"", '/'}},
				Shared: []NamespaceItem{{"Shared/", '/'}, {"é", 0}}}},
		{AppendID(nil, []IDParam{{"name", "Doublet"}, {"os", ""}}), "ID",
			&ID{[]IDParam{{"name", "Doublet"}, {"os", ""}}}},
		{AppendID(nil, nil), "ID", &ID{}},
		{AppendWords(nil, "CAPABILITY", []string{"IMAP4rev2", "AUTH=PLAIN"}), "CAPABILITY",
			[]string{"IMAP4REV2", "AUTH=PLAIN"}},
		{AppendWords(nil, "ENABLED", nil), "ENABLED", []string{}},
		{AppendFlagsResponse(nil, []Flag{Seen, "x"}), "FLAGS", []string{Seen, "x"}},
		{fetch, "FETCH", &FetchData{Seq: 12, UID: 9, Flags: []Flag{Seen, "x"}, Size: 44, InternalDate: date,
			ModSeq: 1 << 60,
			Has: 1<<ItemFlags | 1<<ItemUID | 1<<ItemSize | 1<<ItemInternalDate | 1<<ItemModSeq |
				1<<ItemEnvelope | 1<<ItemBodyStructure | 1<<ItemBodySection |
				1<<ItemEmailID | 1<<ItemThreadID | 1<<ItemPreview | 1<<ItemSaveDate,
			EnvelopeText:  string(AppendEnvelope(nil, fullEnvelope())),
			StructureText: string(AppendBodyStructure(nil, structure())),
			EmailID:       "M1", Preview: "p",
			Sections: []SectionData{{Item: section, Data: "x)\r\n* y\x00", Size: 8}}}},
	} {
		all := readAll(t, string(c.text), nil)
		if len(all) != 1 || all[0].Kind != Untagged || all[0].Name != c.name ||
			!reflect.DeepEqual(all[0].Data, c.want) {
			t.Errorf("%q:\n got %+v\nwant %+v", c.text, all[0].Data, c.want)
		}
	}
}

func TestStatusResponses(t *testing.T) {
	t.Parallel()
	code := func(b []byte) string { return string(b) }
	for _, c := range []struct {
		code string
		want Code
	}{
		{code(AppendCodeNumber(nil, "UIDNEXT", 7)), Code{Name: "UIDNEXT", Args: "7", Number: 7}},
		{code(AppendCodeAppendUID(nil, 1, 2)), Code{Name: "APPENDUID", Args: "1 2", Number: 1, Target: Set{{2, 2}}}},
		{code(AppendCodeCopyUID(nil, 1, Set{{2, 3}}, Set{{7, 8}})),
			Code{Name: "COPYUID", Args: "1 2:3 7:8", Number: 1, Source: Set{{2, 3}}, Target: Set{{7, 8}}}},
		{code(AppendCodeModified(nil, Set{{7, 8}})), Code{Name: "MODIFIED", Args: "7:8", Source: Set{{7, 8}}}},
		{code(AppendCodeFlags(nil, []Flag{Seen, AnyFlag})), Code{Name: "PERMANENTFLAGS", Args: `(\Seen \*)`,
			Words: []string{Seen, AnyFlag}}},
		{code(AppendCodeMailboxID(nil, "F1")), Code{Name: "MAILBOXID", Args: "(F1)", Words: []string{"F1"}}},
		{"BADCHARSET (UTF-8 US-ASCII)", Code{Name: "BADCHARSET", Args: "(UTF-8 US-ASCII)",
			Words: []string{"UTF-8", "US-ASCII"}}},
		{"READ-WRITE", Code{Name: "READ-WRITE"}},
		{`X "a]b"`, Code{Name: "X", Args: `"a]b"`}},
	} {
		r := readAll(t, string(AppendResult(nil, "a1", NO, c.code, "some\r\ntext")), nil)[0]
		if r.Kind != Tagged || r.Tag != "a1" || r.Name != NO || r.Text != "some  text" ||
			!reflect.DeepEqual(*r.Code, c.want) {
			t.Errorf("%+v %+v", r, r.Code)
		}
	}
	r := readAll(t, string(AppendContinue(nil, "go"))+string(AppendError(nil, &SyntaxError{Tag: "x", Text: "t"}))+
		"+\r\n* OK\r\n", nil)
	if r[0].Kind != Continuation || r[0].Text != "go" || r[1].Name != BAD || r[1].Code != nil ||
		r[2].Kind != Continuation || r[3].Name != OK {
		t.Errorf("%+v", r)
	}
}

func TestSink(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	r := readAll(t, "* 1 FETCH (PREVIEW {1}\r\nx BODY[]<0> {6}\r\nab\r\n{9 UID 3 RFC822 {2}\r\ncd BODY[1] {1}\r\n"+
		"e)\r\n", func(text []byte, size int64) io.Writer {
		if bytes.HasSuffix(text, []byte("BODY[1] {1}")) {
			return nil
		}
		return &got
	})
	f := r[0].Data.(*FetchData)
	if got.String() != "ab\r\n{9cd" || f.Preview != "x" || f.UID != 3 || f.Sections[0].Size != 6 ||
		f.Sections[1].Size != 2 || f.Sections[2].Data != "e" {
		t.Errorf("%q %+v", &got, f)
	}
}

func TestBadResponses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "*", "* ", "a", "a WHAT", "* 1 FETCH (UID 0)", "* 1 FETCH (UID", "* LIST x",
		"* VANISHED 1,", "* 5000000000 EXISTS"} {
		if r, err := ParseResponse(text); err == nil {
			t.Errorf("%q: %+v", text, r)
		}
	}
	r := NewResponseReader(strings.NewReader("* 1 FETCH (BODY[] {999999999}\r\n"),
		ResponseLimits{Line: 100, Literal: 100, Total: 100})
	if _, err := r.Read(); err == nil {
		t.Error("literal bomb taken")
	}
}

func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"* OK [COPYUID 1 2:3 4:5] x", "a NO [BADCHARSET (UTF-8)] y", "+ go",
		"* 1 FETCH (UID 5 BODY[1.TEXT]<0> {2}\r\nab FLAGS (\\*))",
		`* LIST (\Sent) "/" "a" ("OLDNAME" ("b") "CHILDINFO" ("X"))`,
		`* STATUS a (SIZE 5 MAILBOXID (x) APPENDLIMIT NIL)`, `* ESEARCH (TAG "a") UID ALL 1:5 X (y)`,
		`* NAMESPACE (("" "/" "X" ("a"))) NIL NIL`, "* ID (\"a\" NIL)", "* SEARCH 1 2 (MODSEQ 5)",
		"* VANISHED (EARLIER) 1:*", "* CAPABILITY A B", "* 5 EXPUNGE",
		"* SORT 2 1 (MODSEQ 5)", "* THREAD (2)(3 6 (4 23)(44 7 96))((3)(5))",
		`* ESEARCH (TAG "a" MAILBOX "b" UIDVALIDITY 1) UID PARTIAL (-1:-9 5,4) COUNT 3`,
		`* UIDBATCHES (TAG "a") 9:5,4:1`, "* 7 UIDFETCH (FLAGS ())", `* OK [INPROGRESS ("a" 5 NIL)] x`,
		`* 1 FETCH (ENVELOPE (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) BODY ("text" "plain" NIL NIL NIL "7bit" 1 ` +
			`1) MODSEQ (5) INTERNALDATE " 1-Jan-2000 00:00:00 +0000")`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseResponse(s); err == nil {
			if d, ok := r.Data.(*FetchData); ok {
				d.Envelope()
				d.Structure()
			}
		}
		r := NewResponseReader(strings.NewReader(s+"\r\n"), ResponseLimits{Line: 1000, Literal: 1000, Total: 2000})
		r.Sink = func([]byte, int64) io.Writer { return io.Discard }
		for range len(s) + 3 {
			if _, err := r.Read(); err != nil {
				if _, ok := err.(*ResponseError); !ok {
					return
				}
			}
		}
		t.Fatal("the reader does not come to an end")
	})
}
