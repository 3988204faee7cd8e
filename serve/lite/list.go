package lite

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/search/query"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// perPage is how many messages a list shows: a page stays under 30 KB with the longest names and subjects.
const perPage = 25

// maxTargets bounds the folders that can be chosen to move messages to, on a page of messages.
const maxTargets = 24

// listPage is the messages of a folder, or what a search found.
type listPage struct {
	*frame
	Heading         string
	Folder, Page    string
	Rows            []row
	First, Last, Of int
	Newer, Older    string // addresses; "" where there is none
	Searching       bool
	Trash, Drafts   bool
	May             rights
	Targets         []target
}

// rights are what the person may do in the folder shown.
type rights struct{ Write, Remove, Insert bool }

// target is a folder that messages can be put into.
type target struct{ ID, Name string }

// row is a message in a list.
type row struct {
	ID, Href, Who, Subject, Preview    string
	SentOn                             string // "sent on by" with who did last; "" where nobody did
	Date                               time.Time
	Unread, Flagged, Answered, HasFile bool
	Draft                              bool
	messageID                          string
}

// list shows a folder, or a search.
func (v *visit) list() error {
	folders, err := mailbox.Visible(v.box.Folders(v.ctx))
	if err != nil {
		return err
	}
	words := clip(strings.TrimSpace(v.form.Get("q")), 500)
	at, err := v.folderAt(folders, v.form.Get("f"))
	if err != nil && words == "" {
		return err
	}
	var here note.UNID
	if at != nil && words == "" {
		here = at.UNID
	}
	fr, folders, err := v.framed("inbox", here)
	if err != nil {
		return err
	}
	p := &listPage{frame: fr, Searching: words != ""}
	p.Query = words
	page, _ := strconv.Atoi(v.form.Get("p")) // what is no number is the first
	page = max(1, min(page, 1<<20))
	p.Page = strconv.Itoa(page)
	q := mailbox.Query{Position: int64(page-1) * perPage, Limit: perPage, Total: true}
	if words == "" {
		p.Folder = at.UNID.String()
		p.Title = v.fullName(at)
		p.Heading = p.Title
		p.Trash, p.Drafts = at.SpecialUse == "Trash", at.SpecialUse == "Drafts"
		p.May = rights{at.Rights&note.Write != 0, at.Rights&note.DeleteMark != 0, at.Rights&note.Insert != 0}
		q.Filter = mailbox.Filter{Kind: mailbox.FilterIn, Folders: []note.UNID{at.UNID}}
	} else {
		p.Title, p.Heading = v.T("search"), words
		p.May = rights{true, true, true} // each folder's own list decides
		var complaint error
		if q.Filter, complaint = searchFilter(words, folders, v.Now); complaint != nil {
			p.Said, p.Bad = clip(complaint.Error(), 200), true
		}
	}
	for i := range folders {
		if f := &folders[i]; f.Rights&note.Insert != 0 && len(p.Targets) < maxTargets && f.UNID != here {
			p.Targets = append(p.Targets, target{f.UNID.String(), fit(v.fullName(f), 40, 60)})
		}
	}
	if err := v.fill(p, &q, at); err != nil {
		return err
	}
	v.toldOf(p.frame)
	v.s.show(v.w, 200, "list.html", p)
	return nil
}

// fill reads the messages of a page.
func (v *visit) fill(p *listPage, q *mailbox.Query, at *mailbox.Folder) error {
	found, err := v.box.Query(v.ctx, q)
	if err != nil {
		return err
	}
	toThem := !p.Searching && (at.SpecialUse == "Sent" || at.SpecialUse == "Drafts")
	err = v.box.Read(v.ctx, func(d *mailbox.Reading) error {
		p.Rows = make([]row, 0, len(found.Hits))
		for _, h := range found.Hits {
			m, err := d.Email(h.ID)
			if errors.Is(err, mailbox.ErrNoMessage) {
				continue
			}
			var r row
			if err == nil {
				r, err = v.row(m, toThem)
			}
			if err != nil {
				return err
			}
			p.Rows = append(p.Rows, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.First, p.Of = int(q.Position)+1, found.Total
	p.Last = int(q.Position) + len(found.Hits)
	page := int(q.Position)/perPage + 1
	link := func(n int) string {
		return v.at(Path, "f", p.Folder, "q", p.Query, "p", strconv.Itoa(n))
	}
	if page > 1 {
		p.Newer = link(page - 1)
	}
	if p.Last < p.Of && len(found.Hits) > 0 {
		p.Older = link(page + 1)
	}
	return nil
}

// row is a message as a list shows it.
func (v *visit) row(m *mailbox.Email, toThem bool) (r row, err error) {
	text, err := m.Envelope()
	if err != nil {
		return r, err
	}
	e, err := imap.ParseEnvelope(text)
	if err != nil {
		e = &mime.Envelope{} // what cannot be told is left out
	}
	r = row{ID: m.UNID().String(), Date: time.Unix(m.Received(), 0), Unread: !m.Seen(), Subject: fit(subjectOf(e), 120, 160), messageID: e.MessageID}
	for k := range m.Keywords {
		switch k {
		case mailbox.Flagged:
			r.Flagged = true
		case mailbox.Answered:
			r.Answered = true
		case mailbox.Draft:
			r.Draft = true
		}
	}
	people := e.From
	if toThem {
		people = e.To
	}
	r.Who = fit(names(people), 50, 80)
	if !toThem {
		by, err := resenders(m)
		if err != nil {
			return r, err
		}
		if by != "" {
			r.SentOn = v.T("sentOnByName", by)
		}
	}
	if r.HasFile, err = m.Attached(); err != nil {
		return r, err
	}
	preview, err := m.Preview()
	r.Preview = fitWords(string(preview), 100, 120)
	if r.Href = v.at(pathRead, "m", r.ID); r.Draft {
		r.Href = v.at(pathCompose, "draft", r.ID)
	}
	return r, err
}

// maxHead bounds how much of a header is read for a list, of messages whose summary does not tell who sent them on.
const maxHead = 1 << 16

// resenders names who sent a message on last.
func resenders(m *mailbox.Email) (string, error) {
	block, ok, err := m.Resent()
	if err != nil {
		return "", err
	}
	if !ok {
		index, err := m.Index()
		if err != nil {
			return "", err
		}
		span, _ := index.Section(nil)
		body, err := m.Body()
		if err == nil {
			block, err = body.AppendRange(nil, int64(span.HeaderStart), int64(min(span.BodyStart-span.HeaderStart, maxHead)))
		}
		if err != nil {
			return "", err
		}
	}
	return fit(names(mailbox.Resenders(block)), 50, 80), nil
}

func subjectOf(e *mime.Envelope) string { return mime.DecodeWords(e.Subject) }

// names are people by name, or by address where they have none.
func names(list []mime.Address) string {
	var out []string
	for i := range list {
		if a := &list[i]; !a.Group && len(out) < 5 {
			if name := strings.TrimSpace(mime.DecodeWords(a.Name)); name != "" {
				out = append(out, name)
			} else if a.Host != "" {
				out = append(out, a.Mailbox+"@"+a.Host)
			}
		}
	}
	return strings.Join(out, ", ")
}

// folderAt finds a folder by id; the first one where there is none given.
func (v *visit) folderAt(folders []mailbox.Folder, id string) (*mailbox.Folder, error) {
	for i := range folders {
		if f := &folders[i]; id == "" && use(f, v.box.Prefix()) == mailbox.Inbox || id != "" && f.UNID.String() == id {
			return f, nil
		}
	}
	if id == "" && len(folders) > 0 {
		return &folders[0], nil // of a mail file of others one may see less than the inbox
	}
	return nil, errNotFound
}

// ordered brings folders into the order of people: those that everyone has first.
func (v *visit) ordered(folders []mailbox.Folder) {
	rank := func(f *mailbox.Folder) int {
		if i := slices.Index(usual, use(f, v.box.Prefix())); i >= 0 {
			return i
		}
		return len(usual)
	}
	slices.SortStableFunc(folders, func(a, b mailbox.Folder) int { return rank(&a) - rank(&b) })
}

// searchFilter reads a search box: everywhere but in Junk and Trash, unless it says where. A complaint is for the person.
func searchFilter(words string, folders []mailbox.Folder, now time.Time) (mailbox.Filter, error) {
	n, complaint := query.Parse(words, now)
	if complaint != nil {
		n = query.Words(0, "") // found nowhere
	}
	if n == nil {
		n = &query.Node{}
	}
	f := mailbox.FilterOf(n, folders)
	if says(n) {
		return f, complaint
	}
	var hidden []note.UNID
	for i := range folders {
		if u := folders[i].SpecialUse; u == "Trash" || u == "Junk" {
			hidden = append(hidden, folders[i].UNID)
		}
	}
	if hidden == nil {
		return f, complaint
	}
	return mailbox.Filter{Kind: mailbox.FilterAnd, Of: []mailbox.Filter{f, {Kind: mailbox.FilterElsewhere, Folders: hidden}}}, complaint
}

// says tells whether a query names a folder.
func says(n *query.Node) bool {
	return n.Op == query.OpFolder || slices.ContainsFunc(n.Kids, says)
}

func itoa[N int | uint32](n N) string { return strconv.Itoa(int(n)) }
