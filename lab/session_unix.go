//go:build unix

package lab

import "syscall"

// ownSession returns attributes that start a process in its own session, where signals of the terminal do not reach it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
