package chart

import "strings"

// pictureCSS is the part of the style sheet that pictures need: the colours, which come first, and the parts of them.
var pictureCSS = func() string {
	colours, rest, _ := strings.Cut(styleCSS, "* {")
	var b strings.Builder
	b.WriteString(colours)
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "svg .") {
			b.WriteString(line)
		}
	}
	b.WriteString("svg { font-family: system-ui, sans-serif; }")
	return b.String()
}()

// Picture returns a chart that SVG has drawn as a file of its own, with its style sheet: light or dark as its viewer.
func Picture(svg string) string {
	open, rest, _ := strings.Cut(svg, ">")
	open = strings.Replace(open, "<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `, 1)
	const paper = `</style><rect width="100%" height="100%" style="fill: var(--paper)"/>`
	return open + "><style>" + pictureCSS + paper + rest + "\n"
}
