//go:build unix

package lab

import "syscall"

// ownSession keeps signals of the terminal away from a process.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
