package mime

import (
	"slices"
	"testing"
)

func TestThreadIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header, own string
		references  []string
	}{
		{"Message-ID: <a@b>\r\nReferences: <1@x>\r\n <2@x>\r\nIn-Reply-To: <3@x>\r\n", "<a@b>",
			[]string{"<1@x>", "<2@x>"}},
		{"In-Reply-To: text <3@x> <4@x>\r\n", "", []string{"<3@x>"}},
		{"Message-ID: <\"a\\\"c\"@b> (comment)\r\nReferences: <\"1\"@x> <2@x> <\"3\"@x>\r\n", "<a\"c@b>",
			[]string{"<1@x>", "<2@x>", "<3@x>"}},
		{"Message-ID: none\r\n", "", nil},
	} {
		own, references := ThreadIDs(ParseHeader([]byte(c.header+"\r\n"), true).Envelope)
		if own != c.own || !slices.Equal(references, c.references) {
			t.Errorf("%q: %q %q", c.header, own, references)
		}
	}
}
