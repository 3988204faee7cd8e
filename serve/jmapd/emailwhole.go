package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// emailKind describes the properties of an Email that cannot change: all except keywords and mailboxIds.
var emailKind = kind{fixed: isEmailProperty, same: sameEmailProperty}

// isEmailProperty reports whether a property of an Email is fixed.
func isEmailProperty(name string) bool {
	if _, ok := parseHeader(name); ok {
		return true
	}
	for i := range emailProperties {
		if emailProperties[i].name == name {
			return name != "keywords" && name != "mailboxIds"
		}
	}
	return false
}

// bodyPropertyNames are the properties of an Email that hold EmailBodyParts or EmailBodyValues. The response of /get
// for these depends on its arguments, so a client may send a subset of the current value.
var bodyPropertyNames = []string{"bodyStructure", "textBody", "htmlBody", "attachments", "bodyValues"}

func sameEmailProperty(name string, sent, current *jmap.Value) bool {
	if slices.Contains(bodyPropertyNames, name) {
		return partOf(sent, current)
	}
	return sent.Equal(current)
}

// partOf reports whether sent is a subset of current: objects may lack members. A truncated text may be a prefix of the
// whole.
func partOf(sent, current *jmap.Value) bool {
	switch {
	case sent.Kind() != current.Kind():
		return false
	case sent.Kind() == jmap.Object:
		cut, _ := sent.Get("isTruncated").Bool()
		for i := range sent.Len() {
			name := sent.Name(i)
			a, b := sent.At(i), current.Get(name)
			if cut && (name == "isTruncated" || name == "value" && beginning(a, b)) {
				continue
			}
			if b == nil || !partOf(a, b) {
				return false
			}
		}
		return true
	case sent.Kind() == jmap.Array:
		if sent.Len() != current.Len() {
			return false
		}
		for i := range sent.Len() {
			if !partOf(sent.At(i), current.At(i)) {
				return false
			}
		}
		return true
	}
	return sent.Equal(current)
}

func beginning(sent, current *jmap.Value) bool {
	a, ok := sent.Text()
	b, ok2 := current.Text()
	return ok && ok2 && strings.HasPrefix(b, a)
}

// unchangedEmail returns an error if sent has properties that differ from the Email's current ones.
func (c *call) unchangedEmail(w *mailbox.Changing, u note.UNID, sent *jmap.Value) error {
	m, err := w.EmailOf(u)
	if err != nil {
		return err
	}
	wants := emailKind.named(sent)
	v := view{all: true, most: longestValue(sent) + 1}
	if sent.Get("bodyValues") == nil { // a path into bodyValues needs whole values
		v.most = c.s.opt.Limits.BodyValues
	}
	if wants("bodyValues") { // the message is read, printed and parsed
		size := 3 * int64(m.Size())
		if err := c.hold(size); err != nil {
			return err
		}
		defer c.mem.drop(size)
	}
	var names []string
	for i := range emailProperties {
		if n := emailProperties[i].name; wants(n) {
			names = append(names, n)
		}
	}
	for i := range sent.Len() {
		top, _, _ := strings.Cut(sent.Name(i), "/")
		if _, ok := parseHeader(jmap.PointerToken(top)); ok {
			names = append(names, jmap.PointerToken(top))
		}
	}
	if v.properties, err = compileProperties(names, true); err != nil {
		return err
	}
	if v.body, err = compileBodyProperties(bodyNames(sent), true); err != nil {
		return err
	}
	current, err := c.emailObject(w.Reading, m, &v)
	if err != nil {
		return err
	}
	return emailKind.apply(sent, current, func(*jmap.Value) error { return nil })
}

// longestValue returns the length in octets of the longest text in bodyValues. No more than that needs to be read of
// the current values.
func longestValue(sent *jmap.Value) int {
	n, values := 0, sent.Get("bodyValues")
	for i := range values.Len() {
		text, _ := values.At(i).Get("value").Text()
		n = max(n, len(text))
	}
	return n
}

// emailObject returns an Email as Email/get shows it.
func (c *call) emailObject(d *mailbox.Reading, m *mailbox.Email, v *view) (*jmap.Value, error) {
	return c.rendered(func() error {
		r := renderer{c: c, view: v, d: d}
		return r.stored(m)
	})
}

// isBodyProperty reports whether a name is a property of body parts.
func isBodyProperty(name string) bool {
	_, err := compileBodyProperties([]string{name}, true)
	return err == nil
}

// bodyNames returns the properties of body parts that occur in the body properties of sent. If there are very many, it
// stops once it has more than maxNames.
func bodyNames(sent *jmap.Value) []string {
	var names []string
	var walk func(v *jmap.Value)
	walk = func(v *jmap.Value) {
		switch v.Kind() {
		case jmap.Array:
			for i := range v.Len() {
				walk(v.At(i))
			}
		case jmap.Object:
			for i := range v.Len() {
				if name := v.Name(i); name == "subParts" {
					walk(v.At(i))
				} else if len(names) <= maxNames && !slices.Contains(names, name) && isBodyProperty(name) {
					names = append(names, name)
				}
			}
		}
	}
	for _, name := range bodyPropertyNames {
		if name != "bodyValues" {
			walk(sent.Get(name))
		}
	}
	return names
}

// createdProperties are the properties that the response for a created Email can contain: those that the server sets,
// and the defaults of those that the client did not send.
var createdProperties = []string{
	"blobId", "threadId", "size", "keywords", "receivedAt", "messageId", "sentAt", "hasAttachment", "preview",
}

// createdView selects the createdProperties.
var createdView = func() view {
	p, err := compileProperties(createdProperties, true)
	if err != nil {
		panic(err)
	}
	return view{properties: p}
}()

// createdObjects reads the properties to return for created Emails. It skips an Email that was destroyed meanwhile.
func (x *emailSetting) createdObjects(errs []error) error {
	c := x.c
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		for i := range x.stored {
			if errs[i] != nil {
				continue
			}
			m, err := d.EmailOf(x.stored[i].unid)
			if errors.Is(err, mailbox.ErrNoMessage) {
				continue
			}
			if err != nil {
				return err
			}
			object, err := c.emailObject(d, m, &createdView)
			if err != nil {
				return err
			}
			x.stored[i].object = told(x.create[i].object, object)
		}
		return nil
	})
}
