// Package s3 holds store/blob and store/backup against versitygw, an S3 gateway that others wrote.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/backup"
	"doublet/store/blob"

	"filippo.io/age"
)

var ctx = context.Background()

// gateway starts versitygw over a folder, and returns the URL of a place in its bucket.
func gateway(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "versitygw")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/versity/versitygw/cmd/versitygw").
		CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	root, credentials := filepath.Join(dir, "root"), filepath.Join(dir, "credentials")
	err = errors.Join(l.Close(), os.MkdirAll(filepath.Join(root, "backups"), 0o700), os.WriteFile(credentials,
		[]byte("[default]\naws_access_key_id = doublet\naws_secret_access_key = secret\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(program, "--port", address, "--access", "doublet", "--secret", "secret", "--region", "us-east-1",
		"posix", root)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("versitygw:\n%s", log.String())
		}
	})
	for {
		if r, err := http.Get("http://" + address + "/"); err == nil {
			_ = r.Body.Close()
			break
		}
		if t.Context().Err() != nil || cmd.ProcessState != nil {
			t.Fatalf("versitygw does not answer:\n%s", log.String())
		}
		time.Sleep(50 * time.Millisecond) // until it listens
	}
	q := url.Values{"endpoint": {"http://" + address}, "credentials": {credentials}}
	return "s3://backups/one?" + q.Encode()
}

// content is a blob.Source.
type content struct{ *bytes.Reader }

// Reset implements blob.Source.
func (c content) Reset() error {
	_, err := c.Seek(0, io.SeekStart)
	return err
}

// TestVersitygw writes, lists, reads and removes objects, in pages, parts and ranges.
func TestVersitygw(t *testing.T) {
	p, err := blob.Open(env.Real(slog.New(slog.DiscardHandler)), gateway(t))
	if err != nil {
		t.Fatal(err)
	}
	const n = 1100 // more than a page
	for i := range n {
		if err := p.Put(ctx, fmt.Sprintf("a/%04d", i), []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Put(ctx, "ab c+d", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if list, err := p.List(ctx, "a/"); err != nil || len(list) != n || list[n-1] != (blob.Info{Name: "a/1099", Size: 7}) {
		t.Fatalf("%d objects, %v", len(list), err)
	}
	if list, err := p.List(ctx, "ab"); err != nil || fmt.Sprint(list) != "[{ab c+d 1}]" {
		t.Errorf("%v %v", list, err)
	}
	if b, err := p.Get(ctx, "a/0007", 7); err != nil || string(b) != "content" {
		t.Errorf("%q %v", b, err)
	}
	if err := errors.Join(p.Remove(ctx, "a/0007"), p.Remove(ctx, "a/0007", "a/0008"), p.Remove(ctx, "a/none")); err != nil {
		t.Error(err)
	}
	if _, err := p.Get(ctx, "a/0007", 7); !errors.Is(err, blob.ErrNotFound) {
		t.Error(err)
	}
	if _, err := p.Open(ctx, "a/0007"); !errors.Is(err, blob.ErrNotFound) {
		t.Error(err)
	}
	big := make([]byte, 33<<20+5)
	_, _ = rand.NewChaCha8([32]byte{}).Read(big)
	err = p.Write(ctx, "pieces", content{bytes.NewReader(big)}, int64(len(big)), func() string { return "big" })
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Open(ctx, "pieces/big")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil || !bytes.Equal(all, big) {
		t.Errorf("%d bytes, %v", len(all), err)
	}
	b := make([]byte, 1000)
	if _, err := r.ReadAt(b, 20<<20+3); err != nil || !bytes.Equal(b, big[20<<20+3:][:1000]) {
		t.Errorf("a range: %v", err)
	}
}

// TestVersitygwBackup takes two encrypted backups into the gateway, and restores the first.
func TestVersitygwBackup(t *testing.T) {
	place := gateway(t)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to, err := blob.ParseKeys(id.Recipient().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	from, err := blob.ParseKeys("", strings.NewReader(id.String()))
	if err != nil {
		t.Fatal(err)
	}
	f := env.TestRealTime(t)
	o := store.Options{FloorBytes: -1, Ballast: -1}
	s, err := store.Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		_, err := s.CreateDatabase(note.System, store.Create{Title: fmt.Sprint("db ", i), Kind: "mail"})
		if err == nil {
			_, err = backup.Take(ctx, f.Env, s, place, backup.Options{Keys: to})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Verify(ctx, f.Env, place, 0, backup.Options{Keys: from}); err != nil {
		t.Error(err)
	}
	_, err = backup.Restore(ctx, f.Env, place, "other",
		backup.RestoreOptions{Options: backup.Options{Keys: from}, At: 1, Store: o})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(f.Env, "other", o); err != nil {
		t.Fatal(err)
	}
	list, err := s.Databases()
	if err != nil || len(list) != 1 || list[0].Title != "db 0" {
		t.Errorf("%v %v", list, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
