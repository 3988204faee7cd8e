package report

import "doublet/bench/record"

// ResourceRow is a resource in each step of a run, "–" where it is unknown.
type ResourceRow struct {
	Resource, Unit string
	Values         []string
}

// Resources returns what was sampled in each step, for the page: the resources that a comparison has.
func (r *Report) Resources() (out []ResourceRow) {
	for i := range resources {
		x := &resources[i]
		row := ResourceRow{Resource: x.name, Unit: x.unit}
		sampled := false
		for k := range r.Run.Steps {
			v, ok := x.of(r.Run, &r.Run.Steps[k])
			if !ok {
				row.Values = append(row.Values, "–")
				continue
			}
			sampled = true
			row.Values = append(row.Values, number(v))
		}
		if sampled {
			out = append(out, row)
		}
	}
	return out
}

// Shared reports whether a driver ran on the server's machine, so that both used the same processors.
func (r *Report) Shared() bool { return r.Run.Header.Shared() }

// MeanMessages returns the mean message of each profile of sizes, for the page.
func (r *Report) MeanMessages() (out []record.MessageSize) {
	type sums struct{ body, attachment, whole, left float64 }
	add := func(s *sums, m *record.MessageSize) {
		share := m.Percent / 100
		s.body += share * float64(m.Body)
		s.attachment += share * float64(m.Attachment)
		s.whole += share * float64(m.Whole)
		s.left += share * float64(m.Whole) * m.Compressed
	}
	var s sums
	list := r.Run.Header.Messages
	for i := range list {
		add(&s, &list[i])
		if i+1 < len(list) && list[i+1].Profile == list[i].Profile {
			continue
		}
		out = append(out, record.MessageSize{Profile: list[i].Profile, Percent: 100, Body: int64(s.body),
			Attachment: int64(s.attachment), Whole: int64(s.whole), Compressed: s.left / max(s.whole, 1)})
		s = sums{}
	}
	return out
}

// Bytes formats a size for the page.
func (r *Report) Bytes(n int64) string { return inBytes(float64(n)) }

// Percent formats a share for the page.
func (r *Report) Percent(share float64) string { return number(share*100) + " %" }
