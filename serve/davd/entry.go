package davd

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"doublet/groupware"
)

// get answers GET and HEAD of an entry.
func (q *request) get(x *resource) error {
	if x.at != atEntry {
		if err := q.load(x); err != nil {
			return err
		}
		q.answer(http.StatusOK, "text/plain; charset=utf-8", []byte("Enter this address in a calendar program.\n"))
		return nil
	}
	if err := q.load(x); err != nil {
		return err
	}
	e := x.entry
	if err := q.take(int64(e.Size)); err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("ETag", quoted(e.ETag))
	if e.ScheduleTag != "" {
		h.Set("Schedule-Tag", quoted(e.ScheduleTag))
	}
	h.Set("Last-Modified", e.Modified.Format(http.TimeFormat))
	if any, list := etags(q.r.Header.Get("If-None-Match")); any || slices.Contains(list, e.ETag) {
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	q.answer(http.StatusOK, e.ContentType(), e.Text)
	return nil
}

// etags parses If-Match or If-None-Match. A weak validator matches nothing, as no entity tag here is weak.
func etags(field string) (any bool, list []string) {
	if strings.TrimSpace(field) == "*" {
		return true, nil
	}
	for s := range strings.SplitSeq(field, ",") {
		s = strings.TrimSpace(s)
		if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
			list = append(list, s[1:len(s)-1])
		}
	}
	return false, list
}

// condition returns the condition of a change. With several entity tags, that of the entry as it is now decides.
//
// Implements: RFC 9110 §13.1 Preconditions
func (q *request) condition(x *resource) (c groupware.Condition, err error) {
	match, none := q.r.Header.Get("If-Match"), q.r.Header.Get("If-None-Match")
	if match == "" && none == "" {
		return c, nil
	}
	anyMatch, matches := etags(match)
	anyNone, nones := etags(none)
	c.Old, c.New = anyMatch, anyNone
	now := ""
	e, err := q.file(x.owner).Entry(q.ctx, x.kind, x.col, x.name)
	if err == nil {
		now = e.ETag
	} else if !errors.Is(err, groupware.ErrNoEntry) {
		return c, err
	}
	if match != "" && !anyMatch {
		if now == "" || !slices.Contains(matches, now) {
			return c, groupware.ErrChanged
		}
		c.ETag = now
	}
	if now != "" && slices.Contains(nones, now) {
		return c, groupware.ErrChanged
	}
	return c, nil
}

// reject makes the answers to an entry that a collection does not take.
//
// Implements: RFC 4791 §5.3.2.1 Additional Preconditions for PUT, COPY, and MOVE
// Implements: RFC 6352 §5.3.2.1 Additional Preconditions for PUT, COPY, and MOVE
func reject(x *resource, err error) error {
	if f := rejectSchedule(x, err); f != nil {
		return f
	}
	p, data := "C", "valid-calendar-data"
	if x.kind == groupware.AddressBook {
		p, data = "A", "valid-address-data"
	}
	var conflict *groupware.UIDConflictError
	switch {
	case errors.As(err, &conflict):
		other := *x
		other.name = conflict.Name
		return fail(http.StatusForbidden, "<"+p+":no-uid-conflict>"+href(other.path())+"</"+p+":no-uid-conflict>",
			err.Error())
	case errors.Is(err, groupware.ErrInvalid):
		return fail(http.StatusForbidden, "<"+p+":"+data+"/><D:responsedescription>"+escape(err.Error())+
			"</D:responsedescription>", err.Error())
	case errors.Is(err, groupware.ErrTooLarge):
		return fail(http.StatusForbidden, "<"+p+":max-resource-size/>", err.Error())
	case errors.Is(err, groupware.ErrManagedID):
		return fail(http.StatusForbidden, "<C:valid-managed-id-parameter/>", err.Error())
	case errors.Is(err, groupware.ErrAttachments):
		return fail(http.StatusForbidden, "<C:max-attachments-per-resource/>", err.Error())
	case errors.Is(err, groupware.ErrNoCollection):
		return fail(http.StatusConflict, "", "collection does not exist")
	}
	return err
}

// put answers PUT.
//
// Implements: RFC 4791 §5.3.2 Creating Calendar Object Resources
func (q *request) put(x *resource) error {
	if x.at != atEntry {
		return fail(http.StatusMethodNotAllowed, "", "only entries of a collection can be written")
	}
	text, err := q.body(groupware.MaxEntry, reject(x, groupware.ErrTooLarge))
	if err != nil {
		return err
	}
	c, err := q.condition(x)
	if err != nil {
		return reject(x, err)
	}
	e, err := write(q, x, text, c)
	if err != nil {
		return reject(x, err)
	}
	q.s.written.Inc()
	if !e.Changed { // else the client has to read it
		q.w.Header().Set("ETag", quoted(e.ETag))
	}
	if e.ScheduleTag != "" {
		q.w.Header().Set("Schedule-Tag", quoted(e.ScheduleTag))
	}
	q.done(e.Created)
	return nil
}

func (q *request) done(created bool) {
	if created {
		q.answer(http.StatusCreated, "", nil)
		return
	}
	q.w.WriteHeader(http.StatusNoContent)
}

// remove answers DELETE of an entry or a collection.
func (q *request) remove(x *resource) error {
	f := q.file(x.owner)
	var err error
	switch x.at {
	case atEntry:
		var c groupware.Condition
		if c, err = q.condition(x); err != nil {
			break
		}
		if x.kind == groupware.Calendar {
			err = q.s.scheduling.Remove(q.ctx, target(q, x, c))
		} else {
			err = f.Remove(q.ctx, x.kind, x.col, x.name, c)
		}
	case atCollection:
		err = f.Change(q.ctx, func(c *groupware.Changing) error { return c.Delete(x.kind, x.col) })
	default:
		err = fail(http.StatusForbidden, "", "this cannot be deleted")
	}
	if err == nil {
		q.done(false)
	}
	return err
}

// move answers MOVE and COPY of an entry within the collections of one person.
//
// Implements: RFC 4918 §9.9 MOVE Method
func (q *request) move(x *resource) error {
	path, err := q.pathOf(q.r.Header.Get("Destination"))
	if err != nil {
		return err
	}
	to, err := q.find(path)
	if err != nil {
		return fail(http.StatusConflict, "", "destination does not exist")
	}
	if x.at != atEntry || to.at != atEntry || x.kind != to.kind || x.owner.db != to.owner.db {
		return fail(http.StatusForbidden, "", "only entries can be moved, within one person's collections")
	}
	has, err := q.condition(x)
	if err != nil {
		return err
	}
	if x.path() == to.path() {
		return fail(http.StatusForbidden, "", "source and destination are the same")
	}
	var c groupware.Condition
	if q.r.Header.Get("Overwrite") == "F" {
		c.New = true
	}
	f := q.file(x.owner)
	created := false
	if q.r.Method == "COPY" {
		e, err := f.Entry(q.ctx, x.kind, x.col, x.name)
		if err != nil {
			return err
		}
		if !has.Holds(&e) {
			return groupware.ErrChanged
		}
		w, err := write(q, to, e.Text, c)
		if err != nil {
			return reject(to, err)
		}
		created = w.Created
	} else {
		replaced, err := f.Move(q.ctx, x.kind, groupware.Place{Collection: x.col, Name: x.name},
			groupware.Place{Collection: to.col, Name: to.name}, has, c)
		if err != nil {
			return reject(to, err)
		}
		created = !replaced
	}
	q.w.Header().Set("Location", to.path())
	q.done(created)
	return nil
}
