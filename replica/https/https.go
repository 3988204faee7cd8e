// Package https carries replication between servers that are in no cluster, and to a laptop: a handler
// under /replica/ and the client of one. People sign in as at any web door, and get and bring what the access
// lists grant them, whatever roles they have. A server of the same domain shows its key, and may what this one may.
package https

import (
	"errors"
	"net/http"

	"doublet/replica"
)

// Path is where the handler stands.
const Path = "/replica/"

// The paths below it.
const (
	pathCall  = "call/" // POST: a request, answered
	pathGet   = "get/"  // POST: a request, answered by a stream
	pathPut   = "put/"  // POST: a stream; the request in the query, base64url
	pathAdmit = "admit" // POST: a server of another place asks to be one of the domain
	pathWait  = "wait"  // POST: answered when one of some databases has changed
)

// Headers and types.
const (
	contentType = "application/vnd.doublet.replica"
	headerKind  = "Doublet-Error"
)

// Account is what a server says of who asks, and which databases they may replicate.
type Account struct {
	// Server and Version are the server's.
	Server  string `json:"server"`
	Version string `json:"version"`
	// Person is the UNID of who asks, zero for the server's own.
	Person  string   `json:"person,omitempty"`
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	Aliases []string `json:"aliases,omitempty"`
	Short   string   `json:"short,omitempty"`
	// Admin says that the access lists do not bind them.
	Admin     bool       `json:"admin,omitempty"`
	Mail      string     `json:"mail,omitempty"`
	Databases []Database `json:"databases"`
}

// Database is one that may be replicated.
type Database struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Kind  string `json:"kind"`
	Owner string `json:"owner,omitempty"`
	Pull  bool   `json:"pull"`
	Push  bool   `json:"push"`
	Quota uint64 `json:"quota,omitempty"`
	// Access is the access list in its stored form, for who may change it.
	Access []byte `json:"access,omitempty"`
}

// Place is a database and how far one knows it, for waiting.
type Place struct {
	ID  string `json:"id"`
	Seq uint64 `json:"seq"`
}

// Waited says which databases have changed.
type Waited struct {
	Changed []string `json:"changed"`
}

// statuses are the HTTP statuses of the kinds of error.
func status(err error) int {
	switch replica.ErrorKind(err) {
	case "denied", "local only":
		return http.StatusForbidden
	case "not found":
		return http.StatusNotFound
	case "format", "version", "corrupt":
		return http.StatusBadRequest
	case "too large":
		return http.StatusRequestEntityTooLarge
	case "busy":
		return http.StatusTooManyRequests
	case "gap", "grave", "exists", "split", "not home", "missing", "parted", "incomplete":
		return http.StatusConflict
	case "no space", "over quota":
		return http.StatusInsufficientStorage
	case "out of service", "closed", "cancelled", "timeout":
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// ErrSignIn: the other server does not take the name and password.
var ErrSignIn = errors.New("the server does not take this name and password")
