package transfer

import (
	"strings"
	"testing"

	"doublet/mailbox"
	wire "doublet/wire/imap"
)

// TestSkippedFolders checks which folders of another server an import leaves out unless they are named.
func TestSkippedFolders(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, attr, why string
	}{
		{"Plans", `\HasNoChildren`, ""},
		{"All Mail", `\All`, "of other folders"},
		{mailbox.RecoverableName, `\HasNoChildren`, "deleted messages"},
		{mailbox.RecoverableName + " 1-a", `\HasNoChildren`, "deleted messages"},
	} {
		d := &wire.ListData{Mailbox: x.name, Delimiter: '/', Attrs: []string{x.attr}}
		for _, named := range []bool{false, true} {
			r := &imapReader{a: &IMAP{}}
			if named {
				r.a.Folder = []string{x.name}
			}
			_, why := r.mapFolder(d, "", nil, map[string]string{})
			if named && why != "" || !named && (x.why == "") != (why == "") || !named && !strings.Contains(why, x.why) {
				t.Errorf("%s, named %v: %q", x.name, named, why)
			}
		}
	}
}
