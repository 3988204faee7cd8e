// Package lite implements a web client without scripts: pages rendered by the server for any browser, even w3m and
// lynx. It uses the same services as the mail servers, and every page is a few kilobytes of HTML.
//
// Pages that change nothing use GET. Changes use POST forms with the session's CSRF token (package websession). Package
// safehtml sanitizes HTML messages, and nothing is loaded from other servers unless the reader asks for it.
package lite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"

	"doublet/calendar/itip"
	"doublet/client/bimi"
	"doublet/client/oneclick"
	"doublet/directory"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/serve/speech"
	"doublet/serve/websession"
	"doublet/stat"
	"doublet/store"
	"doublet/web"
)

// Path is the root of the pages. The other paths are below it.
const (
	Path         = "/lite/"
	pathSignIn   = Path + "sign-in"
	pathSignOut  = Path + "sign-out"
	pathAct      = Path + "act"
	pathRead     = Path + "read"
	pathPart     = Path + "part"
	pathSource   = Path + "source"
	pathLogo     = Path + "logo"
	pathCompose  = Path + "compose"
	pathRedirect = Path + "redirect"
	pathKept     = Path + "kept"
	pathDeleted  = Path + "deleted"
	pathFolders  = Path + "folders"
	pathSettings = Path + "settings"
	pathRules    = Path + "rules"
	pathCalendar = Path + "calendar"
	pathEvent    = Path + "event"
	pathContacts = Path + "contacts"
	pathContact  = Path + "contact"
	pathFeeds    = Path + "feeds"
	pathTasks    = Path + "tasks"
	pathTask     = Path + "task"
	pathStyle    = Path + "style.css"
)

//go:embed pages/*.html style.css
var files embed.FS

// The Content-Security-Policy of the pages. They use no scripts or inline styles, only the style sheet of this server.
// A page may load images from other servers if the reader asks for it.
const (
	policy = "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
	policyPictures = "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self' https: http:; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	policyForeign = "sandbox; default-src 'none'"
)

// maxForm bounds a form without files, in bytes.
const maxForm = 1 << 20

// Options holds the settings of a Server.
type Options struct {
	// Recipients is the most recipients of a message (limits.recipients; default 1000).
	Recipients int
	// Memory bounds the messages in flight (default: a budget of 256 MB).
	Memory *listen.Budget
	// Serve handles a request of a user who has just signed in (websession.Proved), on the server of their mail file.
	// If nil, that is always this server.
	Serve func(http.ResponseWriter, *http.Request)
	// Lists leaves mailing lists by one request; if nil, that is not offered. Hostname is the authserv-id of the
	// Authentication-Results fields that this server writes.
	Lists    *oneclick.Client
	Hostname string
	// Logos looks up the logos of senders; nil disables them.
	Logos *bimi.Cache
	// Feeds publishes calendars, Sources shows the feeds of other servers as calendars. Without them there is no page
	// for either.
	Feeds   *feed.Publisher
	Sources *feed.Subscriber
	Stats   *stat.Tree
}

// Services are the services that the pages use.
type Services struct {
	Directory  *directory.Directory
	Mailbox    *mailbox.Service
	Mail       *mail.Service
	Groupware  *groupware.Service
	Scheduling *scheduling.Service
}

// Server is the HTTP handler of the lite client.
type Server struct {
	env       *env.Env
	opt       Options
	session   *websession.Service
	dir       *directory.Directory
	files     *mailbox.Service
	mail      *mail.Service
	plans     *groupware.Service
	invites   *scheduling.Service
	mux       *http.ServeMux
	templates *template.Template
	style     []byte
	styleName string

	pages *stat.Counter
	trans *stat.Rate
	users *stat.Active
}

// New returns a Server.
func New(e *env.Env, x *websession.Service, on Services, o Options) *Server {
	if o.Memory == nil {
		o.Memory = listen.NewBudget(256 << 20)
	}
	if o.Recipients <= 0 {
		o.Recipients = 1000
	}
	s := &Server{env: e, opt: o, session: x, dir: on.Directory, files: on.Mailbox, mail: on.Mail, plans: on.Groupware,
		invites: on.Scheduling, mux: http.NewServeMux()}
	if s.opt.Serve == nil {
		s.opt.Serve = s.mux.ServeHTTP
	}
	s.templates = template.Must(template.New("").ParseFS(files, "pages/*.html"))
	s.style = makeStyle()
	sum := sha256.Sum256(s.style)
	s.styleName = pathStyle + "?" + hex.EncodeToString(sum[:6])
	s.pages = o.Stats.Counter("Lite.Pages", "pages of the lite mode")
	s.trans = o.Stats.Rate("Server.Trans", "transactions")
	s.users = o.Stats.Active("Server.Users", "users")
	s.mux.HandleFunc("GET "+pathStyle, s.serveStyle)
	s.mux.HandleFunc("GET "+pathSignIn, s.signInPage)
	s.mux.HandleFunc("POST "+pathSignIn, s.signIn)
	s.mux.HandleFunc("POST "+pathSignOut, s.signOut)
	s.get(Path+"{$}", (*visit).list)
	s.get(pathRead, (*visit).read)
	s.get(pathPart, (*visit).part)
	s.get(pathSource, (*visit).source)
	s.get(pathLogo, (*visit).logo)
	s.get(pathCompose, (*visit).compose)
	s.get(pathRedirect, (*visit).redirect)
	s.get(pathDeleted, (*visit).deleted)
	s.get(pathFolders, (*visit).folders)
	s.get(pathSettings, (*visit).settings)
	s.get(pathRules, (*visit).rules)
	s.get(pathCalendar, (*visit).calendar)
	s.get(pathEvent, (*visit).event)
	s.get(pathContacts, (*visit).contacts)
	s.get(pathContact, (*visit).contact)
	s.get(pathFeeds, (*visit).feeds)
	s.get(pathTasks, (*visit).tasks)
	s.get(pathTask, (*visit).taskPage)
	s.post(pathAct, maxForm, (*visit).act)
	s.post(pathKept, 2*maxForm, (*visit).kept)
	s.post(pathCompose, int64(s.files.MessageSize())+maxForm, (*visit).composed)
	s.post(pathRedirect, maxForm, (*visit).redirected)
	s.post(pathDeleted, maxForm, (*visit).restore)
	s.post(pathFolders, maxForm, (*visit).changeFolders)
	s.post(pathSettings, maxForm, (*visit).changeSettings)
	s.post(pathRules, maxForm, (*visit).changeRules)
	s.post(pathEvent, groupware.MaxAttachment+maxForm, (*visit).changeEvent)
	s.post(pathContact, maxForm, (*visit).changeContact)
	s.post(pathFeeds, maxForm, (*visit).changeFeeds)
	s.post(pathTask, maxForm, (*visit).changeTask)
	s.mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		p := s.visit(w, r).frame("")
		p.say("notFound", true)
		s.show(w, http.StatusNotFound, "plain.html", p)
	})
	return s
}

// OfNobody reports whether a path serves no user's mail: signing in and out, and the style sheet.
func OfNobody(path string) bool {
	return path == pathStyle || path == pathSignIn || path == pathSignOut
}

// ServeHTTP implements http.Handler. It serves the paths that begin with Path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // without a referrer, browsers send forms with "Origin: null"
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(w, r)
}

func makeStyle() []byte {
	own, err := files.ReadFile("style.css")
	if err != nil {
		panic(err) // embedded above
	}
	return []byte(web.Sheet(string(own)))
}

func (s *Server) serveStyle(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=31536000, immutable") // the name contains a hash of the content
	_, _ = w.Write(s.style)
}

// visit is one request.
type visit struct {
	*speech.Speech
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	id   *websession.Identity
	form *form // the posted form, or the query of a GET
	box  *box  // the selected mail file
	// letters caches the messages that a form refers to.
	letters map[reference]*letter
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{Speech: speech.Of(r, s.env.Clock.Now()), s: s, w: w, r: r, ctx: r.Context()}
}

// get registers a page that changes nothing, except that reading marks messages as seen.
func (s *Server) get(path string, fn func(*visit) error) {
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		id, err := s.session.Identify(r)
		v.form = &form{Values: r.URL.Query(), mem: s.share(id)}
		defer v.form.release()
		if err == nil && id.Session.ID.IsZero() {
			err = websession.ErrNobody // credentials of programs are not accepted here
		}
		if errors.Is(err, websession.ErrNobody) {
			http.Redirect(w, r, pathSignIn+"?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		}
		if err != nil {
			s.askWho(v, err, nil)
			return
		}
		v.enter(id, fn)
	})
}

// post registers a form of at most most bytes. If the user is no longer signed in, the sign-in page preserves what they
// wrote.
func (s *Server) post(path string, most int64, fn func(*visit) error) {
	s.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		var broken error
		limit := most
		sender, err := s.session.Browser(r)
		if errors.Is(err, websession.ErrNobody) {
			limit = min(most, 2*maxForm) // only text, to continue after the sign-in: no files without a session
		}
		v.form, broken = s.readForm(w, r, sender, limit)
		defer v.form.release()
		id, err := s.session.IdentifyForm(r, v.form.Get("csrf"))
		switch {
		case err != nil && (broken == nil || v.form.Has("csrf")):
			s.askWho(v, err, v.form)
		case broken != nil && (err != nil || path != pathCompose):
			v.refuse(broken)
		case broken != nil: // show the message again, with the fields read before it grew too large
			v.enter(id, func(v *visit) error { return v.unfinished(nil, broken) })
		default:
			v.enter(id, fn)
		}
	})
}

func (v *visit) enter(id *websession.Identity, fn func(*visit) error) {
	v.id = id
	v.s.pages.Inc()
	v.s.trans.Inc()
	v.s.users.Touch(id.Who.Person)
	err := v.openBox(v.form.Get("b"))
	if errors.Is(err, errNotFound) && v.r.Method == http.MethodPost && v.r.URL.Path == pathCompose {
		err = v.openBox("") // text must not be lost because the share of another person's mail file ended
	}
	if err == nil {
		err = fn(v)
	}
	if err != nil {
		v.refuse(err)
	}
}

// box is a mail file that the user can access.
type box struct {
	*mailbox.File
	ID   string // "" for the user's own
	Name string
	db   note.DatabaseID
}

var (
	errNotFound = errors.New("lite: not found")
	errForm     = errors.New("lite: the form cannot be read")
	// errTime rejects a time that is not in the future, or too far in it.
	errTime  = errors.New("lite: not a time in the future")
	errLarge = errors.New("lite: the form is too large")
	// errLongDraft reports a draft with more text than a form may have.
	errLongDraft = errors.New("lite: the draft is too long")
	// errStandardBelow rejects moving or deleting a folder together with a standard folder.
	errStandardBelow = errors.New("lite: a standard folder is below")
)

// openBox selects a mail file by its id, from the user's own and those shared with them.
func (v *visit) openBox(id string) error {
	all, err := v.boxes()
	for _, b := range all {
		if err == nil && b.ID == id {
			v.box = b
			return nil
		}
	}
	if err == nil {
		err = errNotFound
	}
	return err
}

// boxes returns the mail files that the user can access, their own first.
func (v *visit) boxes() (list []*box, err error) {
	if v.id.Database != 0 {
		list = append(list, &box{v.s.files.File(v.id.Who, v.id.Database), "", v.id.Name, v.id.Database})
	}
	shares, err := v.s.files.Shares(v.id.Who, v.id.Database)
	for i := range shares {
		x := &shares[i]
		name := x.Title
		if !x.Owner.IsZero() {
			if name, err = v.s.dir.Names.NameOf(v.ctx, x.Owner); err != nil {
				err = nil
				continue // skip: an owner who was removed for good has no name to show
			}
		}
		list = append(list, &box{v.s.files.File(v.id.Who, x.ID), x.ID.String(), name, x.ID})
	}
	return list, err
}

// refuse shows an error page.
func (v *visit) refuse(err error) {
	status, key := refusal(err)
	p, most := v.frame(""), v.s.files.MessageSize()
	if v.r.URL.Path == pathEvent {
		most = groupware.MaxAttachment
	}
	p.say(key, true, size(float64(most)))
	if status == http.StatusServiceUnavailable && v.ctx.Err() == nil {
		v.s.env.Log.Error("lite: page failed", "path", v.r.URL.Path, "error", err)
	}
	v.s.show(v.w, status, "plain.html", p)
}

// refusal returns the HTTP status of an error, and the key of the text for the user.
func refusal(err error) (status int, key string) {
	for _, c := range []struct {
		err    error
		status int
		key    string
	}{
		{errNotFound, http.StatusNotFound, "notFound"}, {mailbox.ErrNoMessage, http.StatusNotFound, "notFound"},
		{mailbox.ErrNoFolder, http.StatusNotFound, "notFound"},
		{store.ErrNotFound, http.StatusNotFound, "notFound"}, {store.ErrDenied, http.StatusForbidden, "notAllowed"},
		{errForm, http.StatusBadRequest, "badRequest"},
		{errLarge, http.StatusRequestEntityTooLarge, "tooLarge"},
		{errLongDraft, http.StatusRequestEntityTooLarge, "longDraft"},
		{mailbox.ErrTooBig, http.StatusRequestEntityTooLarge, "tooLarge"},
		{mailbox.ErrFolderExists, http.StatusConflict, "folderExists"},
		{mailbox.ErrBadName, http.StatusBadRequest, "badFolderName"},
		{mailbox.ErrLimit, http.StatusConflict, "limitReached"},
		{errTime, http.StatusUnprocessableEntity, "aside.badTime"},
		{mailbox.ErrSender, http.StatusUnprocessableEntity, "senders.badSender"},
		{errStandardBelow, http.StatusConflict, "holdsStandardFolder"},
		{mailbox.ErrHasChildren, http.StatusConflict, "hasFolders"},
		{directory.ErrInvalid, http.StatusBadRequest, "badRequest"},
		{groupware.ErrNoEntry, http.StatusNotFound, "notFound"},
		{groupware.ErrNoCollection, http.StatusNotFound, "notFound"},
		{groupware.ErrChanged, http.StatusConflict, "calChanged"},
		{groupware.ErrTooLarge, http.StatusRequestEntityTooLarge, "calTooLarge"},
		{groupware.ErrAttachments, http.StatusConflict, "calTooManyFiles"},
		{groupware.ErrFull, http.StatusInsufficientStorage, "calFull"},
		{itip.ErrNotAllowed, http.StatusForbidden, "calOrganizers"},
		{itip.ErrTooMany, http.StatusBadRequest, "calTooMany"},
	} {
		if errors.Is(err, c.err) {
			return c.status, c.key
		}
	}
	c, _ := condition.Of(err)
	return c.HTTP, c.Text
}

// show renders a page.
func (s *Server) show(w http.ResponseWriter, status int, name string, p any) {
	var b bytes.Buffer
	if err := s.templates.ExecuteTemplate(&b, name, p); err != nil {
		s.env.Log.Error("lite: page failed", "page", name, "error", err)
		http.Error(w, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	if name == "compose.html" {
		w.Header().Set("Cache-Control", "private, no-cache") // the browser's back button then shows what the user typed
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = listen.WritePaced(s.env, w, b.Bytes())
}

// leave redirects to another page, so that a reload does not send the form again.
func (v *visit) leave(path string, query ...string) error {
	http.Redirect(v.w, v.r, v.at(path, query...), http.StatusSeeOther)
	return nil
}

// at returns the address of a page in the selected mail file. query holds names and values in turn; empty values are
// skipped.
func (v *visit) at(path string, query ...string) string {
	q := url.Values{}
	if v.box != nil && v.box.ID != "" {
		q.Set("b", v.box.ID)
	}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			q.Set(query[i], query[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// unid parses an id in a form or query.
func unid(s string) (note.UNID, error) {
	u, err := note.ParseUNID(s)
	if err != nil || u.IsZero() {
		return u, errNotFound
	}
	return u, nil
}
