package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// isTerminal reports whether a stream is a character device that may be a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

// readUnseen reads a line that the terminal does not show. Without the program stty the line is shown.
func readUnseen(out io.Writer, in *os.File, prompt string) (string, error) {
	echo := func(word string) error {
		c := exec.Command("stty", word)
		c.Stdin = in
		return c.Run()
	}
	fmt.Fprint(out, prompt)
	if echo("-echo") == nil {
		defer func() {
			_ = echo("echo")
			fmt.Fprintln(out)
		}()
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read %s%w", prompt, err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
