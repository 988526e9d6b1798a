package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
)

// modulePath is the module of the measured program.
const modulePath = "github.com/pushpace/pushpace"

// A program is the built pushpace, as an operator runs it.
type program struct {
	path, config string
}

// buildProgram builds the program into the folder. Its configuration sets only addresses, paths
// and the limits of the categories.
func buildProgram(ctx context.Context, dir string, s stage, apns apns.Config, categories any) (program, error) {
	p := program{filepath.Join(dir, "pushpace"), filepath.Join(dir, "config.json")}
	found, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", modulePath).Output()
	if err != nil {
		return p, fmt.Errorf("find the module %s, to build pushpace: %w", modulePath, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.path, "./cmd/pushpace")
	build.Dir = strings.TrimSpace(string(found))
	if said, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build pushpace: %w: %s", err, said)
	}
	config := map[string]any{
		"redis":  map[string]any{"address": s.Redis, "db": s.DB, "prefix": s.Prefix},
		"limits": map[string]any{"categories": categories},
		"apps": map[string]any{app: map[string]any{"apns": map[string]any{
			"topic": apns.Topic, "key_file": apns.KeyFile, "key_id": apns.KeyID, "team_id": apns.TeamID,
			"endpoint": apns.Endpoint, "root_ca_file": apns.RootCAFile,
		}}},
		"log": map[string]any{"level": "error"},
	}
	text, err := json.Marshal(config) // JSON is valid YAML
	if err != nil {
		return p, err
	}
	return p, os.WriteFile(p.config, text, 0o600)
}

// serve runs the program until stop, which waits for its end.
func (p program) serve(ctx context.Context) (stop func() error, err error) {
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, p.path, "serve", "--config", p.config)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		kill()
		return nil, err
	}
	return func() error {
		defer kill()
		late := time.AfterFunc(30*time.Second, kill)
		defer late.Stop()
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}, nil
}
