// Package jmap implements the grammar of JMAP: JSON on the wire (I-JSON, RFC 7493), requests and responses (RFC 8620),
// references to earlier responses, dates, ids and errors. It prints by appending to a slice, and parses into a small
// tree of values, without reflection. All input is bounded.
package jmap
