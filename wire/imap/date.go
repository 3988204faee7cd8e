package imap

import (
	"strconv"
	"time"
)

const monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"

// month parses the three letters of a month.
func (p *parser) month() time.Month {
	if p.i+3 <= len(p.s) {
		for m := 0; m < 12; m++ {
			if p.tryText(monthNames[3*m : 3*m+3]) {
				return time.Month(m + 1)
			}
		}
	}
	p.fail("Invalid month")
	return 0
}

// digits parses exactly n digits.
func (p *parser) digits(n int) int {
	v := 0
	for range n {
		c := p.peek()
		if c < '0' || c > '9' {
			p.fail("Invalid date")
			return 0
		}
		v = v*10 + int(c-'0')
		p.i++
	}
	return v
}

// dayMonthYear parses d-Mon-yyyy. The day has one or two digits and may have a space before it.
func (p *parser) dayMonthYear() (year int, month time.Month, day int) {
	p.try(' ')
	day = p.digits(1)
	if c := p.peek(); c >= '0' && c <= '9' {
		day = day*10 + p.digits(1)
	}
	p.expect('-')
	month = p.month()
	p.expect('-')
	year = p.digits(4)
	if p.err == nil && (day < 1 || time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Day() != day) {
		p.fail("No such day")
	}
	return year, month, day
}

// date parses date of RFC 9051: d-Mon-yyyy, quoted or not. It returns midnight UTC.
func (p *parser) date() time.Time {
	quoted := p.try('"')
	year, month, day := p.dayMonthYear()
	if quoted {
		p.expect('"')
	}
	if p.err != nil {
		return time.Time{}
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// dateTime parses date-time of RFC 9051, in quotes, and returns it in UTC.
func (p *parser) dateTime() time.Time {
	p.expect('"')
	year, month, day := p.dayMonthYear()
	p.space()
	hour := p.digits(2)
	p.expect(':')
	minute := p.digits(2)
	p.expect(':')
	second := p.digits(2)
	p.space()
	east := p.peek()
	if !p.try('+') && !p.try('-') {
		p.fail("Invalid time zone")
	}
	zone := p.digits(2) * 3600
	zone += p.digits(2) * 60
	p.expect('"')
	if p.err == nil && (hour > 23 || minute > 59 || second > 60 || zone > 24*3600) {
		p.fail("No such time")
	}
	if p.err != nil {
		return time.Time{}
	}
	if east == '-' {
		zone = -zone
	}
	t := time.Date(year, month, day, hour, minute, second-zone, 0, time.UTC)
	if t.Year() <= 1 || t.Year() > 9999 { // the conversion to UTC left the four-digit years, or it is the zero time
		p.fail("No such year")
		return time.Time{}
	}
	return t
}

// AppendDate prints a date as in SEARCH: 7-Feb-1994.
func AppendDate(dst []byte, t time.Time) []byte {
	year, month, day := t.Date()
	dst = strconv.AppendInt(dst, int64(day), 10)
	dst = append(dst, '-')
	dst = append(dst, monthNames[3*month-3:3*month]...)
	dst = append(dst, '-')
	return appendDigits(dst, year, 4)
}

// AppendDateTime prints an INTERNALDATE in UTC, in quotes: " 7-Feb-1994 21:52:25 +0000".
func AppendDateTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	dst = append(dst, '"')
	if t.Day() < 10 {
		dst = append(dst, ' ')
	}
	dst = AppendDate(dst, t)
	dst = append(dst, ' ')
	hour, minute, second := t.Clock()
	dst = append(appendDigits(dst, hour, 2), ':')
	dst = append(appendDigits(dst, minute, 2), ':')
	dst = appendDigits(dst, second, 2)
	return append(dst, ` +0000"`...)
}

// appendDigits prints the last n digits of v.
func appendDigits(dst []byte, v, n int) []byte {
	if v < 0 {
		v = 0
	}
	div := 1
	for range n - 1 {
		div *= 10
	}
	for ; div > 0; div /= 10 {
		dst = append(dst, byte('0'+v/div%10))
	}
	return dst
}
