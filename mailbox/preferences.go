package mailbox

import (
	"fmt"

	"doublet/note"
)

// preferencesProfile is the profile note that holds the settings of the owner's clients, such as the colours of labels.
// Each is an item; its name is the setting's with a prefix.
const (
	preferencesProfile = "ClientPreferences"
	preferencePrefix   = "Pref."
)

// Limits on the preferences of a mail file: their number, the bytes of a name, and the bytes of all values.
const (
	MaxPreferences     = 200
	MaxPreferenceName  = 100
	MaxPreferenceBytes = 512 << 10
)

// Preferences returns the settings of the owner's clients by name.
func (d *Reading) Preferences() (map[string]string, error) {
	items, _, err := d.Profile(d.f.ProfileID(preferencesProfile))
	out := map[string]string{}
	for name, v := range items.Entries(preferencePrefix) {
		out[name] = v.AsText()
	}
	return out, err
}

// SetPreferences replaces the settings of the owner's clients. It returns ErrLimit if they exceed a limit.
func (c *Changing) SetPreferences(values map[string]string) error {
	size := 0
	list := []note.Item{{Name: "Form", Value: note.Text(preferencesProfile)}}
	for name, v := range values {
		if name == "" || len(name) > MaxPreferenceName {
			return fmt.Errorf("%w: a name has at most %d bytes", ErrLimit, MaxPreferenceName)
		}
		size += len(name) + len(v)
		list = append(list, note.Item{Name: preferencePrefix + name, Value: note.Text(v)})
	}
	if len(values) > MaxPreferences || size > MaxPreferenceBytes {
		return fmt.Errorf("%w: at most %d preferences of %d bytes", ErrLimit, MaxPreferences, MaxPreferenceBytes)
	}
	return c.PutProfile(c.f.ProfileID(preferencesProfile), note.MakeItems(list...))
}
