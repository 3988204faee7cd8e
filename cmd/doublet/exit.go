package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/store"
)

// Exit codes.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitPort       = 3  // a door's port is taken
	exitInUse      = 4  // another process has the data folder
	exitFormat     = 5  // the store was written by a newer release
	exitPermission = 6  // for a port or a file
	exitFatal      = 70 // the transaction log failed
)

// exitError is an error with its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// quietError ends the process with a code when everything has been said.
type quietError struct{ code int }

func (e quietError) Error() string { return "exit " + strconv.Itoa(e.code) }

func exitCode(err error) int {
	var quiet quietError
	var exit *exitError
	var setting *config.Error
	switch {
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &setting), admin.Kind(err) == "usage", strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case admin.Kind(err) == "denied":
		return exitPermission
	}
	return exitFailed
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// pidFile tells who has the data folder.
const pidFile = "doublet.pid"

func (h *house) writePID() error {
	path := filepath.Join(h.cfg.Data.Dir, pidFile)
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// openError says what to do when the store does not open.
func openError(cfg *config.Config, err error) error {
	dir := cfg.Data.Dir
	switch {
	case errors.Is(err, store.ErrFormat):
		return &exitError{exitFormat, fmt.Errorf("%s was written by a newer release of doublet: upgrade this program (%s): %w", dir, version(), err)}
	case errors.Is(err, fs.ErrPermission):
		return &exitError{exitPermission, fmt.Errorf("no permission for the data folder %s: run as the account that owns it: %w", dir, err)}
	case errors.Is(err, syscall.EAGAIN), strings.Contains(err.Error(), "in use by another process"):
		who := "another process"
		if raw, err := os.ReadFile(filepath.Join(dir, pidFile)); err == nil {
			who = "process " + strings.TrimSpace(string(raw))
		}
		return &exitError{exitInUse, fmt.Errorf("the data folder %s is in use by %s: stop that server first (doublet stop --data %s), or name another folder with --data", dir, who, dir)}
	}
	return err
}

// answers says whether a server answers at the data folder's socket.
func answers(e *env.Env, dir string) bool {
	_, err := admin.Dial(e, filepath.Join(dir, admin.SocketName))
	return err == nil
}

// listenPrivate opens a Unix socket that only this account may open. The mask of the process makes it so from the
// beginning; the mode is set where there is no mask.
func listenPrivate(e *env.Env, path string) (net.Listener, error) {
	l, err := e.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
