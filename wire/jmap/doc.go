// Package jmap is the grammar of JMAP: JSON as it is on the wire (I-JSON, RFC 7493), requests and
// responses (RFC 8620), references into earlier responses, dates, ids and the kinds of error. It prints
// by appending to a slice and reads into a small tree of values: nothing is found out about a type at run
// time, and whatever is read has bounds.
package jmap
