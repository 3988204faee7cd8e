// Package imap parses and prints IMAP4rev2 (RFC 9051) and IMAP4rev1 (RFC 3501), with extensions, for servers and
// clients.
//
// A server reads commands with a Reader, which returns the parsed arguments of each verb in Command.Args. A client
// prints commands and reads responses with a ResponseReader. Functions AppendX(dst, …) append the text of X to dst and
// make no other allocation.
//
// Strings in a parsed value share the memory of their line. A caller that keeps one after the command must clone it.
package imap
