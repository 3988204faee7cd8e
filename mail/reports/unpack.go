package reports

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"doublet/wire/mime"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zip"
)

// Limits of a file with a report.
const (
	maxFile     = 4 << 20 // encoded size after base64 decoding, still compressed
	maxUnpacked = 4 << 20 // a parser takes up to some 25 times as much
	maxFiles    = 4       // per message
)

// errTooLarge means that a file exceeds the maximum size of a report.
var errTooLarge = errors.New("report is too large")

// unpack decompresses gzip and zip files, and returns other files unchanged. It reads the first file of a zip archive.
func unpack(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack report: %w", err)
		}
		return bounded(r)
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil || len(z.File) == 0 {
			return nil, fmt.Errorf("unpack report: %w", errors.Join(err, zip.ErrFormat))
		}
		r, err := z.File[0].Open()
		if err != nil {
			return nil, fmt.Errorf("unpack report: %w", err)
		}
		defer r.Close()
		return bounded(r)
	case len(data) > maxUnpacked:
		return nil, errTooLarge
	}
	return data, nil
}

func bounded(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack report: %w", err)
	case len(out) > maxUnpacked:
		return nil, errTooLarge
	}
	return out, nil
}

// files returns the first decoded attachments of a message: parts that are neither text (except text/xml) nor messages.
func files(message []byte) [][]byte {
	var out [][]byte
	var walk func(p *mime.Part)
	walk = func(p *mime.Part) {
		switch {
		case len(out) == maxFiles:
		case len(p.Children) > 0:
			for _, c := range p.Children {
				walk(c)
			}
		case p.Type == "text" && p.Subtype != "xml", p.IsMultipart(), p.Type == "message":
		default:
			body, ok := mime.AppendDecoded(nil, message[p.BodyStart:p.BodyEnd], mime.EncodingOf(p.Encoding), maxFile+1)
			if ok && len(body) > 0 && len(body) <= maxFile {
				out = append(out, body)
			}
		}
	}
	walk(mime.Parse(message, mime.Limits{}))
	return out
}
