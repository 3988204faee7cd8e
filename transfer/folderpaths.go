package transfer

import (
	"strconv"
	"strings"

	"doublet/wire/maildir"
)

// folderPaths assigns each exported folder a path of its own, relative to the top of the export.
type folderPaths struct {
	extension string // of the files with messages; "" for Maildirs
	path      func(folder string) string
	// given holds the paths in lower case: file systems of Windows and macOS ignore case.
	given map[string]bool
}

func newFolderPaths(format string) *folderPaths {
	p := &folderPaths{path: maildirPath, given: map[string]bool{}}
	if format == "mbox" {
		p.extension, p.path = mboxExtension, mboxPath
	}
	return p
}

// give returns the path of a folder's messages. It appends a number if another folder has the path already: the names
// .x and _x have one file name, and so do x and X on some systems.
func (p *folderPaths) give(folder string) string {
	path := p.path(folder)
	stem := strings.TrimSuffix(path, p.extension)
	for n := 2; p.given[strings.ToLower(path)]; n++ {
		path = stem + "-" + strconv.Itoa(n) + p.extension
	}
	p.given[strings.ToLower(path)] = true
	return path
}

// mboxExtension ends the names of mbox files, and of no folder above them.
const mboxExtension = ".mbox"

// fileName returns one level of a folder's name as a safe file name: without path separators, and not hidden.
func fileName(level string) string {
	level = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, level)
	if strings.HasPrefix(level, ".") {
		level = "_" + level[1:]
	}
	return level
}

// mboxPath returns the path of a folder's mbox file. The folder x.mbox/y goes below x.mbox_, because the file x.mbox
// may exist beside it. The same holds for the other files of an export.
func mboxPath(folder string) string {
	levels := strings.Split(folder, "/")
	last := len(levels) - 1
	for i := range levels {
		levels[i] = fileName(levels[i])
		if i < last && namesFile(levels[i]) {
			levels[i] += "_"
		}
	}
	return strings.Join(levels, "/") + mboxExtension
}

// namesFile reports whether a file of an export may have this name.
func namesFile(level string) bool {
	level = strings.ToLower(level)
	return level == personFile || strings.HasSuffix(level, messagesFile) || strings.HasSuffix(level, mboxExtension)
}

// maildirPath returns the path of a folder's Maildir. INBOX is at the top.
func maildirPath(folder string) string { return maildir.FolderName(strings.Split(folder, "/")) }
