package journal

import "strings"

// identityText returns the text form of the X25519 identity with a secret key of 32 bytes, which age accepts in no
// other form: Bech32 (BIP 173) of the key, in upper case.
func identityText(secret []byte) string {
	const hrp, alphabet = "age-secret-key-", "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	values := make([]byte, 0, 64)
	acc, bits := uint32(0), 0
	for _, b := range secret {
		acc, bits = acc<<8|uint32(b), bits+8
		for bits >= 5 {
			bits -= 5
			values = append(values, byte(acc>>bits&31))
		}
	}
	if bits > 0 {
		values = append(values, byte(acc<<(5-bits)&31))
	}
	check := make([]byte, 0, 128)
	for i := range len(hrp) {
		check = append(check, hrp[i]>>5)
	}
	check = append(check, 0)
	for i := range len(hrp) {
		check = append(check, hrp[i]&31)
	}
	check = append(append(check, values...), 0, 0, 0, 0, 0, 0)
	mod := polymod(check) ^ 1
	for i := range 6 {
		values = append(values, byte(mod>>(5*(5-i))&31))
	}
	var out strings.Builder
	out.WriteString(hrp + "1")
	for _, v := range values {
		out.WriteByte(alphabet[v])
	}
	return strings.ToUpper(out.String())
}

// polymod is the checksum of BIP 173.
func polymod(values []byte) uint32 {
	chk := uint32(1)
	for _, v := range values {
		top := chk >> 25
		chk = (chk&0x1ffffff)<<5 ^ uint32(v)
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				chk ^= g
			}
		}
	}
	return chk
}
