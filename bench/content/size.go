package content

import (
	"compress/flate"
	"io"
	"time"
)

// sample is the length of the part of a message that Size compresses, in bytes.
const sample = 512 << 10

// Size returns the size in bytes of a message with a text and an attachment, and the share of it that DEFLATE leaves.
func Size(body, attachment int64) (whole int64, compressed float64) {
	m := Message{From: "mail1@example.com", To: []string{"mail2@example.com"}, Subject: "Message", ID: "size",
		Date: time.Unix(0, 0), Body: body, Attachment: attachment}
	raw := m.Append(nil)
	part := raw[:min(len(raw), sample)]
	var n counter
	w, err := flate.NewWriter(&n, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(part) // a counter never fails
	_ = w.Close()
	return int64(len(raw)), float64(n) / float64(len(part))
}

// counter counts the bytes that are written to it.
type counter int64

var _ io.Writer = (*counter)(nil)

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
