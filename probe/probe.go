// Package probe records the problems of a server as events, in a database of its own: each with its severity, cause and
// remedy, one for each problem, whatever the number of times that it is found. It is Domino's Domain Monitoring (DDM,
// ddm.nsf) for one server.
package probe
