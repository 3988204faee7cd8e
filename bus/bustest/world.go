package bustest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/env"
)

// Founded is the cluster of a test. Its folders are in memory and hold certificates of one authority.
type Founded struct {
	T   testing.TB
	Env *env.Fixture

	authority *pki.Folder
	n         int
}

// Found creates a cluster.
func Found(t testing.TB) *Founded {
	t.Helper()
	return &Founded{T: t, Env: env.TestRealTime(t)}
}

// Folder returns the folder of a new server that has joined.
func (f *Founded) Folder(name string) *pki.Folder {
	f.T.Helper()
	f.n++
	dir := fmt.Sprintf("data-%d/cluster", f.n)
	if f.authority == nil {
		folder, err := pki.Create(f.Env.Env, dir, "Test", name, pki.Options{})
		if err != nil {
			f.T.Fatal(err)
		}
		f.authority = folder
		return folder
	}
	folder, err := f.Join(dir, name)
	if err != nil {
		f.T.Fatal(err)
	}
	return folder
}

// Join runs the join exchange over its own listener.
func (f *Founded) Join(dir, name string) (*pki.Folder, error) {
	f.T.Helper()
	l, err := f.Env.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.T.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = f.authority.ServeJoin(context.Background(), tls.Server(conn, f.authority.JoinServer()),
				func(_ context.Context, m bus.Member, _ pki.Applicant) (pki.Admission, error) {
					return pki.Admission{Members: []bus.Member{m}, Domain: "example.com"}, nil
				})
			_ = conn.Close()
		}
		served <- err
	}()
	token, _, err := f.authority.NewToken(l.Addr().String(), 0, false)
	if err != nil {
		f.T.Fatal(err)
	}
	folder, _, err := pki.Join(context.Background(), f.Env.Env, dir, token.String(),
		pki.Applicant{Name: name, Direct: "127.0.0.1:1"}, pki.Options{})
	return folder, errors.Join(err, <-served)
}
