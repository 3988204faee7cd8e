//go:build unix

package main

import "syscall"

// ownFilesOnly lets this process make files and folders for its own account alone, from its first line on: mail is in
// nearly all of them, and libraries make many with modes of their own. It is never changed back: the mask is the
// whole process's, so another goroutine would make its files meanwhile.
func ownFilesOnly() { syscall.Umask(0o077) }
