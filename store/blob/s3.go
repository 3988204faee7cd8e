package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"
)

const (
	// partSize is the number of bytes of a part of an object, and the size above which it is uploaded in parts. A
	// writer holds one part in memory.
	partSize = 16 << 20
	// maxParts is the number of parts from which on parts are larger. S3 permits 10,000.
	maxParts = 9000
	// attempts bounds the attempts of a request. The library waits between two of them, up to a second.
	attempts = 4
	// window and ahead are the numbers of bytes that a reader fetches at a time: elsewhere, and where it reads on.
	window, ahead = 64 << 10, 1 << 20
	// listingHead is the number of bytes in which a listing has its first element.
	listingHead = 512
	// sumName is the metadata of an object with the SHA-256 of its content.
	sumName = "Sha256"
	// idleConnections bounds the connections that wait for another request.
	idleConnections = 4
)

// s3 is a Place in a bucket.
type s3 struct {
	at     s3URL
	client minio.Core
}

// openS3 returns the place that an S3 URL names. It does not connect.
func openS3(e *env.Env, text string) (Place, error) {
	at, err := parseS3(text)
	if err != nil {
		return nil, err
	}
	client, err := minio.NewCore(at.host, &minio.Options{
		Creds: credentialsOf(&at), Secure: at.secure, Region: at.region, MaxRetries: attempts,
		Transport: transport(e, at.timeout),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return &s3{at: at, client: *client}, nil
}

func (s *s3) key(name string) string { return s.at.prefix + name }

// failed returns the error of a request.
func (s *s3) failed(what, name string, err error) error {
	if r := minio.ToErrorResponse(err); r.Code == minio.NoSuchKey {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	return fmt.Errorf("%w: %s s3://%s/%s: %w", ErrAway, what, s.at.bucket, s.key(name), err)
}

// Put implements Store.
func (s *s3) Put(ctx context.Context, name string, content []byte) error {
	sum := sha256.Sum256(content)
	return s.put(ctx, name, bytes.NewReader(content), int64(len(content)),
		map[string]string{sumName: hex.EncodeToString(sum[:])})
}

// put uploads size bytes of r. The server checks the MD5 of each part.
func (s *s3) put(ctx context.Context, name string, r io.Reader, size int64, metadata map[string]string) error {
	part := uint64(partSize)
	for int64(part)*maxParts < size {
		part *= 2
	}
	info, err := s.client.Client.PutObject(ctx, s.at.bucket, s.key(name), r, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", SendContentMd5: true, PartSize: part, NumThreads: 1,
		UserMetadata: metadata})
	if err == nil && info.ETag == "" {
		err = errors.New("answer without an ETag: this is no S3-compatible store")
	}
	if err != nil {
		return s.failed("write", name, err)
	}
	return nil
}

// Write implements Place. An object has its name from the start, so that large content is read once before, for the
// name.
func (s *s3) Write(ctx context.Context, dir string, from Source, size int64, name func() string) error {
	if size <= partSize {
		b := make([]byte, size)
		if _, err := io.ReadFull(from, b); err != nil {
			return fmt.Errorf("blob: read what is written to %s: %w", dir, err)
		}
		return s.Put(ctx, dir+"/"+name(), b)
	}
	if n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{from}, make([]byte, chunk)); err != nil || n != size {
		return errors.Join(fmt.Errorf("blob: read what is written to %s: %d bytes of %d", dir, n, size), err)
	}
	if err := from.Reset(); err != nil {
		return err
	}
	base := name()
	if err := s.put(ctx, dir+"/"+base, struct{ io.Reader }{from}, size, nil); err != nil {
		return err
	}
	if name() != base {
		return errors.Join(fmt.Errorf("blob: content of %s/%s changed while it was uploaded", dir, base),
			s.Remove(ctx, dir+"/"+base))
	}
	return nil
}

// Sync implements Place. An upload that succeeded is durable.
func (s *s3) Sync(ctx context.Context, _ string) error { return ctx.Err() }

// Get implements Store.
func (s *s3) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	var b []byte
	err := s.again(ctx, func() error {
		body, info, _, err := s.client.GetObject(ctx, s.at.bucket, s.key(name), minio.GetObjectOptions{Checksum: true})
		if err != nil {
			return s.failed("read", name, err)
		}
		defer body.Close()
		if info.Size > limit {
			return fmt.Errorf("%w: %s has %d bytes, of which at most %d are read", ErrTooLarge, name, info.Size, limit)
		}
		if b, err = io.ReadAll(io.LimitReader(body, limit+1)); err == nil && int64(len(b)) != info.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return s.failed("read", name, err)
		}
		have := sha256.Sum256(b)
		if want := info.UserMetadata[sumName]; want != "" && want != hex.EncodeToString(have[:]) {
			return fmt.Errorf("%w: s3://%s/%s", ErrDamaged, s.at.bucket, s.key(name))
		}
		return nil
	})
	return b, err
}

// again tries a read again whose body broke off, or arrived damaged. The library does so only until the body begins.
func (s *s3) again(ctx context.Context, read func() error) (err error) {
	for range attempts {
		err = read()
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrDamaged) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// List implements Store.
func (s *s3) List(ctx context.Context, prefix string) (out []Info, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.client.ListObjectsIter(ctx, s.at.bucket,
		minio.ListObjectsOptions{Prefix: s.key(prefix), Recursive: true}) {
		if o.Err != nil {
			return nil, s.failed("list", prefix, o.Err)
		}
		name, ok := strings.CutPrefix(o.Key, s.at.prefix)
		if !ok || !strings.HasPrefix(name, prefix) {
			return nil, s.failed("list", prefix, fmt.Errorf("answer names another object: %.200q", o.Key))
		}
		out = append(out, Info{name, o.Size})
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Remove implements Store. It removes many objects with one request.
func (s *s3) Remove(ctx context.Context, names ...string) error {
	if len(names) == 1 {
		err := s.client.RemoveObject(ctx, s.at.bucket, s.key(names[0]), minio.RemoveObjectOptions{})
		return s.removed(names[0], err)
	}
	todo := make(chan minio.ObjectInfo, len(names))
	for _, name := range names {
		todo <- minio.ObjectInfo{Key: s.key(name)}
	}
	close(todo)
	var failed error
	for e := range s.client.RemoveObjects(ctx, s.at.bucket, todo, minio.RemoveObjectsOptions{}) {
		if failed == nil {
			failed = s.removed(strings.TrimPrefix(e.ObjectName, s.at.prefix), e.Err)
		}
	}
	return failed
}

// removed returns the error of a request to remove an object.
func (s *s3) removed(name string, err error) error {
	if err == nil || minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil
	}
	return s.failed("remove", name, err)
}

// Usage implements Place.
func (s *s3) Usage() (vfs.DiskUsage, error) { return vfs.DiskUsage{}, vfs.ErrUnsupported }

// locks holds the buckets and prefixes that this process changes.
var locks struct {
	sync.Mutex
	held map[string]bool
}

// errLocked means that this process changes the place already.
var errLocked = errors.New("in use by this server")

// lock is a held lock of a bucket's prefix.
type lock string

// Close implements io.Closer.
func (l lock) Close() error {
	locks.Lock()
	defer locks.Unlock()
	delete(locks.held, string(l))
	return nil
}

// Lock implements Place.
func (s *s3) Lock(context.Context) (io.Closer, error) {
	l := lock(s.at.host + " " + s.at.bucket + "/" + s.at.prefix)
	locks.Lock()
	defer locks.Unlock()
	if locks.held[string(l)] {
		return nil, errLocked
	}
	if locks.held == nil {
		locks.held = map[string]bool{}
	}
	locks.held[string(l)] = true
	return l, nil
}
