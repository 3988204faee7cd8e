package jmapd

import (
	"context"
	"net/http"
	"slices"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// capabilities are those that a request may be using.
var capabilities = []string{jmap.Core, jmap.Mail, jmap.SubmissionURN, jmap.VacationResponse, jmap.Quota, jmap.Blob, jmap.MDN, jmap.WebSocket, jmap.WebPushVAPID}

// ofPush are those of them that pushes announce, see OpenPush; accounts do not have them.
var ofPush = []string{jmap.WebSocket, jmap.WebPushVAPID}

// wellKnown leads to the session object.
//
// Implements: RFC 8620 §2.2 Service autodiscovery
func (s *Server) wellKnown(w http.ResponseWriter, r *http.Request, _ *Caller) {
	w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	http.Redirect(w, r, s.base(r)+PathSession, http.StatusTemporaryRedirect)
}

// base is the URL under which the client reaches the paths.
func (s *Server) base(r *http.Request) string {
	if s.opt.Base != nil {
		return s.opt.Base(r)
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host
}

// session gives the session object.
//
// Implements: RFC 8620 §2 The JMAP Session resource
func (s *Server) session(w http.ResponseWriter, r *http.Request, c *Caller) {
	if p := s.refresh(r.Context(), c); p != nil {
		s.refuse(w, p)
		return
	}
	out, err := s.appendSession(nil, r.Context(), c, s.base(r))
	if err != nil {
		s.env.Log.Error("jmap: session object cannot be made", "person", c.Name, "error", err)
		s.refuse(w, &jmap.Problem{Type: jmap.ProblemBlank, Status: 503, Title: "Service Unavailable"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	_, _ = w.Write(out)
}

// object prints members of an object, with commas between.
type object struct {
	b     []byte
	first bool
}

func newObject(dst []byte) object { return object{append(dst, '{'), true} }

// name begins a member.
func (o *object) name(n string) {
	if !o.first {
		o.b = append(o.b, ',')
	}
	o.first = false
	o.b = append(append(append(o.b, '"'), n...), '"', ':')
}

func (o *object) text(n, s string) { o.name(n); o.b = jmap.AppendString(o.b, s) }

func (o *object) number(n string, v uint64) { o.name(n); o.b = jmap.AppendUint(o.b, v) }

func (o *object) bool(n string, on bool) { o.name(n); o.b = jmap.AppendBool(o.b, on) }

func (o *object) raw(n, json string) { o.name(n); o.b = append(o.b, json...) }

func (o *object) list(n string, list ...string) { o.name(n); o.b = jmap.AppendStrings(o.b, list) }

func (o *object) end() []byte { return append(o.b, '}') }

func (s *Server) appendSession(dst []byte, ctx context.Context, c *Caller, base string) ([]byte, error) {
	o := newObject(dst)
	o.name("capabilities")
	o.b = s.appendCapabilities(o.b, base)
	accounts, err := s.Accounts(ctx, c)
	if err != nil {
		return nil, err
	}
	o.name("accounts")
	in := newObject(o.b)
	for _, a := range accounts {
		if err := s.appendAccount(&in, ctx, a); err != nil {
			return nil, err
		}
	}
	o.b = in.end()
	o.name("primaryAccounts")
	in = newObject(o.b)
	if c.Database != 0 {
		for _, u := range capabilities {
			if !slices.Contains(ofPush, u) {
				in.text(u, accountID(c.Database))
			}
		}
	}
	o.b = in.end()
	name := c.Address
	if name == "" {
		name = c.Name
	}
	o.text("username", name)
	o.text("apiUrl", base+PathAPI)
	o.text("downloadUrl", base+PathDownload+"?accept={type}")
	o.text("uploadUrl", base+PathUpload)
	o.text("eventSourceUrl", base+PathEvents+"?types={types}&closeafter={closeafter}&ping={ping}")
	o.name("state")
	o.b = append(s.appendSessionState(append(o.b, '"'), c), '"')
	return o.end(), nil
}

// appendCapabilities prints what the server can do, and the limits of requests.
//
// Implements: RFC 8620 §2 limits of requests
func (s *Server) appendCapabilities(dst []byte, base string) []byte {
	l := &s.opt.Limits
	o := newObject(dst)
	o.name(jmap.Core)
	in := newObject(o.b)
	in.number("maxSizeUpload", uint64(l.Upload))
	in.number("maxConcurrentUpload", uint64(l.ConcurrentUploads))
	in.number("maxSizeRequest", uint64(l.Request))
	in.number("maxConcurrentRequests", uint64(l.ConcurrentRequests))
	in.number("maxCallsInRequest", uint64(l.Calls))
	in.number("maxObjectsInGet", uint64(l.ObjectsInGet))
	in.number("maxObjectsInSet", uint64(l.ObjectsInSet))
	in.list("collationAlgorithms", "i;unicode-casemap")
	o.b = in.end()
	for _, u := range capabilities {
		if u != jmap.Core && !slices.Contains(ofPush, u) {
			o.raw(u, "{}")
		}
	}
	if s.opt.Extend != nil {
		o.b = s.opt.Extend(o.b, base)
	}
	return o.end()
}

// appendAccount prints an account; one of somebody else in which there is nothing to see is left out.
func (s *Server) appendAccount(o *object, ctx context.Context, a *Account) error {
	folders, err := mailbox.Visible(a.File.Folders(ctx))
	if err != nil {
		return err
	}
	if len(folders) == 0 && !a.Personal {
		return nil
	}
	const writing = note.Write | note.WriteOwn | note.Insert | note.DeleteMark | note.Expunge | note.Create | note.KeepSeen
	top, err := a.File.MayCreate(ctx)
	if err != nil && !a.Personal {
		return nil
	}
	o.name(a.ID)
	in := newObject(o.b)
	in.text("name", a.Name)
	in.bool("isPersonal", a.Personal)
	in.bool("isReadOnly", !slices.ContainsFunc(folders, func(f mailbox.Folder) bool { return f.Rights&writing != 0 }) && !top)
	in.name("accountCapabilities")
	caps := newObject(in.b)
	caps.raw(jmap.Core, "{}")
	caps.name(jmap.Mail)
	m := newObject(caps.b)
	m.number("maxMailboxesPerEmail", mailbox.MaxFolders)
	m.number("maxMailboxDepth", mailbox.MaxLevels)
	m.number("maxSizeMailboxName", mailbox.MaxName)
	m.number("maxSizeAttachmentsPerEmail", uint64(s.backend.Mail().MessageSize()))
	m.list("emailQuerySortOptions", sortOptions...)
	m.bool("mayCreateTopLevelMailbox", top)
	caps.b = m.end()
	caps.raw(jmap.Quota, "{}")
	caps.name(jmap.Blob)
	caps.b = s.appendBlobCapability(caps.b)
	if a.Personal {
		caps.name(jmap.SubmissionURN)
		sub := newObject(caps.b)
		sub.number("maxDelayedSend", uint64(s.opt.Limits.Delay.Seconds()))
		sub.name("submissionExtensions")
		sub.b = s.appendSubmissionExtensions(sub.b)
		caps.b = sub.end()
		caps.raw(jmap.VacationResponse, "{}")
		caps.raw(jmap.MDN, "{}")
	}
	in.b = caps.end()
	o.b = in.end()
	return nil
}
