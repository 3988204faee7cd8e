package mail

import (
	"bytes"
	"encoding/hex"
	"strings"

	"doublet/note"
	"doublet/wire/mime"
)

// ofTheWay says that a field tells of the way of a message, or is one that mail programs or this server take out when it is
// sent on. Those are not compared.
func ofTheWay(f mime.HeaderField) bool {
	if onChain(f) {
		return true
	}
	for _, name := range [...]string{"Return-Path", "Received", "Delivered-To", "X-Original-To", "Received-SPF", "Authentication-Results",
		"Bcc", "Resent-Bcc", "Status", "X-Status", "Lines", "Content-Length"} {
		if f.Is(name) {
			return true
		}
	}
	return false
}

// queueID reads the queue id of a Received field of this program, or of a Message-ID that it gave.
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

// failedHere says that a server which took a message in found that its author's domain disowns it, or could not find out. The
// results of any server count, not only those above the newest Received field: a message may have come through a gateway or another
// server of the domain, and the client chooses the name in the Received field. Made-up results can only refuse.
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
