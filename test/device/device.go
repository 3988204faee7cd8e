// Package device makes passkeys for tests, as the authenticators of people do.
package device

import "github.com/descope/virtualwebauthn"

// coseLen is the length of a COSE_Key with a public key of P-256, in bytes (RFC 9053 section 7.1.1).
const coseLen = 77

// Passkey returns a passkey with a new key of P-256. The library encodes coordinates without leading zeros, which
// RFC 9053 section 7.1.1 forbids, so Passkey tries until it has none.
func Passkey() virtualwebauthn.Credential {
	for {
		c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		if len(c.Key.AttestationData()) == coseLen {
			return c
		}
	}
}
