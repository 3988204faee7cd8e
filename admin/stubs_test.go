package admin

import (
	"context"
	"fmt"
	"strings"
)

// oneTask is the only task of a server.
type oneTask struct{ t Task }

func (o *oneTask) Status() []Task { return []Task{o.t} }

func (o *oneTask) find(name string) error {
	if !strings.EqualFold(name, o.t.Name) {
		return fmt.Errorf("%w: %q", ErrNoTask, name)
	}
	return nil
}

func (o *oneTask) Load(name string, args []string) error {
	err := o.find(name)
	if err == nil && o.t.State == "running" {
		err = ErrTaskRuns
	}
	if err == nil {
		o.t.State, o.t.Progress = "running", strings.Join(args, " ")
	}
	return err
}

func (o *oneTask) Quit(_ context.Context, name string) error {
	err := o.find(name)
	if err == nil {
		o.t.State = "stopped"
	}
	return err
}

func (o *oneTask) Restart(_ context.Context, name string) error {
	err := o.find(name)
	if err == nil {
		o.t.State = "running"
	}
	return err
}

// oneSetting is the only setting of a server.
type oneSetting struct{}

func (oneSetting) Apply() (Applied, error) {
	return Applied{Applied: []string{"log.level"}, Restart: []string{}}, nil
}

func (oneSetting) Set(key, value string) (Applied, error) {
	if key != "log.level" || value != "debug" {
		return Applied{}, fmt.Errorf("%w: %s", ErrUsage, key)
	}
	return Applied{Applied: []string{key}}, nil
}

func (oneSetting) List() []Setting { return []Setting{{Key: "log.level", Value: "info", Live: true}} }
