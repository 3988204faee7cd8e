package maillog

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
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
type size struct{ Body, Attachment int64 }

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

//go:embed workload.tmpl
var text string

var file = template.Must(template.New("workload").Parse(text))

// planned is an action with its numbers of times and loops.
type planned struct {
	Action
	Times, Per int
}

// Workload returns the file of a workload: a person of the logs in an average hour of work.
func (c *Counts) Workload(o Options) (string, error) {
	var list []planned
	for _, a := range c.Actions(o.Hours) {
		if times, per := often(a.Hour); times > 0 {
			list = append(list, planned{a, times, per})
		}
	}
	var b strings.Builder
	err := file.Execute(&b, struct {
		*Counts
		Options Options
		Sizes   []size
		Percent int
		Planned []planned
	}{c, o, c.profile(), 100 / parts, list})
	if err != nil {
		return "", fmt.Errorf("workload: %w", err)
	}
	return b.String(), nil
}
