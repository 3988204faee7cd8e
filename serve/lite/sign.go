package lite

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/serve/signin"
	"doublet/serve/websession"
)

// signInPage is the page to sign in. Kept holds the fields of a message that was being written when the session ended.
type signInPage struct {
	*frame
	User, To string
	Code     bool
	Kept     []field
	// Issuer is the name of the issuer at which people may sign in, "" without one.
	Issuer string
}

// signIn returns the content of the sign-in page. to is the path to go to afterwards.
func (v *visit) signIn(to string) *signInPage {
	return &signInPage{frame: v.frame("signIn"), To: to, Issuer: v.s.session.IssuerName()}
}

// field is a form field to pass on to the next form.
type field struct{ Name, Value string }

// keptFields lists the fields of a message that are preserved during a sign-in.
var keptFields = []string{"b", "draft", "re", "kind", "identity", "to", "cc", "bcc", "subject", "text", "file"}

// keptPrefix is put before their names during the sign-in, because "to" is also the target address.
const keptPrefix = "kept-"

func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	v := s.visit(w, r)
	s.show(w, http.StatusOK, "signin.html", v.signIn(localPath(r.URL.Query().Get("to"))))
}

// localPath returns to if it is a path of this client, or "".
func localPath(to string) string {
	if len(to) > 4000 || !strings.HasPrefix(to, Path) || strings.ContainsFunc(to,
		func(c rune) bool { return c == '\\' || c < ' ' || c == 0x7f }) {
		return ""
	}
	return to
}

// signInError returns the key of the text for a failed sign-in.
func signInError(err error) string {
	switch {
	case errors.Is(err, signin.ErrCode), errors.Is(err, signin.ErrWrongCode):
		return "codeNeeded"
	case errors.Is(err, signin.ErrBanned), errors.Is(err, signin.ErrBusy):
		return "tooMany"
	case errors.Is(err, websession.ErrClear):
		return "tlsOnly"
	case errors.Is(err, websession.ErrForeign):
		return "formOld"
	}
	if status, _ := websession.Why(err); status == http.StatusServiceUnavailable {
		return "tryLater"
	}
	return "wrongPassword"
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	v := s.visit(w, r)
	var err error
	v.form, err = s.readForm(w, r, nil, 2*maxForm)
	defer v.form.release()
	if err != nil {
		v.refuse(err)
		return
	}
	f := v.form
	shown := websession.Shown{User: f.line("user"), Password: f.Get("password"), Code: f.line("code"),
		Keep: f.Get("keep") != ""}
	id, err := s.session.SignIn(w, r, shown)
	var elsewhere *directory.ElsewhereError
	if errors.As(err, &elsewhere) && elsewhere.Door("web") != "" {
		http.Redirect(w, r, elsewhere.Door("web")+Path, http.StatusSeeOther)
		return
	}
	if err != nil {
		status, _ := websession.Why(err)
		p := v.signIn(localPath(f.Get("to")))
		p.User, p.Code = shown.User, true
		for _, name := range keptFields {
			for _, value := range f.Values[keptPrefix+name] {
				p.Kept = append(p.Kept, field{keptPrefix + name, value})
			}
		}
		p.say(signInError(err), true)
		s.show(w, status, "signin.html", p)
		return
	}
	if !f.Has(keptPrefix + "text") {
		to := localPath(f.Get("to"))
		if to == "" {
			to = Path
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	s.opt.Serve(w, s.keptRequest(r, f, id))
}

// keptRequest returns a request with the preserved fields, to be handled by the server of the user's mail file.
func (s *Server) keptRequest(r *http.Request, f *form, id *websession.Identity) *http.Request {
	csrf := s.session.CSRF(id)
	letter := url.Values{"csrf": {csrf}}
	for _, name := range keptFields {
		letter[name] = f.Values[keptPrefix+name]
	}
	body := letter.Encode()
	out := websession.Proved(r.Clone(r.Context()), &id.Account, id.Credential, csrf)
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery, out.RequestURI = pathKept, "", "", pathKept
	out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out.Header.Del("Content-Length")
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(strings.NewReader(body)), int64(len(body)), nil
	out.Form, out.PostForm, out.MultipartForm = nil, nil, nil
	return out
}

// askWho shows the sign-in page after a request without a valid session. It preserves what the user wrote.
func (s *Server) askWho(v *visit, err error, f *form) {
	status, _ := websession.Why(err)
	p := v.signIn(Path)
	key := signInError(err)
	if errors.Is(err, websession.ErrNobody) {
		key = "formOld"
	}
	if f != nil && v.r.URL.Path == pathCompose {
		for _, name := range keptFields {
			for _, value := range f.Values[name] {
				p.Kept = append(p.Kept, field{keptPrefix + name, value})
			}
		}
		if slices.ContainsFunc(p.Kept, func(x field) bool { return x.Value != "" }) {
			key = "signedOut"
		}
	}
	if f != nil && v.r.URL.Path == pathRedirect {
		p.To = localPath(redirectAgain(f))
	}
	p.say(key, true)
	s.show(v.w, status, "signin.html", p)
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	v := s.visit(w, r)
	var err error
	if v.form, err = s.readForm(w, r, nil, maxForm); err == nil {
		err = s.session.SignOut(w, r, v.form.Get("csrf"))
	}
	v.form.release()
	if err != nil {
		s.askWho(v, err, nil)
		return
	}
	http.Redirect(w, r, pathSignIn, http.StatusSeeOther)
}
