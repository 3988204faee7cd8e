package query

import (
	"strconv"
	"strings"
	"time"

	"doublet/search/text"
	"doublet/wire/size"
)

// fieldNames maps operators to the kinds of terms that search words.
var fieldNames = map[string]Kind{
	"from": KindFrom, "to": KindTo, "cc": KindCc, "bcc": KindBcc, "subject": KindSubject, "body": KindBody,
	"filename": KindFilename, "header": KindHeader, "recipient": KindRecipient, "with": KindPerson, "list": KindList,
	"deliveredto": KindDeliveredTo, "rfc822msgid": KindMessageID,
}

var fieldsOf = map[Kind]text.Field{
	KindText: text.Any, KindFrom: text.From, KindTo: text.To, KindCc: text.Cc, KindBcc: text.Bcc,
	KindRecipient: text.To | text.Cc | text.Bcc, KindPerson: text.From | text.To | text.Cc | text.Bcc,
	KindSubject: text.Subject, KindBody: text.Content, KindFilename: text.Filename, KindHeader: text.Header,
}

// headerOf maps kinds to header fields whose value must contain the text. They are not in the index.
var headerOf = map[Kind]string{
	KindList: "List-Id", KindDeliveredTo: "Delivered-To", KindMessageID: "Message-ID",
}

// search returns the term that searches for words in a field.
func (p *parser) search(k Kind, v string, quoted bool) (Term, Reason) {
	t := Term{Kind: k, Value: v}
	if v == "" && !quoted {
		return t, ReasonEmpty
	}
	if name := headerOf[k]; name != "" {
		t.node = &Node{Op: OpHeader, Name: name, Word: strings.Trim(v, "<>")}
		if t.node.Word == "" {
			return t, ReasonEmpty
		}
		return t, ""
	}
	if fields := fieldsOf[k]; !quoted && len(p.Me) > 0 && strings.EqualFold(v, "me") &&
		fields&^fieldsOf[KindPerson] == 0 {
		list := make([]*Node, len(p.Me))
		for i, a := range p.Me {
			list[i] = &Node{Op: OpText, Text: Phrase(fields, a)}
		}
		t.Value = strings.Join(p.Me, ", ")
		if t.node = list[0]; len(list) > 1 {
			t.node = &Node{Op: OpAny, Kids: list}
		}
		return t, ""
	}
	x := Phrase(fieldsOf[k], v)
	t.node = &Node{Op: OpText, Text: x}
	if x.Never() {
		return t, ReasonWords
	}
	return t, ""
}

// reader returns the term for the value of an operator, or the reason why there is none.
type reader func(p *parser, v string) (Term, Reason)

var conditions = map[string]reader{
	"has": has, "is": is, "in": in, "label": label,
	"before": dated(KindBefore), "older": dated(KindBefore), "older_than": span(KindBefore),
	"after": dated(KindAfter), "since": dated(KindAfter), "newer": dated(KindAfter), "newer_than": span(KindAfter),
	"on": dated(KindOn), "date": dated(KindOn),
	"larger": sized(KindLarger), "size": sized(KindLarger), "minsize": sized(KindLarger),
	"smaller": sized(KindSmaller), "maxsize": sized(KindSmaller),
	// operators of Gmail, Fastmail and Outlook for which the server has no test
	"category": untested, "around": untested, "kind": untested, "importance": untested, "priority": untested,
	"fromin": untested, "toin": untested, "similarto": untested, "mimetype": untested, "memo": untested,
}

func untested(*parser, string) (Term, Reason) { return Term{}, ReasonOperator }

func has(_ *parser, v string) (Term, Reason) {
	switch strings.ToLower(v) {
	case "attachment", "attachments":
		return Term{Kind: KindAttachment, node: &Node{Op: OpAttachment}}, ""
	}
	return untested(nil, v)
}

// keywords maps names of marks to keywords.
var keywords = map[string]string{
	"flagged": "$flagged", "starred": "$flagged", "pinned": "$flagged", "answered": "$answered", "replied": "$answered",
	"draft": "$draft", "forwarded": "$forwarded", "important": "$important",
}

func is(_ *parser, v string) (Term, Reason) {
	switch v = strings.ToLower(v); v {
	case "unread", "unseen":
		return Term{Kind: KindUnread, node: &Node{Op: OpUnread}}, ""
	case "read", "seen":
		return Term{Kind: KindRead, node: &Node{Op: OpNot, Kids: []*Node{{Op: OpUnread}}}}, ""
	case "muted", "snoozed", "chat":
		return untested(nil, v)
	}
	if k := keywords[v]; k != "" {
		v = k
	}
	return Term{Kind: KindKeyword, Value: v, node: &Node{Op: OpKeyword, Word: v}}, ""
}

// folderNames maps names of folders in other products to special uses.
var folderNames = map[string]string{"spam": "junk", "bin": "trash", "draft": "drafts"}

func in(_ *parser, v string) (Term, Reason) {
	switch low := strings.ToLower(v); low {
	case "anywhere", "all":
		return Term{Kind: KindAnywhere, node: &Node{}}, ""
	case "starred", "unread", "important":
		return is(nil, v)
	case "snoozed", "scheduled":
		return untested(nil, v)
	default:
		if use := folderNames[low]; use != "" {
			v = use
		}
	}
	return Term{Kind: KindFolder, Value: v, node: &Node{Op: OpFolder, Word: v}}, ""
}

func label(_ *parser, v string) (Term, Reason) {
	return Term{Kind: KindLabel, Value: v, node: &Node{Op: OpAny, Kids: []*Node{
		{Op: OpFolder, Word: v}, {Op: OpKeyword, Word: strings.ToLower(v)}}}}, ""
}

// dated returns the reader of a day, or of a time span before now.
func dated(k Kind) reader {
	return func(p *parser, v string) (Term, Reason) {
		if t, ok := p.day(v); ok {
			return dayTerm(k, t), ""
		}
		return Term{}, ReasonValue
	}
}

// span returns the reader of a time span before now.
func span(k Kind) reader {
	return func(p *parser, v string) (Term, Reason) {
		if t, ok := p.ago(strings.ToLower(v)); ok {
			return dayTerm(k, t), ""
		}
		return Term{}, ReasonValue
	}
}

func dayTerm(k Kind, t time.Time) Term {
	after, before := &Node{Op: OpAfter, Time: t}, &Node{Op: OpBefore, Time: t}
	out := Term{Kind: k, Value: t.Format(time.DateOnly), node: after}
	switch k {
	case KindBefore:
		out.node = before
	case KindOn:
		before.Time = t.AddDate(0, 0, 1)
		out.node = &Node{Op: OpAll, Kids: []*Node{after, before}}
	}
	return out
}

// today returns the midnight with which the present day began.
func (p *parser) today() time.Time {
	return time.Date(p.Now.Year(), p.Now.Month(), p.Now.Day(), 0, 0, 0, 0, p.Now.Location())
}

// dayForms are the forms of a day: ISO 8601, Gmail's and the German one.
var dayForms = []string{"2006-1-2", "2006/1/2", "20060102", "1/2/2006", "2.1.2006", "2006-1", "2006/1", "2006"}

// day parses a date, or a time span before now.
func (p *parser) day(v string) (time.Time, bool) {
	switch v = strings.ToLower(v); v {
	case "today":
		return p.today(), true
	case "yesterday":
		return p.today().AddDate(0, 0, -1), true
	}
	for _, form := range dayForms {
		if t, err := time.ParseInLocation(form, v, p.Now.Location()); err == nil {
			return t, true
		}
	}
	return p.ago(v)
}

// ago parses a time span, such as 7d, and returns the day that lies so long before now.
func (p *parser) ago(v string) (time.Time, bool) {
	if len(v) < 2 {
		return time.Time{}, false
	}
	n, err := strconv.Atoi(v[:len(v)-1])
	if err != nil || n < 0 || n > 100_000 {
		return time.Time{}, false
	}
	day := p.today()
	switch v[len(v)-1] {
	case 'd':
		day = day.AddDate(0, 0, -n)
	case 'w':
		day = day.AddDate(0, 0, -7*n)
	case 'm':
		day = day.AddDate(0, -n, 0)
	case 'y':
		day = day.AddDate(-n, 0, 0)
	default:
		return time.Time{}, false
	}
	if day.Year() < 1 { // ISO 8601 has no form for these years that every client reads
		day = time.Date(1, 1, 1, 0, 0, 0, 0, day.Location())
	}
	return day, true
}

// sized returns the reader of a size in bytes.
func sized(k Kind) reader {
	op := OpLarger
	if k == KindSmaller {
		op = OpSmaller
	}
	return func(_ *parser, v string) (Term, Reason) {
		n, err := size.Parse(v)
		if err != nil {
			return Term{}, ReasonValue
		}
		return Term{Kind: k, Value: strconv.FormatUint(uint64(n), 10), node: &Node{Op: op, Number: uint64(n)}}, ""
	}
}
