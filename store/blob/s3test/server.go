// Package s3test is an S3-compatible server in memory for tests: strict about signatures and checksums, with faults
// between it and its clients.
package s3test

import (
	"bytes"
	"crypto/md5" //nolint:gosec // Content-MD5 and ETag of S3
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"

	"github.com/minio/minio-go/v7"
)

const (
	bucket = "backups"
	region = "eu-test-1"
	access = "AKIATEST"
	secret = "not a secret/of anybody"
	// sumHeader is the metadata with the checksum of an object.
	sumHeader = "X-Amz-Meta-Sha256"
	// page is the number of objects in a page of a listing.
	page = 7
	// maxRemove bounds the number of objects that one request removes.
	maxRemove = 1000
	// minPart is the least size of a part that is not the last, in bytes.
	minPart = 5 << 20
)

// The client waits between its attempts by the clock of the machine. Tests with faults would wait most of their time.
func init() { minio.DefaultRetryUnit, minio.DefaultRetryCap = time.Millisecond, time.Millisecond }

// Server is an S3-compatible server with one bucket.
type Server struct {
	t           testing.TB
	http        *httptest.Server
	credentials string

	mu      sync.Mutex // guards the fields below
	objects map[string][]byte
	// sums holds the metadata with the checksum that a client gave an object.
	sums    map[string]string
	uploads map[string]*upload
	fault   Fault
	when    func(*http.Request) bool
	refused []string
	pages   int
}

// upload is an object that is being uploaded in parts.
type upload struct {
	key   string
	parts map[int][]byte
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, objects: map[string][]byte{}, sums: map[string]string{}, uploads: map[string]*upload{}}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.http.Close)
	s.credentials = filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = " + access + "\naws_secret_access_key = " + secret + "\n"
	f, err := env.Real(slog.New(slog.DiscardHandler)).FS.Create(s.credentials, "test")
	if err == nil {
		_, err = f.Write([]byte(text))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Place returns the URL of a place in the bucket.
func (s *Server) Place(prefix, timeout string) string {
	q := url.Values{"endpoint": {s.http.URL}, "region": {region}, "credentials": {s.credentials}, "timeout": {timeout}}
	return "s3://" + bucket + "/" + prefix + "?" + q.Encode()
}

// Objects returns a copy of the objects, by their keys.
func (s *Server) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]byte{}
	for k, v := range s.objects {
		out[k] = bytes.Clone(v)
	}
	return out
}

// Change changes an object behind the back of the clients; nil removes it.
func (s *Server) Change(key string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] = content; content == nil {
		delete(s.objects, key)
	}
}

// Pages returns the number of pages of listings that were sent, and of uploads that were begun and not ended.
func (s *Server) Pages() (pages, uploads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages, len(s.uploads)
}

// Refused returns the requests that were not those of a correct client.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// fail is an error in the form of S3.
type fail struct {
	status int
	code   string
	why    string
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *fail) {
	if f.status != http.StatusNotFound {
		s.mu.Lock()
		s.refused = append(s.refused, r.Method+" "+r.URL.String()+": "+f.code+" "+f.why)
		s.mu.Unlock()
	}
	answer(w, f.status, struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: f.code, Message: f.why})
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := xml.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write(append([]byte(xml.Header), b...))
}

func etag(b []byte) string {
	sum := md5.Sum(b) //nolint:gosec // ETag of S3
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// store handles a request as the server behind the faults does.
func (s *Server) store(w http.ResponseWriter, r *http.Request) {
	body, f := verify(r)
	if f == nil {
		f = checkMD5(r, body)
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/"+bucket+"/")
	if f == nil && !ok {
		f = &fail{http.StatusNotFound, "NoSuchBucket", r.URL.Path}
	}
	if f == nil {
		f = s.route(w, r, path, body)
	}
	if f != nil {
		s.refuse(w, r, f)
	}
}

func checkMD5(r *http.Request, body []byte) *fail {
	sum := md5.Sum(body) //nolint:gosec // Content-MD5 of S3
	if want := r.Header.Get("Content-Md5"); want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
		return &fail{http.StatusBadRequest, "BadDigest", "Content-MD5"}
	}
	return nil
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, key string, body []byte) *fail {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	id := q.Get("uploadId")
	switch {
	case key == "" && r.Method == http.MethodGet && q.Get("list-type") == "2":
		return s.list(w, q)
	case key == "" && r.Method == http.MethodPost && q.Has("delete"):
		return s.remove(w, body)
	case key == "":
		return &fail{http.StatusNotImplemented, "NotImplemented", r.Method + " of a bucket"}
	case r.Method == http.MethodPost && q.Has("uploads"):
		id = strconv.Itoa(len(s.uploads) + 1)
		s.uploads[id] = &upload{key, map[int][]byte{}}
		answer(w, http.StatusOK, struct {
			XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket, Key, UploadId string
		}{Bucket: bucket, Key: key, UploadId: id})
	case id != "":
		return s.multipart(w, r, key, id, body)
	case r.Method == http.MethodPut:
		s.objects[key], s.sums[key] = body, r.Header.Get(sumHeader)
		w.Header().Set("ETag", etag(body))
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return s.get(w, r, key)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		return &fail{http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method}
	}
	return nil
}

// get sends an object, or a range of it.
func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) *fail {
	b, ok := s.objects[key]
	if !ok {
		return &fail{http.StatusNotFound, "NoSuchKey", key}
	}
	w.Header().Set("ETag", etag(b))
	if sum := s.sums[key]; sum != "" {
		w.Header().Set(sumHeader, sum)
	}
	w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT")
	status, size := http.StatusOK, len(b)
	if text := r.Header.Get("Range"); text != "" {
		var from, to int
		if _, err := fmt.Sscanf(text, "bytes=%d-%d", &from, &to); err != nil || from > to || from >= size {
			return &fail{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", text}
		}
		to = min(to, size-1)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, size))
		b, status = b[from:to+1], http.StatusPartialContent
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(b)
	}
	return nil
}

// list sends a page of a listing.
func (s *Server) list(w http.ResponseWriter, q url.Values) *fail {
	if d := q.Get("delimiter"); d != "" {
		return &fail{http.StatusNotImplemented, "NotImplemented", "delimiter " + d}
	}
	type object struct {
		Key, LastModified, ETag, StorageClass string
		Size                                  int
	}
	out := struct {
		XMLName                             xml.Name `xml:"ListBucketResult"`
		Name, Prefix, NextContinuationToken string
		EncodingType                        string
		IsTruncated                         bool
		Contents                            []object
	}{Name: bucket, Prefix: q.Get("prefix"), EncodingType: q.Get("encoding-type")}
	var keys []string
	for k := range s.objects {
		if strings.HasPrefix(k, q.Get("prefix")) && k > max(q.Get("continuation-token"), q.Get("start-after")) {
			keys = append(keys, k)
		}
	}
	if slices.Sort(keys); len(keys) > page {
		keys, out.IsTruncated = keys[:page], true
		out.NextContinuationToken = keys[page-1]
	}
	for _, k := range keys {
		b, name := s.objects[k], k
		if out.EncodingType == "url" {
			name = url.QueryEscape(k)
		}
		out.Contents = append(out.Contents, object{name, "2026-11-26T12:00:00.000Z", etag(b), "STANDARD", len(b)})
	}
	s.pages++
	answer(w, http.StatusOK, out)
	return nil
}

// remove removes several objects.
func (s *Server) remove(w http.ResponseWriter, body []byte) *fail {
	type object struct{ Key string }
	var todo struct{ Object []object }
	if err := xml.Unmarshal(body, &todo); err != nil || len(todo.Object) == 0 || len(todo.Object) > maxRemove {
		return &fail{http.StatusBadRequest, "MalformedXML", fmt.Sprint(len(todo.Object), " objects")}
	}
	for _, o := range todo.Object {
		delete(s.objects, o.Key)
	}
	answer(w, http.StatusOK, struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []object
	}{Deleted: todo.Object})
	return nil
}

// multipart handles a request about an object that is being uploaded in parts.
func (s *Server) multipart(w http.ResponseWriter, r *http.Request, key, id string, body []byte) *fail {
	u, ok := s.uploads[id]
	if !ok || u.key != key {
		return &fail{http.StatusNotFound, "NoSuchUpload", id}
	}
	switch r.Method {
	case http.MethodPut:
		n, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
		if err != nil || n < 1 || n > 10000 {
			return &fail{http.StatusBadRequest, "InvalidArgument", "partNumber"}
		}
		u.parts[n] = body
		w.Header().Set("ETag", etag(body))
		return nil
	case http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	var done struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &done); err != nil {
		return &fail{http.StatusBadRequest, "MalformedXML", err.Error()}
	}
	var whole []byte
	for i, p := range done.Part {
		b, ok := u.parts[p.PartNumber]
		switch {
		case !ok || strings.Trim(p.ETag, `"`) != strings.Trim(etag(b), `"`):
			return &fail{http.StatusBadRequest, "InvalidPart", strconv.Itoa(p.PartNumber)}
		case len(b) < minPart && i < len(done.Part)-1:
			return &fail{http.StatusBadRequest, "EntityTooSmall", strconv.Itoa(p.PartNumber)}
		}
		whole = append(whole, b...)
	}
	s.objects[key], s.sums[key] = whole, ""
	delete(s.uploads, id)
	answer(w, http.StatusOK, struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: bucket, Key: key, ETag: etag(whole)})
	return nil
}

// readAll reads the body of a request.
func readAll(r *http.Request) ([]byte, *fail) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, &fail{http.StatusBadRequest, "IncompleteBody", err.Error()}
	}
	return b, nil
}
