package verify

import (
	"regexp"
	"strings"

	"doublet/wire/mime"
)

// enforced finds a DMARC result as this server writes it, with a policy that lets no forged mail pass.
var enforced = regexp.MustCompile(`;\s*dmarc=pass \(p=(?:quarantine|reject) applied=[a-z]+\)\s+header\.from=([^\s;]+)`)

// BrandDomain returns the author's domain of a stored message with this header if the domain's logo may be shown beside
// it: DMARC passed, the domain asks that mail which fails is quarantined or rejected, and the message has one author.
// The message's first Authentication-Results field must be of a host for which ours returns true. The caller must know
// that forged fields were removed when the message came in.
//
// Implements: draft-brand-indicators-for-message-identification §7.1 authentication requirements
func BrandDomain(header []byte, ours func(host string) bool) (domain string, ok bool) {
	results := ""
	for f := range mime.Fields(header) {
		if f.Is("Authentication-Results") {
			results = strings.TrimSpace(f.Text())
			break
		}
	}
	if id, ok := AuthservID(results); !ok || !ours(strings.TrimSuffix(id, ".")) {
		return "", false
	}
	found := enforced.FindAllStringSubmatch(results, -1)
	list, err := authors(header)
	if len(found) != 1 || err != nil || len(list) != 1 || !strings.EqualFold(list[0].domain, found[0][1]) {
		return "", false
	}
	return list[0].domain, true
}
