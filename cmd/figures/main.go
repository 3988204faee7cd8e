// Command figures measures how readable the code is and prints each figure beside its aim and its ceiling: methods per
// type, cyclomatic complexity, lengths of lines and files, depth of imports, missing documentation, wording. `make
// figures` runs it; `make check` runs it with -check, which fails if a figure exceeds its ceiling. A ceiling is the
// value of the last step; it only decreases, until it meets the aim.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	root := flag.String("root", ".", "root of the module")
	check := flag.Bool("check", false, "fail where a figure is above its ceiling, and list its places")
	list := flag.String("list", "", "list the places that count for the figure of this `name`")
	flag.Parse()
	ok, err := run(*root, *check, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// run measures the module below root and prints the table, or the places of one figure.
func run(root string, check bool, list string) (ok bool, err error) {
	m, err := read(root)
	if err != nil {
		return false, err
	}
	inWeb, err := webWording(root, "web/src")
	if err != nil {
		return false, err
	}
	figures := append(measure(m), inWeb)
	if list != "" {
		i := slices.IndexFunc(figures, func(f figure) bool { return f.name == list })
		if i < 0 {
			return false, fmt.Errorf("no figure is named %q; their names stand in the first column", list)
		}
		fmt.Println(strings.Join(figures[i].places, "\n"))
		return true, nil
	}
	ceilings, err := readCeilings(root)
	if err != nil {
		return false, err
	}
	if check {
		return over(figures, ceilings), nil
	}
	table(figures, ceilings)
	return true, nil
}

func table(figures []figure, ceilings map[string]int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tnow\taim\tceiling\tmeaning")
	for _, f := range figures {
		ceiling := "–"
		if c, any := ceilings[f.name]; any {
			ceiling = fmt.Sprint(c)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", f.name, f.value, f.aim, ceiling, f.meaning)
	}
	w.Flush()
}

// over prints every figure above its ceiling, with its places, and reports whether there are none.
func over(figures []figure, ceilings map[string]int) (ok bool) {
	ok = true
	for _, f := range figures {
		c, any := ceilings[f.name]
		if !any || f.value <= c {
			continue
		}
		ok = false
		fmt.Printf("%s: %d, at most %d allowed (%s)\n", f.name, f.value, c, f.meaning)
		const shown = 40
		for i, p := range f.places {
			if i == shown {
				fmt.Printf("  and %d more: go run ./cmd/figures -list %s\n", len(f.places)-shown, f.name)
				break
			}
			fmt.Println("  " + p)
		}
	}
	return ok
}
