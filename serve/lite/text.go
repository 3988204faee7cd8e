package lite

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// cookiePrefs keeps the language and time zone that a person chose: "de Europe/Berlin".
const cookiePrefs = "doublet-lite"

// languages are those of the catalogue, with their own names.
var languages = []struct{ Code, Name string }{{"en", "English"}, {"de", "Deutsch"}, {"zh", "中文"}}

// speech is the language and the time zone in which a page speaks.
type speech struct {
	Lang  string
	Zone  string // "" for the server's
	texts map[string]string
	zone  *time.Location
	now   time.Time
}

func (s *Server) speech(r *http.Request) *speech {
	p := &speech{zone: time.Local, now: s.env.Clock.Now()}
	if c, err := r.Cookie(cookiePrefs); err == nil {
		lang, zone, _ := strings.Cut(c.Value, "|")
		p.choose(s, lang)
		if at, err := time.LoadLocation(zone); err == nil && zone != "" && zone != "Local" {
			p.Zone, p.zone = zone, at
		}
	}
	for tag := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		if p.texts != nil {
			break
		}
		tag, _, _ = strings.Cut(tag, ";")
		tag, _, _ = strings.Cut(strings.TrimSpace(tag), "-")
		p.choose(s, strings.ToLower(tag))
	}
	if p.texts == nil {
		p.choose(s, "en")
	}
	p.now = p.now.In(p.zone)
	return p
}

func (p *speech) choose(s *Server, lang string) {
	if t := s.texts[lang]; t != nil {
		p.Lang, p.texts = lang, t
	}
}

// T is the text of a key, with values for {0}, {1} ….
func (p *speech) T(key string, values ...any) string {
	text, ok := p.texts[key]
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

// Short is a date as short as it can be: the hour today, else the day.
func (p *speech) Short(t time.Time) string {
	t = t.In(p.zone)
	switch {
	case t.Year() == p.now.Year() && t.YearDay() == p.now.YearDay():
		return t.Format("15:04")
	case t.Year() != p.now.Year():
		return t.Format("2006-01-02")
	}
	return p.day(t)
}

func (p *speech) day(t time.Time) string {
	day := strconv.Itoa(t.Day())
	switch p.Lang {
	case "de":
		return day + ". " + months["de"][t.Month()-1]
	case "zh":
		return strconv.Itoa(int(t.Month())) + "月" + day + "日"
	}
	return months["en"][t.Month()-1] + " " + day
}

// Long is a date with its year, hour and zone.
func (p *speech) Long(t time.Time) string {
	t = t.In(p.zone)
	switch p.Lang {
	case "de":
		return p.day(t) + t.Format(" 2006, 15:04 MST")
	case "zh":
		return t.Format("2006年") + p.day(t) + t.Format(" 15:04 MST")
	}
	return p.day(t) + t.Format(", 2006, 15:04 MST")
}

// ISO is a date for programs.
func (p *speech) ISO(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// size is a number of bytes as people read it.
func size(n float64) string {
	switch {
	case n < 1e3:
		return strconv.Itoa(int(n)) + " B"
	case n < 1e6:
		return strconv.FormatFloat(n/1e3, 'f', 0, 64) + " KB"
	case n < 1e9:
		return strconv.FormatFloat(n/1e6, 'f', 1, 64) + " MB"
	}
	return strconv.FormatFloat(n/1e9, 'f', 1, 64) + " GB"
}

// clip is the beginning of a text, of at most so many characters; controls are blanks.
func clip(s string, most int) string { return fit(s, most, 1<<30) }

// fit is clip for what must not take more than so many bytes of a page, as HTML has it.
func fit(s string, most, room int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	n, used := 0, 0
	for i, r := range s {
		size := utf8.RuneLen(r)
		if strings.ContainsRune("\"'&<>+", r) {
			size = len("&#34;")
		}
		if n++; n > most || used+size > room {
			return s[:i] + "…"
		}
		used += size
	}
	return s
}
