package rules

import (
	"errors"
	"strconv"
	"strings"

	"doublet/wire/mime"
	"doublet/wire/sieve"
)

// tests makes the tests that compare values with keys: the function returns the values.
var tests map[string]func(c *compiler, n *sieve.Node) func(*run) ([]value, error)

func init() {
	tests = map[string]func(c *compiler, n *sieve.Node) func(*run) ([]value, error){
		"address": (*compiler).address, "header": (*compiler).headerTest, "envelope": (*compiler).envelope,
		"body": (*compiler).body, "hasflag": (*compiler).hasflag, "string": (*compiler).stringTest,
		"date": (*compiler).date, "currentdate": (*compiler).currentdate, "environment": (*compiler).environment,
		"notify_method_capability": (*compiler).notifyCapability, "spamtest": (*compiler).spamtest,
	}
}

// test compiles a test.
func (c *compiler) test(n *sieve.Node) (test, error) {
	if n.Broken != "" {
		err := errors.New(n.Broken)
		return func(*run) (bool, error) { return false, err }, nil
	}
	t, err := c.anyTest(n)
	if err != nil {
		return nil, err
	}
	return func(r *run) (bool, error) {
		if err := r.spend(0); err != nil {
			return false, err
		}
		return t(r)
	}, nil
}

func (c *compiler) anyTest(n *sieve.Node) (test, error) {
	if values, ok := tests[n.Name]; ok {
		m, err := c.matcher(n, &n.Values[len(n.Values)-1])
		if err != nil {
			return nil, err
		}
		get := values(c, n)
		return func(r *run) (bool, error) {
			list, err := get(r)
			if err != nil {
				return false, err
			}
			return m.any(r, list)
		}, nil
	}
	switch n.Name {
	case "true", "false":
		is := n.Name == "true"
		return func(*run) (bool, error) { return is, nil }, nil
	case "not", "allof", "anyof":
		return c.logical(n)
	case "exists":
		return c.exists(n), nil
	case "size":
		return c.size(n), nil
	case "duplicate":
		return c.duplicate(n), nil
	case "mailboxexists":
		return c.mailboxExists(n), nil
	case "specialuse_exists":
		return c.specialUseExists(n), nil
	case "valid_notify_method":
		return c.validNotify(n), nil
	}
	return c.ihave(n), nil
}

// logical compiles not, allof and anyof, which stop at the first test that decides.
//
// Implements: RFC 5228 §5.2 allof, §5.3 anyof, §5.8 not
func (c *compiler) logical(n *sieve.Node) (test, error) {
	list := make([]test, len(n.Tests))
	for i, sub := range n.Tests {
		var err error
		if list[i], err = c.test(sub); err != nil {
			return nil, err
		}
	}
	if n.Name == "not" {
		return func(r *run) (bool, error) {
			ok, err := list[0](r)
			return !ok, err
		}, nil
	}
	decides := n.Name == "anyof"
	return func(r *run) (bool, error) {
		for _, t := range list {
			if ok, err := t(r); err != nil || ok == decides {
				return ok, err
			}
		}
		return !decides, nil
	}, nil
}

// exists compiles the test of fields.
//
// Implements: RFC 5228 §5.5 exists
func (c *compiler) exists(n *sieve.Node) test {
	names := c.texts(&n.Values[0])
	return func(r *run) (bool, error) {
		for i := range names {
			if err := r.spend(len(r.fields)); err != nil {
				return false, err
			}
			if len(r.named(r.expand(&names[i]), position{})) == 0 {
				return false, nil
			}
		}
		return true, nil
	}
}

// size compiles the test of the message's size.
//
// Implements: RFC 5228 §5.9 size
func (c *compiler) size(n *sieve.Node) test {
	over, limit := n.Has("over"), n.Values[0].Number
	return func(r *run) (bool, error) {
		size := uint64(len(r.message.Raw))
		if over {
			return size > limit, nil
		}
		return size < limit, nil
	}
}

// headerTest returns the values of fields.
//
// Implements: RFC 5228 §5.7 header
func (c *compiler) headerTest(n *sieve.Node) func(*run) ([]value, error) {
	names, at := c.texts(&n.Values[0]), positionOf(n)
	return func(r *run) ([]value, error) {
		if len(names) == 1 {
			return r.values(r.expand(&names[0]), at), nil
		}
		var out []value
		for i := range names {
			if err := r.spend(len(r.fields)); err != nil {
				return nil, err
			}
			out = append(out, r.values(r.expand(&names[i]), at)...)
		}
		return out, nil
	}
}

// address returns parts of the addresses in fields.
//
// Implements: RFC 5228 §5.1 address
func (c *compiler) address(n *sieve.Node) func(*run) ([]value, error) {
	names, at, part := c.texts(&n.Values[0]), positionOf(n), partOf(n)
	return func(r *run) ([]value, error) {
		var out []value
		for i := range names {
			list, err := r.addresses(r.expand(&names[i]), at)
			if err == nil {
				err = r.spend(len(list))
			}
			if err != nil {
				return nil, err
			}
			for _, a := range list {
				if s, ok := part.of(a.Mailbox, a.Host); ok {
					out = append(out, value{text: s})
				}
			}
		}
		return out, nil
	}
}

// envelope returns parts of the envelope's addresses. The null sender is the empty string, in every part.
//
// Implements: RFC 5228 §5.4 envelope
func (c *compiler) envelope(n *sieve.Node) func(*run) ([]value, error) {
	names, part := c.texts(&n.Values[0]), partOf(n)
	return func(r *run) ([]value, error) {
		var out []value
		for i := range names {
			address := ""
			switch strings.ToLower(r.expand(&names[i])) {
			case "from":
				if address = r.message.From; address == "" {
					if part != partDetail {
						out = append(out, value{})
					}
					continue
				}
			case "to":
				address = r.message.To
			default:
				continue
			}
			local, domain := address, ""
			if at := strings.LastIndexByte(address, '@'); at >= 0 {
				local, domain = address[:at], address[at+1:]
			}
			if s, ok := part.of(local, domain); ok {
				out = append(out, value{text: s})
			}
		}
		return out, nil
	}
}

// body returns texts of the body.
//
// Implements: RFC 5173 §5 transformations of the body
func (c *compiler) body(n *sieve.Node) func(*run) ([]value, error) {
	transform, types := "text", []text{{plain: "text"}}
	if n.Has("raw") {
		transform = "raw"
	}
	if a, ok := n.Tags["content"]; ok {
		transform, types = "content", c.texts(&a)
	}
	return func(r *run) ([]value, error) {
		if transform == "raw" {
			return r.bodyTexts("raw", func() []value {
				raw := r.message.Raw
				return []value{{text: string(raw[mime.HeaderEnd(raw):][:min(maxBody, len(raw)-mime.HeaderEnd(raw))])}}
			})
		}
		want := r.expandAll(types)
		return r.bodyTexts(transform+" "+strings.Join(want, "\x00"), func() []value {
			return r.partTexts(want, transform == "text")
		})
	}
}

// bodyTexts returns texts, and remembers them for other tests of the same kind. The number of kinds is bounded, because
// each may decode the whole message.
func (r *run) bodyTexts(key string, read func() []value) ([]value, error) {
	if list, ok := r.texts[key]; ok {
		return list, nil
	}
	if len(r.texts) == maxTransforms {
		return nil, errTransforms
	}
	if r.texts == nil {
		r.texts = map[string][]value{}
	}
	list := read()
	for i := range list {
		r.steps -= len(list[i].text) / 16
	}
	r.texts[key] = list
	return list, nil
}

// partTexts returns the decoded texts of the parts with one of the types, such as "text" or "text/html". plain removes
// the markup of HTML.
func (r *run) partTexts(types []string, plain bool) []value {
	var out []value
	left := maxBody
	raw := r.message.Raw
	var walk func(p *mime.Part)
	walk = func(p *mime.Part) {
		for _, c := range p.Children {
			walk(c)
		}
		if p.IsMultipart() || left <= 0 || !hasType(types, p) {
			return
		}
		var s string
		size := 0 // before markup is removed
		switch {
		case p.IsMessage():
			s = string(p.Body(raw)[:min(left, mime.HeaderEnd(p.Body(raw)))])
		case p.Type == "text":
			if s, _ = mime.DecodeText(p, raw, left); plain && p.Subtype == "html" {
				size = len(s)
				s = mime.HTMLText(s)
			}
		default:
			b, _ := mime.AppendDecoded(nil, p.Body(raw), mime.EncodingOf(p.Encoding), left)
			s = string(b)
		}
		left -= max(size, len(s))
		out = append(out, value{text: s})
	}
	if r.parsed == nil {
		r.parsed = mime.Parse(raw, mime.DefaultLimits)
	}
	walk(r.parsed)
	return out
}

func hasType(types []string, p *mime.Part) bool {
	for _, t := range types {
		kind, sub, both := strings.Cut(t, "/")
		if t == "" || strings.EqualFold(kind, p.Type) && (!both || strings.EqualFold(sub, p.Subtype)) {
			return true
		}
	}
	return false
}

// hasflag returns flags.
//
// Implements: RFC 5232 §4 hasflag
func (c *compiler) hasflag(n *sieve.Node) func(*run) ([]value, error) {
	var names []text
	if len(n.Values) == 2 {
		names = c.texts(&n.Values[0])
	}
	return func(r *run) ([]value, error) {
		flags := r.flags
		if names != nil {
			flags = nil
			for i := range names {
				flags = addFlags(flags, strings.Fields(r.get(strings.ToLower(r.expand(&names[i])))))
			}
		}
		return valuesOf(flags), nil
	}
}

func valuesOf(list []string) []value {
	out := make([]value, len(list))
	for i, s := range list {
		out[i].text = s
	}
	return out
}

// stringTest returns strings.
//
// Implements: RFC 5229 §5 string
func (c *compiler) stringTest(n *sieve.Node) func(*run) ([]value, error) {
	sources, count := c.texts(&n.Values[0]), n.Has("count")
	return func(r *run) ([]value, error) {
		var out []value
		for _, s := range r.expandAll(sources) {
			if !count || s != "" { // empty strings are not counted
				out = append(out, value{text: s})
			}
		}
		return out, nil
	}
}

// environment returns an item.
//
// Implements: RFC 5183 §4 environment
func (c *compiler) environment(n *sieve.Node) func(*run) ([]value, error) {
	name := c.text(n.Values[0].Text)
	return func(r *run) ([]value, error) {
		s, ok := r.world.Items[strings.ToLower(r.expand(&name))]
		if !ok {
			return nil, nil
		}
		return []value{{text: s}}, nil
	}
}

// spamtest returns the score of the junk filter: from 1 to 10, or from 0 to 100 with :percent. It is 0 for a message
// that was not classified. Scores are rounded down, so that 10 and 100 are of what is certainly junk. With :percent, 0
// may be a score, too: :count is 0 for a message that was not classified, and 1 for others (RFC 5235 §2.2).
//
// Implements: RFC 5235 §2.2.1 spamtest
// Implements: RFC 5235 §2.2.2 spamtest with :percent
func (c *compiler) spamtest(n *sieve.Node) func(*run) ([]value, error) {
	percent, count := n.Has("percent"), n.Has("count")
	return func(r *run) ([]value, error) {
		n := 0
		switch score := r.message.Score; {
		case score == nil && percent && count:
			return nil, nil
		case score == nil:
		case percent:
			n = int(100 * *score)
		default:
			n = 1 + int(9**score)
		}
		return []value{{text: strconv.Itoa(n)}}, nil
	}
}

// notifyCapability answers about notification methods.
//
// Implements: RFC 5435 §5 notify_method_capability
func (c *compiler) notifyCapability(n *sieve.Node) func(*run) ([]value, error) {
	uri, name := c.text(n.Values[0].Text), c.text(n.Values[1].Text)
	return func(r *run) ([]value, error) {
		if _, err := sieve.ParseMailto(r.expand(&uri)); err != nil || !strings.EqualFold(r.expand(&name), "online") {
			return nil, nil //nolint:nilerr // an unknown method has no capabilities
		}
		return []value{{text: "maybe"}}, nil
	}
}

// validNotify compiles the test of notification methods.
//
// Implements: RFC 5435 §4 valid_notify_method
func (c *compiler) validNotify(n *sieve.Node) test {
	uris := c.texts(&n.Values[0])
	return func(r *run) (bool, error) {
		for _, s := range r.expandAll(uris) {
			if err := r.spend(len(s)); err != nil {
				return false, err
			}
			if _, err := sieve.ParseMailto(s); err != nil {
				return false, nil //nolint:nilerr // that is the answer
			}
		}
		return true, nil
	}
}

// folderWork is the work of a question about a folder, in bytes that are compared: a mail file may have thousands.
const folderWork = 1024

// mailboxExists compiles the test of folders.
//
// Implements: RFC 5490 §3.1 mailboxexists
func (c *compiler) mailboxExists(n *sieve.Node) test {
	names := c.texts(&n.Values[0])
	return func(r *run) (bool, error) {
		for i := range names {
			if err := r.spend(folderWork); err != nil {
				return false, err
			}
			if r.world.Mailbox == nil || !r.world.Mailbox(r.expand(&names[i])) {
				return false, nil
			}
		}
		return true, nil
	}
}

// specialUseExists compiles the test of special uses.
//
// Implements: RFC 8579 §3 specialuse_exists
func (c *compiler) specialUseExists(n *sieve.Node) test {
	var folder text
	if len(n.Values) == 2 {
		folder = c.text(n.Values[0].Text)
	}
	uses := c.texts(&n.Values[len(n.Values)-1])
	return func(r *run) (bool, error) {
		for i := range uses {
			if err := r.spend(folderWork); err != nil {
				return false, err
			}
			if r.world.SpecialUse == nil || !r.world.SpecialUse(r.expand(&folder), r.expand(&uses[i])) {
				return false, nil
			}
		}
		return true, nil
	}
}

// ihave compiles the test of capabilities.
//
// Implements: RFC 5463 §4 ihave
func (c *compiler) ihave(n *sieve.Node) test {
	has := true
	for _, s := range n.Values[0].Strings() {
		has = has && sieve.Supported(s)
		c.variables = c.variables || s == "variables" && has
	}
	return func(*run) (bool, error) { return has, nil }
}
