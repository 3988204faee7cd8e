package condition

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"doublet/web"
)

func TestTable(t *testing.T) {
	t.Parallel()
	for _, c := range All {
		for _, err := range c.Errors() {
			if got, known := Of(fmt.Errorf("below: %w", err)); got != c || !known {
				t.Errorf("%v is taken for %q", err, got.Name)
			}
		}
		if c != Trouble && len(c.Errors()) == 0 {
			t.Errorf("no error tells of %q", c.Name)
		}
		if c.SMTP.Code/100 != 4 || c.SMTP.Enhanced[0] != 4 {
			t.Errorf("%q: SMTP %v: the sender would give up", c.Name, c.SMTP)
		}
		if c.IMAP == "" || c.IMAPText == "" || !strings.HasPrefix(c.POP3, "SYS/") || c.HTTP < 400 {
			t.Errorf("%q lacks a reply: %+v", c.Name, c)
		}
		for language, texts := range web.Texts() {
			if texts[c.Text] == "" {
				t.Errorf("%q: no text %s in %s", c.Name, c.Text, language)
			}
		}
	}
	if c, known := Of(errors.New("something else")); c != Trouble || known {
		t.Errorf("an unknown error is %q", c.Name)
	}
}
