package blob

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/minio/minio-go/v7"
)

// object is an open object. It fetches more than it was asked for, because each request takes a round trip.
type object struct {
	*s3
	ctx  context.Context
	name string
	size int64

	mu   sync.Mutex // guards the fields below
	from int64      // offset of have
	have []byte
}

// Open implements Place.
func (s *s3) Open(ctx context.Context, name string) (Reader, error) {
	info, err := s.client.StatObject(ctx, s.at.bucket, s.key(name), minio.StatObjectOptions{})
	if err != nil {
		return nil, s.failed("read", name, err)
	}
	return &object{s3: s, ctx: ctx, name: name, size: info.Size}, nil
}

// Size implements Reader.
func (o *object) Size() int64 { return o.size }

// Close implements Reader.
func (o *object) Close() error { return nil }

// ReadAt implements Reader.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n < len(p) {
		if off >= o.size {
			return n, io.EOF
		}
		if off < o.from || off >= o.from+int64(len(o.have)) {
			if err := o.fetch(off, int64(len(p)-n)); err != nil {
				return n, err
			}
		}
		k := copy(p[n:], o.have[off-o.from:])
		n, off = n+k, off+int64(k)
	}
	return n, nil
}

// fetch reads at least want bytes from an offset on, or up to the end. The caller holds mu.
func (o *object) fetch(off, want int64) error {
	most := int64(window)
	if off == o.from+int64(len(o.have)) {
		most = ahead
	}
	most = min(max(most, want), o.size-off, partSize)
	var opts minio.GetObjectOptions
	if err := opts.SetRange(off, off+most-1); err != nil {
		return err
	}
	b := make([]byte, most)
	err := o.again(o.ctx, func() error {
		body, info, _, err := o.client.GetObject(o.ctx, o.at.bucket, o.key(o.name), opts)
		if err != nil {
			return o.failed("read", o.name, err)
		}
		defer body.Close()
		if info.Size != most {
			return o.failed("read", o.name, fmt.Errorf("%d bytes for a range of %d", info.Size, most))
		}
		if _, err = io.ReadFull(body, b); err != nil {
			return o.failed("read", o.name, err)
		}
		return nil
	})
	if err == nil {
		o.from, o.have = off, b
	}
	return err
}
