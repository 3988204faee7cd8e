package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"doublet/mail/fields"
	"doublet/wire/mime"
	"doublet/wire/sieve"
)

// actions makes the commands that change a run.
var actions = map[string]func(c *compiler, n *sieve.Node) func(*run) error{
	"keep": (*compiler).keep, "discard": (*compiler).discard, "fileinto": (*compiler).fileinto,
	"redirect": (*compiler).redirect, "reject": (*compiler).reject, "ereject": (*compiler).reject,
	"vacation": (*compiler).vacation, "setflag": (*compiler).flag, "addflag": (*compiler).flag,
	"removeflag": (*compiler).flag, "addheader": (*compiler).addheader, "deleteheader": (*compiler).deleteheader,
	"set": (*compiler).set, "global": (*compiler).global, "notify": (*compiler).notify, "error": (*compiler).error,
}

// flagsOf returns the flags for a filing: those of the tag :flags, else the internal variable.
//
// Implements: RFC 5232 §5 the tag :flags
func (c *compiler) flagsOf(n *sieve.Node) func(*run) []string {
	a, ok := n.Tags["flags"]
	if !ok {
		return func(r *run) []string { return slices.Clone(r.flags) }
	}
	list := c.texts(&a)
	return func(r *run) []string { return addFlags(nil, r.expandAll(list)) }
}

// addFlags adds the words of a list to flags.
func addFlags(flags, list []string) []string {
	for _, s := range list {
		for _, w := range strings.Fields(s) {
			has := slices.ContainsFunc(flags, func(f string) bool { return strings.EqualFold(f, w) })
			if !has && len(flags) < maxFlags && len(w) <= 255 {
				flags = append(flags, w)
			}
		}
	}
	return flags
}

func withoutFlags(flags, list []string) []string {
	gone := addFlags(nil, list)
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool {
		return slices.ContainsFunc(gone, func(g string) bool { return strings.EqualFold(f, g) })
	})
}

// keep compiles the action that stores the message where it goes without a script.
//
// Implements: RFC 5228 §4.3 keep
func (c *compiler) keep(n *sieve.Node) func(*run) error {
	flags := c.flagsOf(n)
	return func(r *run) error {
		r.keep = false
		r.file(Filing{Flags: flags(r)})
		return r.act()
	}
}

// discard compiles the action that drops the message.
//
// Implements: RFC 5228 §4.4 discard
func (c *compiler) discard(*sieve.Node) func(*run) error {
	return func(r *run) error {
		r.keep = false
		return r.act()
	}
}

// fileinto compiles the action that stores the message in a folder.
//
// Implements: RFC 5228 §4.1 fileinto
// Implements: RFC 3894 §3 the tag :copy
// Implements: RFC 5490 §3.2 the tag :create
// Implements: RFC 8579 §4 the tag :specialuse
func (c *compiler) fileinto(n *sieve.Node) func(*run) error {
	flags, folder := c.flagsOf(n), c.text(n.Values[0].Text)
	use, _ := c.tag(n, "specialuse")
	create, cp := n.Has("create"), n.Has("copy")
	return func(r *run) error {
		r.keep = r.keep && cp
		name := r.expand(&folder)
		if name == "" {
			return errors.New("fileinto needs the name of a folder")
		}
		r.file(Filing{Folder: name, Use: r.expand(&use), Create: create, Flags: flags(r)})
		return r.act()
	}
}

// redirect compiles the action that sends the message on.
//
// Implements: RFC 5228 §4.2 redirect
func (c *compiler) redirect(n *sieve.Node) func(*run) error {
	to, cp := c.text(n.Values[0].Text), n.Has("copy")
	return func(r *run) error {
		r.keep = r.keep && cp
		address := r.expand(&to)
		if !sieve.Address(address) {
			return fmt.Errorf("redirect needs an address, found %.80q", address)
		}
		if !slices.ContainsFunc(r.out.Redirects, func(a string) bool { return strings.EqualFold(a, address) }) {
			r.out.Redirects = append(r.out.Redirects, address)
		}
		if len(r.out.Redirects) > MaxRedirects {
			return errRedirects
		}
		return r.act()
	}
}

// reject compiles the action that refuses the message.
//
// Implements: RFC 5429 §2.1 ereject
// Implements: RFC 5429 §2.2 reject
func (c *compiler) reject(n *sieve.Node) func(*run) error {
	reason := c.text(n.Values[0].Text)
	return func(r *run) error {
		o := &r.out
		if o.Rejected || len(o.Filings)+len(o.Redirects) > 0 || o.Vacation != nil {
			return errActive
		}
		r.keep = false
		if err := r.act(); err != nil {
			return err
		}
		o.Rejected, o.Reason = true, r.expand(&reason)
		return nil
	}
}

// vacation compiles the automatic reply.
//
// Implements: RFC 5230 §4 vacation
// Implements: RFC 6131 §2 the tag :seconds
func (c *compiler) vacation(n *sieve.Node) func(*run) error {
	reason, isMIME := c.text(n.Values[0].Text), n.Has("mime")
	subject, _ := c.tag(n, "subject")
	from, _ := c.tag(n, "from")
	handle, named := c.tag(n, "handle")
	var addresses []text
	if a, ok := n.Tags["addresses"]; ok {
		addresses = c.texts(&a)
	}
	days := uint64(7)
	if a, ok := n.Tags["days"]; ok {
		days = min(max(a.Number, 1), 90)
	}
	interval := time.Duration(days) * 24 * time.Hour
	if a, ok := n.Tags["seconds"]; ok {
		interval = time.Duration(min(max(a.Number, 60), 90*86400)) * time.Second
	}
	return func(r *run) error {
		if r.out.Vacation != nil {
			return errors.New("vacation may run only once for a message")
		}
		v := &Vacation{Subject: r.expand(&subject), From: r.expand(&from), Text: r.expand(&reason), MIME: isMIME,
			Addresses: r.expandAll(addresses), Interval: interval}
		v.Handle = r.expand(&handle)
		if !named {
			v.Handle = strings.Join([]string{v.Subject, v.From, v.Text, strconv.FormatBool(isMIME)}, "\x00")
		}
		if err := r.act(); err != nil {
			return err
		}
		r.out.Vacation = v
		return nil
	}
}

// flag compiles setflag, addflag and removeflag.
//
// Implements: RFC 5232 §3 setflag, addflag, removeflag
func (c *compiler) flag(n *sieve.Node) func(*run) error {
	list := c.texts(&n.Values[len(n.Values)-1])
	change := func(old, words []string) []string { return addFlags(old, words) }
	switch n.Name {
	case "setflag":
		change = func(_, words []string) []string { return addFlags(nil, words) }
	case "removeflag":
		change = withoutFlags
	}
	if len(n.Values) == 1 {
		return func(r *run) error {
			r.flags = change(slices.Clone(r.flags), r.expandAll(list))
			return nil
		}
	}
	name := strings.ToLower(n.Values[0].Text)
	return func(r *run) error {
		return r.put(name, strings.Join(change(strings.Fields(r.get(name)), r.expandAll(list)), " "))
	}
}

// addheader compiles the addition of a field.
//
// Implements: RFC 5293 §4 addheader
func (c *compiler) addheader(n *sieve.Node) func(*run) error {
	name, text, last := c.text(n.Values[0].Text), c.text(n.Values[1].Text), n.Has("last")
	return func(r *run) error {
		title := r.expand(&name)
		if !sieve.FieldName(title) {
			return fmt.Errorf("invalid name of a header field %.40q", title)
		}
		return r.add(title, strings.TrimSpace(r.expand(&text)), last)
	}
}

// deleteheader compiles the removal of fields.
//
// Implements: RFC 5293 §5 deleteheader
func (c *compiler) deleteheader(n *sieve.Node) func(*run) error {
	name, at := c.text(n.Values[0].Text), positionOf(n)
	var m *matcher
	if len(n.Values) == 2 {
		var err error
		if m, err = c.matcher(n, &n.Values[1]); err != nil {
			return func(*run) error { return err }
		}
	}
	return func(r *run) error {
		title := r.expand(&name)
		if slices.Contains(protected, strings.ToLower(title)) {
			return nil
		}
		gone := map[*byte]bool{}
		for _, f := range r.named(title, at) {
			ok := true
			if m != nil {
				var err error
				v := []value{{text: mime.DecodeWords(mime.Unfold(f.value))}}
				if ok, err = m.any(r, v); err != nil {
					return err
				}
			}
			if ok {
				gone[&f.raw[0]] = true
			}
		}
		if len(gone) > 0 {
			r.fields = slices.DeleteFunc(r.fields, func(f field) bool { return gone[&f.raw[0]] })
			r.edited, r.cache, r.people = true, nil, nil
		}
		return nil
	}
}

// set compiles the assignment of a variable. Modifiers of higher precedence come first.
//
// Implements: RFC 5229 §4 set and its modifiers
// Implements: RFC 5435 §6 the modifier :encodeurl
func (c *compiler) set(n *sieve.Node) func(*run) error {
	name, text := strings.ToLower(n.Values[0].Text), c.text(n.Values[1].Text)
	var modify []func(string) string
	for _, m := range []struct {
		tag string
		fn  func(string) string
	}{
		{"lower", strings.ToLower}, {"upper", strings.ToUpper},
		{"lowerfirst", func(s string) string { return first(s, strings.ToLower) }},
		{"upperfirst", func(s string) string { return first(s, strings.ToUpper) }},
		{"quotewildcard", strings.NewReplacer(`*`, `\*`, `?`, `\?`, `\`, `\\`).Replace},
		{"quoteregex", quoteRegexp}, {"encodeurl", func(s string) string {
			return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
		}},
		{"length", func(s string) string { return strconv.Itoa(utf8.RuneCountInString(s)) }},
	} {
		if n.Has(m.tag) {
			modify = append(modify, m.fn)
		}
	}
	return func(r *run) error {
		s := shorten(r.expand(&text), maxValue)
		for _, fn := range modify {
			s = fn(s)
		}
		return r.put(name, s)
	}
}

func quoteRegexp(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func first(s string, fn func(string) string) string {
	_, n := utf8.DecodeRuneInString(s)
	return fn(s[:n]) + s[n:]
}

// global compiles the declaration of shared variables.
//
// Implements: RFC 6609 §3.4.1 global
func (c *compiler) global(n *sieve.Node) func(*run) error {
	names := n.Values[0].Strings()
	return func(r *run) error {
		if r.global == nil {
			r.global = map[string]bool{}
		}
		for _, s := range names {
			r.global[strings.ToLower(s)] = true
		}
		return nil
	}
}

// notify compiles the notification by mail.
//
// Implements: RFC 5435 §3 notify
// Implements: RFC 5436 §2 the method mailto
func (c *compiler) notify(n *sieve.Node) func(*run) error {
	uri := c.text(n.Values[0].Text)
	from, _ := c.tag(n, "from")
	importance, _ := c.tag(n, "importance")
	message, _ := c.tag(n, "message")
	return func(r *run) error {
		m, err := sieve.ParseMailto(r.expand(&uri))
		if err != nil {
			return err
		}
		if len(r.out.Notices) == maxNotices {
			return errNotices
		}
		notice := Notice{To: m.To, From: r.expand(&from), Importance: r.expand(&importance), Fields: m.Fields,
			Subject: r.expand(&message), Text: m.Body}
		if notice.Subject == "" {
			if notice.Subject = m.Subject; notice.Subject == "" {
				notice.Subject = r.summary()
			}
		}
		if notice.Text == "" {
			notice.Text = r.summary()
		}
		r.out.Notices = append(r.out.Notices, notice)
		return r.act()
	}
}

// summary describes the message in a line.
func (r *run) summary() string {
	from, subject := "", "(no subject)"
	if list := r.values("From", position{index: 1}); len(list) > 0 {
		from = list[0].text
	}
	if list := r.values("Subject", position{index: 1}); len(list) > 0 {
		subject = list[0].text
	}
	return fields.OneLine(from + ": " + subject)
}

// error compiles the command that fails.
//
// Implements: RFC 5463 §5 error
func (c *compiler) error(n *sieve.Node) func(*run) error {
	text := c.text(n.Values[0].Text)
	return func(r *run) error { return fmt.Errorf("script reports: %.200s", r.expand(&text)) }
}

// duplicate compiles the test of messages that were seen before. The marks are remembered when the script succeeds.
//
// Implements: RFC 7352 §3 duplicate
func (c *compiler) duplicate(n *sieve.Node) test {
	handle, _ := c.tag(n, "handle")
	header, byHeader := c.tag(n, "header")
	unique, byID := c.tag(n, "uniqueid")
	last := n.Has("last")
	period := DefaultDuplicate
	if a, ok := n.Tags["seconds"]; ok {
		period = min(time.Duration(min(a.Number, 1<<31))*time.Second, MaxDuplicate)
	}
	return func(r *run) (bool, error) {
		id, kind := r.expand(&unique), "u"
		if !byID {
			name := "Message-ID"
			if kind = "m"; byHeader {
				name, kind = r.expand(&header), "h"
			}
			list := r.values(name, position{index: 1})
			if len(list) == 0 {
				return false, nil
			}
			id = list[0].text
		}
		sum := sha256.Sum256([]byte(r.expand(&handle) + "\x00" + kind + "\x00" + id))
		mark := base64.RawURLEncoding.EncodeToString(sum[:16])
		seen := r.world.Seen != nil && r.world.Seen(mark)
		if r.out.Seen == nil {
			r.out.Seen = map[string]bool{}
		}
		if r.out.Seen[mark] = seen; seen && !last {
			return true, nil
		}
		marked := slices.ContainsFunc(r.out.Marks, func(m Mark) bool { return m.Name == mark })
		if len(r.out.Marks) < maxActions && !marked {
			r.out.Marks = append(r.out.Marks, Mark{mark, r.world.Now.Add(period)})
		}
		return seen, nil
	}
}
