package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// graph holds the imports between the rooms (top-level folders) of the module, without those of tests.
type graph map[string]map[string]bool

// beside are folders that the picture leaves out: they are no part of the program.
var beside = []string{"packaging", "test"}

// imports reads the graph of the module below root.
func imports(root, module string) (graph, error) {
	g := graph{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		room, _, inside := strings.Cut(filepath.ToSlash(rel), "/")
		name := d.Name()
		switch {
		case d.IsDir() && rel != "." && (name[0] == '.' || name == "node_modules" || name == "testdata" ||
			slices.Contains(beside, rel)):
			return filepath.SkipDir
		case d.IsDir() || !inside || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return g.add(room, path, module)
	})
	return g, err
}

// add adds the imports of a file of a room.
func (g graph) add(room, file, module string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	if g[room] == nil {
		g[room] = map[string]bool{}
	}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		rest, ours := strings.CutPrefix(path, module+"/")
		if to, _, _ := strings.Cut(rest, "/"); ours && to != room {
			g[room][to] = true
		}
	}
	return nil
}

// reaches reports whether a room imports another one through at least one room between.
func (g graph) reaches(from, to string) bool {
	for mid := range g[from] {
		if mid != to && (g[mid][to] || g.reaches(mid, to)) {
			return true
		}
	}
	return false
}

// height is the number of rooms in the longest chain of imports below a room.
func (g graph) height(room string, known map[string]int) int {
	if n, ok := known[room]; ok {
		return n
	}
	n := 0
	for to := range g[room] {
		n = max(n, g.height(to, known)+1)
	}
	known[room] = n
	return n
}

// The measures of the picture, in pixels.
const (
	boxWidth  = 104
	boxHeight = 30
	gapX      = 26
	gapY      = 34
	margin    = 16
)

type point struct{ x, y int }

// direct returns the rooms that a room imports, without those whose import follows from others.
func (g graph) direct(from string) (list []string) {
	for _, to := range slices.Sorted(maps.Keys(g[from])) {
		if !g.reaches(from, to) {
			list = append(list, to)
		}
	}
	return list
}

// layout places the rooms: each above all rooms that it imports, and near below those that import it.
func (g graph) layout() (at map[string]point, width, height int) {
	known := map[string]int{}
	var rows [][]string
	for _, room := range slices.Sorted(maps.Keys(g)) {
		n := g.height(room, known)
		for len(rows) <= n {
			rows = append(rows, nil)
		}
		rows[n] = append(rows[n], room)
	}
	widest := slices.MaxFunc(rows, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
	width = 2*margin + len(widest)*(boxWidth+gapX) - gapX
	height = 2*margin + len(rows)*(boxHeight+gapY) - gapY
	at = map[string]point{}
	pull := map[string][]int{} // by room: the places of those that import it
	for n, row := range slices.Backward(rows) {
		slices.SortStableFunc(row, func(a, b string) int {
			return cmp.Compare(mean(pull[a], width), mean(pull[b], width))
		})
		for i, room := range row {
			x := margin + (2*i+1)*(width-2*margin)/(2*len(row)) - boxWidth/2
			at[room] = point{x, height - margin - boxHeight - n*(boxHeight+gapY)}
			for _, to := range g.direct(room) {
				pull[to] = append(pull[to], x)
			}
		}
	}
	return at, width, height
}

// line draws the line of an import. One that passes other rows bends, so that it is seen beside a box between.
func line(from, to point) string {
	x, y, u, v := from.x+boxWidth/2, from.y+boxHeight, to.x+boxWidth/2, to.y
	bend := 0
	if v-y > gapY {
		bend = boxWidth
	}
	return fmt.Sprintf(`<path d="M%d %dQ%d %d %d %d" fill="none" stroke="#8a9a94"/>`+"\n",
		x, y, (x+u)/2+bend, (y+v)/2, u, v)
}

// mean returns the mean of places, the middle for none.
func mean(list []int, width int) int {
	if len(list) == 0 {
		return width / 2
	}
	sum := 0
	for _, x := range list {
		sum += x
	}
	return sum / len(list)
}

// picture draws the graph as SVG. An import is a line from the lower edge of a room to the upper edge of another one;
// imports that follow from others are left out.
func (g graph) picture() []byte {
	at, width, height := g.layout()
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="system-ui, sans-serif" font-size="14">`+"\n", width, height, width, height)
	b.WriteString("<title>The rooms: a line leads down to a room that is imported</title>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#fffdf9"/>`+"\n", width, height)
	for _, from := range slices.Sorted(maps.Keys(g)) {
		for _, to := range g.direct(from) {
			b.WriteString(line(at[from], at[to]))
		}
	}
	for _, room := range slices.Sorted(maps.Keys(at)) {
		p := at[room]
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#dfeee9" stroke="#0b6152"/>`+
			`<text x="%d" y="%d" text-anchor="middle" fill="#1f2429">%s</text>`+"\n",
			p.x, p.y, boxWidth, boxHeight, p.x+boxWidth/2, p.y+boxHeight/2+5, room)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
