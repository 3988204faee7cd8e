package groupware

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// indexEntries finds entries by prefix and hash: 'n' and the name, 'u' and the UID. The hash bounds the key and keeps
// zero bytes out of it. Behind spanKey stands the span of an entry of a calendar. sourceKey finds the folders of
// calendars that show a feed, alarmKey the entries with alarms that send mail,
// owedKey those about which a message was not sent yet. 'm' and the MANAGED-ID find the entries with an attachment.
const indexEntries uint64 = 40

var sourceKey, alarmKey, owedKey = []byte("s"), []byte("a"), []byte("o")

// Indexes returns the indexes of entries, for store.Options.
func Indexes() []store.Index {
	keys := func(c note.Class, content *note.Content) [][]byte {
		if c == note.Folder && content.Items.Get(itemSource) != nil {
			return [][]byte{sourceKey}
		}
		name := content.Items.Get(itemName)
		if c != note.Document || name == nil {
			return nil
		}
		list := [][]byte{nameKey(name.AsText()), uidKey(content.Items.Get(itemUID).AsText())}
		if x := content.Items.Get(itemSpan).AsText(); len(x) == spanLength && !strings.Contains(x, "\x00") {
			list = append(list, append([]byte{spanKey}, x...))
		}
		if content.Items.Get(itemMailAlarm).AsBool() {
			list = append(list, alarmKey)
		}
		if content.Items.Get(itemOwed).AsBool() {
			list = append(list, owedKey)
		}
		for _, a := range managed(content) {
			list = append(list, attachmentKey(a.ID))
		}
		return list
	}
	return []store.Index{{Number: indexEntries, Kind: mailbox.Kind, Keys: keys}}
}

// uidKind begins the keys of UIDs.
const uidKind = 'u'

func nameKey(name string) []byte { return hashKey('n', name) }
func uidKey(uid string) []byte   { return hashKey(uidKind, uid) }

func attachmentKey(id string) []byte { return hashKey('m', id) }

func hashKey(prefix byte, s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return fmt.Appendf([]byte{prefix}, "%x", sum[:12])
}

// extraValue returns the value of Properties.Extra.
func extraValue(m map[string]string) (note.Value, error) {
	if len(m) > maxExtra {
		return nil, fmt.Errorf("%w: over %d properties", ErrTooLarge, maxExtra)
	}
	for k, v := range m {
		if len(k)+len(v) > maxExtraText {
			return nil, fmt.Errorf("%w: property of over %d bytes", ErrTooLarge, maxExtraText)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return note.FromJSON(b)
}
