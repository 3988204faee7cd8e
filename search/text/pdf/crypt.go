package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// secret decrypts a file that opens without a password (section 7.6). Such encryption only restricts copying or
// printing.
type secret struct {
	key    []byte
	v      int
	stream method
	str    method
}

// method is the algorithm that encrypts strings or streams.
type method uint8

const (
	methodNone method = iota
	methodRC4
	methodAES
)

// padding extends a password to 32 bytes.
var padding = []byte(
	"\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08" +
		"\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

// unlock computes the key of an encrypted file.
func (f *file) unlock() error {
	if f.trailer["Encrypt"] == nil {
		return nil
	}
	d := f.dict(f.trailer["Encrypt"])
	if d == nil || f.resolve(d["Filter"]) != name("Standard") {
		return ErrEncrypted
	}
	v, _ := f.number(d["V"])
	r, _ := f.number(d["R"])
	o, _ := f.resolve(d["O"]).(str)
	u, _ := f.resolve(d["U"]).(str)
	s := &secret{v: int(v), stream: methodRC4, str: methodRC4}
	if v >= 4 {
		s.stream, s.str = f.method(d, "StmF"), f.method(d, "StrF")
	}
	switch {
	case v >= 1 && v <= 4 && r >= 2 && r <= 4 && len(o) >= 32 && len(u) >= 32:
		s.key = f.oldKey(d, int(r), []byte(o), []byte(u))
	case v == 5 && len(u) >= 48:
		ue, _ := f.resolve(d["UE"]).(str)
		s.key = newKey(int(r), []byte(u), []byte(ue))
	}
	if s.key == nil {
		return ErrEncrypted
	}
	f.secret = s
	return nil
}

func (f *file) method(d dict, which name) method {
	n, _ := f.resolve(d[which]).(name)
	filter := f.dict(f.dict(d["CF"])[n])
	switch f.resolve(filter["CFM"]) {
	case name("V2"):
		return methodRC4
	case name("AESV2"), name("AESV3"):
		return methodAES
	}
	return methodNone
}

// keyLength returns the bytes of a key for revision r.
func (f *file) keyLength(d dict, r int) int {
	bits, ok := f.number(d["Length"])
	switch {
	case ok && r >= 3 && bits >= 40 && bits <= 128:
		return int(bits) / 8
	case r == 4:
		return 16
	}
	return 5
}

// oldKey computes the key by algorithm 2 and checks it by algorithms 4 and 5. It returns nil if the file needs a
// password.
func (f *file) oldKey(d dict, r int, o, u []byte) []byte {
	n := f.keyLength(d, r)
	p, _ := f.number(d["P"])
	var id str
	if a := f.array(f.trailer["ID"]); len(a) > 0 {
		id, _ = f.resolve(a[0]).(str)
	}
	h := md5.New()
	h.Write(padding)
	h.Write(o[:32])
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(int64(p))))
	h.Write([]byte(id))
	if f.resolve(d["EncryptMetadata"]) == false && r >= 4 {
		h.Write([]byte{0xff, 0xff, 0xff, 0xff})
	}
	key := h.Sum(nil)
	if r >= 3 {
		for range 50 {
			sum := md5.Sum(key[:n])
			key = sum[:]
		}
	}
	key = key[:n]
	check := padding
	if r >= 3 {
		sum := md5.Sum(append(bytes.Clone(padding), id...))
		check = sum[:]
	}
	check = rc4Of(key, check)
	for i := byte(1); r >= 3 && i <= 19; i++ {
		k := bytes.Clone(key)
		for j := range k {
			k[j] ^= i
		}
		check = rc4Of(k, check)
	}
	if !bytes.Equal(check[:16], u[:16]) {
		return nil
	}
	return key
}

// newKey computes the key by algorithm 2.A of ISO 32000-2, with an empty password.
func newKey(r int, u, ue []byte) []byte {
	hash := func(salt []byte) []byte {
		sum := sha256.Sum256(salt)
		if r < 6 {
			return sum[:]
		}
		return hardened(sum[:])
	}
	if len(ue) < 32 || !bytes.Equal(hash(u[32:40]), u[:32]) {
		return nil
	}
	c, err := aes.NewCipher(hash(u[40:48]))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(c, make([]byte, 16)).CryptBlocks(key, ue[:32])
	return key
}

// hardened computes the hash of algorithm 2.B of ISO 32000-2, with an empty password.
func hardened(k []byte) []byte {
	for i := 0; ; i++ {
		e := bytes.Repeat(k, 64)
		c, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(c, k[16:32]).CryptBlocks(e, e)
		sum := 0
		for _, x := range e[:16] {
			sum += int(x)
		}
		switch sum % 3 {
		case 0:
			h := sha256.Sum256(e)
			k = h[:]
		case 1:
			h := sha512.Sum384(e)
			k = h[:]
		default:
			h := sha512.Sum512(e)
			k = h[:]
		}
		if i >= 63 && int(e[len(e)-1]) <= i-32 {
			return k[:32]
		}
	}
}

func rc4Of(key, b []byte) []byte {
	c, err := rc4.NewCipher(key)
	if err != nil {
		return b
	}
	out := make([]byte, len(b))
	c.XORKeyStream(out, b)
	return out
}

// decrypt returns the decrypted bytes of a stream.
func (f *file) decrypt(s *stream, num int) []byte {
	if f.secret == nil || num < 0 || f.resolve(s.dict["Type"]) == name("XRef") {
		return s.raw
	}
	f.gave(len(s.raw))
	return f.secret.open(f.secret.stream, num, s.raw)
}

// plainString returns the decrypted bytes of a string. In an object stream, strings are encrypted with the stream only.
func (f *file) plainString(s str, num int) str {
	if f.secret == nil || num < 0 || f.objects[num].packed {
		return s
	}
	return str(f.secret.open(f.secret.str, num, []byte(s)))
}

func (s *secret) open(m method, num int, b []byte) []byte {
	if m == methodNone {
		return b
	}
	key := s.key
	if s.v < 5 { // algorithm 1, for generation 0: encrypted files do not use others
		k := append(bytes.Clone(key), byte(num), byte(num>>8), byte(num>>16), 0, 0)
		if m == methodAES {
			k = append(k, "sAlT"...)
		}
		sum := md5.Sum(k)
		key = sum[:min(len(s.key)+5, 16)]
	}
	if m == methodRC4 {
		return rc4Of(key, b)
	}
	c, err := aes.NewCipher(key)
	if err != nil || len(b) < 32 {
		return nil
	}
	out := make([]byte, (len(b)-16)/16*16)
	cipher.NewCBCDecrypter(c, b[:16]).CryptBlocks(out, b[16:16+len(out)])
	if n := int(out[len(out)-1]); n >= 1 && n <= 16 {
		out = out[:len(out)-n]
	}
	return out
}
