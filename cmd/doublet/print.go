package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// print prints a result, as JSON or as text.
func (a *app) print(asJSON bool, v interface{ Text() string }) error {
	if asJSON {
		return a.printJSON(v)
	}
	_, err := io.WriteString(a.out, v.Text())
	return err
}

// printJSON prints a result as indented JSON.
func (a *app) printJSON(v any) error {
	out := json.NewEncoder(a.out)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// group returns a command that has only subcommands.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, RunE: unknownWord}
	cmd.AddCommand(commands...)
	return cmd
}
