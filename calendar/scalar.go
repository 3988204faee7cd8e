package calendar

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// InvalidError reports properties that an event cannot have, or not with these values.
type InvalidError struct {
	Properties []string
	Why        string
}

// Error implements error.
func (e *InvalidError) Error() string {
	return "invalid " + strings.Join(e.Properties, ", ") + ": " + e.Why
}

func invalid(why string, names ...string) error { return &InvalidError{names, why} }

// cleanText returns a text with LF as line end; ok is false if it has control characters, which TEXT cannot hold.
func cleanText(s string) (string, bool) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return s, !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
}

// line returns a text that is a value of a URI or parameter: without control characters.
func line(s string) (string, bool) {
	s, ok := cleanText(s)
	return s, ok && !strings.ContainsAny(s, "\n")
}

// textOf returns the text of a member, "" if it is missing or null.
func textOf(want *jmap.Value, name string) (string, bool) {
	v := want.Get(name)
	if v.IsNull() {
		return "", true
	}
	s, ok := v.Text()
	if !ok {
		return "", false
	}
	return cleanText(s)
}

// printText prints a TEXT property if the event has it. The name of the member is that of the field.
func printText(property string) func(*event, *jmap.Writer, func(string) bool) {
	name := map[string]string{"UID": "uid", "DESCRIPTION": "description", "COLOR": "color"}[property]
	return func(e *event, w *jmap.Writer, _ func(string) bool) {
		if p := e.c.Get(property); p != nil {
			w.Text(name, p.Text())
		}
	}
}

func setText(property string) func(e *event, old, want *jmap.Value) error {
	name := map[string]string{"DESCRIPTION": "description", "COLOR": "color"}[property]
	return func(e *event, _, want *jmap.Value) error {
		s, ok := textOf(want, name)
		if !ok {
			return invalid("it is no text", name)
		}
		e.c.SetText(property, s)
		return nil
	}
}

// setDescription also removes the description as HTML, which would not match any more.
func setDescription(e *event, old, want *jmap.Value) error {
	if err := setText("DESCRIPTION")(e, old, want); err != nil {
		return err
	}
	e.c.Drop("X-ALT-DESC")
	return nil
}

func setProduct(e *event, _, want *jmap.Value) error {
	s, ok := textOf(want, "prodId")
	if !ok {
		return invalid("it is no text", "prodId")
	}
	if s == "" {
		s = Product
	}
	e.object.SetText("PRODID", s)
	return nil
}

func printSequence(e *event, w *jmap.Writer, _ func(string) bool) {
	n, _ := strconv.ParseUint(e.c.Text("SEQUENCE"), 10, 31)
	w.Uint("sequence", n)
}

func printPriority(e *event, w *jmap.Writer, _ func(string) bool) {
	if n, err := strconv.ParseUint(e.c.Text("PRIORITY"), 10, 31); err == nil && n > 0 && n <= 9 {
		w.Uint("priority", n)
	}
}

// setNumber sets a property to a number between 0, which removes it, and most.
func setNumber(c *ical.Component, property, name string, most int64, want *jmap.Value) error {
	v := want.Get(name)
	n, ok := v.Int()
	if !v.IsNull() && (!ok || n < 0 || n > most) {
		return invalid("it is no number of 0 to "+strconv.FormatInt(most, 10), name)
	}
	if n == 0 {
		c.Drop(property)
		return nil
	}
	c.Set(ical.Property{Name: property, Value: strconv.FormatInt(n, 10)})
	return nil
}

func setSequence(e *event, _, want *jmap.Value) error {
	return setNumber(e.c, "SEQUENCE", "sequence", 1<<31-1, want)
}

func setPriority(e *event, _, want *jmap.Value) error {
	return setNumber(e.c, "PRIORITY", "priority", 9, want)
}

// printStamp prints the time of a property in UTC.
func printStamp(property string) func(*event, *jmap.Writer, func(string) bool) {
	return func(e *event, w *jmap.Writer, _ func(string) bool) {
		if m, ok := e.c.Get(property).Moment(); ok {
			w.Text("created", m.Wall.Format(utcTime))
		}
	}
}

// printUpdated prints LAST-MODIFIED, which DTSTAMP stands for where the event has none, and in messages.
func printUpdated(e *event, w *jmap.Writer, _ func(string) bool) {
	p := e.c.Get("LAST-MODIFIED")
	if p == nil || e.object.Get("METHOD") != nil {
		p = e.c.Get("DTSTAMP")
	}
	if m, ok := p.Moment(); ok {
		w.Text("updated", m.Wall.Format(utcTime))
	}
}

// utcDate returns a UTCDateTime of JSCalendar; ok is false if the member is something else. A missing one is zero.
func utcDate(want *jmap.Value, name string) (t time.Time, ok bool) {
	v := want.Get(name)
	if v.IsNull() {
		return t, true
	}
	s, _ := v.Text()
	t, ok = jmap.ParseDate(s, true)
	return t, ok && t.Year() >= 1
}

func setStamp(property string) func(e *event, old, want *jmap.Value) error {
	return func(e *event, _, want *jmap.Value) error {
		t, ok := utcDate(want, "created")
		if !ok {
			return invalid("it is no UTCDateTime", "created")
		}
		e.c.Drop(property)
		if !t.IsZero() {
			e.c.Set(ical.Property{Name: property, Value: t.Format(stamp)})
		}
		return nil
	}
}

func setUpdated(e *event, _, want *jmap.Value) error {
	t, ok := utcDate(want, "updated")
	if !ok || t.IsZero() {
		return invalid("it is no UTCDateTime", "updated")
	}
	e.c.Set(ical.Property{Name: "DTSTAMP", Value: t.Format(stamp)})
	e.c.Set(ical.Property{Name: "LAST-MODIFIED", Value: t.Format(stamp)})
	return nil
}

// printTitle prints the title and its language.
//
// Implements: RFC 8984 §4.2.1 title, §4.2.8 locale
func printTitle(e *event, w *jmap.Writer, wants func(string) bool) {
	p := e.c.Get("SUMMARY")
	if p == nil {
		return
	}
	if wants("title") {
		w.Text("title", p.Text())
	}
	if language := p.Param("LANGUAGE"); wants("locale") && language != "" {
		w.Text("locale", language)
	}
}

func setTitle(e *event, _, want *jmap.Value) error {
	title, ok := textOf(want, "title")
	if !ok {
		return invalid("it is no text", "title")
	}
	locale, ok := textOf(want, "locale")
	if locale, _ = line(locale); !ok {
		return invalid("it is no text", "locale")
	}
	e.c.SetText("SUMMARY", title)
	if p := e.c.Get("SUMMARY"); p != nil {
		if p.SetParam("LANGUAGE"); locale != "" {
			p.SetParam("LANGUAGE", locale)
		}
	}
	return nil
}

func printStatus(e *event, w *jmap.Writer, _ func(string) bool) {
	if s := strings.ToLower(e.c.Text("STATUS")); s != "" {
		w.Text("status", s)
	}
}

// setWord sets a property to the value of a member, which is one of a list, in capital letters. usual is the value of a
// missing member; it removes the property.
func setWord(c *ical.Component, property, name, usual string, words map[string]string, want *jmap.Value) error {
	s, ok := textOf(want, name)
	if s == "" {
		s = usual
	}
	value, known := words[s]
	if !ok || !known {
		return invalid("it is not one of the values of JSCalendar", name)
	}
	if s == usual {
		c.Drop(property)
		return nil
	}
	p := ical.Property{Name: property}
	if have := c.Get(property); have != nil {
		p = *have
	}
	p.Value = value
	c.Set(p)
	return nil
}

func setStatus(e *event, _, want *jmap.Value) error {
	if want.Get("status").IsNull() {
		e.c.Drop("STATUS")
		return nil
	}
	return setWord(e.c, "STATUS", "status", "", map[string]string{"confirmed": "CONFIRMED", "tentative": "TENTATIVE",
		"cancelled": "CANCELLED"}, want)
}

// printFreeBusy prints how the event counts in free time, where it is not the default of JSCalendar.
//
// Implements: RFC 8984 §4.4.2 freeBusyStatus
func printFreeBusy(e *event, w *jmap.Writer, _ func(string) bool) {
	if strings.EqualFold(e.c.Text("TRANSP"), "TRANSPARENT") {
		w.Text("freeBusyStatus", "free")
	}
}

func setFreeBusy(e *event, _, want *jmap.Value) error {
	return setWord(e.c, "TRANSP", "freeBusyStatus", "busy", map[string]string{"busy": "", "free": "TRANSPARENT"}, want)
}

// printPrivacy prints the class of the event, where it is not the default of JSCalendar.
//
// Implements: RFC 8984 §4.4.3 privacy
func printPrivacy(e *event, w *jmap.Writer, _ func(string) bool) {
	class := strings.ToUpper(e.c.Text("CLASS"))
	if class == "" || class == "PUBLIC" {
		return
	}
	privacy := "private" // RFC 5545 §3.8.1.3: a class that is not known is private
	if class == "CONFIDENTIAL" {
		privacy = "secret"
	}
	w.Text("privacy", privacy)
}

func setPrivacy(e *event, _, want *jmap.Value) error {
	return setWord(e.c, "CLASS", "privacy", "public", map[string]string{"public": "", "private": "PRIVATE",
		"secret": "CONFIDENTIAL"}, want)
}

// printKeywords prints the categories of the event.
//
// Implements: RFC 8984 §4.2.9 keywords
func printKeywords(e *event, w *jmap.Writer, _ func(string) bool) {
	list := e.categories()
	if len(list) == 0 {
		return
	}
	w.Object("keywords", func(o *jmap.Writer) {
		for _, name := range list {
			o.Key(name) // the sender chose the name
			o.B = append(o.B, "true"...)
		}
	})
}

// categories returns the categories of the event, each once and sorted.
func (e *event) categories() (list []string) {
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if p.Name != "CATEGORIES" {
			continue
		}
		from := 0
		for at := 0; at <= len(p.Value); at++ {
			switch {
			case at+1 < len(p.Value) && p.Value[at] == '\\':
				at++ // an escaped comma is part of the name
			case at >= len(p.Value) || p.Value[at] == ',':
				one := ical.Property{Value: p.Value[from:min(at, len(p.Value))]}
				if name := strings.TrimSpace(one.Text()); name != "" {
					list = append(list, name)
				}
				from = at + 1
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// names returns the names of a member that is a set: an object whose values are true.
func names(want *jmap.Value, name string) (list []string, ok bool) {
	v := want.Get(name)
	if v.IsNull() {
		return nil, true
	}
	if v.Kind() != jmap.Object {
		return nil, false
	}
	for i := range v.Len() {
		s, clean := line(v.Name(i))
		if on, isBool := v.At(i).Bool(); !isBool || !on || !clean || s == "" || s != strings.TrimSpace(s) {
			return nil, false
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return list, true
}

func setKeywords(e *event, _, want *jmap.Value) error {
	list, ok := names(want, "keywords")
	if !ok {
		return invalid("it is no set of words", "keywords")
	}
	for i, s := range list {
		list[i] = ical.EscapeText(s)
	}
	if e.c.Drop("CATEGORIES"); len(list) > 0 {
		e.c.Set(ical.Property{Name: "CATEGORIES", Value: strings.Join(list, ",")})
	}
	return nil
}

// printCategories prints the concepts of the event (RFC 9253 section 8.1).
//
// Implements: RFC 8984 §4.2.10 categories
func printCategories(e *event, w *jmap.Writer, _ func(string) bool) {
	var list []string
	for i := range e.c.Properties {
		if p := &e.c.Properties[i]; p.Name == "CONCEPT" && p.Value != "" && !slices.Contains(list, p.Value) {
			list = append(list, p.Value)
		}
	}
	if len(list) == 0 {
		return
	}
	w.Object("categories", func(o *jmap.Writer) {
		for _, name := range list {
			o.Key(name)
			o.B = append(o.B, "true"...)
		}
	})
}

func setCategories(e *event, _, want *jmap.Value) error {
	list, ok := names(want, "categories")
	if !ok {
		return invalid("it is no set of URIs", "categories")
	}
	e.c.Drop("CONCEPT")
	for _, uri := range list {
		e.c.Properties = append(e.c.Properties, ical.Property{Name: "CONCEPT", Value: uri})
	}
	return nil
}
