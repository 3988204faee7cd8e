// Package env provides everything that a package takes from the outside world: the clock, randomness, the file system,
// the network, and the start of goroutines. Tests and the simulation replace them. No package above env calls time.Now,
// rand, os or go directly.
//
// The types of the file system are those of Pebble's vfs package. The storage engine uses them already, and they
// include an in-memory file system with crashes, and fault injection. Outside of store/, vfs is the only package of the
// storage engine's module that is used.
package env

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system.
type FS = vfs.FS

// File is an open file of FS.
type File = vfs.File

// SyncDir makes the names of the files in a folder durable. A file that was created and synced can be lost without it.
func SyncDir(files FS, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Clock returns the time and waits.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives the time once, d from now.
	After(d time.Duration) <-chan time.Time
	// AfterFunc runs f in its own goroutine d from now, unless stop is called first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	Sleep(d time.Duration)
}

// Rand produces unpredictable bytes.
type Rand interface {
	Read(p []byte) (int, error)
}

// Env is passed to every package that needs the outside world.
type Env struct {
	Clock Clock
	Rand  Rand
	FS    FS
	// Go starts a goroutine. name describes its purpose.
	Go func(name string, f func())
	// Dial opens an outgoing connection.
	Dial func(network, address string, timeout time.Duration) (net.Conn, error)
	// Listen opens a listening socket.
	Listen func(network, address string) (net.Listener, error)
	Log    *slog.Logger
}

// Real is the environment of a running server.
func Real(log *slog.Logger) *Env {
	return &Env{
		Clock: realClock{},
		Rand:  rand.Reader,
		FS:    vfs.Default,
		Go: func(name string, f func()) {
			go func() {
				defer func() {
					if r := recover(); r != nil {
						// A panic outside a session is a bug in the server itself. The state is unknown, so the process
						// ends and the next start recovers.
						log.Error("goroutine panicked", "name", name, "panic", r, "stack", string(debug.Stack()))
						panic(r)
					}
				}()
				f()
			}()
		},
		Dial: func(network, address string, timeout time.Duration) (net.Conn, error) {
			return net.DialTimeout(network, address, timeout)
		},
		Listen: net.Listen,
		Log:    log,
	}
}

// Uint64 returns 64 random bits. It panics if the source fails, because the server cannot create ids without it.
func (e *Env) Uint64() uint64 {
	var b [8]byte
	e.Fill(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Fill fills p with random bytes. It panics if the source fails.
func (e *Env) Fill(p []byte) {
	if _, err := e.Rand.Read(p); err != nil {
		panic("env: randomness failed: " + err.Error())
	}
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (realClock) Sleep(d time.Duration)                  { time.Sleep(d) }
func (realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
