package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"doublet/bench/workload"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The pages of the lite mode.
const (
	litePath    = "/lite/"
	liteSignIn  = litePath + "sign-in"
	liteCompose = litePath + "compose"
)

// maxLitePage is the size limit of a page of the lite mode, in bytes (doc/web.md).
const maxLitePage = 30_000

// liteSession is a user in the lite mode. Like a browser without scripts it gets pages and submits forms, and each
// action starts at the page that is shown.
type liteSession struct {
	*browser
	u *User

	page  *html.Node // the page that is shown
	path  string     // its path
	where liteKind
	inbox string // address of the INBOX
	older string // address of the list's next page, "" for none
	at    string // address of the last list that was shown

	known  []string // ids of the listed messages of the INBOX, newest last
	unread []string
	hrefs  map[string]string // address of the page of each message
	shown  []string          // ids in the shown list, to which actions apply
	last   string            // address of the reply form of the last message read
}

// liteKind is the kind of a page.
type liteKind int

const (
	liteOther liteKind = iota
	liteList
	liteRead
)

// openLite opens the sign-in page and signs in; the answer is the INBOX.
func (w *World) openLite(ctx context.Context, u *User) (Session, Traffic, error) {
	b, err := w.newBrowser()
	if err != nil {
		return nil, Traffic{}, err
	}
	s := &liteSession{browser: b, u: u, hrefs: make(map[string]string)}
	ctx, end := w.until(ctx)
	defer end()
	if err := s.login(ctx); err != nil {
		b.close()
		return nil, b.n.traffic(), err
	}
	return s, b.n.traffic(), nil
}

func (s *liteSession) login(ctx context.Context) error {
	if err := s.get(ctx, liteSignIn+"?to=%2Flite%2F"); err != nil {
		return err
	}
	if err := s.dress(ctx); err != nil {
		return err
	}
	f := formWith(s.page, "", "")
	if f == nil || !f.set("user", s.u.Name) || !f.set("password", s.u.Password) {
		return fmt.Errorf("%w: no form to sign in", ErrProtocol)
	}
	if err := s.post(ctx, f); err != nil {
		return err
	}
	s.known, s.unread = s.known[:0], s.unread[:0]
	return s.listed()
}

// dress gets the style sheet and the icon of the pages, and the font that the sheet names.
func (s *liteSession) dress(ctx context.Context) error {
	for _, n := range findAll(s.page, is(atom.Link, "")) {
		if rel := attribute(n, "rel"); rel != "stylesheet" && rel != "icon" {
			continue
		}
		got, err := s.file(ctx, attribute(n, "href"))
		if err != nil {
			return err
		}
		if got == nil || attribute(n, "rel") != "stylesheet" {
			continue
		}
		text, err := got.text()
		if err != nil {
			return err
		}
		for _, m := range sheetURL.FindAllSubmatch(text, -1) {
			if _, err := s.file(ctx, string(m[1])); err != nil {
				return err
			}
		}
	}
	return nil
}

// get shows a page.
func (s *liteSession) get(ctx context.Context, to string) error {
	got, err := s.fetch(ctx, http.MethodGet, to, pageHeader(""), nil)
	if err != nil {
		return err
	}
	return s.show(got, strings.HasPrefix(to, liteSignIn))
}

// post submits a form and shows the resulting page.
func (s *liteSession) post(ctx context.Context, f *form) error {
	body, kind, err := f.body()
	if err != nil {
		return err
	}
	got, err := s.fetch(ctx, http.MethodPost, f.action, pageHeader(kind), body)
	if err != nil {
		return err
	}
	return s.show(got, false)
}

// show parses a page and checks it: it belongs to this mode, the user is signed in (unless asks is set), it is not
// larger than maxLitePage, and it reports no failure.
func (s *liteSession) show(got *fetched, asks bool) error {
	text, err := got.text()
	if err != nil {
		return err
	}
	page, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	main := find(page, is(atom.Main, ""))
	said := find(main, is(atom.Div, "said"))
	s.page, s.path, s.where = page, got.at.Path, liteOther
	askedWho := find(page, func(n *html.Node) bool {
		return n.DataAtom == atom.Input && attribute(n, "type") == "password"
	}) != nil
	switch {
	case main == nil:
		return fmt.Errorf("%w: %d, and no page of the lite mode", ErrProtocol, got.status)
	case askedWho && !asks:
		return &Farewell{"signed out: " + words(said)}
	case got.status != http.StatusOK || said != nil && ofClass(said, "bad"):
		return &Refusal{strings.TrimSpace(fmt.Sprintf("%d %s", got.status, words(said)))}
	case len(text)-written(page) > maxLitePage:
		return &Refusal{"a page over 30 KB"}
	}
	switch {
	case got.at.Path == litePath:
		s.where, s.at = liteList, got.at.RequestURI()
	case find(main, is(atom.Article, "mail")) != nil:
		s.where = liteRead
	}
	return nil
}

// written returns the length of the editable text in a page. It does not count as page size, because a reply quotes the
// whole message.
func written(page *html.Node) (n int) {
	for _, x := range findAll(page, is(atom.Textarea, "")) {
		if x.FirstChild != nil {
			n += len(html.EscapeString(x.FirstChild.Data))
		}
	}
	return n
}

// listed reads the shown list.
func (s *liteSession) listed() error {
	if s.where != liteList {
		return fmt.Errorf("%w: no list", ErrProtocol)
	}
	if s.inbox == "" {
		first := find(find(s.page, is(atom.Nav, "")), is(atom.A, ""))
		if first == nil {
			return fmt.Errorf("%w: a list without folders", ErrProtocol)
		}
		s.inbox = attribute(first, "href")
	}
	s.shown, s.older = s.shown[:0], ""
	rows := findAll(find(s.page, is(atom.Ul, "rows")), is(atom.Li, ""))
	for i := len(rows) - 1; i >= 0; i-- { // newest last, since it is read first
		box, link := find(rows[i], is(atom.Input, "")), find(rows[i], is(atom.A, ""))
		if box == nil || link == nil || attribute(box, "value") == "" {
			return fmt.Errorf("%w: a row without a message", ErrProtocol)
		}
		s.learn(attribute(box, "value"), attribute(link, "href"), ofClass(rows[i], "unread"))
	}
	if links := findAll(find(s.page, is(atom.Div, "pages")), is(atom.A, "")); len(links) > 0 {
		// The last link leads to the next page, unless it leads to the previous one.
		if last := links[len(links)-1]; !strings.HasPrefix(words(last), "‹") {
			s.older = attribute(last, "href")
		}
	}
	return nil
}

func (s *liteSession) learn(id, href string, unread bool) {
	s.forget(id)
	s.shown = append(s.shown, id)
	s.known, s.hrefs[id] = append(s.known, id), href
	if unread {
		s.unread = append(s.unread, id)
	}
	if len(s.known) > maxKnown {
		s.forget(s.known[0])
	}
}

func (s *liteSession) forget(id string) {
	gone := func(x string) bool { return x == id }
	s.known, s.unread, s.shown = slices.DeleteFunc(s.known, gone), slices.DeleteFunc(s.unread,
		gone), slices.DeleteFunc(s.shown, gone)
	delete(s.hrefs, id)
}

// Do implements Session.
func (s *liteSession) Do(ctx context.Context, p *workload.Planned) (Traffic, error) {
	ctx, end := s.w.until(ctx)
	defer end()
	err := s.do(ctx, p)
	return s.n.traffic(), err
}

func (s *liteSession) do(ctx context.Context, p *workload.Planned) error {
	switch p.Do {
	case workload.Open, workload.Poll:
		return s.list(ctx, s.inbox)
	case workload.Scroll:
		return s.scroll(ctx)
	case workload.Read:
		return s.read(ctx, p.Pick)
	case workload.Update:
		return s.act(ctx, p.Pick, "flag")
	case workload.Move:
		return s.act(ctx, p.Pick, "move")
	case workload.Delete:
		return s.act(ctx, p.Pick, "delete")
	case workload.Send, workload.Reply, workload.Add:
		return s.send(ctx, p)
	case workload.Lookup:
		return s.lookup(ctx, p)
	case workload.Calendar, workload.Appointment, workload.Invite, workload.RSVP:
		return s.planned(ctx, p)
	case workload.Login:
		return s.login(ctx)
	}
	return fmt.Errorf("drive: the lite mode does not carry %s", p.Do)
}

// list shows a page of the INBOX.
func (s *liteSession) list(ctx context.Context, to string) error {
	if err := s.get(ctx, to); err != nil {
		return err
	}
	return s.listed()
}

// scroll shows the page after the last list that was shown.
func (s *liteSession) scroll(ctx context.Context) error {
	if s.older == "" {
		return s.list(ctx, s.inbox)
	}
	return s.list(ctx, s.older)
}

// toList goes back to the list. A browser requests it again, because pages of mail are not cached.
func (s *liteSession) toList(ctx context.Context) error {
	if s.where == liteList {
		return nil
	}
	return s.list(ctx, s.at)
}

// read goes back to the list if another page is shown, and opens the newest unread message, or any message if all are
// read.
func (s *liteSession) read(ctx context.Context, pick uint64) error {
	if err := s.toList(ctx); err != nil {
		return err
	}
	if len(s.known) == 0 {
		return ErrNothing
	}
	id := s.known[pick%uint64(len(s.known))]
	if n := len(s.unread); n > 0 {
		id = s.unread[n-1]
	}
	s.unread = slices.DeleteFunc(s.unread, func(x string) bool { return x == id })
	if err := s.get(ctx, s.hrefs[id]); err != nil {
		var refused *Refusal
		if errors.As(err, &refused) {
			s.forget(id) // the server listed it but does not return it, so it was not read
		}
		return err
	}
	body := find(s.page, is(atom.Div, "body"))
	if s.where != liteRead || words(body) == "" {
		return &Refusal{"a message without its text"}
	}
	s.last = ""
	if reply := find(find(s.page, is(atom.P, "bar")), is(atom.A, "primary")); reply != nil {
		s.last = attribute(reply, "href")
	}
	return nil
}

// act applies an action to the message that is shown, or else to one of the list. A message that leaves the INBOX must
// not be listed again.
func (s *liteSession) act(ctx context.Context, pick uint64, do string) error {
	f := formWith(s.page, "do", do)
	reading := s.where == liteRead && f != nil
	if !reading {
		if err := s.toList(ctx); err != nil {
			return err
		}
		if f = formWith(s.page, "do", do); f == nil || len(s.shown) == 0 {
			return ErrNothing
		}
		f.add("m", s.shown[pick%uint64(len(s.shown))])
	}
	id := ""
	for _, x := range f.fields {
		if x.name == "m" {
			id = x.value
		}
	}
	if do == "move" {
		to := archiveOf(s.page)
		if to == "" {
			return &Refusal{"no folder to file into"}
		}
		f.set("to", to)
	}
	if err := s.post(ctx, f); err != nil {
		return err
	}
	if find(s.page, is(atom.Div, "said")) == nil {
		return &Refusal{"it does not say what it did"}
	}
	if do == "flag" {
		return nil
	}
	s.forget(id)
	if err := s.listed(); err != nil {
		return err
	}
	if slices.Contains(s.shown, id) {
		return &Refusal{"what was taken away is listed still"}
	}
	return nil
}

// archiveOf returns the folder Archive among the folders to which a page can move messages.
func archiveOf(page *html.Node) string {
	options := findAll(find(page, func(n *html.Node) bool {
		return n.DataAtom == atom.Select && attribute(n, "name") == "to"
	}), is(atom.Option, ""))
	for _, o := range options {
		if words(o) == "Archive" {
			return attribute(o, "value")
		}
	}
	return ""
}

// Close implements Session.
func (s *liteSession) Close() error {
	s.close()
	return nil
}
