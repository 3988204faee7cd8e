package listen

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/klauspost/compress/flate"

	"doublet/wire/inflate"
)

// Reasons for Compress to fail.
var (
	ErrCompressed     = errors.New("listen: compression is on")
	ErrCompressedFull = errors.New("listen: too many compressed connections")
)

// deflated is a connection with DEFLATE in both directions. Its output never refers back, so the output side keeps no
// state. While it waits between blocks, the input side keeps only the window that the peer may refer to: the peer's
// last input, at most 32 KB. All other memory comes from pools while a command is read. A peer that leaves a block open
// keeps the decoder's memory, about 72 KB, until it ends the block. Peers usually end it when they flush.
type deflated struct {
	net.Conn

	in      inflate.Decoder
	packed  []byte // received, not yet decompressed
	clear   []byte // decompressed, not yet read; the decoder owns it
	packBuf *buffer
	one     [1]byte
}

var packers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Compress turns on DEFLATE in both directions, from the next byte on. There must be no buffered input: it would be
// neither compressed nor plain.
func (c *Conn) Compress() error {
	if c.packed() != nil {
		return ErrCompressed
	}
	if n := c.server.compressed.Add(1); n > int64(c.server.opts.Load().MaxCompressed) {
		c.server.compressed.Add(-1)
		return ErrCompressedFull
	}
	if err := c.Flush(); err != nil {
		c.server.compressed.Add(-1)
		return err
	}
	c.DiscardInput()
	c.server.inc("Server.Listen.Compressed.Active", 1)
	c.Conn, c.raw, c.tryFD = &deflated{Conn: c.Conn}, nil, nil
	return nil
}

// CompressedFull reports whether the maximum number of connections is compressed.
func (c *Conn) CompressedFull() bool {
	return c.server.compressed.Load() >= int64(c.server.opts.Load().MaxCompressed)
}

// Read returns the peer's input as soon as it can be decompressed, because a flush need not end a block. It fails when
// the connection below fails, and then loses no input.
func (d *deflated) Read(p []byte) (int, error) {
	for len(d.clear) == 0 {
		if len(d.packed) > 0 || !d.in.Resting() {
			// Decode even without input: a long match may be only partly written out.
			out, used, err := d.in.Decode(d.packed)
			d.clear, d.packed = out, d.packed[used:]
			if len(out) > 0 {
				break // the decoder returns the error again later
			}
			if err != nil {
				return 0, err
			}
		}
		if len(d.packed) == 0 {
			d.rest() // a session that another member serves waits here, and not in Await
		}
		if err := d.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.clear)
	d.clear = d.clear[n:]
	return n, nil
}

// more waits for input. After rest it has no buffer, and reads a single byte first.
func (d *deflated) more() error {
	into := d.one[:]
	if d.packBuf != nil {
		into = d.packBuf.b
	}
	n, err := d.Conn.Read(into)
	if n == 0 {
		if err == nil {
			err = io.ErrNoProgress
		}
		return err
	}
	d.packed = into[:n]
	if d.packBuf == nil {
		d.packBuf = getBuffer() // for the following input
	}
	return nil
}

// rest releases the memory that a waiting connection does not need.
func (d *deflated) rest() {
	if len(d.clear) > 0 || len(d.packed) > 0 {
		return
	}
	d.clear = nil // it refers to the decoder's memory
	d.in.Rest()
	if d.packBuf != nil {
		putBuffer(d.packBuf)
		d.packBuf, d.packed = nil, nil
	}
}

// Write compresses and sends p, so that the peer can decompress all of it at once.
func (d *deflated) Write(p []byte) (int, error) {
	b := packers.Get().(*bytes.Buffer)
	defer packers.Put(b)
	for sent := 0; sent < len(p); {
		piece := p[sent:min(len(p), sent+maxPiece)]
		b.Reset()
		if err := flate.StatelessDeflate(b, piece, false, nil); err != nil {
			return sent, err
		}
		if _, err := d.Conn.Write(b.Bytes()); err != nil {
			return sent, err
		}
		sent += len(piece)
	}
	return len(p), nil
}

// maxPiece limits the size of a pooled compressor's buffer, in bytes.
const maxPiece = 256 << 10

// uncompressed releases the compression state of a connection that has ended.
func (c *Conn) uncompressed() {
	d := c.packed()
	if d == nil {
		return
	}
	c.server.compressed.Add(-1)
	c.server.inc("Server.Listen.Compressed.Active", -1)
	d.clear, d.packed = nil, nil
	d.in.Close()
	d.rest()
}
