// Package https transports replication over HTTPS between servers that are not in one cluster, and to laptops. It has
// the handler for /replica/ and a client. People sign in as on the web pages. They read and change what the access
// lists grant them; administrative roles add nothing. A server of the same domain authenticates with its key and has
// unrestricted access.
package https

import (
	"errors"
	"net/http"

	"doublet/replica"
)

// Path is the path that the handler is mounted at.
const Path = "/replica/"

// Paths below Path.
const (
	pathCall  = "call/" // POST: a request with an answer
	pathGet   = "get/"  // POST: a request; the answer is a stream
	pathPut   = "put/"  // POST: a stream; the request is in the query, base64url
	pathAdmit = "admit" // POST: another server asks to join the domain
	pathWait  = "wait"  // POST: answered when one of the given databases has changed
	pathBusy  = "busy"  // POST: a question about free time, of a server of the domain
)

// Headers and types.
const (
	contentType = "application/vnd.doublet.replica"
	headerKind  = "Doublet-Error"
)

// Account describes the caller and the databases that the caller may replicate.
type Account struct {
	// Server and Version are the name and the program version of the server.
	Server  string `json:"server"`
	Version string `json:"version"`
	// Person is the caller's UNID, empty for a server.
	Person  string   `json:"person,omitempty"`
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	Aliases []string `json:"aliases,omitempty"`
	Short   string   `json:"short,omitempty"`
	// Admin means that access lists do not restrict the caller.
	Admin     bool       `json:"admin,omitempty"`
	Mail      string     `json:"mail,omitempty"`
	Databases []Database `json:"databases"`
}

// Database is a database that the caller may replicate.
type Database struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Kind  string `json:"kind"`
	Owner string `json:"owner,omitempty"`
	Pull  bool   `json:"pull"`
	Push  bool   `json:"push"`
	Quota uint64 `json:"quota,omitempty"`
	// Access is the access list in its stored form. It is set only for a caller who may change it.
	Access []byte `json:"access,omitempty"`
}

// Place is a database and the sequence number that the caller knows.
type Place struct {
	ID  string `json:"id"`
	Seq uint64 `json:"seq"`
}

// Waited lists the databases that have changed.
type Waited struct {
	Changed []string `json:"changed"`
}

// status returns the HTTP status for an error.
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

// ErrSignIn means that the other server rejected the name and password.
var ErrSignIn = errors.New("server rejects this name and password")
