//go:build unix

package backup

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// TestRestorePipe restores backups in which pipes and devices replace files. The restore must not block on them.
func TestRestorePipe(t *testing.T) {
	t.Parallel()
	replace := func(f *forged, path string, with func(string) error) {
		if err := errors.Join(os.Remove(path), with(path)); err != nil {
			f.t.Fatal(err)
		}
	}
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	zero := func(path string) error { return os.Symlink("/dev/zero", path) }
	for name, with := range map[string]func(string) error{"pipe": pipe, "device": zero} {
		f := newForged(t)
		var piece string
		f.change(func(g *Generation) { piece = g.Files[0].Pieces[0].Name })
		replace(f, f.at("backup/pieces/"+piece), with)
		if err := f.restore("to"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s for a piece: %v", name, err)
		}
		replace(f, f.manifest()+checkedSuffix, with)
		if err := f.restore("to"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s for the result of a check: %v", name, err)
		}
		replace(f, f.manifest(), with)
		if err := f.restore("to"); err == nil {
			t.Errorf("%s for a manifest: restored", name)
		}
	}
}
