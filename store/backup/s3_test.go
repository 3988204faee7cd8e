package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"doublet/store"
	"doublet/store/archive"
	"doublet/store/blob"
	"doublet/store/blob/s3test"

	"filippo.io/age"
)

// newKeys returns keys that encrypt, and those that decrypt.
func newKeys(t *testing.T) (to, from blob.Keys) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to, err = blob.ParseKeys(id.Recipient().String(), nil)
	if err == nil {
		from, err = blob.ParseKeys("", strings.NewReader(id.String()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to, from
}

// sender is a text in every message of the model.
const sender = "a@example.com"

// TestS3Moments archives a random run in a bucket, encrypted and not, while requests fail in every way, with restarts
// and crashes. Moments that are restored must equal the model. Encrypted, no message can be read in the bucket.
func TestS3Moments(t *testing.T) {
	t.Parallel()
	for seed, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted=%t", sealed), func(t *testing.T) {
			t.Parallel()
			server := s3test.New(t)
			var to, from blob.Keys
			if sealed {
				to, from = newKeys(t)
			}
			r := newRecordedIn(t, uint64(seed)+40, archivedOptions(), server.Place("one", "30s"), to, from)
			r.turn()
			r.base()
			faults := []s3test.Fault{s3test.Unavailable, s3test.Cut, s3test.Lose, s3test.Wrong, s3test.Page}
			for i := range 60 {
				r.second()
				if i%11 == 5 {
					server.Fail(faults[i/11], nil)
					r.turn()
					server.Fail(s3test.None, nil)
				}
				switch n := r.rng.IntN(100); {
				case n < 40:
					r.turn()
				case n < 45:
					r.base()
				case n < 50:
					r.restart(true)
				case n < 53:
					r.restart(false)
				case n < 60:
					r.tidy()
				}
			}
			r.end()
			list := r.moments()
			if len(list) != 1 {
				t.Errorf("the archive has gaps: %v", list)
			}
			for range 4 {
				r.restore(r.times[1+r.rng.IntN(len(r.times)-1)])
			}
			ctx := context.Background()
			if have, err := VerifyArchive(ctx, r.f.Env, r.place, Options{Keys: from}); err != nil ||
				fmt.Sprint(have) != fmt.Sprint(list) {
				t.Errorf("verify: %v %v, want %v", have, err, list)
			}
			if _, err := Verify(ctx, r.f.Env, r.place, 0, Options{Keys: from}); err != nil {
				t.Error(err)
			}
			checkPlain(t, server, sealed)
		})
	}
}

// checkPlain checks that messages can be read in the bucket if and only if it is not encrypted, and that only manifests
// and the like are plain text there.
func checkPlain(t *testing.T, server *s3test.Server, sealed bool) {
	t.Helper()
	found := 0
	for key, b := range server.Objects() {
		found += bytes.Count(b, []byte(sender))
		name := strings.TrimPrefix(key, "one/")
		content := strings.HasPrefix(name, "pieces/") || strings.HasPrefix(name, "archive/") &&
			!strings.HasSuffix(name, "/through")
		if content && bytes.HasPrefix(b, []byte("age-encryption.org/v1\n")) != sealed {
			t.Errorf("encrypted=%t: %s begins with %.20q", sealed, name, b)
		}
	}
	if (found == 0) != sealed {
		t.Errorf("encrypted=%t: the sender occurs %d times", sealed, found)
	}
}

// TestS3Outage lets the bucket answer 503 for an hour, during which the server crashes. Each turn reports it, and no
// change is lost.
func TestS3Outage(t *testing.T) {
	t.Parallel()
	server := s3test.New(t)
	r := newRecordedIn(t, 50, archivedOptions(), server.Place("one", "30s"), blob.Keys{}, blob.Keys{})
	r.turn()
	r.base()
	server.Fail(s3test.Unavailable, nil)
	for i := range 6 {
		for range 5 {
			r.second()
		}
		if err := r.ship.Turn(context.Background()); !errors.Is(err, blob.ErrAway) {
			t.Errorf("a turn of the outage: %v", err)
		}
		if i == 2 {
			if _, err := Take(context.Background(), r.f.Env, r.s, r.place, Options{}); !errors.Is(err, blob.ErrAway) {
				t.Errorf("a backup: %v", err)
			}
		}
		if i == 3 {
			r.restart(true)
		}
		r.f.Time.Advance(10 * time.Minute)
	}
	server.Fail(s3test.None, nil)
	r.end()
	if list := r.moments(); len(list) != 1 {
		t.Fatalf("the archive has gaps: %v", list)
	}
	for range 3 {
		r.restore(r.times[1+r.rng.IntN(len(r.times)-1)])
	}
}

// TestEncrypted takes encrypted backups into a folder: without the private key, only new pieces are copied, and
// encrypted pieces of an interrupted backup are used; with other recipients, everything is copied again. A restore
// needs the identity.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newModel(t)
	to, from := newKeys(t)
	take := func(k blob.Keys) Generation {
		t.Helper()
		g, err := Take(ctx, m.f.Env, m.s, "backup", Options{Keys: k})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	m.steps(60, 1)
	plain := take(blob.Keys{})
	first := take(to)
	if first.Copied < plain.Bytes/2 || first.Checked.Level != CheckStored || plain.Checked.Level != CheckOpen {
		t.Errorf("the first encrypted one copied %d of %d bytes, checked: %s", first.Copied, first.Bytes,
			first.Checked.Level)
	}
	if second := take(to); second.Copied > second.Bytes/4 {
		t.Errorf("the second one copied %d of %d bytes", second.Copied, second.Bytes)
	}
	other, otherFrom := newKeys(t)
	third := take(other)
	if third.Copied < third.Bytes/2 {
		t.Errorf("with another recipient %d of %d bytes were copied", third.Copied, third.Bytes)
	}
	restore := func(at uint64, k blob.Keys, dir string) error {
		_, err := Restore(ctx, m.f.Env, "backup", dir,
			RestoreOptions{Options: Options{Keys: k}, At: at, Store: storeOptions()})
		return err
	}
	if err := restore(2, blob.Keys{}, "none"); !errors.Is(err, blob.ErrSealed) {
		t.Errorf("without an identity: %v", err)
	}
	if err := restore(2, otherFrom, "none"); !errors.Is(err, blob.ErrSealed) {
		t.Errorf("with another identity: %v", err)
	}
	n := m.done()
	for dir, err := range map[string]error{"two": restore(2, from, "two"), "four": restore(4, otherFrom, "four")} {
		if err != nil {
			t.Fatal(err)
		}
		m.compare(m.f.Env, dir, n, n)
	}
	_, err := Take(ctx, m.f.Env, m.s, "backup", Options{Keys: to, Check: CheckFull})
	if !errors.Is(err, blob.ErrSealed) {
		t.Errorf("full check without the identity: %v", err)
	}
	if _, err := Verify(ctx, m.f.Env, "backup", 3, Options{}); !errors.Is(err, blob.ErrSealed) {
		t.Errorf("verify without the identity: %v", err)
	}
	if g, err := Verify(ctx, m.f.Env, "backup", 3, Options{Keys: from}); err != nil || g.Checked.Level != CheckFull {
		t.Errorf("verify: %v", err)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestEncryptedInterrupted breaks an encrypted backup at its manifest. The next one uses its pieces.
func TestEncryptedInterrupted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newModel(t)
	to, _ := newKeys(t)
	m.steps(60, 1)
	server := s3test.New(t)
	place := server.Place("one", "30s")
	server.Fail(s3test.Unavailable, isManifest)
	if _, err := Take(ctx, m.f.Env, m.s, place, Options{Keys: to}); !errors.Is(err, blob.ErrAway) {
		t.Fatal(err)
	}
	server.Fail(s3test.None, nil)
	g, err := Take(ctx, m.f.Env, m.s, place, Options{Keys: to})
	if err != nil || g.Copied > g.Bytes/4 {
		t.Errorf("%d of %d bytes were copied again, %v", g.Copied, g.Bytes, err)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestS3Damage changes and removes pieces in the bucket. They are damage. A bucket that is away is not.
func TestS3Damage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newModel(t)
	m.steps(30, 1)
	server := s3test.New(t)
	place := server.Place("one", "30s")
	g, err := Take(ctx, m.f.Env, m.s, place, Options{})
	if err != nil {
		t.Fatal(err)
	}
	server.Fail(s3test.Unavailable, isPiece)
	_, err = Verify(ctx, m.f.Env, place, 0, Options{})
	if !errors.Is(err, blob.ErrAway) || errors.Is(err, ErrDamaged) {
		t.Errorf("away: %v", err)
	}
	if _, err := Restore(ctx, m.f.Env, place, "away", RestoreOptions{Store: storeOptions()}); !errors.Is(err,
		blob.ErrAway) {
		t.Errorf("away: %v", err)
	}
	server.Fail(s3test.None, nil)
	var piece string
	for _, f := range g.Files {
		if len(f.Pieces) > 0 {
			piece = "one/pieces/" + f.Pieces[0].Name
		}
	}
	content := server.Objects()[piece]
	for _, wrong := range [][]byte{nil, content[1:], append([]byte{content[0] ^ 1}, content[1:]...)} {
		server.Change(piece, wrong)
		if _, err := Verify(ctx, m.f.Env, place, 0, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of %d: %v", len(wrong), len(content), err)
		}
	}
	server.Change(piece, content)
	if _, err := Verify(ctx, m.f.Env, place, 0, Options{}); err != nil {
		t.Error(err)
	}
	s, _, err := Open(ctx, m.f.Env, place, blob.Keys{}, 0, storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), m.s.Close()); err != nil {
		t.Error(err)
	}
}

// TestS3DamagedMark changes the mark of the last backup in the bucket. The next backup copies everything again.
func TestS3DamagedMark(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newModel(t)
	m.steps(30, 1)
	server := s3test.New(t)
	for i, full := range []bool{true, false, true, false} {
		if i == 2 {
			server.Change("one/"+markName, []byte(`{"id":"x","lineage":"y"}`))
		}
		g, err := Take(ctx, m.f.Env, m.s, server.Place("one", "30s"), Options{})
		if err != nil || (g.Copied > g.Bytes/2) != full {
			t.Errorf("%d: %d of %d bytes were copied, %v", i, g.Copied, g.Bytes, err)
		}
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestS3OpenMoment opens the store as of a moment from an encrypted archive in a bucket, without a copy of the backup.
func TestS3OpenMoment(t *testing.T) {
	t.Parallel()
	to, from := newKeys(t)
	r := newRecordedIn(t, 60, archivedOptions(), s3test.New(t).Place("one", "30s"), to, from)
	r.turn()
	r.base()
	for range 20 {
		r.second()
	}
	r.end()
	d := r.times[10]
	open := func(k blob.Keys) (*store.Store, func() error, error) {
		s, _, release, err := OpenMoment(context.Background(), r.f.Env, r.place, k, r.s, d.at, storeOptions(),
			func(Progress) {})
		return s, release, err
	}
	if _, _, err := open(blob.Keys{}); !errors.Is(err, blob.ErrSealed) || errors.Is(err, archive.ErrDamaged) {
		t.Errorf("without the identity: %v", err)
	}
	s, release, err := open(from)
	if err != nil {
		t.Fatal(err)
	}
	r.compareNotes(s, d.n, d.n)
	if err := release(); err != nil {
		t.Error(err)
	}
}

func isManifest(r *http.Request) bool { return strings.Contains(r.URL.Path, "/"+prefix) }

func isPiece(r *http.Request) bool { return strings.Contains(r.URL.Path, "/"+piecesName+"/") }
