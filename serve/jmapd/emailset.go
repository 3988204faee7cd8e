package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/mail/compose"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// emailPatch holds the changes to an Email.
type emailPatch struct {
	allKeywords, allFolders bool // set or add replaces all keywords or all folders
	set, clear              []string
	add, drop               []note.UNID
	// rest holds the members for other properties. These must equal the current values.
	rest *jmap.Value
}

// mailboxID returns the folder of an id. It returns the zero UNID, which no folder has, if the id is malformed.
func (b *batch) mailboxID(id string) note.UNID {
	real, _ := b.real(id)
	u, _ := parseID(letterFolder, real)
	return u
}

// readSet reads an object whose values are all true, and returns its names.
func readSet(v *jmap.Value) ([]string, bool) {
	if v.Kind() != jmap.Object {
		return nil, false
	}
	out := make([]string, 0, v.Len())
	for i := range v.Len() {
		if on, ok := v.At(i).Bool(); !ok || !on {
			return nil, false
		}
		out = append(out, v.Name(i))
	}
	return out, true
}

// readKeywords reads a set of keywords.
func readKeywords(v *jmap.Value) ([]string, bool) {
	list, ok := readSet(v)
	for i, k := range list {
		ok = ok && validKeyword(k)
		list[i] = strings.ToLower(k)
	}
	slices.Sort(list)
	return slices.Compact(list), ok
}

// flagsOf converts keywords into flags.
func flagsOf(keywords []string) mailbox.Flags {
	var fl mailbox.Flags
	for _, k := range keywords {
		switch {
		case k == mailbox.Seen:
			fl.Seen = true
		case !hiddenKeyword(k):
			fl.Keywords = append(fl.Keywords, k)
		}
	}
	return fl
}

func (b *batch) folderSet(v *jmap.Value) ([]note.UNID, bool) {
	list, ok := readSet(v)
	out := make([]note.UNID, len(list))
	for i, id := range list {
		out[i] = b.mailboxID(id)
	}
	return out, ok && len(out) > 0
}

// readEmailPatch reads a PatchObject for an Email. Only keywords and mailboxIds can change.
func (b *batch) readEmailPatch(v *jmap.Value) (p emailPatch, err error) {
	list, err := jmap.Pointers(v)
	if err != nil {
		return p, err
	}
	var bad, names []string
	var values []jmap.Value
	for i, at := range list {
		ok, top := true, at.Tokens[0]
		switch {
		case top != "keywords" && top != "mailboxIds":
			names, values = append(names, v.Name(i)), append(values, *at.Value)
		case len(at.Tokens) > 2:
			return p, badPatch("there is no object to change at %.100q", v.Name(i))
		case len(at.Tokens) == 2:
			ok = b.readEmailPart(&p, top, at.Tokens[1], at.Value)
		case top == "keywords":
			p.allKeywords = true
			if !at.Value.IsNull() { // null means the default, no keywords
				p.set, ok = readKeywords(at.Value)
			}
		default:
			p.allFolders = true
			p.add, ok = b.folderSet(at.Value)
		}
		if !ok {
			bad = append(bad, v.Name(i))
		}
	}
	if bad != nil {
		return p, badProperties("", bad...)
	}
	if names != nil {
		p.rest = jmap.MakeObject(names, values)
	}
	return p, nil
}

// readEmailPart reads a patch of one keyword or folder: true sets it, null removes it.
func (b *batch) readEmailPart(p *emailPatch, path, token string, x *jmap.Value) bool {
	on, isBool := x.Bool()
	if !x.IsNull() && !(isBool && on) {
		return false
	}
	if path == "mailboxIds" {
		u := b.mailboxID(token)
		if on {
			p.add = append(p.add, u)
		} else {
			p.drop = append(p.drop, u)
		}
		return true
	}
	if !validKeyword(token) {
		return false
	}
	if k := strings.ToLower(token); on {
		p.set = append(p.set, k)
	} else {
		p.clear = append(p.clear, k)
	}
	return true
}

// apply applies the changes to an Email.
func (p *emailPatch) apply(w *mailbox.Changing, u note.UNID) error {
	m, err := w.EmailOf(u)
	if err != nil {
		return err
	}
	id := m.ID
	set, clear, add, drop := p.set, p.clear, p.add, p.drop
	if p.allKeywords {
		clear = nil
		for k := range m.Keywords {
			if !hiddenKeyword(k) && !slices.Contains(set, k) {
				clear = append(clear, k)
			}
		}
		if !slices.Contains(set, mailbox.Seen) {
			clear = append(clear, mailbox.Seen)
		}
	}
	if p.allFolders {
		have := slices.Collect(m.Folders)
		drop = slices.DeleteFunc(have, func(u note.UNID) bool { return slices.Contains(add, u) })
	}
	if len(add) > 0 {
		now := slices.Collect(m.Folders)
		add = slices.DeleteFunc(slices.Clone(add), func(u note.UNID) bool { return slices.Contains(now, u) })
	}
	for _, k := range clear {
		if err := w.SetKeyword(id, k, false); err != nil {
			return err
		}
	}
	for _, k := range set {
		if hiddenKeyword(k) && k != mailbox.Seen {
			continue
		}
		if err := w.SetKeyword(id, k, true); err != nil {
			return err
		}
	}
	if len(add)+len(drop) == 0 {
		return nil
	}
	return w.SetFolders(id, add, drop)
}

// emailSetting is an Email/set or Email/import in progress.
type emailSetting struct {
	*set
	drafts []draft
	stored []stored
	whole  bool // tell the client all properties of a new Email that it did not send
	// patches are parallel to update, and so is bad: the error of a patch that cannot be read, or nil.
	patches []emailPatch
	bad     []error
}

// draft is an Email to create.
type draft struct {
	creation string
	mailbox.Imported
	uploads []note.UNID // uploads that the message uses
	err     error
}

// uses records that the message uses an upload.
func (d *draft) uses(b *blob) {
	if !b.upload.IsZero() {
		d.uploads = append(d.uploads, b.upload)
	}
}

// stored describes a created Email. If object is not nil, it replaces the default response of ids and size.
type stored struct {
	unid, thread note.UNID
	size         uint64
	object       []byte
}

// release frees the composed messages.
func (x *emailSetting) release() {
	for i := range x.drafts {
		if d := &x.drafts[i]; d.Composed != nil {
			d.Composed.Release()
		}
	}
}

// emailSet answers Email/set.
//
// Implements: RFC 8621 §4.6 Email/set
func emailSet(c *call) error {
	s, err := c.setArguments(false)
	if err != nil {
		return err
	}
	x := &emailSetting{set: s, whole: true}
	defer x.release()
	for i := range s.create {
		x.drafts = append(x.drafts, x.compose(&s.create[i]))
	}
	x.patches, x.bad = make([]emailPatch, len(s.update)), make([]error, len(s.update))
	for i := range s.update {
		x.patches[i], x.bad[i] = c.readEmailPatch(s.update[i].object)
	}
	res, err := x.commit()
	if err != nil {
		return err
	}
	s.append(res.Before.Email.String(), res.After.Email.String())
	return nil
}

func emailState(s *mailbox.States) string { return s.Email.String() }

// commit creates the drafts, applies the patches and destroys Emails, all in one update of the mail file.
func (x *emailSetting) commit() (mailbox.Result, error) {
	c, s := x.c, x.set
	x.stored = make([]stored, len(x.drafts))
	res, err := s.change(&steps{x.store, x.patch, x.destroyOne}, emailState)
	if err != nil {
		return res, err
	}
	if x.whole && len(x.drafts) > 0 {
		if err := x.createdObjects(res.Errs); err != nil {
			c.s.env.Log.Warn("jmap: cannot read created objects", "person", c.caller.Name, "error", err)
		}
	}
	var used []note.UNID
	s.record(res.Errs, func(i int) (string, []byte) {
		used = append(used, x.drafts[i].uploads...)
		return x.stored[i].told()
	})
	if len(used) > 0 {
		c.s.own(c.caller).File.Uploads().Use(used)
	}
	return res, nil
}

// patch applies the i-th patch.
func (x *emailSetting) patch(w *mailbox.Changing, i int) error {
	if x.bad[i] != nil {
		return x.bad[i]
	}
	u, ok := parseID(letterEmail, x.set.update[i].real)
	if !ok {
		return mailbox.ErrNoMessage
	}
	p := &x.patches[i]
	if p.rest != nil {
		if err := x.c.unchangedEmail(w, u, p.rest); err != nil {
			return err
		}
	}
	return p.apply(w, u)
}

func (x *emailSetting) store(w *mailbox.Changing, i int) error {
	d := &x.drafts[i]
	if d.err != nil {
		return d.err
	}
	u, err := w.Create(&d.Imported)
	if err != nil {
		return err
	}
	x.stored[i] = stored{unid: u, thread: d.Composed.Thread(), size: uint64(d.Composed.Size())}
	return nil
}

func (x *emailSetting) destroyOne(w *mailbox.Changing, id string) error {
	u, ok := parseID(letterEmail, id)
	if !ok {
		return mailbox.ErrNoMessage
	}
	m, err := w.EmailOf(u)
	if err != nil {
		return err
	}
	return w.Destroy(m.ID)
}

// told returns the id of an Email that was created, and the response for it.
func (m *stored) told() (id string, json []byte) {
	id = idOf(letterEmail, m.unid)
	if m.object != nil {
		return id, m.object
	}
	b := appendID([]byte(`{"id":`), letterEmail, m.unid)
	b = appendID(append(b, `,"blobId":`...), letterMessage, m.unid)
	b = appendID(append(b, `,"threadId":`...), letterThread, m.thread)
	return id, append(jmap.AppendUint(append(b, `,"size":`...), m.size), '}')
}

// places reads the properties mailboxIds, keywords and receivedAt into d. It returns the names of invalid ones.
func (c *call) places(v *jmap.Value, d *draft) []string {
	var bad []string
	var ok bool
	if d.Folders, ok = c.folderSet(v.Get("mailboxIds")); !ok {
		bad = append(bad, "mailboxIds")
	}
	if k := v.Get("keywords"); !k.IsNull() {
		words, ok := readKeywords(k)
		if !ok {
			bad = append(bad, "keywords")
		}
		d.Flags = flagsOf(words)
	}
	d.Received = c.s.env.Clock.Now()
	if at := v.Get("receivedAt"); !at.IsNull() {
		s, _ := at.Text()
		if d.Received, ok = jmap.ParseDate(s, true); !ok {
			bad = append(bad, "receivedAt")
		}
	}
	return bad
}

// emailImport answers Email/import.
//
// Implements: RFC 8621 §4.8 Email/import
func emailImport(c *call) error {
	if err := c.arguments(false, "ifInState", "emails"); err != nil {
		return err
	}
	if err := c.needWritable(); err != nil {
		return err
	}
	s := &set{c: c}
	if err := s.condition(); err != nil {
		return err
	}
	if c.args.Get("emails").IsNull() {
		return invalid("emails is no object")
	}
	if err := s.creations("emails"); err != nil {
		return err
	}
	x := &emailSetting{set: s}
	defer x.release()
	for i := range s.create {
		x.drafts = append(x.drafts, x.imported(&s.create[i]))
	}
	res, err := x.commit()
	if err != nil {
		return err
	}
	o := jmap.NewWriter(c.out)
	s.appendCreated(&o, res.Before.Email.String(), res.After.Email.String())
	return nil
}

// imported prepares the Email to create from a blob.
func (x *emailSetting) imported(p *creation) draft {
	c := x.c
	d := draft{creation: p.id}
	bad := c.places(p.object, &d)
	for i := range p.object.Len() {
		if n := p.object.Name(i); !slices.Contains([]string{"blobId", "mailboxIds", "keywords", "receivedAt"}, n) {
			bad = append(bad, n)
		}
	}
	id, ok := p.object.Get("blobId").Text()
	if !ok {
		bad = append(bad, "blobId")
	}
	if bad != nil {
		d.err = badProperties("", bad...)
		return d
	}
	b, err := c.openBlob(c.account, id)
	if errors.Is(err, errNoBlob) {
		d.err = badProperties("There is no such blob.", "blobId")
		return d
	}
	if err == nil {
		d.uses(b)
		err = x.prepare(&d, b.size, 2*b.size, b.all) // as it is, and with CRLF line ends
		b.close()
	}
	d.err = err
	return d
}

// prepare composes the message that read returns, about size octets long. It reserves cost bytes, and those for
// parsing.
func (x *emailSetting) prepare(d *draft, size, cost int64, read func() ([]byte, error)) error {
	mail := x.c.s.backend.Mail()
	if size > int64(mail.MessageSize()) {
		return mailbox.ErrTooBig
	}
	cost += parseCost(size)
	if err := x.c.hold(cost); err != nil {
		return err
	}
	defer x.c.mem.drop(cost)
	raw, err := read()
	if err != nil {
		return err
	}
	if d.Composed, err = mail.Compose(x.c.ctx, compose.CRLF(raw), x.c.account.File.Database()); err != nil {
		return err
	}
	// Reserved until the call ends, for three copies: here, in the batch, and in the log.
	if err = x.c.hold(3 * d.Composed.Memory()); err != nil {
		d.Composed.Release()
		d.Composed = nil
	}
	return err
}
