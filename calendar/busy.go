package calendar

import (
	"slices"
	"time"

	"doublet/wire/ical"
)

// Period is a time in which somebody is busy, as instants: From ≤ t < To.
type Period struct {
	From, To time.Time
	Busy     Busy
}

// MergePeriods sorts periods and joins those of one kind that touch. Where two kinds overlap, the stronger one holds.
func MergePeriods(list []Period) []Period {
	type edge struct {
		at     time.Time
		busy   Busy
		change int
	}
	var edges []edge
	for _, p := range list {
		if p.Busy != Free && p.From.Before(p.To) {
			edges = append(edges, edge{p.From, p.Busy, 1}, edge{p.To, p.Busy, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	var out []Period
	var open [BusyConfirmed + 1]int
	now := Free
	for i, e := range edges {
		open[e.busy] += e.change
		if i+1 < len(edges) && edges[i+1].at.Equal(e.at) {
			continue
		}
		next := Free
		for b := BusyConfirmed; b > Free && next == Free; b-- {
			if open[b] > 0 {
				next = b
			}
		}
		if next == now {
			continue
		}
		if now != Free {
			out[len(out)-1].To = e.at
		}
		if next != Free {
			out = append(out, Period{From: e.at, Busy: next})
		}
		now = next
	}
	return out
}

// AppendFreeBusy prints a VFREEBUSY of merged periods between two instants. comment is "" for none.
//
// Implements: RFC 4791 §7.10 CALDAV:free-busy-query REPORT
func AppendFreeBusy(dst []byte, from, to, now time.Time, busy []Period, comment string) []byte {
	line := func(s string) { dst = append(append(dst, s...), "\r\n"...) }
	line("BEGIN:VCALENDAR")
	line("VERSION:2.0")
	line("PRODID:" + Product)
	line("BEGIN:VFREEBUSY")
	line("DTSTAMP:" + now.UTC().Format(stamp))
	line("DTSTART:" + from.UTC().Format(stamp))
	line("DTEND:" + to.UTC().Format(stamp))
	for _, p := range busy {
		kind := "BUSY"
		if p.Busy == BusyTentative {
			kind = "BUSY-TENTATIVE"
		}
		line("FREEBUSY;FBTYPE=" + kind + ":" + p.From.UTC().Format(stamp) + "/" + p.To.UTC().Format(stamp))
	}
	if comment != "" {
		line("COMMENT:" + ical.EscapeText(comment))
	}
	line("END:VFREEBUSY")
	line("END:VCALENDAR")
	return dst
}

// Product names this program in the objects that it makes.
const Product = "-//Doublet//Doublet//EN"

// stamp is the form of a time in UTC in iCalendar.
const stamp = "20060102T150405Z"
