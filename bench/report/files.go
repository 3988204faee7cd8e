package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Save writes BASE.html and BASE.csv, and each figure as BASE-TITLE.png if pictures is set. It calls saved with the
// path of each file that it has written.
func (r *Report) Save(base string, pictures bool, saved func(path string)) error {
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return err
	}
	save := func(path string, fn func(io.Writer) error) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(fn(f), f.Close()); err != nil {
			return err
		}
		saved(path)
		return nil
	}
	if err := save(base+".html", r.HTML); err != nil {
		return err
	}
	if err := save(base+".csv", r.CSV); err != nil || !pictures {
		return err
	}
	for _, c := range r.Figures {
		name := strings.ReplaceAll(strings.ToLower(c.Title), " ", "-")
		if err := save(base+"-"+name+".png", c.PNG); err != nil {
			return err
		}
	}
	return nil
}

// Save writes the page of a comparison to a file.
func (s *Series) Save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(s.HTML(f), f.Close())
}
