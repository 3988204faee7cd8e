package admin

import (
	"context"
	"fmt"
	"strings"

	"doublet/store/crypt"
)

// EncryptionUse is the share of files with one key, in the result of encryption.
type EncryptionUse struct {
	// Key is the id of the key, "plain" for files that are not encrypted, or "damaged".
	Key   string `json:"key"`
	State string `json:"state"`
	Files int    `json:"files" show:"always"`
	Bytes Size   `json:"bytes" show:"always"`
}

// EncryptionStatus is the result of encryption.
type EncryptionStatus struct {
	On   bool            `json:"on"`
	Keys []EncryptionUse `json:"keys,omitempty"`
}

// Text returns the result as text for people.
func (s EncryptionStatus) Text() string {
	if !s.On {
		return "the store is not encrypted: see the setting data.encryption_key_file\n"
	}
	var b strings.Builder
	for _, k := range s.Keys {
		fmt.Fprintf(&b, "%-16s  %6d files  %9s  %s\n", k.Key, k.Files, k.Bytes, k.State)
	}
	return b.String()
}

// EncryptionRotated is the result of encryption rotate.
type EncryptionRotated struct {
	Key string `json:"key"`
}

// Text returns the result as text for people.
func (r EncryptionRotated) Text() string {
	return "new files are encrypted with key " + r.Key + "; the task Encryption encrypts the others anew\n" +
		"Copy the key file away from the server now, as you did with the first key.\n"
}

// EncryptionPass is the result of encryption rewrite.
type EncryptionPass struct {
	Files   int  `json:"files" show:"always"`
	Bytes   Size `json:"bytes" show:"always"`
	Wrapped int  `json:"wrapped,omitempty"`
	Left    int  `json:"left,omitempty"`
}

// errNotEncrypted refuses a verb on a store that is not encrypted.
var errNotEncrypted = fmt.Errorf("%w: the store is not encrypted (data.encryption_key_file)", ErrUsage)

func encryptions() []*Verb {
	return []*Verb{
		define("encryption", "which keys the files of the store need", encryptionStatus,
			long("Reads the header of each file. A key that no file uses may be removed from the key file before "+
				"the next start.")),
		define("encryption rotate", "make a new key, and encrypt new files with it", encryptionRotate, changes,
			long("Writes the new key into the key file, before the others. The task Encryption encrypts older files "+
				"anew in the\nbackground (data.encryption_rate).")),
		define("encryption rewrite", "encrypt all files anew that have not the present key", encryptionRewrite,
			changes, yields,
			long("Does at once what the task Encryption does every 5 minutes if there is something to do. Readers "+
				"and writers go on.\nOne that is interrupted is continued by the next.")),
	}
}

func encryptionStatus(_ context.Context, c *Call, _ *struct{}) (out EncryptionStatus, err error) {
	if c.Encryption == nil {
		return out, nil
	}
	s, err := c.Encryption.Status()
	if err != nil {
		return out, err
	}
	out.On = true
	uses := map[string]crypt.Use{}
	for _, u := range s.Uses {
		uses[u.Key] = u
	}
	add := func(key, state string) {
		u := uses[key]
		delete(uses, key)
		out.Keys = append(out.Keys, EncryptionUse{Key: key, State: state, Files: u.Files, Bytes: Size(u.Bytes)})
	}
	if s.Active == crypt.Plain {
		add(crypt.Plain, "new files are not encrypted")
	}
	for _, key := range s.Keys {
		switch {
		case key == s.Active:
			add(key, "for new files")
		case uses[key].Files > 0:
			add(key, "needed")
		default:
			add(key, "not needed: may be removed from the key file")
		}
	}
	if _, plain := uses[crypt.Plain]; plain {
		add(crypt.Plain, "not encrypted yet")
	}
	if u, damaged := uses[crypt.Damaged]; damaged {
		add(crypt.Damaged, "cannot be decrypted: restore "+u.Example)
	}
	return out, nil
}

func encryptionRotate(_ context.Context, c *Call, _ *struct{}) (out EncryptionRotated, err error) {
	if c.Encryption == nil {
		return out, errNotEncrypted
	}
	id, err := c.Encryption.Rotate()
	return EncryptionRotated{id.String()}, err
}

func encryptionRewrite(ctx context.Context, c *Call, _ *struct{}) (out EncryptionPass, err error) {
	if c.Encryption == nil {
		return out, errNotEncrypted
	}
	p, err := c.Encryption.Rewrite(ctx, func(done int64) {
		c.Progress(Progress{Stage: "encrypted", Bytes: uint64(done)})
	})
	return EncryptionPass{p.Files, Size(p.Bytes), p.Wrapped, p.Left}, err
}
