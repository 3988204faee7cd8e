// Package speech selects the language and time zone of server-rendered pages: the lite mode, the pages for passwords
// and sessions, and the pages for people without an account. It shares its texts with the web clients (web.Texts).
package speech

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/web"
)

// Cookie is the name of the cookie with the language and time zone that a person chose in any client:
// "de|Europe/Berlin".
const Cookie = "doublet-speech"

// Language is a supported language, with its own name for itself.
type Language struct{ Code, Name string }

// Languages lists the supported languages.
var Languages = []Language{{"en", "English"}, {"de", "Deutsch"}, {"zh", "中文"}}

var texts = sync.OnceValue(web.Texts)

// Speech holds the language and the time zone of a page.
type Speech struct {
	Lang     string
	Zone     string // as chosen; "" for the server's time zone
	Location *time.Location
	Now      time.Time
	texts    map[string]string
}

// Known reports whether a language is supported.
func Known(lang string) bool { return texts()[lang] != nil }

// Of returns the Speech for a request: as the user chose, else the language of Accept-Language, else English.
func Of(r *http.Request, now time.Time) *Speech {
	p := &Speech{Location: time.Local}
	if c, err := r.Cookie(Cookie); err == nil {
		lang, zone, _ := strings.Cut(c.Value, "|")
		p.choose(lang)
		if at, err := time.LoadLocation(zone); err == nil && zone != "" && zone != "Local" && len(zone) < 100 {
			p.Zone, p.Location = zone, at
		}
	}
	for tag := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		if p.texts != nil {
			break
		}
		tag, _, _ = strings.Cut(tag, ";")
		tag, _, _ = strings.Cut(strings.TrimSpace(tag), "-")
		p.choose(strings.ToLower(tag))
	}
	if p.texts == nil {
		p.choose("en")
	}
	p.Now = now.In(p.Location)
	return p
}

// English returns the English text of a key, for text that programs read.
func English(key string, values ...any) string { return text(texts()["en"], key, values) }

// Choose sets the cookie for a language and a time zone ("" for the server's).
func Choose(w http.ResponseWriter, r *http.Request, lang, zone string) {
	// Not HttpOnly, because the full client writes it too. SameSite=Lax, so that a page opened by a link has the right
	// language.
	http.SetCookie(w, &http.Cookie{Name: Cookie, Value: lang + "|" + zone, Path: "/", Secure: r.TLS != nil,
		SameSite: http.SameSiteLaxMode, MaxAge: 365 * 24 * 3600})
}

func (p *Speech) choose(lang string) {
	if t := texts()[lang]; t != nil {
		p.Lang, p.texts = lang, t
	}
}

// T returns the text of a key, with values inserted for {0}, {1} ….
func (p *Speech) T(key string, values ...any) string { return text(p.texts, key, values) }

func text(texts map[string]string, key string, values []any) string {
	text, ok := texts[key]
	if !ok {
		return key
	}
	for i, v := range values {
		var s string
		switch v := v.(type) {
		case string:
			s = v
		case int:
			s = strconv.Itoa(v)
		}
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i)+"}", s)
	}
	return text
}

var months = map[string][]string{
	"en": {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"},
	"de": {"Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."},
}

// Short formats a date briefly: the time today, else the day, with the year if it is not this year.
func (p *Speech) Short(t time.Time) string {
	t = t.In(p.Location)
	switch {
	case t.Year() == p.Now.Year() && t.YearDay() == p.Now.YearDay():
		return t.Format("15:04")
	case t.Year() != p.Now.Year():
		return t.Format("2006-01-02")
	}
	return p.day(t)
}

func (p *Speech) day(t time.Time) string {
	day := strconv.Itoa(t.Day())
	switch p.Lang {
	case "de":
		return day + ". " + months["de"][t.Month()-1]
	case "zh":
		return strconv.Itoa(int(t.Month())) + "月" + day + "日"
	}
	return months["en"][t.Month()-1] + " " + day
}

// Long formats a date with year, time and zone.
func (p *Speech) Long(t time.Time) string {
	t = t.In(p.Location)
	switch p.Lang {
	case "de":
		return p.day(t) + t.Format(" 2006, 15:04 MST")
	case "zh":
		return t.Format("2006年") + p.day(t) + t.Format(" 15:04 MST")
	}
	return p.day(t) + t.Format(", 2006, 15:04 MST")
}

// ISO formats a date for programs, as RFC 3339 in UTC.
func (p *Speech) ISO(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Date formats a date as a day with its year.
func (p *Speech) Date(t time.Time) string { return t.In(p.Location).Format("2006-01-02") }

var weekdays = map[string][]string{
	"en": {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"},
	"de": {"So.", "Mo.", "Di.", "Mi.", "Do.", "Fr.", "Sa."},
	"zh": {"周日", "周一", "周二", "周三", "周四", "周五", "周六"},
}

// Weekday returns the short name of the day of the week.
func (p *Speech) Weekday(d time.Weekday) string { return weekdays[p.Lang][d] }

// Day formats a day with its weekday, and with the year if it is not this year. The day is that of t's own location.
func (p *Speech) Day(t time.Time) string {
	year := ""
	if t.Year() != p.Now.Year() {
		year = strconv.Itoa(t.Year())
	}
	switch {
	case p.Lang == "zh" && year != "":
		return year + "年" + p.day(t) + " " + p.Weekday(t.Weekday())
	case p.Lang == "zh":
		return p.day(t) + " " + p.Weekday(t.Weekday())
	case p.Lang == "en" && year != "":
		year = ", " + year
	case year != "":
		year = " " + year
	}
	return p.Weekday(t.Weekday()) + ", " + p.day(t) + year
}

// Month formats a month with its year.
func (p *Speech) Month(t time.Time) string {
	switch p.Lang {
	case "zh":
		return t.Format("2006年1月")
	case "de":
		return months["de"][t.Month()-1] + t.Format(" 2006")
	}
	return months["en"][t.Month()-1] + t.Format(" 2006")
}
