//go:build unix

package redistest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// oneSlotScripts is a hook for a Cluster's nodes that confines each script to one hash slot: it sends
// the script as text after "#!lua". Without that line a script can use keys of any hash slot of its
// node, and fails when a reshard moves one of them.
type oneSlotScripts struct {
	texts sync.Map // by hash
}

// unknownScript is Redis's error for an unknown script.
type unknownScript struct{}

func (unknownScript) Error() string { return "NOSCRIPT No matching script. Please use EVAL." }
func (unknownScript) RedisError()   {}

// DialHook implements redis.Hook.
func (d *oneSlotScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (d *oneSlotScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !d.hold(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (d *oneSlotScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var sent []redis.Cmder
		var unknown error
		for _, cmd := range cmds {
			if d.hold(cmd) {
				sent = append(sent, cmd)
			} else {
				unknown = cmd.Err()
			}
		}
		if len(sent) == 0 {
			return unknown
		}
		return errors.Join(next(ctx, sent), unknown)
	}
}

// hold makes the command send its script as text, and reports whether to send the command. If the
// text of a hash is unknown, hold sets NOSCRIPT, so that the caller sends the text.
func (d *oneSlotScripts) hold(cmd redis.Cmder) bool {
	args := cmd.Args()
	switch cmd.Name() {
	case "eval":
		text, _ := args[1].(string)
		if strings.HasPrefix(text, "#!lua\n") { // a second node, after a redirect
			return true
		}
		sum := sha1.Sum([]byte(text))
		d.texts.Store(hex.EncodeToString(sum[:]), text)
		args[1] = "#!lua\n" + text
	case "evalsha":
		text, known := d.texts.Load(args[1])
		if !known {
			cmd.SetErr(unknownScript{})
			return false
		}
		args[0], args[1] = "eval", "#!lua\n"+text.(string)
	}
	return true
}
