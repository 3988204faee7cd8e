package mailbox

import "doublet/wire/mime"

// maxResent bounds the octets of Resent fields that a summary holds. Lists read the header of the rare messages with more.
const maxResent = 4096

// appendResent appends 1 and the Resent-From and Resent-Sender fields of a header, as they stand there and in their order, the
// newest first; 0 alone where they are longer than maxResent.
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

// Resent is a header block of the message's Resent-From and Resent-Sender fields alone. ok is false where the header has to be read
// for them: in messages of older versions, and where they are long.
func (m *Email) Resent() (block []byte, ok bool, err error) {
	b, err := m.field(fieldResent)
	if err != nil || len(b) == 0 || b[0] != 1 {
		return nil, false, err
	}
	return b[1:], true, nil
}

// Resenders are the people that the newest Resent-From field of a header names, with those of the newest Resent-Sender that
// it does not name. The two fields of one resending stand together, but those of several cannot be told apart for certain: nobody
// who sent the message on last is left out.
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
