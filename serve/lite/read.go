package lite

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/store"
	"doublet/wire/imap"
	wiremime "doublet/wire/mime"
	"doublet/wire/safehtml"
)

// Bounds of the page of a message, which keep it under 30 KB: bytes of its text, attachments, messages of its thread,
// and addresses of a field. Longer content is split into several pages.
const (
	pieceSize   = 12 << 10
	maxPieces   = 200
	maxShown    = 4 << 20 // bytes of a body that are read
	filesOnPage = 20
	maxThread   = 8
	maxPeople   = 6
	maxTitle    = 10_000
	pieceBelow  = 3 << 10 // pieceSize if the subject is very long
)

// letter is an opened message.
type letter struct {
	id      note.UNID
	form    *form // the request's form, which reserves memory
	env     *wiremime.Envelope
	root    *wiremime.Part
	places  map[*wiremime.Part]string
	bodies  mailbox.Bodies
	index   wiremime.Index
	body    *store.Stored
	date    time.Time
	size    uint64
	seen    bool
	words   []string
	folders []note.UNID
	thread  []note.UNID
	near    []row // rows of messages of the thread
	// messages is the number of messages in the thread, without the copies found in near.
	messages int
}

func (l *letter) has(word string) bool { return slices.Contains(l.words, word) }

// named opens the message that the request names, with its thread if thread is set.
func (v *visit) named(thread bool) (*letter, error) {
	id, err := unid(v.form.Get("m"))
	if err != nil {
		return nil, err
	}
	return v.open(v.box, id, thread)
}

// open reads a message of a mail file, with its thread if thread is set.
func (v *visit) open(b *box, id note.UNID, thread bool) (*letter, error) {
	l := &letter{id: id, form: v.form}
	err := b.Read(v.ctx, func(d *mailbox.Reading) error {
		m, err := d.EmailOf(id)
		if err != nil {
			return err
		}
		structure, err := m.Structure()
		if err == nil {
			l.root, err = imap.ParseBodyStructure(structure)
		}
		if err != nil {
			return err
		}
		text, err := m.Envelope()
		if err != nil {
			return err
		}
		if l.env, err = imap.ParseEnvelope(text); err != nil {
			l.env = &wiremime.Envelope{}
		}
		index, err := m.Index()
		if err != nil {
			return err
		}
		l.index = slices.Clone(index)
		if l.body, err = m.Body(); err != nil {
			return err
		}
		l.date, l.size, l.seen = time.Unix(m.Received(), 0), m.Size(), m.Seen()
		l.words, l.folders = slices.Collect(m.Keywords), slices.Collect(m.Folders)
		if !thread {
			return nil
		}
		if l.thread, err = d.ThreadOf(m.Thread()); err != nil || len(l.thread) < 2 {
			return err
		}
		return v.nearby(d, l)
	})
	if err != nil {
		return nil, err
	}
	l.places, l.bodies = mailbox.PlacesOf(l.root), mailbox.BodiesOf(l.root)
	return l, nil
}

// nearby reads the messages of the thread around this one, each once. There can be two copies of a message: the one
// sent to a group, and the one that the sender received as its member. It lists the copy in the same folder as this
// message.
func (v *visit) nearby(d *mailbox.Reading, l *letter) error {
	at := max(slices.Index(l.thread, l.id), 0)
	from := max(0, min(at-maxThread/2, len(l.thread)-maxThread))
	copies := 0
	ranks := map[string][2]int{} // by Message-ID: the index in l.near, and the rank of that copy
	for _, u := range l.thread[from:min(len(l.thread), from+maxThread)] {
		m, err := d.EmailOf(u)
		if errors.Is(err, mailbox.ErrNoMessage) {
			continue
		}
		if err != nil {
			return err
		}
		r, err := v.row(m, false)
		if err != nil {
			return err
		}
		rank := 0
		if u == l.id {
			r.Href, rank = "", 2
		} else if slices.ContainsFunc(slices.Collect(m.Folders),
			func(f note.UNID) bool { return slices.Contains(l.folders, f) }) {
			rank = 1
		}
		if other, twice := ranks[r.messageID]; twice && r.messageID != "" {
			if copies++; rank > other[1] {
				l.near[other[0]], ranks[r.messageID] = r, [2]int{other[0], rank}
			}
			continue
		}
		ranks[r.messageID] = [2]int{len(l.near), rank}
		l.near = append(l.near, r)
	}
	l.messages = len(l.thread) - copies
	return nil
}

// content opens a part by its place.
func (l *letter) content(place string) (mailbox.Content, error) {
	var path []int
	for s := range strings.SplitSeq(place, ".") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return mailbox.Content{}, errNotFound
		}
		path = append(path, n)
	}
	span, ok := l.index.Section(path)
	if !ok || span.Kind == wiremime.KindMultipart {
		return mailbox.Content{}, errNotFound
	}
	if mailbox.ReadWhole(l.body, span) && !l.form.hold(2*int64(span.BodyEnd-span.BodyStart)) {
		return mailbox.Content{}, listen.ErrMemory
	}
	return mailbox.ContentOf(l.body, span)
}

// text returns the text of a part, decoded from at most most bytes. It reports whether the part has more.
func (l *letter) text(p *wiremime.Part, most int64) (text string, more bool, err error) {
	c, err := l.content(l.places[p])
	if err != nil {
		return "", false, err
	}
	raw, err := c.Append(nil, 0, min(c.Size, most))
	if err != nil {
		return "", false, err
	}
	text, more = wiremime.DecodeBody(raw, wiremime.EncodingBinary, p.Param("charset"), int(most))
	return strings.ReplaceAll(text, "\r\n", "\n"), more || c.Size > most, nil
}

// head returns the message's header, at most 1 MB of it.
func (l *letter) head() ([]byte, error) {
	span, ok := l.index.Section(nil)
	if !ok {
		return nil, nil
	}
	return l.body.AppendRange(nil, int64(span.HeaderStart), int64(min(span.BodyStart-span.HeaderStart, 1<<20)))
}

// partAt returns the part with a place, or nil.
func (l *letter) partAt(place string) *wiremime.Part {
	for p, at := range l.places {
		if at == place {
			return p
		}
	}
	return nil
}

// attached is an attachment of a message.
type attached struct{ Name, Size, Href, Place string }

// files returns the attachments of a message in order.
func (l *letter) files(v *visit) ([]attached, error) {
	list := make([]attached, 0, len(l.bodies.Attachments))
	for _, p := range l.bodies.Attachments {
		place := l.places[p]
		if place == "" {
			continue
		}
		list = append(list, attached{fileName(p), "", v.at(pathPart, "m", l.id.String(), "s", place), place})
	}
	return list, nil
}

// fileName returns a safe name under which a part can be saved.
func fileName(p *wiremime.Part) string {
	name := strings.Map(func(r rune) rune {
		switch r {
		case '/', '\\', '"', 0x202a, 0x202b, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068: // path separators, bidi controls
			return '_'
		}
		return r
	}, fit(strings.TrimSpace(p.Filename()), 80, 90))
	switch {
	case name != "":
		return name
	case p.IsMessage():
		return "message.eml"
	}
	return "file." + clip(p.Subtype, 20)
}

// readPage is the page of a message.
type readPage struct {
	*frame
	ID, Folder, Subject  string
	From                 []person
	Rows                 []peopleRow
	SentOnBy             [][]person // who resent it, the latest first
	Date                 time.Time
	Unread, Flagged      bool
	Pinned               bool
	Aside                *asidePart // nil in another person's mail file
	Draft, Trash, Junk   bool
	Body                 template.HTML // sanitized by safehtml
	Part, Parts          int
	PartBack, PartNext   string
	Shown                string // size of the text in all parts, or "" if they hold all of it
	Blocked              string // address of the page with remote images, or "" if none are blocked
	Other, OtherText     string // address and label of the other form, plain or HTML
	Files                []attached
	FilesMore, FilesBack string
	FilesCount           int
	Size                 string
	Thread               []row
	ThreadCount          int
	Links                map[string]string
	May                  rights
	Targets              []target
	Invitation           *invitation
}

// person is an address of a header field.
type person struct{ Name, Address, Href string }

type peopleRow struct {
	Title  string
	People []person
	More   int
}

func (v *visit) people(list []wiremime.Address) (out []person, more int) {
	for i := range list {
		a := &list[i]
		if a.Group || a.Mailbox == "" {
			continue
		}
		if len(out) == maxPeople {
			more++
			continue
		}
		address := a.Mailbox
		if a.Host != "" {
			address += "@" + a.Host
		}
		out = append(out, person{fit(mailName(a), 60, 90), fit(address, 80, 90),
			pathCompose + "?to=" + url.QueryEscape(clip(address, 80))})
	}
	return out, more
}

func mailName(a *wiremime.Address) string { return wiremime.ShownName(wiremime.DecodeWords(a.Name)) }

// read shows a message.
func (v *visit) read() error {
	l, err := v.named(true)
	if err != nil {
		return err
	}
	if !l.seen {
		// In a shared mail file the user may lack the right to set it. The message is shown anyway.
		_, err := v.box.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
			n, err := c.Find(l.id)
			if err != nil {
				return err
			}
			return c.SetKeyword(n, mailbox.Seen, true)
		})
		if err != nil && !errors.Is(err, store.ErrDenied) && !errors.Is(err, store.ErrNoSpace) {
			return err
		}
	}
	var here note.UNID
	if len(l.folders) > 0 {
		here = l.folders[0]
	}
	if u, err := unid(v.form.Get("f")); err == nil && slices.Contains(l.folders, u) {
		here = u
	}
	fr, folders, err := v.framed("", here)
	if err != nil {
		return err
	}
	p := &readPage{frame: fr, ID: l.id.String(), Folder: here.String(), Date: l.date, Size: size(float64(l.size)),
		Thread: l.near, ThreadCount: l.messages}
	p.Subject = fit(subjectOf(l.env), maxTitle, maxTitle)
	if p.Subject == "" {
		p.Subject = v.T("noSubject")
	}
	p.Title = clip(p.Subject, 80)
	if p.SentOnBy, err = v.sentOnBy(l); err != nil {
		return err
	}
	p.Flagged, p.Draft, p.Pinned = l.has(mailbox.Flagged), l.has(mailbox.Draft), l.has(pinned)
	if sent, ok := wiremime.ParseDate(l.env.Date); ok {
		p.Date = sent
	}
	v.readHead(p, l)
	for i := range folders {
		f := &folders[i]
		if f.UNID == here {
			p.Trash, p.Junk = f.Is(mailbox.UseTrash), f.Is(mailbox.UseJunk)
			p.May = rights{f.Rights&note.Write != 0, f.Rights&note.DeleteMark != 0, true}
		} else if f.Rights&note.Insert != 0 && len(p.Targets) < maxTargets {
			p.Targets = append(p.Targets, target{f.UNID.String(), fit(v.fullName(f), 40, 60)})
		}
	}
	if err := v.readBody(p, l); err != nil {
		return err
	}
	if err := v.readParts(p, l); err != nil {
		return err
	}
	if p.Wide = v.form.Get("print") != ""; p.Wide {
		p.Nav = nil
	}
	sender := ""
	if v.box.ID == "" && !p.Draft {
		if p.Aside, err = v.asideOf(l); err != nil {
			return err
		}
		if sender = p.Aside.Sender; v.form.Get("said") == "senders.left" {
			sender = p.Aside.Leave.Host
		}
	}
	v.toldOf(p.frame, sender)
	v.s.show(v.w, http.StatusOK, "read.html", p)
	return nil
}

// readHead fills in the addresses and the links.
func (v *visit) readHead(p *readPage, l *letter) {
	p.From, _ = v.people(l.env.From)
	for _, x := range []struct {
		key  string
		list []wiremime.Address
	}{{"to", l.env.To}, {"cc", l.env.Cc}, {"bcc", l.env.Bcc}} {
		if list, more := v.people(x.list); len(list) > 0 {
			p.Rows = append(p.Rows, peopleRow{v.T(x.key), list, more})
		}
	}
	p.Links = map[string]string{
		"reply": v.at(pathCompose, "re", p.ID, "kind", "reply"), "all": v.at(pathCompose, "re", p.ID, "kind", "all"),
		"forward": v.at(pathCompose, "re", p.ID, "kind", "forward"),
		"source":  v.at(pathSource, "m", p.ID), "draft": v.at(pathCompose, "draft", p.ID),
		"print": v.at(pathRead, "m", p.ID, "print", "1"), "list": v.at(Path, "f", p.Folder),
		"save": v.at(pathSource, "m", p.ID, "save", "1"), "redirect": v.at(pathRedirect, "m", p.ID),
		"logo": v.at(pathLogo, "m", p.ID),
	}
	if v.box.ID == "" {
		p.Links["rule"] = v.at(pathRules, "m", p.ID)
	}
}

// readBody renders the text of the message and selects the requested piece.
func (v *visit) readBody(p *readPage, l *letter) error {
	plain := v.form.Get("plain") != ""
	hasHTML := slices.ContainsFunc(l.bodies.HTML, func(x *wiremime.Part) bool { return x.Subtype == "html" })
	parts := l.bodies.HTML
	if plain || !hasHTML {
		parts = l.bodies.Text
	}
	pictures := v.form.Get("pictures") != ""
	w := shower{v: v, l: l, room: pieceSize, pictures: pictures, plain: plain, inline: map[string]string{}}
	if len(p.Subject) > 1000 {
		w.room = pieceBelow
	}
	for x, place := range l.places {
		if id := strings.Trim(strings.TrimSpace(x.ID), "<>"); id != "" && rasters[x.Type+"/"+x.Subtype] {
			w.inline[id] = place
		}
	}
	for _, x := range parts {
		if err := w.part(x); err != nil {
			return err
		}
	}
	pieces := w.pieces
	if len(pieces) == 0 {
		pieces = []string{""}
	}
	n, _ := strconv.Atoi(v.form.Get("part"))
	n = max(1, min(n, len(pieces)))
	p.Part, p.Parts, p.Body = n, len(pieces), template.HTML(pieces[n-1])
	if w.rest {
		p.Shown = size(float64(min(w.shown(), l.size)))
	}
	link := func(n int, plain, pictures bool) string {
		q := []string{"m", p.ID, "f", v.form.Get("f")}
		if n > 1 {
			q = append(q, "part", strconv.Itoa(n))
		}
		if plain {
			q = append(q, "plain", "1")
		}
		if pictures {
			q = append(q, "pictures", "1")
		}
		return v.at(pathRead, q...)
	}
	if n > 1 {
		p.PartBack = link(n-1, plain, pictures)
	}
	if n < len(pieces) {
		p.PartNext = link(n+1, plain, pictures)
	}
	if hasHTML {
		p.Other, p.OtherText = link(1, !plain, false), v.T("showPlain")
		if plain {
			p.OtherText = v.T("showRich")
		}
	}
	if w.blocked {
		p.Blocked = link(n, plain, true)
	}
	if pictures {
		v.w.Header().Set("Content-Security-Policy", policyPictures)
		v.w.Header().Set("Referrer-Policy", "same-origin")
	}
	return nil
}

// shower renders the parts of a message as HTML.
type shower struct {
	v        *visit
	l        *letter
	room     int  // bytes per piece
	pictures bool // show remote images
	plain    bool
	blocked  bool // remote images were left out
	inline   map[string]string
	pieces   []string
	rest     bool // there is more text than in pieces
}

// shown returns the number of bytes of text in the pieces, without tags.
func (w *shower) shown() uint64 {
	n := 0
	for _, p := range w.pieces {
		n += len(wiremime.HTMLText(p))
	}
	return uint64(n)
}

// add appends pieces, up to maxPieces. A piece that fits is appended to the last one.
func (w *shower) add(list []string) {
	for _, s := range list {
		if k := len(w.pieces); k > 0 && len(w.pieces[k-1])+len(s) <= w.room {
			w.pieces[k-1] += s
		} else if k < maxPieces {
			w.pieces = append(w.pieces, s)
		} else {
			w.rest = true
			return
		}
	}
}

func (w *shower) part(p *wiremime.Part) error {
	if w.rest {
		return nil
	}
	// One piece more than is shown tells that there is more text.
	o := &safehtml.Options{Piece: w.room, Pieces: maxPieces + 1, Link: link, Picture: w.picture}
	switch {
	case p.Type == "text":
		text, more, err := w.l.text(p, maxShown)
		if err != nil {
			return err
		}
		defer func() { w.rest = w.rest || more }()
		if p.Subtype == "html" && !w.plain {
			w.add(safehtml.Clean(text, o))
			return nil
		}
		if p.Subtype == "html" {
			text = wiremime.HTMLText(text)
		}
		list := safehtml.Text(text, o)
		for i := range list {
			list[i] = "<pre>" + list[i] + "</pre>"
		}
		w.add(list)
	case rasters[p.Type+"/"+p.Subtype]:
		w.add(safehtml.Clean(`<p><img src="cid:`+w.l.places[p]+`" alt=""></p>`,
			&safehtml.Options{Picture: func(src string) string {
				return w.v.at(pathPart, "m", w.l.id.String(), "s", strings.TrimPrefix(src, "cid:"), "show", "1")
			}}))
	}
	return nil
}

// link replaces a mailto: link by the address of the compose page.
func link(href string) string {
	if strings.HasPrefix(href, "mailto:") {
		return pathCompose + "?mailto=" + url.QueryEscape(href)
	}
	return href
}

func (w *shower) picture(src string) string {
	if id, ok := strings.CutPrefix(src, "cid:"); ok {
		if decoded, err := url.PathUnescape(id); err == nil {
			id = decoded
		}
		if place := w.inline[id]; place != "" {
			return w.v.at(pathPart, "m", w.l.id.String(), "s", place, "show", "1")
		}
		return ""
	}
	if !w.pictures {
		w.blocked = true
		return ""
	}
	return src
}

// readParts fills in the invitation and the attachments.
func (v *visit) readParts(p *readPage, l *letter) (err error) {
	if p.Invitation, err = v.invited(l); err != nil {
		return err
	}
	return v.readFiles(p, l)
}

// readFiles fills in the attachments, one page of them at a time.
func (v *visit) readFiles(p *readPage, l *letter) error {
	all, err := l.files(v)
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(v.form.Get("files"))
	from = max(0, min(from, len(all)))
	from -= from % filesOnPage
	p.FilesCount, p.Files = len(all), all[from:min(len(all), from+filesOnPage)]
	for i := range p.Files {
		if c, err := l.content(p.Files[i].Place); err == nil {
			p.Files[i].Size = size(float64(c.Size))
		}
	}
	at := func(n int) string { return v.at(pathRead, "m", p.ID, "files", strconv.Itoa(n)) + "#files" }
	if from > 0 {
		p.FilesBack = at(from - filesOnPage)
	}
	if from+filesOnPage < len(all) {
		p.FilesMore = at(from + filesOnPage)
	}
	return nil
}
