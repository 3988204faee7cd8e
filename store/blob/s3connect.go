package blob

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"doublet/env"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// credentialsOf returns the credentials of a place. They are read when a request needs them.
func credentialsOf(at *s3URL) *credentials.Credentials {
	var p credentials.Provider = &credentials.EnvAWS{}
	if at.credentials != "" {
		p = &credentials.FileAWSCredentials{Filename: at.credentials, Profile: at.profile}
	}
	return credentials.New(&required{p})
}

// required fails where its provider has no credentials. The library would send requests without a signature.
type required struct{ credentials.Provider }

// Retrieve implements credentials.Provider.
func (r *required) Retrieve() (credentials.Value, error) { return r.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (r *required) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	v, err := r.Provider.RetrieveWithCredContext(c)
	if err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return v, errors.Join(errors.New("no credentials: name a file with credentials=, or set AWS_ACCESS_KEY_ID and "+
			"AWS_SECRET_ACCESS_KEY"), err)
	}
	return v, nil
}

// transport returns a transport whose connections fail after a time without progress.
func transport(e *env.Env, timeout time.Duration) http.RoundTripper {
	return listings{&http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			c, err := e.Dial(network, address, timeout)
			if err != nil {
				return nil, err
			}
			return &moving{c, timeout}, nil
		},
		TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout, IdleConnTimeout: timeout,
		MaxIdleConnsPerHost: idleConnections, ForceAttemptHTTP2: true,
		DisableCompression: true, // a range of an object is not a whole stream
	}}
}

// listings checks that the answer to a request for a listing is one. The library takes a page of HTML for an empty
// listing, and a place that is away must not be taken for an empty one.
type listings struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l listings) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || r.URL.Query().Get("list-type") == "" {
		return resp, err
	}
	body := bufio.NewReaderSize(resp.Body, listingHead)
	head, err := body.Peek(listingHead)
	if !bytes.Contains(head, []byte("<ListBucketResult")) {
		err = errors.Join(errors.New("answer is no listing of an S3-compatible store"), err)
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{body, resp.Body}
	return resp, nil
}

// moving is a connection that fails after a time without progress. A read waits for the answer while a slow upload
// writes, so that each operation extends the deadline of both directions.
type moving struct {
	net.Conn
	timeout time.Duration
}

func (m *moving) Read(p []byte) (int, error) {
	if err := m.SetDeadline(env.Deadline(m.timeout)); err != nil {
		return 0, err
	}
	return m.Conn.Read(p)
}

func (m *moving) Write(p []byte) (int, error) {
	if err := m.SetDeadline(env.Deadline(m.timeout)); err != nil {
		return 0, err
	}
	return m.Conn.Write(p)
}
