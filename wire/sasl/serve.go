package sasl

// maxSteps is the maximum number of steps of an exchange.
const maxSteps = 8

// Serve runs the server side of an exchange. response is the initial response, or nil if there is none. ask sends a
// challenge and returns the line that the client answers, without its end; an error of ask ends the exchange.
func Serve(m Server, response []byte, ask func(challenge []byte) (line []byte, err error)) error {
	for range maxSteps {
		challenge, done, err := m.Next(response)
		if err != nil || done && len(challenge) == 0 {
			return err
		}
		line, err := ask(challenge)
		if err != nil {
			return err
		}
		if response, err = DecodeLine(line); err != nil {
			return err
		}
		if done {
			// The server's final message went out as a challenge (RFC 4954 section 4), and the client confirms it with
			// an empty response.
			if len(response) != 0 {
				return ErrMalformed
			}
			return nil
		}
	}
	return ErrMalformed
}
