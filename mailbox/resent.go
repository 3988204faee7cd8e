package mailbox

import "doublet/wire/mime"

// maxResent bounds the bytes of Resent fields in a summary. For the few messages with more, lists read the header.
const maxResent = 4096

// appendResent appends the byte 1 and the Resent-From and Resent-Sender fields of a header, unchanged and in their
// order, which is newest first. If they are longer than maxResent, it appends only the byte 0.
func appendResent(dst, header []byte) []byte {
	start := len(dst)
	dst = append(dst, 1)
	for f := range mime.Fields(header) {
		if !f.Is("Resent-From") && !f.Is("Resent-Sender") {
			continue
		}
		if len(dst)-start+f.End-f.Start > maxResent {
			return append(dst[:start], 0)
		}
		dst = append(dst, header[f.Start:f.End]...)
	}
	return dst
}

// Resent returns a header block with only the Resent-From and Resent-Sender fields of the message. ok is false if the
// caller has to read the header instead: for messages of older versions, and if the fields are too long.
func (m *Email) Resent() (block []byte, ok bool, err error) {
	b, err := m.field(fieldResent)
	if err != nil || len(b) == 0 || b[0] != 1 {
		return nil, false, err
	}
	return b[1:], true, nil
}

// Resenders returns the addresses in the newest Resent-From field of a header, and those in the newest Resent-Sender
// field that are not among them. The two fields of one resending stand together, but a header does not show for certain
// which fields belong to the same one. So the result includes everyone who may have resent the message last.
func Resenders(header []byte) []mime.Address {
	var from, sender []mime.Address
	for f := range mime.Fields(header) {
		switch {
		case f.Is("Resent-From") && from == nil:
			from = mime.ParseAddressList(f.Value)
		case f.Is("Resent-Sender") && sender == nil:
			sender = mime.ParseAddressList(f.Value)
		}
	}
	for _, a := range sender {
		if !names(from, &a) {
			from = append(from, a)
		}
	}
	return from
}

func names(list []mime.Address, a *mime.Address) bool {
	for i := range list {
		if list[i].Mailbox == a.Mailbox && list[i].Host == a.Host {
			return true
		}
	}
	return false
}
