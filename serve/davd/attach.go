package davd

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/listen"
)

// The actions of POST at an entry of a calendar.
const (
	attachmentAdd    = "attachment-add"
	attachmentUpdate = "attachment-update"
	attachmentRemove = "attachment-remove"
)

// attaching is the query of a POST at an entry.
type attaching struct {
	action string
	change scheduling.AttachmentChange
}

// readAttaching reads the query of a POST at an entry.
//
// Implements: RFC 8607 §3.3 POST Request for Managing Attachments
// Implements: RFC 8607 §3.11 Error Handling
func readAttaching(query url.Values) (a attaching, err error) {
	action, rid, id := query["action"], query["rid"], query["managed-id"]
	if len(action) != 1 || !slices.Contains([]string{attachmentAdd, attachmentUpdate, attachmentRemove}, action[0]) {
		return a, fail(http.StatusForbidden, "<C:valid-action/>", "action is not known")
	}
	a.action = action[0]
	if len(rid) > 0 {
		a.change.Instances, err = calendar.ParseInstances(rid[0])
		if err != nil || len(rid) > 1 || a.action == attachmentUpdate {
			return a, errRID
		}
	}
	if wants := a.action != attachmentAdd; len(id) > 1 || wants != (len(id) == 1 && id[0] != "") {
		return a, errManagedID
	}
	if len(id) == 1 {
		a.change.ID = id[0]
	}
	return a, nil
}

var (
	errRID       = fail(http.StatusForbidden, "<C:valid-rid/>", "rid names no instance of the entry")
	errManagedID = fail(http.StatusForbidden, "<C:valid-managed-id/>",
		"managed-id names no attachment of the entry")
	errAttachmentSize = fail(http.StatusForbidden, "<C:max-attachment-size/>", "attachment is too large")
)

// attach answers POST at an entry of a calendar: it adds, updates or removes a managed attachment.
//
// Implements: RFC 8607 §3.3 POST Request for Managing Attachments
func attach(q *request, x *resource) error {
	if x.kind != groupware.Calendar {
		return fail(http.StatusMethodNotAllowed, "", "contacts have no managed attachments")
	}
	if err := q.load(x); err != nil {
		return err
	}
	a, err := readAttaching(q.r.URL.Query())
	if err != nil {
		return err
	}
	c, err := q.condition(x)
	if err != nil {
		return err
	}
	if x.collection.Rights&note.Write == 0 {
		return fail(http.StatusForbidden, "<D:need-privileges/>", "entry cannot be written")
	}
	if a.action != attachmentRemove {
		body, err := q.body(groupware.MaxAttachment, errAttachmentSize)
		if err != nil {
			return err
		}
		name := nameOfFile(q.r.Header.Get("Content-Disposition"))
		a.change.New, err = q.s.groupware.NewAttachment(q.ctx, name, q.r.Header.Get("Content-Type"), body,
			q.file(x.owner).Database())
		if err != nil {
			return err
		}
		defer a.change.New.Release()
	}
	w, err := q.s.scheduling.Attach(q.ctx, target(q, x, c), &a.change)
	if err != nil {
		return rejectAttaching(x, err)
	}
	q.s.written.Inc()
	if w.ScheduleTag != "" {
		q.w.Header().Set("Schedule-Tag", quoted(w.ScheduleTag))
	}
	return attached(q, x, &a)
}

// rejectAttaching makes the answers to a change of managed attachments that is refused.
func rejectAttaching(x *resource, err error) error {
	switch {
	case errors.Is(err, calendar.ErrInstance):
		return errRID
	case errors.Is(err, calendar.ErrManagedID):
		return errManagedID
	}
	return reject(x, err)
}

// attached answers a change of managed attachments that succeeded, with the entry if the client prefers that.
//
// Implements: RFC 8607 §5.1 Cal-Managed-ID Response Header Field
// Implements: RFC 7240 §4.2 return=representation
func attached(q *request, x *resource, a *attaching) error {
	h := q.w.Header()
	status := http.StatusNoContent
	if n := a.change.New; n != nil {
		line := n.Line(q.file(x.owner))
		h.Set("Cal-Managed-ID", n.ID)
		h.Set("Location", line.URL)
	}
	if a.action == attachmentAdd {
		status = http.StatusCreated
	}
	if !prefersRepresentation(q.r.Header["Prefer"]) || q.load(x) != nil || q.take(int64(x.entry.Size)) != nil {
		q.done(status == http.StatusCreated) // the change succeeded in any case
		return nil
	}
	if status == http.StatusNoContent {
		status = http.StatusOK
	}
	h.Set("ETag", quoted(x.entry.ETag))
	h.Set("Content-Location", x.path())
	h.Set("Preference-Applied", "return=representation")
	q.answer(status, x.entry.ContentType(), x.entry.Text)
	return nil
}

// prefersRepresentation reports whether the fields Prefer ask for the entry in the answer.
func prefersRepresentation(fields []string) bool {
	for _, f := range fields {
		for p := range strings.SplitSeq(f, ",") {
			p, _, _ = strings.Cut(p, ";")
			name, value, _ := strings.Cut(p, "=")
			value = strings.Trim(strings.TrimSpace(value), `"`)
			if strings.EqualFold(strings.TrimSpace(name), "return") && strings.EqualFold(value, "representation") {
				return true
			}
		}
	}
	return false
}

// nameOfFile returns the name of an attachment from its Content-Disposition.
func nameOfFile(disposition string) string {
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		params = nil
	}
	return groupware.FileName(params["filename"])
}

// download answers GET and HEAD of a managed attachment: rest is its path behind groupware.AttachmentPath. The answer
// is no page of this server, since anybody who may write in a calendar chose the content.
//
// Implements: RFC 8607 §3.8 Updating Attachments via PUT: refused at the attachment
// Implements: RFC 8607 §3.10 Retrieving Attachments
func download(q *request, rest string) error {
	if q.r.Method != http.MethodGet && q.r.Method != http.MethodHead {
		q.w.Header().Set("Allow", "OPTIONS, GET, HEAD")
		return fail(http.StatusMethodNotAllowed, "", "managed attachments change by POST at their entry")
	}
	parts := strings.SplitN(rest, "/", 3)
	db, err := note.ParseDatabaseID(parts[0])
	if err != nil || len(parts) != 3 {
		return errNotFound
	}
	a, body, err := q.s.groupware.Attachment(q.ctx, q.caller.Who, db, parts[1])
	if err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Content-Type", a.Type)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.Name}))
	h.Set("ETag", quoted(a.ID))
	if any, list := etags(q.r.Header.Get("If-None-Match")); any || slices.Contains(list, a.ID) {
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Length", strconv.FormatUint(a.Size, 10))
	if q.r.Method == http.MethodHead {
		q.w.WriteHeader(http.StatusOK)
		return nil
	}
	if err := q.take(int64(a.Size)); err != nil {
		return err
	}
	content, err := body.AppendRange(make([]byte, 0, body.Size()), 0, body.Size())
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusOK)
	_ = listen.WritePaced(q.s.env, q.w, content)
	return nil
}

// attachmentProperties lists the properties of managed attachments.
//
// Implements: RFC 8607 §6 Additional WebDAV Properties
var attachmentProperties = []property{
	{caldav("managed-attachments-server-URL"), true, func(q *request, x *resource) (string, bool) {
		origin := q.s.groupware.Origin()
		if origin != "" {
			origin = href(origin)
		}
		return origin, x.at == atHome && x.kind == groupware.Calendar
	}},
	{caldav("max-attachment-size"), true, ofCollection(groupware.Calendar, func(*groupware.Collection) string {
		return strconv.Itoa(groupware.MaxAttachment)
	})},
	{caldav("max-attachments-per-resource"), true, ofCollection(groupware.Calendar, func(*groupware.Collection) string {
		return strconv.Itoa(groupware.MaxAttachments)
	})},
}
