//go:build !unix

package main

// privateMask does nothing where there is no mask: the data folder's own access list protects.
func privateMask() (restore func()) { return func() {} }
