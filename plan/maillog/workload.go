package maillog

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Options describe the workload that is made.
type Options struct {
	Name string
	// Hours are the hours of work of a day: what is done in a day is spread over them.
	Hours float64
	// Messages is the number of messages of a mailbox, which logs do not tell.
	Messages int
}

// loops is the number of loops of a workload in an hour.
const loops = 4

// Action is one action of the workload: so often in an hour for each person.
type Action struct {
	Do   string
	Hour float64
	// To is the number of recipients of what is sent.
	To int
	// From names the count of the logs.
	From string
}

// page is the number of messages of a list that a mail program shows.
const page = 20

// Actions returns the actions of a person in an hour of work.
func (c *Counts) Actions(hours float64) []Action {
	each := func(n int64) float64 { return float64(n) / float64(c.PersonDays) / hours }
	out := []Action{
		{"scroll", each(c.Headers) / page, 0, fmt.Sprintf("%d listed headers, %d a page", c.Headers, page)},
		{"read", each(c.Bodies), 0, fmt.Sprintf("%d message texts fetched", c.Bodies)},
		{"delete", each(max(c.Deleted, c.Expunged)), 0,
			fmt.Sprintf("%d marked as deleted, %d expunged: the larger", c.Deleted, c.Expunged)},
		{"send", each(c.Single), 1, fmt.Sprintf("%d messages to one recipient", c.Single)},
	}
	if c.Several > 0 {
		to := int(math.Round(float64(c.SeveralTo) / float64(c.Several)))
		out = append(out, Action{"send", each(c.Several), to,
			fmt.Sprintf("%d messages to several recipients, %d in all", c.Several, c.SeveralTo)})
	}
	return out
}

// often returns whole numbers of times in so many loops for a number in an hour; times is 0 for less than once in two
// days of eight hours.
func often(hour float64) (times, per int) {
	const most = 64
	for per = 1; per < most; per *= 2 {
		want := hour / loops * float64(per)
		if times = int(math.Round(want)); times > 0 && math.Abs(float64(times)-want) <= 0.02*want {
			return times, per
		}
	}
	return int(math.Round(hour / loops * most)), most
}

// size is one size of the profile.
type size struct{ body, attachment int64 }

// parts is the number of equal shares of the messages that have a size of their own.
const parts = 10

// profile returns the sizes of a tenth of the messages each, the means of it, so that the mean of all stays. What is
// over 200 KB is an attachment, which travels as 4 bytes for 3.
func (c *Counts) profile() []size {
	sorted := slices.Sorted(slices.Values(c.sizes))
	out := make([]size, parts)
	for i := range out {
		part := sorted[i*len(sorted)/parts : max((i+1)*len(sorted)/parts, i*len(sorted)/parts+1)]
		var sum float64
		for _, n := range part {
			sum += float64(n)
		}
		mean := int64(sum / float64(len(part)))
		const headers, body, large = 500, 10_000, 200_000
		switch {
		case mean > large:
			out[i] = size{body, (mean - body - headers) * 3 / 4}
		default:
			out[i] = size{max(mean-headers, 100), 0}
		}
	}
	return out
}

// Workload returns the file of a workload: a person of the logs in an average hour of work.
func (c *Counts) Workload(o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name = %q\ntitle = \"People of %d days in production\"\nsource = \"\"\"\n", o.Name, c.Days)
	fmt.Fprintf(&b, "Made by doublet plan workload of logs of Dovecot and Postfix: %d sessions of %d people a day on %d working "+
		"days. What a person did in a\nday is spread over %g hours. A person of a day is one who signed in or sent; %d lines at "+
		"weekends were left out. Logs do not tell the\nsize of a mailbox, folders, replies and the calendar: the mailbox is "+
		"assumed, the others are left out.\"\"\"\n", c.Sessions, c.PersonDays/max(c.Days, 1), c.Days, o.Hours, c.Skipped)
	b.WriteString("protocol = \"imap\"\nover = [\"jmap\", \"web-full\", \"web-lite\"]\nloop = \"15m\"\nstagger = \"0s..15m\"\n" +
		"limit = \"1s\"\nsent-copies = true\n\n[sizes]\nmail = [\n")
	for _, s := range c.profile() {
		if s.attachment > 0 {
			fmt.Fprintf(&b, "\t{ body = \"%dB\", attachment = \"%dB\", percent = %d },\n", s.body, s.attachment, 100/parts)
		} else {
			fmt.Fprintf(&b, "\t{ body = \"%dB\", percent = %d },\n", s.body, 100/parts)
		}
	}
	fmt.Fprintf(&b, "]\n\n[mailbox]\nmessages = %d\nsizes = \"mail\"\nseen = 50\n\n[[action]]\ndo = \"open\"\nthink = \"5s..10s\"\n",
		o.Messages)
	for _, a := range c.Actions(o.Hours) {
		times, per := often(a.Hour)
		if times == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n[[action]]\ndo = %q\ntimes = %d\n", a.Do, times)
		if per > 1 {
			fmt.Fprintf(&b, "per = %d\n", per)
		}
		if a.To > 0 {
			fmt.Fprintf(&b, "to = %d\nsizes = \"mail\"\n", a.To)
		}
		fmt.Fprintf(&b, "think = \"5s..15s\"\nsource = %q\n", fmt.Sprintf("%.3g an hour: %s", a.Hour, a.From))
	}
	b.WriteString("\n[[action]]\ndo = \"close\"\n")
	return b.String()
}
