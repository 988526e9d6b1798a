package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// ask runs this program as a child process with a command and an order, and reads its answer. A
// child's CPU time can be measured separately.
func ask(ctx context.Context, command string, order, answer any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, command)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return json.Unmarshal(out, answer)
}
