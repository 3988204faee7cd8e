package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// readUnseen reads a line that the terminal does not show.
func readUnseen(out io.Writer, in *os.File, prompt string) (string, error) {
	fmt.Fprint(out, prompt)
	defer fmt.Fprintln(out)
	line, err := term.ReadPassword(int(in.Fd()))
	if err != nil {
		return "", fmt.Errorf("read %s%w", prompt, err)
	}
	return string(line), nil
}
