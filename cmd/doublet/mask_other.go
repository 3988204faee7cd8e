//go:build !unix

package main

// ownFilesOnly does nothing on systems without a umask. The access list of the data folder protects the files.
func ownFilesOnly() {}
