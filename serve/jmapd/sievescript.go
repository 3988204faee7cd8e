package jmapd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/mail/rules"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/sieve"
)

// putSieveCapability puts the capability object of an account.
//
// Implements: RFC 9661 §1.2.1 the capability of an account
func putSieveCapability(o *jmap.Writer) {
	o.Uint("maxSizeScriptName", scripts.MaxName)
	o.Uint("maxSizeScript", scripts.MaxSize)
	o.Uint("maxNumberScripts", scripts.Max)
	o.Uint("maxNumberRedirects", rules.MaxRedirects)
	o.Strings("sieveExtensions", sieve.Extensions()...)
	o.Strings("notificationMethods", "mailto")
	o.Raw("externalLists", "null")
}

var scriptProperties = []string{"id", "name", "blobId", "isActive"}

// scriptBlobID returns the id of the blob with the text of a script. It is a hash of the text, since a blob never
// changes.
func scriptBlobID(text string) string {
	return blobRef{letter: letterSieve, unid: note.DeriveUNID([]byte("sieve"), []byte(text))}.String()
}

// openScript opens the text of a script.
//
// Implements: RFC 9661 §2.2 contents are blobs
func (c *call) openScript(a *Account, ref blobRef) (out *blob, err error) {
	if !a.Personal {
		return nil, errNoBlob
	}
	err = a.File.Read(c.ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(a.File, d)
		if err != nil {
			return err
		}
		for i := range l.Scripts {
			text, err := scripts.Text(d, &l.Scripts[i])
			if err != nil {
				return err
			}
			if scriptBlobID(text) == ref.String() {
				out = memoryBlob([]byte(text), "application/sieve")
				return nil
			}
		}
		return errNoBlob
	})
	return out, err
}

// scriptGet answers SieveScript/get.
//
// Implements: RFC 9661 §2.1 properties
// Implements: RFC 9661 §2.3 SieveScript/get
func scriptGet(c *call) error {
	g, err := c.getArguments(own, scriptProperties)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(c.account.File, d)
		if err != nil {
			return err
		}
		var failed error
		answerGet(&g, l.State(), l.Scripts, findScript(l), func(dst []byte, s *scripts.Script) []byte {
			text := ""
			if g.wants("blobId") && failed == nil {
				text, failed = scripts.Text(d, s)
			}
			return appendScript(dst, s, text, g.wants)
		})
		return failed
	})
}

// findScript returns a function that finds the script with an id of this protocol.
func findScript(l *scripts.List) func(id string) *scripts.Script {
	return func(id string) *scripts.Script {
		u, _ := parseID(letterScript, id) // malformed: the zero UNID, which no script has
		return l.WithID(u)
	}
}

func appendScript(dst []byte, s *scripts.Script, text string, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", idOf(letterScript, s.ID))
	if wants("name") {
		o.Text("name", s.Name)
	}
	if wants("blobId") {
		o.Text("blobId", scriptBlobID(text))
	}
	if wants("isActive") {
		o.Bool("isActive", s.Active)
	}
	return o.End()
}

// scriptQuery answers SieveScript/query.
//
// Implements: RFC 9661 §2.5 SieveScript/query
func scriptQuery(c *call) error {
	return c.query(own, func() (out queryResults, err error) {
		fits, err := match(c, scriptCondition)
		if err != nil {
			return out, err
		}
		keys, err := c.sortKeys("name", "isActive")
		if err != nil {
			return out, err
		}
		var l *scripts.List
		err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) (err error) {
			l, err = scripts.Read(c.account.File, d)
			return err
		})
		if err != nil {
			return out, err
		}
		out.state = l.State()
		out.ids = sortedScripts(l, fits, keys)
		return out, nil
	})
}

// scriptCondition reads one property of a FilterCondition.
func scriptCondition(name string, v *jmap.Value) (matcher[*scripts.Script], error) {
	switch name {
	case "name":
		if text, ok := v.Text(); ok {
			text = strings.ToLower(text)
			return func(s *scripts.Script) bool { return strings.Contains(strings.ToLower(s.Name), text) }, nil
		}
	case "isActive":
		if on, ok := v.Bool(); ok {
			return func(s *scripts.Script) bool { return s.Active == on }, nil
		}
	default:
		return nil, noCondition(name)
	}
	return nil, invalid("the filter's %s is not what it should be", name)
}

// scriptValidate answers SieveScript/validate.
//
// Implements: RFC 9661 §2.6 SieveScript/validate
func scriptValidate(c *call) error {
	if err := c.arguments(own, "blobId"); err != nil {
		return err
	}
	id, err := c.needText("blobId")
	if err != nil {
		return err
	}
	text, err := c.scriptText(id)
	if err == nil {
		err = scripts.Check(text)
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	if err == nil {
		o.Raw("error", "null")
	} else {
		o.Name("error")
		o.B = c.setError(scriptError(err)).Append(o.B)
	}
	c.out = o.End()
	return nil
}

// scriptText reads a script from a blob.
func (c *call) scriptText(blobID string) (string, error) {
	b, err := c.openBlob(c.account, blobID)
	if errors.Is(err, errNoBlob) {
		return "", &jmap.Error{Type: "blobNotFound", NotFound: []string{blobID}}
	}
	if err != nil {
		return "", err
	}
	defer b.close()
	if b.size > scripts.MaxSize {
		return "", scripts.ErrTooBig
	}
	text, err := b.all()
	return string(text), err
}

// scriptError returns the SetError for an error of package scripts, or the error itself.
func scriptError(err error) error {
	var mistakes sieve.Errors
	switch {
	case errors.As(err, &mistakes):
		return &jmap.Error{Type: "invalidSieve", Description: mistakes.Error()}
	case errors.Is(err, scripts.ErrTooBig):
		return &jmap.Error{Type: "tooLarge", LimitName: "maxSize", Limit: scripts.MaxSize}
	case errors.Is(err, scripts.ErrMany):
		return &jmap.Error{Type: "overQuota", Description: fmt.Sprintf("There are at most %d scripts.", scripts.Max)}
	case errors.Is(err, scripts.ErrName):
		return badProperties(err.Error(), "name")
	case errors.Is(err, scripts.ErrActive):
		return &jmap.Error{Type: "sieveIsActive"}
	case errors.Is(err, scripts.ErrNotFound):
		return &jmap.Error{Type: "notFound"}
	}
	return err
}

// compareScripts compares scripts by a property.
func compareScripts(property string, a, b *scripts.Script) int {
	if property == "name" {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	}
	return cmp.Compare(active(a), active(b))
}

func active(s *scripts.Script) int {
	if s.Active {
		return 1
	}
	return 0
}

// sortedScripts returns the ids of the scripts that fit, in order.
func sortedScripts(l *scripts.List, fits matcher[*scripts.Script], keys []sortKey) (ids []string) {
	var found []*scripts.Script
	for i := range l.Scripts {
		if s := &l.Scripts[i]; fits(s) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, compareBy(keys, compareScripts))
	for _, s := range found {
		ids = append(ids, idOf(letterScript, s.ID))
	}
	return ids
}
