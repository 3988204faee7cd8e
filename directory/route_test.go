package directory

import (
	"context"
	"errors"
	"testing"

	"doublet/note"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	w := open(t)
	ctx := context.Background()
	add := func(f RouteFields) Route {
		t.Helper()
		r, err := w.Routes.Add(ctx, note.System, f)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if _, found, err := w.Routes.For(ctx, "far.example"); found || err != nil {
		t.Error(found, err)
	}
	edition, err := w.Routes.Edition(ctx)
	if err != nil {
		t.Fatal(err)
	}
	add(RouteFields{Pattern: "Far.Example", Host: "[::1]:2525"})
	star := add(RouteFields{Pattern: " *.far.example", Host: "Relay.Example:587", TLS: "verify", User: "me",
		Password: "x"})
	add(RouteFields{Pattern: "*.deep.far.example", Hold: true})
	add(RouteFields{Pattern: "bücher.example", Host: "10.0.0.1"})
	if star.Pattern != "*.far.example" || star.Host != "relay.example" || star.Port != 587 {
		t.Errorf("%+v", star)
	}
	if now, _ := w.Routes.Edition(ctx); now == edition {
		t.Error("the edition is the same")
	}
	for domain, want := range map[string]string{
		"far.example": "::1", "a.far.example": "relay.example", "a.b.far.example": "relay.example",
		"x.deep.far.example": "",
		"deep.far.example":   "relay.example", "xn--bcher-kva.example": "10.0.0.1",
	} {
		r, found, err := w.Routes.For(ctx, domain)
		if err != nil || !found || r.Host != want {
			t.Errorf("%s: %+v %v %v", domain, r, found, err)
		}
	}
	for _, domain := range []string{"notfar.example", "example", "[127.0.0.1]", ""} {
		if r, found, _ := w.Routes.For(ctx, domain); found {
			t.Errorf("%s: %+v", domain, r)
		}
	}
	add(RouteFields{Pattern: "*", Host: "last.example"})
	if r, _, _ := w.Routes.For(ctx, "example"); r.Host != "last.example" {
		t.Errorf("%+v", r)
	}
	for name, f := range map[string]RouteFields{
		"no pattern": {}, "bad pattern": {Pattern: "a..b"}, "two stars": {Pattern: "*.*.example"},
		"bad TLS":               {Pattern: "x.example", TLS: "yes"},
		"user without host":     {Pattern: "x.example", User: "me"},
		"password without user": {Pattern: "x.example", Host: "h.example", Password: "x"},
		"port":                  {Pattern: "x.example", Host: "h.example:99999"},
		"host":                  {Pattern: "x.example", Host: "a b"},
		"line":                  {Pattern: "x.example", Host: "h.example", User: "a\r\nb"},
		"port without host":     {Pattern: "x.example", Port: 25},
	} {
		if r, err := w.Routes.Add(ctx, note.System, f); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	if _, err := w.Routes.Add(ctx, note.System, RouteFields{Pattern: "FAR.example"}); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
	if _, err := w.Routes.Add(ctx, note.Who{}, RouteFields{Pattern: "y.example"}); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if _, err := w.Routes.Set(ctx, note.System, star.ID,
		func(f *RouteFields) error { f.Hold, f.Pattern = true, "other"; return nil }); err != nil {
		t.Error(err)
	}
	if r, err := w.Routes.Named(ctx, "*.FAR.example"); err != nil || !r.Hold || r.Password != "x" {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := w.Routes.Set(ctx, note.System, star.ID,
		func(f *RouteFields) error { f.Host = "mine.example"; return nil }); !errors.Is(err, ErrInvalid) {
		t.Errorf("the stored password goes to another host: %v", err)
	}
	list, err := w.Routes.List(ctx)
	if err != nil || len(list) != 5 || list[0].Pattern != "*" {
		t.Errorf("%+v %v", list, err)
	}
	if err := w.Routes.Remove(ctx, note.System, star.ID); err != nil {
		t.Error(err)
	}
	if _, err := w.Routes.Named(ctx, "*.far.example"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if r, _, _ := w.Routes.For(ctx, "a.far.example"); r.Host != "last.example" {
		t.Errorf("%+v", r)
	}
}
