package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Networks parses a list of addresses and networks, separated by spaces: 127.0.0.1, 10.0.0.0/8, ::1.
func Networks(text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, word := range strings.Fields(text) {
		if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
			a = a.Unmap()
			all = append(all, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(word)
		if err != nil || p.Masked() != p {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 192.0.2.0/24", word)
		}
		all = append(all, p)
	}
	return all, nil
}

// checkNetworks parses the settings that are lists of networks and returns their errors.
func (c *Config) checkNetworks(at func(key string) string) (bad []error) {
	for key, text := range map[string]string{"server.proxies": c.Server.Proxies, "web.proxies": c.Web.Proxies,
		"web.monitors": c.Web.Monitors} {
		if _, err := Networks(text); err != nil {
			bad = append(bad, &Error{at(key), key, err})
		}
	}
	return bad
}
