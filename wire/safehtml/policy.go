package safehtml

import (
	"regexp"

	"github.com/microcosm-cc/bluemonday"
)

// policy is the last pass over every piece: it lets out these elements, with these attributes and values, and nothing
// else. The cleaner before it only arranges: it balances elements, splits pieces, and chooses addresses. So an error of
// the cleaner can make a page ugly, but not dangerous.
var policy = newPolicy()

func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	for _, name := range elements {
		p.AllowNoAttrs().OnElements(name)
	}
	p.AllowAttrs("dir").Matching(regexp.MustCompile(`^(?i:rtl|ltr|auto)$`)).Globally()
	span := regexp.MustCompile(`^(?:[1-9][0-9]?|100)$`)
	p.AllowAttrs("colspan", "rowspan").Matching(span).OnElements("td", "th")
	p.AllowAttrs("start").Matching(regexp.MustCompile(`^[1-9][0-9]{0,5}$`)).OnElements("ol")

	// An address is absolute, or a path on this server that a callback of Options returned. The library's own check of
	// addresses is off: it rewrites them, and removes those with a stray percent sign, which browsers follow.
	// Control characters are refused anywhere, because browsers skip them: "/", a tab and "/evil" is another server.
	const local, rest = `/[^/\\\x00-\x1f\x7f]`, `[^\x00-\x1f\x7f]*$`
	target := regexp.MustCompile(`^(?:https?://|mailto:|tel:|` + local + `)` + rest)
	p.AllowAttrs("href").Matching(target).OnElements("a")
	p.AllowAttrs("rel").Matching(regexp.MustCompile(`^noopener noreferrer nofollow$`)).OnElements("a")
	p.AllowAttrs("src").Matching(regexp.MustCompile(`^(?:https?://|` + local + `)` + rest)).OnElements("img")
	p.AllowAttrs("alt").OnElements("img")
	size := regexp.MustCompile(`^(?:[1-9][0-9]{0,2}|[1-3][0-9]{3}|4000)$`)
	p.AllowAttrs("width", "height").Matching(size).OnElements("img")
	p.AllowAttrs("loading").Matching(regexp.MustCompile(`^lazy$`)).OnElements("img")
	p.AllowAttrs("referrerpolicy").Matching(regexp.MustCompile(`^no-referrer$`)).OnElements("img")
	return p
}
