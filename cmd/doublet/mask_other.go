//go:build !unix

package main

// ownFilesOnly does nothing where there is no mask: the data folder's own access list protects.
func ownFilesOnly() {}
