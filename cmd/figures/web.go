package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// asks matches a comment of the web client that begins with a question word, or reports "whether".
var asks = regexp.MustCompile(`^\s*(?:/\*\*|//|\*) (?:(?:What|Who|Whom|Whose|Where|How|Whether) |Reports whether )`)

// webWording measures the comments of the web client's sources below a folder.
func webWording(root, below string) (figure, error) {
	f := figure{name: "web-comment-asks", aim: "0",
		meaning: "comments of the web client that begin with a question word"}
	err := filepath.WalkDir(filepath.Join(root, below), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".ts") && !strings.HasSuffix(p, ".tsx") {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if asks.MatchString(line) {
				f.places = append(f.places, filepath.ToSlash(name)+":"+strconv.Itoa(i+1)+" "+strings.TrimSpace(line))
			}
		}
		return nil
	})
	f.value = len(f.places)
	return f, err
}
