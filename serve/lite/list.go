package lite

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// perPage is the number of messages on a page of a list. With it, a page stays under 30 KB even with the longest names
// and subjects.
const perPage = 25

// maxTargets bounds the folders in the menu to move messages.
const maxTargets = 24

// listPage is the page that lists the messages of a folder or the results of a search.
type listPage struct {
	*frame
	Heading         string
	Folder, Page    string
	Rows            []row
	First, Last, Of int
	Newer, Older    string // addresses, or ""
	Searching       bool
	Trash, Drafts   bool
	Recover         bool // this page can lead to the deleted messages that can be restored
	May             rights
	Targets         []target
	// Terms are the parts of the search as the server understood them. Unknown are messages about the other parts.
	Terms, Unknown []string
}

// rights holds the user's rights in the folder shown.
type rights struct{ Write, Remove, Insert bool }

// target is a folder to which messages can be moved.
type target struct{ ID, Name string }

// row is a message in a list.
type row struct {
	ID, Href, Who, Subject, Preview    string
	SentOn                             string // text with the name of the last person who redirected it, or ""
	Date                               time.Time
	Unread, Flagged, Answered, HasFile bool
	Draft, Pinned                      bool
	Until                              bool // Date is in the future: of a snoozed or scheduled message
	messageID                          string
}

// list shows a folder or search results.
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
	page, _ := strconv.Atoi(v.form.Get("p")) // 0 if it is not a number
	page = max(1, min(page, 1<<20))
	p.Page = strconv.Itoa(page)
	q := mailbox.Query{Position: int64(page-1) * perPage, Limit: perPage, Total: true}
	if words == "" {
		p.Folder = at.UNID.String()
		p.Title = v.fullName(at)
		p.Heading = p.Title
		p.Trash, p.Drafts = at.Is(mailbox.UseTrash), at.Is(mailbox.UseDrafts)
		p.Recover = p.Trash && v.box.ID == ""
		p.May = rights{at.Rights&note.Write != 0, at.Rights&note.DeleteMark != 0, at.Rights&note.Insert != 0}
		q.Filter = mailbox.Filter{Kind: mailbox.FilterIn, Folders: []note.UNID{at.UNID}}
	} else {
		p.Title, p.Heading = v.T("search"), words
		p.May = rights{true, true, true} // the rights are checked by each action
		if q.Filter, err = v.search(p, words, folders); err != nil {
			return err
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
	v.toldOf(p.frame, "")
	v.s.show(v.w, 200, "list.html", p)
	return nil
}

// fill reads the messages of a page.
func (v *visit) fill(p *listPage, q *mailbox.Query, at *mailbox.Folder) error {
	if !p.Searching {
		if err := v.pinnedFirst(q); err != nil {
			return err
		}
	}
	found, err := v.box.Query(v.ctx, q)
	if err != nil {
		return err
	}
	toThem := !p.Searching && at.Is(mailbox.UseSent, mailbox.UseDrafts)
	err = v.box.Read(v.ctx, func(d *mailbox.Reading) (err error) {
		var until map[note.UNID]time.Time
		if !p.Searching && v.box.ID == "" {
			if until, err = v.folderTimes(d, at); err != nil {
				return err
			}
		}
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
			if t, ok := until[h.UNID]; ok {
				r.Date, r.Until = t, true
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
	v.pages(p, q, len(found.Hits))
	return nil
}

// folderTimes returns the times at which the messages of a folder come back or are sent.
func (v *visit) folderTimes(d *mailbox.Reading, at *mailbox.Folder) (map[note.UNID]time.Time, error) {
	switch {
	case at.Is(mailbox.UseSnoozed):
		return untilOf(d)
	case at.Is(mailbox.UseSent, mailbox.UseDrafts): // a message that cannot be moved to Sent stays in Drafts
		return v.sendTimes(d)
	}
	return nil, nil
}

// pages links a page of a list, which shows some rows, to those before and behind it.
func (v *visit) pages(p *listPage, q *mailbox.Query, rows int) {
	page := int(q.Position)/perPage + 1
	link := func(n int) string {
		return v.at(Path, "f", p.Folder, "q", p.Query, "p", strconv.Itoa(n))
	}
	if page > 1 {
		p.Newer = link(page - 1)
	}
	if p.Last < p.Of && rows > 0 {
		p.Older = link(page + 1)
	}
}

// row returns a message as a row of a list. If toThem is set, it shows the recipients instead of the sender.
func (v *visit) row(m *mailbox.Email, toThem bool) (r row, err error) {
	text, err := m.Envelope()
	if err != nil {
		return r, err
	}
	e, err := imap.ParseEnvelope(text)
	if err != nil {
		e = &mime.Envelope{} // leave out a malformed envelope
	}
	r = row{ID: m.UNID().String(), Date: time.Unix(m.Received(), 0), Unread: !m.Seen(),
		Subject: fit(subjectOf(e), 120, 160), messageID: e.MessageID}
	for k := range m.Keywords {
		switch k {
		case mailbox.Flagged:
			r.Flagged = true
		case mailbox.Answered:
			r.Answered = true
		case mailbox.Draft:
			r.Draft = true
		case pinned:
			r.Pinned = true
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

// maxHead bounds the octets of a header that are read for a list, if the summary of the message lacks the Resent-
// fields.
const maxHead = 1 << 16

// resenders returns the names of the people who resent a message last.
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
			block, err = body.AppendRange(nil, int64(span.HeaderStart),
				int64(min(span.BodyStart-span.HeaderStart, maxHead)))
		}
		if err != nil {
			return "", err
		}
	}
	return fit(names(mailbox.Resenders(block)), 50, 80), nil
}

func subjectOf(e *mime.Envelope) string { return mime.DecodeWords(e.Subject) }

// names returns up to five names, or addresses where there is no name.
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

// folderAt returns the folder with an id, or the default folder if id is "".
func (v *visit) folderAt(folders []mailbox.Folder, id string) (*mailbox.Folder, error) {
	for i := range folders {
		if f := &folders[i]; id == "" && f.Is(mailbox.Inbox) || id != "" && f.UNID.String() == id {
			return f, nil
		}
	}
	if id == "" && len(folders) > 0 {
		return &folders[0], nil // in another person's mail file the inbox may not be visible
	}
	return nil, errNotFound
}

// ordered sorts folders for display: the standard folders first.
func (v *visit) ordered(folders []mailbox.Folder) {
	rank := func(f *mailbox.Folder) int {
		if i := slices.Index(mailbox.Uses, f.Use()); i >= 0 {
			return i
		}
		return len(mailbox.Uses)
	}
	slices.SortStableFunc(folders, func(a, b mailbox.Folder) int { return rank(&a) - rank(&b) })
}

func itoa[N int | uint32](n N) string { return strconv.Itoa(int(n)) }
