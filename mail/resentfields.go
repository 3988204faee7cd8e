package mail

import (
	"bytes"
	"encoding/hex"
	"strings"

	"doublet/note"
	"doublet/wire/mime"
)

// ofTheWay reports whether a field belongs to the transport of a message, or is one that mail programs or this server
// remove when a message is resent. Such fields are not compared.
func ofTheWay(f mime.HeaderField) bool {
	if onChain(f) {
		return true
	}
	for _, name := range [...]string{"Return-Path", "Received", "Delivered-To", "X-Original-To", "Received-SPF",
		"Authentication-Results",
		"Bcc", "Resent-Bcc", "Status", "X-Status", "Lines", "Content-Length"} {
		if f.Is(name) {
			return true
		}
	}
	return false
}

// queueID returns the queue ID in a Received field of this program, or in a Message-ID that it generated.
func queueID(f mime.HeaderField) (id note.UNID, ok bool) {
	var rest []byte
	switch {
	case f.Is("Received"):
		if _, rest, ok = bytes.Cut(f.Value, []byte(" id ")); !ok {
			return id, false
		}
	case f.Is("Message-ID"):
		if _, rest, ok = bytes.Cut(f.Value, []byte("<")); !ok {
			return id, false
		}
	default:
		return id, false
	}
	const digits = 2 * len(id)
	if len(rest) <= digits {
		return id, false
	}
	n, err := hex.Decode(id[:], rest[:digits])
	return id, err == nil && n == len(id) && bytes.IndexByte([]byte(";@ \t\r\n"), rest[digits]) >= 0
}

// failedHere reports whether a receiving server recorded that DMARC failed for the message or could not be checked. The
// results of all servers count, not only those above the newest Received field: a message may have come through a
// gateway or another server of the domain, and the client chooses the name in the Received field. Forged results can
// only cause a rejection.
func failedHere(header []byte) bool {
	for f := range mime.Fields(header) {
		if !f.Is("Authentication-Results") {
			continue
		}
		for _, result := range [...]string{"dmarc=fail", "dmarc=temperror", "dmarc=permerror"} {
			if strings.Contains(f.Text(), result) {
				return true
			}
		}
	}
	return false
}
