package imap

import "strings"

// Status words of status responses.
const (
	OK      = "OK"
	NO      = "NO"
	BAD     = "BAD"
	BYE     = "BYE"
	PREAUTH = "PREAUTH"
)

// AppendResult prints a status response: `tag STATUS [code] text`. The tag of an untagged response is "*". code has no
// brackets, "" for none. Line breaks in text become spaces, so that they cannot end the line.
func AppendResult(dst []byte, tag, status, code, text string) []byte {
	dst = append(append(dst, tag...), ' ')
	dst = append(append(dst, status...), ' ')
	if code != "" {
		dst = append(append(append(dst, '['), code...), "] "...)
	}
	return AppendResultEnd(dst, text)
}

// AppendResultHead prints `tag STATUS [`, for codes that are printed in place. AppendResultTail completes the line.
func AppendResultHead(dst []byte, tag, status string) []byte {
	dst = append(append(dst, tag...), ' ')
	return append(append(dst, status...), " ["...)
}

// AppendResultTail prints `] text` and CRLF.
func AppendResultTail(dst []byte, text string) []byte {
	return AppendResultEnd(append(dst, "] "...), text)
}

// AppendResultEnd prints the text of a status response and CRLF.
func AppendResultEnd(dst []byte, text string) []byte {
	if text == "" {
		text = "Done" // the grammar requires a text
	}
	start := len(dst)
	dst = append(dst, text...)
	for i := start; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' || dst[i] == 0 {
			dst[i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

// AppendError prints the response to a command that could not be read. After a fatal error the server must send BYE and
// close.
func AppendError(dst []byte, e *SyntaxError) []byte {
	tag, status := e.Tag, BAD
	if tag == "" {
		tag = "*"
	}
	if e.No {
		status = NO
	}
	return AppendResult(dst, tag, status, e.Code, e.Text)
}

// AppendContinue prints "+ text".
func AppendContinue(dst []byte, text string) []byte {
	dst = append(append(dst, "+ "...), text...)
	return append(dst, "\r\n"...)
}

// Response codes, without brackets.

// AppendCodeNumber prints "NAME n": UIDNEXT, UIDVALIDITY, UNSEEN, HIGHESTMODSEQ, APPENDLIMIT.
func AppendCodeNumber(dst []byte, name string, n uint64) []byte {
	return appendUint(append(append(dst, name...), ' '), n)
}

// AppendCodeAppendUID prints APPENDUID (RFC 4315).
func AppendCodeAppendUID(dst []byte, uidValidity, uid uint32) []byte {
	dst = AppendCodeNumber(dst, "APPENDUID", uint64(uidValidity))
	return appendUint(append(dst, ' '), uint64(uid))
}

// AppendCodeAppendUIDs prints APPENDUID for several messages, in the order of their arrival.
func AppendCodeAppendUIDs(dst []byte, uidValidity uint32, uids Set) []byte {
	return AppendSet(append(AppendCodeNumber(dst, "APPENDUID", uint64(uidValidity)), ' '), uids)
}

// AppendCodeCopyUID prints COPYUID (RFC 4315): source and target UIDs in the same order. Both sets are printed
// unchanged, in the order of the copies.
func AppendCodeCopyUID(dst []byte, uidValidity uint32, source, target Set) []byte {
	dst = AppendCodeNumber(dst, "COPYUID", uint64(uidValidity))
	dst = AppendSet(append(dst, ' '), source)
	return AppendSet(append(dst, ' '), target)
}

// AppendCodeModified prints MODIFIED (RFC 7162): the messages that a conditional STORE left unchanged.
func AppendCodeModified(dst []byte, set Set) []byte {
	return AppendSet(append(dst, "MODIFIED "...), set)
}

// AppendCodeFlags prints PERMANENTFLAGS.
func AppendCodeFlags(dst []byte, flags []Flag) []byte {
	return AppendFlags(append(dst, "PERMANENTFLAGS "...), flags)
}

// AppendCodeInProgress prints INPROGRESS (RFC 9585) for a running command: done out of goal. A tag with "]" is printed
// as NIL, because some clients would take that for the end of the code.
func AppendCodeInProgress(dst []byte, tag string, done, goal uint64) []byte {
	dst = append(dst, "INPROGRESS ("...)
	if strings.IndexByte(tag, ']') >= 0 {
		dst = append(dst, "NIL"...)
	} else {
		dst = AppendString(dst, tag, false)
	}
	dst = appendUint(append(dst, ' '), done)
	return append(appendUint(append(dst, ' '), goal), ')')
}

// AppendCodeMailboxID prints MAILBOXID (RFC 8474).
func AppendCodeMailboxID(dst []byte, id string) []byte {
	return append(append(append(dst, "MAILBOXID ("...), id...), ')')
}
