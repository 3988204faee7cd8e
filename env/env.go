// Package env is everything a room would otherwise take from the world around it: the clock,
// randomness, the file system, the network and goroutine starts. Tests and the simulation
// replace them; nothing above this room calls time.Now, rand, os or go itself.
//
// The words of the file system are those of Pebble's vfs package: the engine already speaks
// them, and with them come a crashable in-memory file system and fault injection. It is the
// one package of the storage engine's module that is used outside store/.
package env

import (
	"crypto/rand"
	"encoding/binary"
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

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	// After sends the time once, d from now.
	After(d time.Duration) <-chan time.Time
	// AfterFunc runs f in its own goroutine d from now, unless stop is called first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	Sleep(d time.Duration)
}

// Rand gives unpredictable bytes.
type Rand interface {
	Read(p []byte) (int, error)
}

// Env is handed to every room that needs the world.
type Env struct {
	Clock Clock
	Rand  Rand
	FS    FS
	// Go starts a goroutine; name says what it is for.
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
						// A panic outside a session is a bug in the server itself; what it held is
						// unknown, so the process ends and start-up recovers.
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

// Uint64 draws 64 random bits. A failing source ends the process: nothing can be named without it.
func (e *Env) Uint64() uint64 {
	var b [8]byte
	e.Fill(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Fill fills p with random bytes.
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
