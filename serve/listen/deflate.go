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

// Why a connection cannot be compressed: it is already, or too many others are.
var (
	ErrCompressed     = errors.New("listen: compression is on")
	ErrCompressedFull = errors.New("listen: too many compressed connections")
)

// deflated is a connection under DEFLATE in both directions. What it writes refers to nothing before,
// so that the way out keeps no state. Of the way in it keeps, while it waits between blocks, only as much
// as the peer may refer back to: what the peer has sent, at most 32 KB. All else comes from pools, for as
// long as a command is read. A peer that leaves a block open (one that flushes does not) keeps the room
// of the unpacking, about 72 KB, until it ends the block.
type deflated struct {
	net.Conn

	in      inflate.Decoder
	packed  []byte // came, and is not used yet
	clear   []byte // is unpacked, and not read yet: the decoder's
	packBuf *buffer
	one     [1]byte
}

var packers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Compress puts DEFLATE on the connection, both ways, from the next byte on. There must be no input
// that was read and not used: it would be of neither kind.
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
	c.dropInput()
	c.server.inc("Server.Listen.Compressed.Active", 1)
	c.Conn, c.raw, c.tryFD = &deflated{Conn: c.Conn}, nil, nil
	return nil
}

// CompressedFull says that there are as many compressed connections as may be.
func (c *Conn) CompressedFull() bool {
	return c.server.compressed.Load() >= int64(c.server.opts.Load().MaxCompressed)
}

// Compressed says whether the connection is.
func (c *Conn) Compressed() bool { return c.packed() != nil }

func (c *Conn) packed() *deflated {
	d, _ := c.Conn.(*deflated)
	return d
}

// Read gives what the peer said, as soon as it can be unpacked: a flush need not end a block. It fails
// as the connection below does, and loses nothing by it.
func (d *deflated) Read(p []byte) (int, error) {
	for len(d.clear) == 0 {
		if len(d.packed) > 0 || !d.in.Resting() {
			// Also without input: a long match may be half out.
			out, used, err := d.in.Decode(d.packed)
			d.clear, d.packed = out, d.packed[used:]
			if len(out) > 0 {
				break // an error stays, and is found again
			}
			if err != nil {
				return 0, err
			}
		}
		if err := d.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.clear)
	d.clear = d.clear[n:]
	return n, nil
}

// more waits for input, after rest without a buffer.
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
		d.packBuf = getBuffer() // for what follows
	}
	return nil
}

// rest gives back what a waiting connection does not need.
func (d *deflated) rest() {
	if len(d.clear) > 0 || len(d.packed) > 0 {
		return
	}
	d.clear = nil // it holds the room of the decoder
	d.in.Rest()
	if d.packBuf != nil {
		putBuffer(d.packBuf)
		d.packBuf, d.packed = nil, nil
	}
}

// Write packs and sends, so that the peer can unpack all of it at once.
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

// maxPiece bounds what a pooled packer holds.
const maxPiece = 256 << 10

// uncompressed counts a connection that has ended.
func (c *Conn) uncompressed() {
	d := c.packed()
	if d == nil {
		return
	}
	c.server.compressed.Add(-1)
	c.server.inc("Server.Listen.Compressed.Active", -1)
	d.clear = nil
	d.in.Close()
	if d.packBuf != nil {
		putBuffer(d.packBuf)
		d.packBuf, d.packed = nil, nil
	}
}
