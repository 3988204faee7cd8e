package text

import (
	"errors"

	"doublet/search/text/pdf"
)

// pdfText returns the text of a PDF, at most room bytes.
func pdfText(b []byte, room int) (string, error) {
	s, err := pdf.Text(b, room)
	switch {
	case errors.Is(err, pdf.ErrEncrypted):
		return s, errEncrypted
	case errors.Is(err, pdf.ErrBeyond):
		return s, errBeyond
	case err != nil:
		return s, errBroken
	}
	return s, nil
}
