package directory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
)

// indexRoutes is the index of all routes, under one key.
const indexRoutes uint64 = 9

func routeKeys(form string, _ note.Items) [][]byte {
	if form != formRoute {
		return nil
	}
	return [][]byte{{'r'}}
}

// routeTable holds all routes by pattern, as of one version of the directory.
type routeTable struct {
	version uint64
	// edition changes whenever the routes change.
	edition uint64
	routes  map[string]Route
}

// now returns the current routes. It reads them again if the directory has changed.
func (rs *Routes) now(ctx context.Context) (*routeTable, error) {
	version := rs.version.Load()
	old := rs.table.Load()
	if old != nil && old.version == version {
		return old, nil
	}
	t := &routeTable{version: version, edition: 1, routes: make(map[string]Route)}
	err := rs.read(ctx, func(r *store.Reader) error {
		ids, err := r.Lookup(indexRoutes, []byte{'r'})
		if err != nil {
			return err
		}
		for _, id := range ids {
			row, err := r.Note(id)
			if err != nil {
				return err
			}
			c, err := r.Content(id)
			if err != nil {
				return err
			}
			x := readRoute(row.UNID, c.Content.Items)
			t.routes[x.Pattern] = x
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("directory: routes: %w", err)
	}
	if old != nil {
		t.edition = old.edition
		if !maps.Equal(t.routes, old.routes) {
			t.edition++
		}
	}
	rs.table.Store(t)
	return t, nil
}

// List lists the routes by pattern.
func (rs *Routes) List(ctx context.Context) ([]Route, error) {
	t, err := rs.now(ctx)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(t.routes),
		func(a, b Route) int { return strings.Compare(a.Pattern, b.Pattern) }), nil
}

// Edition returns a number that changes whenever the routes change.
func (rs *Routes) Edition(ctx context.Context) (uint64, error) {
	t, err := rs.now(ctx)
	if err != nil {
		return 0, err
	}
	return t.edition, nil
}

// Named finds a route by its pattern.
func (rs *Routes) Named(ctx context.Context, pattern string) (Route, error) {
	t, err := rs.now(ctx)
	if err != nil {
		return Route{}, err
	}
	r, ok := t.routes[strings.ToLower(strings.TrimSpace(pattern))]
	if !ok {
		f := RouteFields{Pattern: pattern}
		if CheckRoute(&f) == nil {
			r, ok = t.routes[f.Pattern]
		}
	}
	if !ok {
		return Route{}, fmt.Errorf("%w: no route for %.80q", ErrNotFound, pattern)
	}
	return r, nil
}

// For finds the route of a domain, which must be in A-labels and lower case. It tries the domain itself, then "*." and
// the nearest parent domain, then "*".
func (rs *Routes) For(ctx context.Context, domain string) (RouteFields, bool, error) {
	t, err := rs.now(ctx)
	if err != nil || len(t.routes) == 0 {
		return RouteFields{}, false, err
	}
	if r, ok := t.routes[domain]; ok {
		return r.RouteFields, true, nil
	}
	for rest := domain; rest != "" && !strings.HasPrefix(rest, "["); {
		_, above, ok := strings.Cut(rest, ".")
		if !ok {
			break
		}
		if r, ok := t.routes["*."+above]; ok {
			return r.RouteFields, true, nil
		}
		rest = above
	}
	r, ok := t.routes["*"]
	return r.RouteFields, ok, nil
}
