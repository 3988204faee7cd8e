//go:build !unix

package env

import (
	"os"
	"syscall"
)

// openFolder opens a folder for reading. Opening a pipe with it does not block.
const openFolder = os.O_RDONLY | syscall.O_NONBLOCK
