package main

import "net"

// sendDatagram sends one datagram to a Unix socket. It ignores errors.
func sendDatagram(path, text string) {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(text))
}
