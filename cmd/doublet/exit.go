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
	"doublet/bench"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/store"
)

// The exit codes of the program.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitPort       = 3  // the port of a door is in use
	exitInUse      = 4  // another process uses the data folder
	exitFormat     = 5  // a newer release wrote the store
	exitPermission = 6  // no permission for a port or a file
	exitFatal      = 70 // the transaction log failed
)

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// quietError ends the process with an exit code after the messages have been printed.
type quietError struct{ code int }

func (e quietError) Error() string { return "exit " + strconv.Itoa(e.code) }

func exitCode(err error) int {
	var quiet quietError
	var exit *exitError
	var setting *config.Error
	var bad *bench.UsageError
	switch {
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &setting), errors.As(err, &bad), admin.Kind(err) == "usage",
		strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case admin.Kind(err) == "denied":
		return exitPermission
	}
	return exitFailed
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// pidFile is the name of the file with the ID of the process that uses the data folder.
const pidFile = "doublet.pid"

func (h *server) writePID() error {
	path := filepath.Join(h.cfg.Data.Dir, pidFile)
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// openError returns an error that explains the remedy when the store cannot be opened.
func openError(cfg *config.Config, err error) error {
	dir := cfg.Data.Dir
	switch {
	case errors.Is(err, store.ErrFormat):
		return &exitError{exitFormat,
			fmt.Errorf("%s was written by a newer release of doublet: upgrade this program (%s): %w", dir,
				version(), err)}
	case errors.Is(err, fs.ErrPermission):
		return &exitError{exitPermission,
			fmt.Errorf("no permission for the data folder %s: run as the account that owns it: %w", dir, err)}
	case errors.Is(err, syscall.EAGAIN), strings.Contains(err.Error(), "in use by another process"):
		who := "another process"
		if raw, err := os.ReadFile(filepath.Join(dir, pidFile)); err == nil {
			who = "process " + strings.TrimSpace(string(raw))
		}
		return &exitError{exitInUse,
			fmt.Errorf("data folder %s is in use by %s: stop it (doublet stop --data %s), or set another folder "+
				"with --data", dir, who, dir)}
	}
	return err
}

// answers reports whether a server answers at the data folder's socket.
func answers(e *env.Env, dir string) bool {
	_, err := admin.Dial(e, filepath.Join(dir, admin.SocketName))
	return err == nil
}

// listenPrivate opens a Unix socket that only this account can open. The umask protects it from the beginning; the mode
// is set for systems without a umask.
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
