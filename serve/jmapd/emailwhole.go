package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// emailKind describes what of an Email stays as it is: all but keywords and mailboxIds, which are read by themselves.
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

// bodyPropertyNames are the properties of an Email that hold EmailBodyParts or EmailBodyValues. What /get tells of
// them depends on its arguments: what is sent of them must be a part of what there is.
var bodyPropertyNames = []string{"bodyStructure", "textBody", "htmlBody", "attachments", "bodyValues"}

func sameEmailProperty(name string, sent, current *jmap.Value) bool {
	if slices.Contains(bodyPropertyNames, name) {
		return partOf(sent, current)
	}
	return sent.Equal(current)
}

// partOf reports whether a value is a part of another: objects with some of its members. A text that was cut short is
// the beginning of the whole.
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

// unchangedEmail refuses properties of an Email that differ from what it is.
func (c *call) unchangedEmail(w *mailbox.Changing, u note.UNID, sent *jmap.Value) error {
	m, err := w.EmailOf(u)
	if err != nil {
		return err
	}
	wants := emailKind.named(sent)
	v := view{all: true, most: longestValue(sent) + 1}
	if sent.Get("bodyValues") == nil { // paths into them, which need the whole
		v.most = c.s.opt.Limits.BodyValues
	}
	if wants("bodyValues") { // which are read, printed and parsed
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
		if _, ok := parseHeader(unescape(top)); ok {
			names = append(names, unescape(top))
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

// longestValue returns the length of the longest text in bodyValues, in octets: no more of the others needs to be read.
func longestValue(sent *jmap.Value) int {
	n, values := 0, sent.Get("bodyValues")
	for i := range values.Len() {
		text, _ := values.At(i).Get("value").Text()
		n = max(n, len(text))
	}
	return n
}

// emailObject is an Email as Email/get tells it.
func (c *call) emailObject(d *mailbox.Reading, m *mailbox.Email, v *view) (*jmap.Value, error) {
	return c.rendered(func() error {
		r := renderer{c: c, view: v, d: d}
		return r.stored(m)
	})
}

// isBodyProperty reports whether body parts have a property.
func isBodyProperty(name string) bool {
	_, err := compileBodyProperties([]string{name}, true)
	return err == nil
}

// bodyNames returns the properties of body parts that stand in the body properties of an Email: of very many, more than maxNames.
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

// createdProperties are what a client is told of an Email that it created, beside what is told of any that is stored:
// what the server sets, and what it gives where the client gave nothing.
var createdProperties = []string{
	"blobId", "threadId", "size", "keywords", "receivedAt", "messageId", "sentAt", "hasAttachment", "preview",
}

// createdView is the view of them.
var createdView = func() view {
	p, err := compileProperties(createdProperties, true)
	if err != nil {
		panic(err)
	}
	return view{properties: p}
}()

// createdObjects are what a client is told of Emails that it created, beside ids; of one that is gone already nothing
// more than is known without it.
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
