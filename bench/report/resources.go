package report

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
