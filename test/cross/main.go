// Command cross type-checks all packages and their tests for other platforms. It is faster than go build or go vet,
// which compile every dependency for each platform.
//
//	cross GOOS/GOARCH ...
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, platform := range os.Args[1:] {
		began := time.Now()
		n, wrong, err := check(platform, "./...")
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, line := range wrong {
			fmt.Println(line)
		}
		fmt.Printf("%s: %d packages in %.0f s, %d errors\n", platform, n, time.Since(began).Seconds(), len(wrong))
		failed = failed || len(wrong) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check type-checks the packages that match pattern and all their imports, from source. It returns their number and the
// errors.
func check(platform, pattern string) (int, []string, error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, nil, fmt.Errorf("platform %q: not GOOS/GOARCH", platform)
	}
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesSizes,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture),
		Tests: true,
	}, pattern)
	if err != nil {
		return 0, nil, err
	}
	var wrong []string
	n := 0
	packages.Visit(list, nil, func(p *packages.Package) {
		n++
		for _, e := range p.Errors {
			wrong = append(wrong, e.Error())
		}
	})
	return n, wrong, nil
}
