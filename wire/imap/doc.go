// Package imap parses and prints IMAP4rev2 (RFC 9051) and IMAP4rev1 (RFC 3501) with the extensions of Doublet, for
// servers and clients.
//
// A server reads commands through a Reader: every verb arrives as one parsed value (Command.Args).
// A client prints commands and reads answers through a ResponseReader. Printing is append-style:
// AppendX(dst, …) returns dst with the text behind it, and allocates nothing of its own.
//
// Strings in a parsed value share the memory of their line: a caller that keeps one beyond the command clones it.
package imap
