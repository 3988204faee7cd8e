package feed

import (
	"testing"

	"doublet/calendar"
	"doublet/wire/ical"
)

// TestManagedAttachments checks that a published event has no managed attachments, which its readers may not open, and
// that an event of another server has them as links.
func TestManagedAttachments(t *testing.T) {
	t.Parallel()
	c := &ical.Component{Name: calendar.Event, Properties: []ical.Property{{Name: "UID", Value: "a"},
		{Name: "ATTACH", Value: "https://a.example/1", Params: []ical.Param{{Name: calendar.ParamManagedID,
			Values: []string{"1"}}}},
		{Name: "ATTACH", Value: "https://a.example/2"}}}
	count := func(c *ical.Component) (links, ids int) {
		for i := range c.Properties {
			if p := &c.Properties[i]; p.Name == "ATTACH" {
				links++
				ids += len(calendar.ManagedID(p))
			}
		}
		return links, ids
	}
	if links, ids := count(public(c)); links != 1 || ids != 0 {
		t.Errorf("%d attachments are published, %d managed", links, ids)
	}
	if links, ids := count(clean(c, "x")); links != 2 || ids != 0 {
		t.Errorf("%d attachments are read, %d managed", links, ids)
	}
	if links, ids := count(c); links != 2 || ids != 1 {
		t.Errorf("the event itself has changed: %d, %d", links, ids)
	}
}
