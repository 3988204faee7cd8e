// Package imap is the grammar of IMAP4rev2 (RFC 9051) and IMAP4rev1 (RFC 3501) with the extensions
// that Doublet speaks, for servers and clients: commands and responses, read and printed.
//
// A server reads commands through a Reader: every verb arrives as one parsed value (Command.Args).
// A client prints commands and reads answers through a ResponseReader. Printing is append-style:
// AppendX(dst, …) returns dst with the text behind it, and allocates nothing of its own.
//
// Strings in a parsed value share the memory of the line that they came in: who keeps one beyond
// the command clones it.
package imap
