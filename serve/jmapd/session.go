package jmapd

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// capabilities are those that a request may list in using.
var capabilities = []string{jmap.Core, jmap.Mail, jmap.SubmissionURN, jmap.VacationResponse, jmap.Quota, jmap.Blob,
	jmap.MDN, jmap.Contacts, jmap.Calendars, jmap.CalendarsParse, jmap.Search, jmap.Recipients, jmap.Senders,
	jmap.Snooze, jmap.Recovery, jmap.Preferences, jmap.Feeds, jmap.Rooms, jmap.Sieve, jmap.Rules, jmap.Principals,
	jmap.Availability, jmap.Tasks, jmap.WebSocket,
	jmap.WebPushVAPID}

// has reports whether a request may use a capability. Principals is not available if the directory is private.
func (s *Server) has(capability string) bool {
	if capability == jmap.Feeds && (s.opt.Feeds == nil || s.opt.Sources == nil) {
		return false
	}
	return slices.Contains(capabilities, capability) &&
		(!slices.Contains(ofDirectory, capability) || !s.backend.Directory().Names.Private())
}

// ofDirectory lists the capabilities that show people what the directory has.
var ofDirectory = []string{jmap.Principals, jmap.Availability, jmap.Rooms}

// ofPush lists the capabilities that push announces (see OpenPush). Accounts do not have them.
var ofPush = []string{jmap.WebSocket, jmap.WebPushVAPID}

// ofSession holds the capability objects of the session that are not empty.
var ofSession = map[string]string{jmap.Sieve: `{"implementation":"Doublet"}`}

// wellKnown redirects to the session object.
//
// Implements: RFC 8620 §2.2 Service autodiscovery
func (s *Server) wellKnown(w http.ResponseWriter, r *http.Request, _ *Caller) {
	w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	http.Redirect(w, r, s.base(r)+PathSession, http.StatusTemporaryRedirect)
}

// base returns the URL under which the client reaches the paths.
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

// session serves the session object.
//
// Implements: RFC 8620 §2 The JMAP Session resource
func (s *Server) session(w http.ResponseWriter, r *http.Request, c *Caller) {
	if p := s.refresh(r.Context(), c); p != nil {
		s.refuse(w, p)
		return
	}
	out, err := s.appendSession(nil, r.Context(), c, s.base(r))
	if err != nil {
		s.env.Log.Error("jmap: cannot create the session object", "person", c.Name, "error", err)
		s.refuse(w, &jmap.Problem{Type: jmap.ProblemBlank, Status: 503, Title: "Service Unavailable"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	_, _ = w.Write(out)
}

func (s *Server) appendSession(dst []byte, ctx context.Context, c *Caller, base string) ([]byte, error) {
	o := jmap.NewWriter(dst)
	o.Name("capabilities")
	o.B = s.appendCapabilities(o.B, base)
	accounts, err := s.Accounts(ctx, c)
	if err != nil {
		return nil, err
	}
	o.Name("accounts")
	in := jmap.NewWriter(o.B)
	for _, a := range accounts {
		if err := s.appendAccount(&in, ctx, c, a); err != nil {
			return nil, err
		}
	}
	o.B = in.End()
	o.Name("primaryAccounts")
	in = jmap.NewWriter(o.B)
	if c.Database != 0 {
		for _, u := range capabilities {
			if s.has(u) && !slices.Contains(ofPush, u) {
				in.Text(u, accountID(c.Database))
			}
		}
	}
	o.B = in.End()
	name := c.Address
	if name == "" {
		name = c.Name
	}
	o.Text("username", name)
	o.Text("apiUrl", base+PathAPI)
	o.Text("downloadUrl", base+PathDownload+"?accept={type}")
	o.Text("uploadUrl", base+PathUpload)
	o.Text("eventSourceUrl", base+PathEvents+"?types={types}&closeafter={closeafter}&ping={ping}")
	o.Name("state")
	o.B = append(s.appendSessionState(append(o.B, '"'), c), '"')
	return o.End(), nil
}

// appendCapabilities appends the server's capabilities with the limits of requests.
//
// Implements: RFC 8620 §2 limits of requests
func (s *Server) appendCapabilities(dst []byte, base string) []byte {
	l := &s.opt.Limits
	o := jmap.NewWriter(dst)
	o.Name(jmap.Core)
	in := jmap.NewWriter(o.B)
	in.Uint("maxSizeUpload", uint64(l.Upload))
	in.Uint("maxConcurrentUpload", uint64(l.ConcurrentUploads))
	in.Uint("maxSizeRequest", uint64(l.Request))
	in.Uint("maxConcurrentRequests", uint64(l.ConcurrentRequests))
	in.Uint("maxCallsInRequest", uint64(l.Calls))
	in.Uint("maxObjectsInGet", uint64(l.ObjectsInGet))
	in.Uint("maxObjectsInSet", uint64(l.ObjectsInSet))
	in.Strings("collationAlgorithms", "i;unicode-casemap")
	o.B = in.End()
	for _, u := range capabilities {
		if u != jmap.Core && s.has(u) && !slices.Contains(ofPush, u) {
			o.Raw(u, cmp.Or(sendersOf(s, u), ofSession[u], "{}"))
		}
	}
	if s.opt.Extend != nil {
		o.B = s.opt.Extend(o.B, base)
	}
	return o.End()
}

// sendersOf returns the object of the capability of senders if logos are served, else "".
func sendersOf(s *Server, capability string) string {
	if capability != jmap.Senders || s.opt.Logos == nil {
		return ""
	}
	return `{"logos":true}`
}

// writable reports whether the user may change anything in the folders.
func writable(folders []mailbox.Folder) bool {
	const writing = note.Write | note.WriteOwn | note.Insert | note.DeleteMark | note.Expunge | note.Create |
		note.KeepSeen
	return slices.ContainsFunc(folders, func(f mailbox.Folder) bool { return f.Rights&writing != 0 })
}

// needWritable returns an error if the session object shows the account as read-only.
//
// Implements: RFC 8620 §3.6.2 accountReadOnly
func (c *call) needWritable() error {
	if c.account.Personal {
		return nil
	}
	folders, err := mailbox.Visible(c.account.File.Folders(c.ctx))
	if err != nil || writable(folders) {
		return err
	}
	collections, err := c.s.collections(c.ctx, c.caller, c.account.Database)
	if err != nil || collections.writable() {
		return err
	}
	if top, err := c.account.File.MayCreate(c.ctx); err != nil || top {
		return err
	}
	return &jmap.Error{Type: "accountReadOnly"}
}

// appendPrincipals appends the capabilities of free time and rooms.
func appendPrincipals(caps *jmap.Writer, c *Caller) {
	caps.Object(jmap.Principals,
		func(o *jmap.Writer) { o.Text("currentUserPrincipalId", principalID(c.Who.Person)) })
	caps.Raw(jmap.Rooms, "{}")
	caps.Object(jmap.Availability,
		func(o *jmap.Writer) { o.Text("maxAvailabilityDuration", durationText(maxAvailability)) })
}

// appendAccount appends an account. It skips another person's account in which the caller can see nothing.
func (s *Server) appendAccount(o *jmap.Writer, ctx context.Context, c *Caller, a *Account) error {
	folders, err := mailbox.Visible(a.File.Folders(ctx))
	if err != nil {
		return err
	}
	collections, err := s.collections(ctx, c, a.Database)
	if err != nil {
		return err
	}
	if len(folders) == 0 && len(collections) == 0 && !a.Personal {
		return nil
	}
	top, err := a.File.MayCreate(ctx)
	if err != nil && !a.Personal {
		return nil
	}
	o.Name(a.ID)
	in := jmap.NewWriter(o.B)
	in.Text("name", a.Name)
	in.Bool("isPersonal", a.Personal)
	in.Bool("isReadOnly", !writable(folders) && !collections.writable() && !top)
	in.Name("accountCapabilities")
	caps := jmap.NewWriter(in.B)
	caps.Raw(jmap.Core, "{}")
	if a.Personal || len(folders) > 0 {
		caps.Object(jmap.Mail, func(o *jmap.Writer) { s.appendMailCapability(o, top) })
	}
	collections.appendCapabilities(&caps, a, top, s.has(jmap.Feeds))
	caps.Raw(jmap.Quota, "{}")
	caps.Raw(jmap.Search, "{}")
	caps.Raw(jmap.CalendarsParse, "{}")
	caps.Name(jmap.Blob)
	caps.B = s.appendBlobCapability(caps.B)
	if a.Personal {
		caps.Name(jmap.SubmissionURN)
		sub := jmap.NewWriter(caps.B)
		sub.Uint("maxDelayedSend", uint64(s.opt.Limits.Delay.Seconds()))
		sub.Name("submissionExtensions")
		sub.B = s.appendSubmissionExtensions(sub.B)
		caps.B = sub.End()
		caps.Raw(jmap.VacationResponse, "{}")
		caps.Raw(jmap.Recipients, "{}")
		caps.Raw(jmap.Senders, "{}")
		caps.Raw(jmap.Snooze, "{}")
		caps.Raw(jmap.Recovery, "{}")
		caps.Raw(jmap.Preferences, "{}")
		caps.Object(jmap.Sieve, putSieveCapability)
		caps.Raw(jmap.Rules, "{}")
		caps.Raw(jmap.MDN, "{}")
		if s.has(jmap.Principals) {
			appendPrincipals(&caps, c)
		}
	}
	in.B = caps.End()
	o.B = in.End()
	return nil
}

// appendMailCapability appends the members of the account capability of mail.
func (s *Server) appendMailCapability(o *jmap.Writer, top bool) {
	o.Uint("maxMailboxesPerEmail", mailbox.MaxFolders)
	o.Uint("maxMailboxDepth", mailbox.MaxLevels)
	o.Uint("maxSizeMailboxName", mailbox.MaxName)
	o.Uint("maxSizeAttachmentsPerEmail", uint64(s.backend.Mail().MessageSize()))
	o.Strings("emailQuerySortOptions", sortOptions...)
	o.Bool("mayCreateTopLevelMailbox", top)
}
