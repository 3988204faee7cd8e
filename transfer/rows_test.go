package transfer

import (
	"context"
	"strings"
	"testing"
)

func TestImportOfManyRows(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var b strings.Builder
	b.WriteString("shortname\n")
	for i := range bulkRows + 3 {
		b.WriteString("p" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "\n")
	}
	b.WriteString("pab\npaa\n") // the second one exists already, in the first chunk
	writeFile(t, s, "many.csv", b.String())
	in := must[AddedRows](t)(s.job().Rows(context.Background(), &Rows{File: "many.csv"}))
	if in.Added != bulkRows+4 || in.Failed != 1 || !strings.HasPrefix(in.Errors[0], "line 506 (paa)") {
		t.Errorf("%+v", in)
	}
}
