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

// Bounds of a message's page, so that it stays under 30 KB: bytes of its text, attachments and messages of its thread that
// it lists, people of a field. What is longer has pages.
const (
	pieceSize   = 12 << 10
	maxPieces   = 200
	maxShown    = 4 << 20 // bytes of a body that are looked at
	filesOnPage = 20
	maxThread   = 8
	maxPeople   = 6
	maxTitle    = 10_000
	pieceBelow  = 3 << 10 // of a text below a very long title
)

// letter is a message that is read.
type letter struct {
	id      note.UNID
	form    *form // of the request: it holds the memory
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
	near    []row // the thread's messages
	// messages is how many the thread has, of those nearby each once.
	messages int
}

func (l *letter) has(word string) bool { return slices.Contains(l.words, word) }

// named opens the message that the request names, with its conversation where that is wanted.
func (v *visit) named(thread bool) (*letter, error) {
	id, err := unid(v.form.Get("m"))
	if err != nil {
		return nil, err
	}
	return v.open(v.box, id, thread)
}

// open reads a message of the mail file that is looked at; with its thread, for a page.
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

// nearby reads the messages of the thread around this one, each once: what was sent to a group that one is in is there as it was
// sent and as it came. The one that lies where this one does is listed.
func (v *visit) nearby(d *mailbox.Reading, l *letter) error {
	at := max(slices.Index(l.thread, l.id), 0)
	from := max(0, min(at-maxThread/2, len(l.thread)-maxThread))
	copies := 0
	ranks := map[string][2]int{} // of a Message-ID: its place in l.near, and how near that one is
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
		} else if slices.ContainsFunc(slices.Collect(m.Folders), func(f note.UNID) bool { return slices.Contains(l.folders, f) }) {
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

// text is a part's text, of at most most bytes.
func (l *letter) text(p *wiremime.Part, most int64) (string, error) {
	c, err := l.content(l.places[p])
	if err != nil {
		return "", err
	}
	raw, err := c.Append(nil, 0, min(c.Size, most))
	if err != nil {
		return "", err
	}
	text, _ := wiremime.DecodeBody(raw, wiremime.EncodingBinary, p.Param("charset"), int(most))
	return strings.ReplaceAll(text, "\r\n", "\n"), nil
}

// head is the message's header, as far as anybody looks into it.
func (l *letter) head() ([]byte, error) {
	span, ok := l.index.Section(nil)
	if !ok {
		return nil, nil
	}
	return l.body.AppendRange(nil, int64(span.HeaderStart), int64(min(span.BodyStart-span.HeaderStart, 1<<20)))
}

// partAt is the part of a place.
func (l *letter) partAt(place string) *wiremime.Part {
	for p, at := range l.places {
		if at == place {
			return p
		}
	}
	return nil
}

// attached is a file of a message.
type attached struct{ Name, Size, Href, Place string }

// files are what a message has attached, in its order.
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

// fileName is a name under which a part can be saved.
func fileName(p *wiremime.Part) string {
	name := strings.Map(func(r rune) rune {
		switch r {
		case '/', '\\', '"', 0x202a, 0x202b, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068: // paths, and what turns an ending around
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

// readPage is a message.
type readPage struct {
	*frame
	ID, Folder, Subject  string
	From                 []person
	Rows                 []peopleRow
	SentOnBy             [][]person // who redirected it, the last first
	Date                 time.Time
	Unread, Flagged      bool
	Draft, Trash, Junk   bool
	Body                 template.HTML // as safehtml made it
	Part, Parts          int
	PartBack, PartNext   string
	Blocked              string // where pictures are loaded; "" where there are none, or they are
	Other, OtherText     string // the other form of the text
	Files                []attached
	FilesMore, FilesBack string
	FilesCount           int
	Size                 string
	Thread               []row
	ThreadCount          int
	Links                map[string]string
	May                  rights
	Targets              []target
}

// person is somebody of a header field.
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
		out = append(out, person{fit(mailName(a), 60, 90), fit(address, 80, 90), pathCompose + "?to=" + url.QueryEscape(clip(address, 80))})
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
		// Who may not keep it, of a mail file of others, reads all the same.
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
	p := &readPage{frame: fr, ID: l.id.String(), Folder: here.String(), Date: l.date, Size: size(float64(l.size)), Thread: l.near, ThreadCount: l.messages}
	p.Subject = fit(subjectOf(l.env), maxTitle, maxTitle)
	if p.Subject == "" {
		p.Subject = v.T("noSubject")
	}
	p.Title = clip(p.Subject, 80)
	if p.SentOnBy, err = v.sentOnBy(l); err != nil {
		return err
	}
	p.Flagged, p.Draft = l.has(mailbox.Flagged), l.has(mailbox.Draft)
	if sent, ok := wiremime.ParseDate(l.env.Date); ok {
		p.Date = sent
	}
	v.readHead(p, l)
	for i := range folders {
		f := &folders[i]
		if f.UNID == here {
			p.Trash, p.Junk = f.SpecialUse == "Trash", f.SpecialUse == "Junk"
			p.May = rights{f.Rights&note.Write != 0, f.Rights&note.DeleteMark != 0, true}
		} else if f.Rights&note.Insert != 0 && len(p.Targets) < maxTargets {
			p.Targets = append(p.Targets, target{f.UNID.String(), fit(v.fullName(f), 40, 60)})
		}
	}
	if err := v.readBody(p, l); err != nil {
		return err
	}
	if err := v.readFiles(p, l); err != nil {
		return err
	}
	if p.Wide = v.form.Get("print") != ""; p.Wide {
		p.Nav = nil
	}
	v.toldOf(p.frame)
	v.s.show(v.w, http.StatusOK, "read.html", p)
	return nil
}

// readHead fills in who wrote to whom, and where a reader can go from here.
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
		"reply": v.at(pathCompose, "re", p.ID, "kind", "reply"), "all": v.at(pathCompose, "re", p.ID, "kind", "all"), "forward": v.at(pathCompose, "re", p.ID, "kind", "forward"),
		"source": v.at(pathSource, "m", p.ID), "draft": v.at(pathCompose, "draft", p.ID), "print": v.at(pathRead, "m", p.ID, "print", "1"), "list": v.at(Path, "f", p.Folder),
		"save": v.at(pathSource, "m", p.ID, "save", "1"), "redirect": v.at(pathRedirect, "m", p.ID),
	}
}

// readBody makes the text of the message, and shows the piece that is asked for.
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

// shower makes markup of a message's parts.
type shower struct {
	v        *visit
	l        *letter
	room     int  // bytes of a piece
	pictures bool // those of other servers too
	plain    bool
	blocked  bool // some were left out
	inline   map[string]string
	pieces   []string
}

// add takes pieces; a short one goes on where the last one has room.
func (w *shower) add(list []string) {
	for _, s := range list {
		if k := len(w.pieces); k > 0 && len(w.pieces[k-1])+len(s) <= w.room {
			w.pieces[k-1] += s
		} else if k < maxPieces {
			w.pieces = append(w.pieces, s)
		}
	}
}

func (w *shower) part(p *wiremime.Part) error {
	o := &safehtml.Options{Piece: w.room, Pieces: maxPieces, Link: link, Picture: w.picture}
	switch {
	case p.Type == "text":
		text, err := w.l.text(p, maxShown)
		if err != nil {
			return err
		}
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
		w.add(safehtml.Clean(`<p><img src="cid:`+w.l.places[p]+`" alt=""></p>`, &safehtml.Options{Picture: func(src string) string {
			return w.v.at(pathPart, "m", w.l.id.String(), "s", strings.TrimPrefix(src, "cid:"), "show", "1")
		}}))
	}
	return nil
}

// link has mail written here.
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

// readFiles lists the attachments, a page of them at a time.
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
