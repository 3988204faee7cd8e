package admin

import (
	"context"
	"fmt"
	"strings"

	"doublet/stat"
)

// Settings are the settings of a running server.
type Settings interface {
	// Apply reads the settings again and applies those that a running server can change.
	Apply() (Applied, error)
	// Set writes a setting into the configuration file and applies it. A setting that needs a restart of the server is
	// an error, and changes nothing.
	Set(key, value string) (Applied, error)
	List() []Setting
}

// Setting is a setting of a running server.
type Setting struct {
	Key string `json:"key"`
	// Value is the value in effect, "…" for a secret.
	Value string `json:"value" show:"always"`
	// Live reports that the running server can take a change.
	Live bool `json:"live"`
}

// Applied lists the settings that have changed since the server started, by key.
type Applied struct {
	// Applied holds the settings that have taken effect. Restart holds those that need a restart of the server.
	Applied  []string `json:"applied" show:"always"`
	Restart  []string `json:"after_restart" show:"always"`
	Warnings []string `json:"warnings,omitempty"`
}

// ConfigurationShow are the arguments of show configuration.
type ConfigurationShow struct {
	Pattern string `json:"pattern" arg:"optional" help:"name or pattern, such as limits or log.*"`
}

// ConfigurationSet are the arguments of set configuration.
type ConfigurationSet struct {
	Setting string `json:"setting" arg:"required" help:"NAME=VALUE, such as log.level=debug" secret:"value"`
}

func settings() []*Verb {
	return []*Verb{
		onServer("config apply", "read the settings again and let the running server take those that it can",
			func(_ context.Context, c *ServerCall, _ *struct{}) (Applied, error) {
				return c.Server.Settings.Apply()
			}, changes, machine,
			long("Read doublet.toml, the environment and the flags of the server again. Settings that the running "+
				"server can take\ntake effect at once, for connections that begin from now on; the others are named "+
				"and take effect after a restart. A mistake in\nthe file changes nothing. SIGHUP does the same.")),
		onServer("show configuration", "the settings in effect; live ones can be changed by set configuration",
			showConfiguration),
		onServer("set configuration", "change a setting of the running server, and in its configuration file",
			setConfiguration, changes,
			long("Only settings that the running server can take: show configuration marks them as live. The others "+
				"are changed by\ndoublet config set and take effect after a restart. The audit log names the setting, "+
				"not its value, which may be a secret.")),
	}
}

func showConfiguration(_ context.Context, c *ServerCall, a *ConfigurationShow) ([]Setting, error) {
	list := []Setting{}
	for _, s := range c.Server.Settings.List() {
		if stat.Match(a.Pattern, s.Key) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no setting fits %q", ErrUsage, a.Pattern)
	}
	return list, nil
}

func setConfiguration(_ context.Context, c *ServerCall, a *ConfigurationSet) (Applied, error) {
	name, value, ok := strings.Cut(a.Setting, "=")
	if !ok {
		return Applied{}, fmt.Errorf("%w: want NAME=VALUE, such as log.level=debug", ErrUsage)
	}
	return c.Server.Settings.Set(strings.TrimSpace(name), strings.TrimSpace(value))
}
