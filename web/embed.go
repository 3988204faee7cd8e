// Package web holds the browser client as it was built by make web: what a browser loads, and nothing else
// of this folder. The built files are kept with the sources, so that a server is built without Node.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Client is the built client: index.html, sw.js, icon.svg, manifest.webmanifest and assets/, whose names change
// with what they hold.
func Client() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is named above
	}
	return sub
}
