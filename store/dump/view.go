package dump

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"doublet/note"
	"doublet/store"
	"doublet/store/view"
)

// View prints a user-defined view as of its last refresh: its categories with totals, then its entries in order.
func View(ctx context.Context, w io.Writer, s *store.Store, id note.DatabaseID, viewNote note.ID, o Options) error {
	v, err := view.Open(s, id, viewNote)
	if err != nil {
		return err
	}
	def, err := v.Definition(ctx)
	if err != nil {
		return err
	}
	p := newPrinter(w, o)
	err = printView(ctx, p, v, def)
	return errors.Join(err, p.done())
}

func printView(ctx context.Context, p *printer, v *view.View, def *view.Definition) error {
	page, err := v.Read(ctx, note.System, view.Query{})
	if err != nil {
		return err
	}
	p.record(0, "view", "name", def.Name, "entries", page.Total)
	for i, c := range def.Columns {
		total := 0.0
		if i < len(page.Totals) {
			total = page.Totals[i]
		}
		p.record(1, "column", "item", c.Item, "sort", c.Sort, "category", c.Category, "total", c.Total, "sum",
			number(c.Total != "none", total))
	}
	for q := (view.Query{Limit: 1000}); ; {
		cats, err := v.Categories(ctx, note.System, q)
		if err != nil {
			return err
		}
		for _, c := range cats {
			totals, err := json.Marshal(c.Totals)
			if err != nil {
				return err
			}
			p.record(0, "category", "path", list(c.Path), "count", c.Count, "totals", json.RawMessage(totals))
		}
		if len(cats) < q.Limit {
			break
		}
		q.From = cats[len(cats)-1].Position
	}
	for q := (view.Query{Limit: 1000}); ; q.From = page.Next {
		if page, err = v.Read(ctx, note.System, q); err != nil {
			return err
		}
		for _, e := range page.Entries {
			rev := ""
			if e.Conflict {
				rev = e.Revision.String()
			}
			p.record(0, "entry", "note", uint64(e.Note), "conflict", rev, "values", list(e.Values))
		}
		if page.Next == nil {
			return nil
		}
	}
}

func number(shown bool, f float64) json.RawMessage {
	if !shown {
		return nil
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return b
}

func list(values []note.Value) json.RawMessage {
	out := []byte{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, value(v)...)
	}
	return append(out, ']')
}
